# Adds nodes and tables: the library in new sessions, nodes that fit and nodes that do not, nodes
# that are down, and columns that only newer majors have.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $c = ShardCluster->new(nodes => 2, add_nodes => 0, extension => 0, coordinator_conf => "session_preload_libraries = 'plpgsql'\n");
my $coordinator = $c->coordinator;
my $version = $coordinator->safe_psql('postgres', 'SHOW server_version_num');

my $others = $coordinator->safe_psql('postgres', 'SHOW session_preload_libraries');
my $preloads = sub { return $coordinator->safe_psql($_[0], 'SHOW session_preload_libraries'); };

# Libraries in new sessions
$c->safe_psql('CREATE EXTENSION shardfdw');
is($preloads->('postgres'), "$others, shardfdw", 'CREATE EXTENSION adds the library to what sessions load');
$c->safe_psql('DROP EXTENSION shardfdw; CREATE EXTENSION shardfdw');
is($preloads->('postgres'), "$others, shardfdw", 'once');
is($coordinator->safe_psql('template1', 'SHOW session_preload_libraries'), $others, 'in this database alone');
$c->safe_psql('DROP EXTENSION shardfdw');
is($preloads->('postgres'), $others, 'DROP EXTENSION takes it out again');
$c->safe_psql('CREATE EXTENSION shardfdw; BEGIN; DROP EXTENSION shardfdw; ROLLBACK');
is($preloads->('postgres'), "$others, shardfdw", 'unless that is rolled back');
$c->safe_psql(q{CREATE DATABASE "odd "" name"});
$coordinator->safe_psql('odd " name', q{ALTER DATABASE "odd "" name" SET session_preload_libraries = '$libdir/shardfdw'});
$coordinator->safe_psql('odd " name', 'CREATE EXTENSION shardfdw');
is($preloads->('odd " name'), '"$libdir/shardfdw"', 'not beside the same library by its path');
$coordinator->safe_psql('odd " name', 'SET client_min_messages = warning; DROP SCHEMA shardfdw CASCADE');
is($preloads->('odd " name'), $others, 'taken out by whatever drops the extension, by whatever name it is there');
$c->safe_psql(q{DROP DATABASE "odd "" name"; CREATE DATABASE preloaded; CREATE DATABASE squatted; CREATE ROLE squatter});
# Schemas that exist: no other role may have a function in them, or may make one.
sub refuses
{
	my ($error, $what, $begin) = @_;
	my (undef, undef, $stderr) = $coordinator->psql('squatted', '\set VERBOSITY verbose' . "\n" . ($begin // '') . 'CREATE EXTENSION shardfdw');
	like($stderr, $error, "CREATE EXTENSION refuses $what");
	return;
}
for my $schema ('shardfdw', 'shardfdw_internal')
{
	my $run = sub { $coordinator->safe_psql('squatted', $_[0] =~ s/SCHEMA/SCHEMA $schema/gr) };
	my $function = "$schema.run_commands(name[],text[],text)";
	my $create = "SET ROLE squatter; CREATE FUNCTION $function RETURNS int LANGUAGE sql AS 'SELECT 1'";
	$run->('CREATE SCHEMA AUTHORIZATION squatter');
	refuses(qr/55000: role "squatter" may create functions in schema "$schema"/, "a schema $schema of another role");
	$run->('ALTER SCHEMA OWNER TO postgres; BEGIN; CREATE EXTENSION shardfdw; ROLLBACK; GRANT CREATE ON SCHEMA TO squatter');
	refuses(qr/55000: role "squatter" may create functions in schema "$schema"/, "a schema $schema with CREATE for another role");
	$run->('GRANT USAGE, CREATE ON SCHEMA TO PUBLIC; REVOKE CREATE ON SCHEMA FROM squatter');
	refuses(qr/55000: PUBLIC may create functions in schema "$schema"/, "a schema $schema with CREATE for PUBLIC");

	refuses(qr/55000: this transaction has changed schema "$schema"/, "$schema, whose privileges are not committed",
		"BEGIN; REVOKE CREATE ON SCHEMA $schema FROM PUBLIC; ");
	refuses(qr/55000: PUBLIC may create functions in schema "$schema"/, "$schema, which it has changed otherwise",
		"BEGIN; GRANT USAGE ON SCHEMA $schema TO squatter; ");

	# Other sessions do not see the function while its transaction is open.
	my $squatter = $coordinator->background_psql('squatted');
	$squatter->query_safe("BEGIN; $create");
	$run->('REVOKE CREATE ON SCHEMA FROM PUBLIC');
	my $extender = $coordinator->background_psql('squatted', on_error_stop => 0);
	$extender->query_until(qr/begun/, "\\echo begun\nCREATE EXTENSION shardfdw;\n");
	$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query ~ 'CREATE EXTENSION'});
	$squatter->query_safe('COMMIT');
	$squatter->quit;
	$extender->query('SELECT 1');
	like($extender->{stderr}, qr/function \Q$function\E belongs to role "squatter"/, "CREATE EXTENSION refuses a function that was not committed in $schema");
	$extender->{stderr} = '';
	$extender->quit;
	refuses(qr/55000: function \Q$function\E belongs to role "squatter"/, "a function in schema $schema");
	refuses(qr/0A000: CREATE EXTENSION with an existing schema needs transaction isolation level READ COMMITTED/, "an older snapshot: $schema", 'BEGIN ISOLATION LEVEL REPEATABLE READ; ');
	$coordinator->safe_psql('squatted', "DROP FUNCTION $function");
}
# a transaction that is prepared while CREATE EXTENSION waits for its session
$coordinator->safe_psql('squatted', 'DROP SCHEMA shardfdw_internal; CREATE SCHEMA shardfdw_internal');
my $preparer = $coordinator->background_psql('squatted');
$preparer->query_safe('BEGIN; SELECT txid_current()');
my $waiter = $coordinator->background_psql('squatted', on_error_stop => 0);
$waiter->query_until(qr/begun/, "\\echo begun\nCREATE EXTENSION shardfdw;\n");
$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query ~ 'CREATE EXTENSION'});
$preparer->query_safe("PREPARE TRANSACTION 'prepared'");
$preparer->quit;
$waiter->query('SELECT 1');
like($waiter->{stderr}, qr/older transactions could create functions in it/, 'CREATE EXTENSION waits for transactions that are prepared meanwhile');
$waiter->{stderr} = '';
$waiter->quit;
$coordinator->safe_psql('squatted', "ROLLBACK PREPARED 'prepared'");
# the settings of the script end with it
is($coordinator->safe_psql('squatted', 'SET array_nulls = on; BEGIN; CREATE EXTENSION shardfdw; SHOW transform_null_equals; SHOW quote_all_identifiers; ROLLBACK'),
	"off\noff", 'settings of the session after CREATE EXTENSION');
