# User mappings contain a password that is easy to find. Everything that can fail does fail, with
# every log switched on. The password must be in no log, error, view, plan or dump. Core itself
# writes it to pg_user_mapping and logs statements that contain it (docs/security.md). These
# statements run before the logs are checked.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $right = 'Canary_8c1f_right';
my $wrong = 'Canary_8c1f_wrong';
my $canary = qr/canary_8c1f/i;

my $c = ShardCluster->new(nodes => 2, host => 'tcp', preload => 1,
	coordinator_conf => "session_preload_libraries = 'auto_explain'\nshardfdw.recovery_interval = 1s\n");
my %seen;    # what was printed, by where

# note_all(where, text): records what a client saw.
sub note_all { my ($where, @text) = @_; $seen{$where} .= join "\n", map { $_ // '' } @text; return; }
sub try_sql
{
	my ($where, $sql, @params) = @_;
	my ($out, $err) = ('', '');
	$c->coordinator->psql('postgres', "\\set VERBOSITY verbose\n\\set ECHO errors\n$sql", stdout => \$out, stderr => \$err,
		on_error_stop => 0, extra_params => [@params]);
	note_all($where, $out, $err);
	return "$out\n$err";
}

for my $i (1 .. 2)
{
	$c->node_safe_psql($i, qq{CREATE ROLE app LOGIN PASSWORD '$right'; GRANT ALL ON SCHEMA public TO app});
	my $hba = $c->node($i)->data_dir . '/pg_hba.conf';
	my $old = slurp_file($hba);
	open my $fh, '>', $hba or die;
	print $fh "host all app 127.0.0.1/32 scram-sha-256\n$old";
	close $fh;
	$c->node($i)->reload;
}
my ($host, $port) = $c->node_address(1);
$c->safe_psql(q{CREATE ROLE alice LOGIN; CREATE ROLE mallory LOGIN; CREATE ROLE reader LOGIN; GRANT CREATE ON SCHEMA public TO alice;
	CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE r (id int PRIMARY KEY, v int); ALTER TABLE t OWNER TO alice; ALTER TABLE r OWNER TO alice;
	GRANT USAGE ON FOREIGN SERVER node1, node2 TO alice, reader});
for my $i (1 .. 2)
{
	$c->safe_psql("CREATE USER MAPPING FOR alice SERVER node$i OPTIONS (user 'app', password '$right');
		CREATE USER MAPPING FOR mallory SERVER node$i OPTIONS (user 'app', password '$wrong', sslpassword '$wrong')");
}
$c->safe_psql(q{SET ROLE alice; SELECT shardfdw.shard_table('t', 'id', shards => 4); SELECT shardfdw.create_reference_table('r');
	INSERT INTO t SELECT i, i FROM generate_series(1, 100) i; INSERT INTO r SELECT i, i FROM generate_series(1, 10) i;
	GRANT ALL ON t, r TO mallory, reader});

# Functions of the extension that take a password. Core logs the caller's statement if it is
# configured to. The functions' messages and their context must not contain the password.
my $quiet = "SET log_min_error_statement = panic;\n";
try_sql('add_node', $quiet . $_)
  for (
	"SELECT shardfdw.add_node('lost', '127.0.0.1', 1, 'postgres', 'app', '$wrong', '{\"connect_timeout\": \"2\"}')",
	"SELECT shardfdw.add_node('refused', '$host', $port, 'postgres', 'app', '$wrong')",
	"SELECT shardfdw.add_node('node1', '$host', $port, 'postgres', 'app', '$right')",
	"SELECT shardfdw.add_node('twice', '$host', $port, 'nowhere', 'app', '$right')",
	"SELECT shardfdw.add_node('odd', '$host', $port, 'postgres', 'app', '$wrong', '{\"sslmode\": \"no such mode\"}')",
	"SELECT shardfdw.add_node('odd', '$host', $port, 'postgres', 'app', NULL, '{\"sslpassword\": \"$wrong\", \"nonsense\": \"1\"}')",
	"SELECT shardfdw.add_node('odd', '$host', $port, 'postgres', 'app', '$wrong', '{\"sslpassword\": \"$wrong\", \"password_required\": \"perhaps\"}')",
	"BEGIN; SELECT shardfdw.add_node('good', '$host', $port, 'postgres', 'app', '$right', '{\"partial_aggregates\": \"false\"}'); SELECT * FROM shardfdw.check_cluster(); SELECT * FROM shardfdw.nodes; ROLLBACK");
cmp_ok(scalar(() = $seen{add_node} =~ /ERROR:/g), '>=', 7, 'add_node failed where it should');
# psql prints the failed statement, which is the test's statement
$seen{add_node} = join "\n", grep { !/^(LINE \d|psql:.*STATEMENT: |STATEMENT: |SELECT shardfdw.add_node|\s*\^)/ } split /\n/, $seen{add_node};

# From here on, everything is logged everywhere.
$_->append_conf('postgresql.conf', "log_statement = all\nlog_min_messages = debug2\nlog_connections = on\nlog_disconnections = on\nlog_duration = on\nlog_error_verbosity = verbose\n")
  for $c->coordinator, $c->nodes;
$c->coordinator->append_conf('postgresql.conf', "shardfdw.log_min_remote_duration = 0\nauto_explain.log_min_duration = 0\nauto_explain.log_verbose = on\nauto_explain.log_analyze = on\nauto_explain.log_nested_statements = on\n");
$_->reload for $c->coordinator, $c->nodes;

my @statements = (
	'SELECT count(*), sum(v) FROM t', 'SELECT * FROM t WHERE id = 5', 'SELECT count(*) FROM t JOIN r USING (id)',
	'EXPLAIN (VERBOSE) SELECT count(*) FROM t', 'EXPLAIN (ANALYZE, VERBOSE, BUFFERS) SELECT v, count(*) FROM t GROUP BY v',
	'SET shardfdw.explain_remote = on; EXPLAIN (VERBOSE) SELECT count(*) FROM t; EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM t WHERE id = 3',
	'EXPLAIN (VERBOSE, FORMAT json) UPDATE t SET v = v + 1', 'BEGIN; UPDATE t SET v = v + 1; SELECT * FROM shardfdw.connections; SELECT * FROM shardfdw.shared_connections; SELECT * FROM shardfdw.stat_load; COMMIT',
	"COPY t FROM STDIN;\n101\t1\n102\t1\n\\.\n", "COPY t FROM STDIN;\n101\t1\n103\tnonsense\n\\.\n", 'COPY t TO STDOUT', 'ALTER TABLE t ADD COLUMN w int; ALTER TABLE t DROP COLUMN w',
	'UPDATE r SET v = v + 1', 'MERGE INTO t USING r ON t.id = r.id WHEN MATCHED THEN UPDATE SET v = r.v', 'ANALYZE t', 'SELECT 1 / (v - v) FROM t',
	'BEGIN; SAVEPOINT a; SELECT 1 / (v - v) FROM t; ROLLBACK TO a; SELECT count(*) FROM t; COMMIT', 'INSERT INTO t VALUES (1, 1)',
	'SELECT * FROM shardfdw.nodes; SELECT * FROM shardfdw.shards; SELECT * FROM shardfdw_internal.shard_sizes(); SELECT * FROM shardfdw.tables; SELECT * FROM shardfdw.prepared_transactions; SELECT * FROM shardfdw.recover_prepared_transactions(); SELECT * FROM shardfdw.check_cluster($$rows$$)',
	q{SELECT * FROM shardfdw.query_nodes('{node1,node2}', '{SELECT 1,SELECT nonsense}', 'read', false)}, 'SET statement_timeout = 100; SELECT count(*) FROM t, generate_series(1, 1000000000)');
for my $role ('alice', 'mallory', 'reader')
{
	try_sql("as $role", join(";\n", @statements) . ';', '-U', $role);
	# what other sessions see while it is connected
	my $views = try_sql("as $role, watched", q{SELECT count(*) FROM t; SET ROLE NONE; SELECT * FROM pg_stat_activity; SELECT * FROM pg_user_mappings; SELECT * FROM information_schema.user_mapping_options}, '-U', $role);
	# a user may see his own: that is core's rule for pg_user_mappings
	$seen{"as $role, watched"} = '' if $role ne 'reader';
	note_all("nodes, $role", $c->node_safe_psql($_, 'SELECT * FROM pg_stat_activity; SELECT * FROM pg_prepared_xacts; SELECT * FROM pg_settings')) for 1 .. 2;
}
like($seen{'as alice'}, qr/Remote SQL/, 'alice had answers');
like($seen{'as mallory'}, qr/password authentication failed/, 'mallory was refused');
like($seen{'as reader'}, qr/user mapping not found/, 'reader has no mapping');
note_all('settings and activity', try_sql('admin', 'SELECT * FROM pg_stat_activity; SELECT name, setting FROM pg_settings; SELECT * FROM shardfdw.shared_connections; SELECT srvname, srvoptions FROM pg_foreign_server'));

# Node down; node that is no PostgreSQL; options that were changed to nonsense.
$c->stop_node(2);
try_sql('node down', join(";\n", @statements) . ';', '-U', 'alice');
try_sql('node down, functions', "SELECT * FROM shardfdw.check_cluster(); SELECT * FROM shardfdw.prepared_transactions; SELECT * FROM shardfdw.recover_prepared_transactions();", '-U', 'alice');
like($seen{'node down'}, qr/58000/, 'a node was down');
$c->start_node(2);
for my $option ([ 'host', 'no.such.host.invalid' ], [ 'dbname', 'nowhere' ], [ 'sslmode', 'nonsense' ], [ 'target_session_attrs', 'standby' ], [ 'options', '-c nonsense=1' ],
	[ 'sslrootcert', '/no/such/file' ], [ 'require_auth', 'none' ])
{
	my ($name, $value) = @$option;
	my ($rc, $out, $err) = $c->psql("ALTER SERVER node1 OPTIONS (ADD $name '$value')");
	$c->psql("ALTER SERVER node1 OPTIONS (SET $name '$value')") if $rc != 0 && $err !~ /invalid option/;
	try_sql("option $name", 'SET statement_timeout = 5000; SELECT count(*) FROM t; UPDATE t SET v = 0', '-U', 'alice');
	$name =~ /^(host|dbname)$/
	  ? $c->safe_psql("ALTER SERVER node1 OPTIONS (SET $name '" . ($name eq 'host' ? $host : 'postgres') . "')")
	  : $c->psql("ALTER SERVER node1 OPTIONS (DROP $name)");
}
like($seen{'option dbname'}, qr/nowhere/, 'options of the server were used');
like(try_sql('again', 'SELECT count(*) FROM t', '-U', 'alice'), qr/\b102\b/, 'and restored');

# A dump by a role that may read tables, but not other roles' mappings; and one by a role that may,
# which core allows.
my ($out, $err) = ('', '');
IPC::Run::run([ 'pg_dump', '-U', 'reader', '-d', $c->coordinator->connstr('postgres'), '--schema-only', '-t', 't', '-t', 'r' ], '>', \$out, '2>', \$err);
note_all('pg_dump of tables by reader', $out, $err);
IPC::Run::run([ 'pg_dump', '-U', 'reader', '-d', $c->coordinator->connstr('postgres'), '--schema-only' ], '>', \$out, '2>', \$err);
like($out, qr/CREATE USER MAPPING FOR alice/, 'reader can dump what is no table');
note_all('pg_dump by reader', $out, $err);

# Nowhere.
for my $where (sort keys %seen)
{
	my @found = grep { $_ =~ $canary } split /\n/, $seen{$where};
	is(join("\n", @found), '', "no password: $where");
}
for my $server ($c->coordinator, $c->nodes)
{
	my @found;
	open my $fh, '<', $server->logfile or die;
	while (my $line = <$fh>)
	{
		push @found, $line if $line =~ $canary && $line !~ /CREATE ROLE app|CREATE USER MAPPING FOR \w+ SERVER/;
	}
	close $fh;
	is(join('', @found[ 0 .. ($#found > 9 ? 9 : $#found) ]), '', 'no password in the log of ' . $server->name);
	cmp_ok(-s $server->logfile, '>', 20000, 'which was a log of everything');
}
# If nodes refuse to create a role, the error does not show the statement with the verifier.
{
	my $quieter = 'SET log_statement = none; SET log_min_error_statement = panic';
	for my $i (1 .. 2)
	{
		$c->node_safe_psql($i, q{CREATE ROLE maker LOGIN});
		$c->safe_psql("ALTER USER MAPPING FOR postgres SERVER node$i OPTIONS (SET user 'maker')");
	}
	my (undef, undef, $err) = $c->psql(qq{$quieter; CREATE ROLE refused;
		SELECT shardfdw.add_user('refused', password => 'pw-refused')}, on_error_stop => 0);
	like($err, qr/permission denied to create role/, 'the nodes refuse to create the role');
	unlike($err, qr/SCRAM-SHA-256\$/, 'the error shows no verifier');
	$c->safe_psql("ALTER USER MAPPING FOR postgres SERVER node$_ OPTIONS (SET user 'postgres')")
	  for 1 .. 2;
}
# The verifier of a password is in a statement for the nodes.
{
	my $at = $c->log_position;
	$c->safe_psql(q{SET auto_explain.log_min_duration = -1; SET shardfdw.log_min_remote_duration = 0; CREATE ROLE logged;
		SELECT shardfdw.add_user('logged', password => 'pw-logged')});
	my $log = $c->log_since($at);
	like($log, qr/remote SQL on node "node1": \(not shown because it may contain a password\)/,
		'the statement with the verifier is logged without its text');
	unlike($log, qr/SCRAM-SHA-256\$/, 'no log of the coordinator has the verifier');
}

done_testing();