$coordinator->safe_psql('squatted', 'ALTER DATABASE squatted SET transform_null_equals = on');
is($coordinator->safe_psql('squatted', 'BEGIN; CREATE EXTENSION shardfdw; SHOW transform_null_equals; ROLLBACK'), 'on', 'also those of the database');
$coordinator->safe_psql('squatted', 'ALTER DATABASE squatted RESET transform_null_equals');
my $reader = $coordinator->background_psql('squatted');
$reader->query_safe('BEGIN; SELECT 1');
refuses(qr/55006: schema "shardfdw" or "shardfdw_internal" exists, and older transactions could create functions in it/, 'older transactions');
$reader->quit;
# a transaction that has a copy of pg_stat_activity from before
my $extender = $coordinator->background_psql('squatted', on_error_stop => 0);
$extender->query_safe('BEGIN; SELECT count(*) FROM pg_stat_activity');
$reader = $coordinator->background_psql('squatted');
$reader->query_safe('BEGIN; SELECT 1');
$extender->query('CREATE EXTENSION shardfdw');
like($extender->{stderr}, qr/older transactions could create functions in it/, 'CREATE EXTENSION refuses sessions that have come since');
$extender->{stderr} = '';
$extender->quit;
$reader->quit;
$coordinator->safe_psql('squatted', 'CREATE EXTENSION shardfdw');
$coordinator->safe_psql('squatted', 'DROP EXTENSION shardfdw; CREATE EXTENSION shardfdw');
is($coordinator->safe_psql('squatted', q{SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw'}), 2, 'and takes one of a superuser, as DROP EXTENSION leaves it');
$coordinator->append_conf('postgresql.conf', "shared_preload_libraries = 'shardfdw'\n");
$coordinator->restart;
$coordinator->safe_psql('preloaded', 'CREATE EXTENSION shardfdw');
is($preloads->('preloaded'), $others, 'not when the server loads it');
is($coordinator->safe_psql('preloaded', 'SHOW shardfdw.default_shards'), 16, 'settings are there');
$coordinator->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$coordinator->restart;

# What add_node tells
my ($host, $port) = $c->node_address(1);
my ($rc, $out, $err) = $c->psql(qq{SELECT shardfdw.add_node('node1', '$host', $port, 'postgres')});
is($rc, 0, 'add_node');
like($err, qr/node "node1": connect: reachable/, 'tells that the node is reachable');
like($err, qr/node "node1": version: PostgreSQL \d+/, 'its version');
like($err, qr/node "node1": encoding: UTF8/, 'its encoding');
like($err, qr/node "node1": collation: /, 'its collation');
like($err, qr/NOTICE: +node "node1": max_prepared_transactions: 20/, 'its prepared transactions');
like($err, qr/node "node1": cores: [1-9]/, 'its cores');
like($c->safe_psql(q{SELECT cores FROM shardfdw.nodes}), qr/^[1-9]/, 'which become an option');

($host, $port) = $c->node_address(2);
$c->node_safe_psql(2, q{CREATE DATABASE latin TEMPLATE template0 ENCODING 'SQL_ASCII'; CREATE DATABASE locale TEMPLATE template0 LC_CTYPE 'C.UTF-8'; CREATE ROLE plain LOGIN});
($rc, $out, $err) = $c->psql(qq{SELECT shardfdw.add_node('latin', '$host', $port, 'latin')});
like($err, qr/could not add node "latin".*encoding: SQL_ASCII, but UTF8 here/s, 'another encoding is an error');
($rc, $out, $err) = $c->psql(qq{SELECT shardfdw.add_node('locale', '$host', $port, 'locale', 'plain', options => '{"password_required": "false"}')});
like($err, qr/WARNING: +node "locale": collation: .*, but .* here/, 'another locale is a warning');
like($err, qr/cores: not known.*ALTER SERVER locale OPTIONS/s, 'a role without the right to read the number of cores');
$c->safe_psql(q{SELECT shardfdw.remove_node('locale')});
$c->node(2)->append_conf('postgresql.conf', 'max_prepared_transactions = 0');
$c->node(2)->restart;
($rc, $out, $err) = $c->psql(qq{SELECT shardfdw.add_node('node2', '$host', $port, 'postgres')});
like($err, qr/WARNING: +node "node2": max_prepared_transactions: 0\nHINT/, 'no prepared transactions are a warning');
$c->node(2)->adjust_conf('postgresql.conf', 'max_prepared_transactions', '20');
$c->node(2)->restart;
($rc, $out, $err) = $c->psql(q{SELECT shardfdw.add_node('node3', 'host.invalid', 5432, 'postgres')});
like($err, qr/could not add node "node3".*host\.invalid/s, 'a host that does not exist');
is($c->safe_psql('SELECT node FROM shardfdw.nodes ORDER BY node'), "node1\nnode2", 'only nodes that can be used are there');

# A node that is down
$c->safe_psql(q{CREATE TABLE t (k int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'v' FROM generate_series(1, 100) g;
	CREATE TABLE later (k int PRIMARY KEY); INSERT INTO later SELECT generate_series(1, 100)});
$c->shard_table('t', undef, shards => 4);
$c->stop_node(2, 'immediate');
($rc, $out, $err) = $c->psql(q{SELECT node, check_name, status FROM shardfdw.check_cluster() WHERE check_name IN ('connect', 'shards') ORDER BY 1, 2});
is($out, "node1|connect|ok\nnode1|shards|ok\nnode2|connect|error", 'check_cluster with a node down');
($rc, $out, $err) = $c->psql(q{SELECT shard, size_bytes > 0 FROM shardfdw_internal.shard_sizes() ORDER BY shard::text});
is($out, "t_00|t\nt_01|\nt_02|t\nt_03|", 'sizes of the shards that answer');
like($err, qr/WARNING: +could not ask node "node2"/, 'and a warning');
($rc, $out, $err) = $c->psql(q{SELECT shard, node, bounds IS NOT NULL FROM shardfdw.shards ORDER BY shard::text; SELECT relation, shards FROM shardfdw.tables; SELECT node, shards FROM shardfdw.nodes ORDER BY 1});
is($out, "t_00|node1|t\nt_01|node2|t\nt_02|node1|t\nt_03|node2|t\nt|4\nnode1|2\nnode2|2", 'views ask no node');
is($err, '', 'and do not miss it');
($rc, $out, $err) = $c->psql(q{SELECT shardfdw.shard_table('later', shards => 4)});
isnt($rc, 0, 'shard_table with a node down');
like($err, qr/"node2"/, 'names the node');
is($c->safe_psql('SELECT relkind, (SELECT count(*) FROM later) FROM pg_class WHERE oid = \'later\'::regclass'), 'r|100', 'the table is as it was');
is($c->node_safe_psql(1, q{SELECT count(*) FROM pg_class WHERE relname LIKE 'later%'}), 0, 'and nothing is on the other node');
($rc, $out, $err) = $c->psql(q{SELECT shardfdw.unshard_table('t')});
like($err, qr/"node2"/, 'unshard_table with a node down');
($rc, $out, $err) = $c->psql(q{SELECT node, ok FROM shardfdw.run_on_nodes('SELECT 1') ORDER BY 1});
is($out, "node1|t\nnode2|f", 'run_on_nodes with a node down');
$c->start_node(2);
is($c->safe_psql('SELECT count(*) FROM t'), 100, 'the rows are there when it is back');

# A statement that a node cannot parse is undone on that node only, like any other error.
is( $c->safe_psql(q{BEGIN; SELECT bool_and(ok) FROM shardfdw.run_on_nodes('CREATE TABLE public.kept (a int)');
	SELECT node, ok, result FROM shardfdw.run_on_nodes('CREATE TABL public.kept (a int)') ORDER BY 1;
	SELECT bool_and(ok) FROM shardfdw.run_on_nodes('INSERT INTO public.kept VALUES (1)'); COMMIT}),
	qq{t\nnode1|f|syntax error at or near "TABL"\nnode2|f|syntax error at or near "TABL"\nt}, 'a syntax error in a transaction');
is($c->node_safe_psql($_, 'SELECT count(*) FROM kept'), 1, "node $_ has what was done before and after") for 1, 2;
is($c->safe_psql(q{SELECT bool_or(ok) FROM shardfdw.run_on_nodes('selec 1')}), 'f', 'a syntax error alone');

# A command that ends the transaction on a node is an error of the whole transaction.
for my $end ('COMMIT', 'ROLLBACK', 'COMMIT; BEGIN', 'ROLLBACK; BEGIN; SELECT 1', 'COMMIT AND CHAIN', 'ROLLBACK AND CHAIN', 'ROLLBACK AND CHAIN; SELECT 1/0', 'SELECT 1; COMMIT; SELECT 1/0')
{
	for my $call ("run_on_nodes('$end')", "run_on_shards('t', '$end')", "query_nodes('{node1}', '{$end}', 'write')", "query_nodes('{node2,node1}', ARRAY['SELECT 1', '$end'], 'write', false)")
	{
		# without stop_on_error => false, the first error is raised as the node's error
		next if $end =~ m{1/0} && $call =~ /'write'\)$/;
		$c->psql_fails_like("SELECT * FROM shardfdw.$call;", qr/2D000: the command has ended the transaction on node "node[12]"/, $call);
	}
}
# A prepared transaction would keep its locks on the node.
for my $end (q{PREPARE TRANSACTION 'x'},
	q{INSERT INTO public.kept VALUES (7); prepare/**/transaction 'x'; SELECT 1})
{
	for my $call (
		'run_on_nodes($$%s$$)',
		q{run_on_shards('t', $$%s$$)},
		q{query_nodes('{node1}', ARRAY[$$%s$$], 'write')},
		q{query_nodes('{node2,node1}', ARRAY['SELECT 1', $$%s$$], 'write', false)},
		q{query_nodes('{node1}', ARRAY[$$%s$$])})
	{
		my $sql = 'SELECT * FROM shardfdw.' . sprintf($call, $end);
		$c->psql_fails_like($sql, qr/2D000: PREPARE TRANSACTION is not possible in a command/, $sql);
	}
}
is($c->node_safe_psql($_, 'SELECT count(*) FROM pg_prepared_xacts'), 0, "node $_ has prepared nothing")
	for 1, 2;
is($c->safe_psql(q{SELECT result FROM
	shardfdw.run_on_nodes($$PREPARE p AS SELECT 'PREPARE TRANSACTION'; EXECUTE p$$)}),
	"PREPARE TRANSACTION\nPREPARE TRANSACTION", 'a prepared statement is possible');
($rc, $out, $err) = $c->psql(q{SELECT * FROM shardfdw.run_on_nodes('SAVEPOINT a; SELECT 1; ROLLBACK TO a; RELEASE a')});
is($err, '', 'savepoints are the business of the command');

# A host that does not answer: connect_timeout is the limit.
my $before = time;
($rc, $out, $err) = $c->psql(q{SELECT shardfdw.add_node('silent', '192.0.2.1', 5432, 'postgres', options => '{"connect_timeout": "2"}')});
isnt($rc, 0, 'a host that does not answer');
like($err, qr/could not add node "silent"/, 'is an error that names the node');
cmp_ok(time - $before, '<', 8, 'within connect_timeout');

SKIP:
{
	skip 'virtual generated columns came with 18', 4 if $version < 180000;
	$c->safe_psql(q{CREATE TABLE virtual (k int PRIMARY KEY, w int GENERATED ALWAYS AS (k * 2) VIRTUAL, s int GENERATED ALWAYS AS (k * 3) STORED);
		INSERT INTO virtual SELECT g FROM generate_series(1, 50) g});
	$c->shard_table('virtual', 'k', shards => 3);
	$c->safe_psql('INSERT INTO virtual VALUES (100)');
	is($c->safe_psql('SELECT sum(w), sum(s) FROM virtual'), '2750|4125', 'virtual generated columns');
	is($c->safe_psql('SELECT k, s FROM virtual WHERE w = 200'), '100|300', 'in conditions');
	is($c->node_safe_psql(1, q{SELECT count(*) > 0 FROM pg_attribute WHERE attrelid = 'virtual_00'::regclass AND attgenerated = 'v'}), 't', 'on the shards');
	$c->safe_psql(q{SELECT shardfdw.unshard_table('virtual')});
	is($c->safe_psql('SELECT sum(w), sum(s) FROM virtual'), '2750|4125', 'and in the plain table afterwards');
}

done_testing();
