
# Tests whole statements on one shard: the number of round trips, the commits after an error, and
# the prepared statements on the node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2, node_conf => "log_statement = all\n",
	coordinator_conf => "shared_preload_libraries = 'shardfdw, auto_explain'\n");
$c->safe_psql('CREATE TABLE t (k int PRIMARY KEY, v int, s text);
	CREATE TABLE child (k int, i serial, v int, PRIMARY KEY (k, i))');
$c->shard_table('t', 'k', shards => 4);
$c->safe_psql(q{SELECT shardfdw.shard_table('child', 'k', colocate_with => 't')});
$c->safe_psql(q{INSERT INTO t SELECT g, g, 's' || g FROM generate_series(1, 100) g});

# Node and shard of key 1.
my ($server, $shard) = split /\|/, $c->safe_psql(q{SELECT s.srvname, f.ftrelid::regclass FROM pg_foreign_table f
	JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE f.ftrelid = shardfdw.shard_for('t', 1)});
my ($nodeno) = $server =~ /(\d+)$/;
my $node = $c->node($nodeno);

# The statements that the node of key 1 gets for sql, in a session that has used the node before.
sub asked
{
	my ($sql) = @_;
	my $position = $c->log_position($nodeno);

	$c->safe_psql("SELECT v AS begins_here FROM t WHERE k = 1;\n$sql");
	return said_since($position);
}

# The messages that the node got after this position of its log, and after "begins_here".
sub said_since
{
	my ($position) = @_;
	my @said = $c->log_since($position, $nodeno) =~ /LOG:  (?:statement|execute [^:]*): (.*)/g;
	my ($first) = grep { $said[$_] =~ /begins_here/ } 0 .. $#said;

	return @said[ $first + 1 .. $#said ];
}

# The kinds of these messages: for each its statements, joined by "+".
sub words
{
	return join(' ', map { join('+', grep { !/^(?:SET|RESET)$/ } /(?:^|; )([A-Z]+)/g) } @_);
}

# sql fails on the coordinator, at the first error.
sub fails
{
	my ($sql, $pattern, $name) = @_;
	my ($rc, $out, $err) = $c->psql($sql, on_error_stop => 1);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	isnt($rc, 0, "$name: fails");
	return like($err, $pattern, $name);
}

# --- round trips

my @said = asked('SELECT v FROM t WHERE k = 1;');
is(@said, 1, 'a SELECT is one statement') or diag join "\n", @said;
like($said[0], qr/^SELECT \(v\)::integer AS v FROM public\.\Q$shard\E/, 'and nothing around it');
@said = asked("UPDATE t SET v = v + 1 WHERE k = 1;");
is(@said, 1, 'nor around an UPDATE that is a transaction') or diag join "\n", @said;
@said = asked("INSERT INTO t VALUES (1, 5) ON CONFLICT (k) DO UPDATE SET v = excluded.v;");
is(@said, 1, 'nor around an upsert') or diag join "\n", @said;
@said = asked("BEGIN; UPDATE t SET v = 1 WHERE k = 1; SELECT v FROM t WHERE k = 1; UPDATE t SET v = 2 WHERE k = 1; COMMIT;");
is(words(@said), 'BEGIN+UPDATE SELECT UPDATE COMMIT', 'a transaction begins with its first statement')
	or diag join "\n", @said;
@said = asked("BEGIN; UPDATE t SET s = \$\$it's \\ \"\$1\$\$ WHERE k = 1; UPDATE t SET s = NULL WHERE k = 1 AND s = \$\$it's \\ \"\$1\$\$; SELECT s IS NULL AS gone FROM t WHERE k = 1; COMMIT;");
is(words(@said), 'BEGIN+UPDATE UPDATE SELECT COMMIT', 'whatever its values are') or diag join "\n", @said;
is($c->safe_psql('SELECT s IS NULL FROM t WHERE k = 1'), 't', 'which are what they were');
@said = asked("BEGIN; UPDATE t SET s = '" . 'long' x 3000 . "' WHERE k = 1; ROLLBACK;");
is(words(@said), 'BEGIN UPDATE ROLLBACK', 'long ones are parameters') or diag join "\n", @said;
@said = asked('UPDATE t SET v = v WHERE k = 1 RETURNING v;');
is(join(' ', grep { !/SAVEPOINT/ } map { /^(\w+)/ } @said), 'BEGIN UPDATE COMMIT', 'RETURNING has a transaction') or diag join "\n", @said;
@said = asked("INSERT INTO t VALUES (1, 5) ON CONFLICT (k) DO UPDATE SET v = excluded.v RETURNING *, v * 1.5 AS x;");
is(words(@said), 'INSERT', 'but that of an INSERT, of few rows, has none');
is($c->safe_psql("INSERT INTO t VALUES (1, 3) ON CONFLICT (k) DO UPDATE SET v = excluded.v RETURNING *, v * 1.5 AS x, NULL::text AS n;
	INSERT INTO t VALUES (1, 4) ON CONFLICT (k) DO NOTHING RETURNING k;
	INSERT INTO t (k) VALUES (2001) RETURNING v"), "1|3||4.5|\n", 'whatever it returns');
fails('INSERT INTO t VALUES (2002, 1) RETURNING 1 / (k - 2002)', qr/division by zero/, 'an error of RETURNING');
is($c->safe_psql('DELETE FROM t WHERE k = 2001; SELECT count(*) FROM t WHERE k > 2000'), 0, 'undoes the row');
$c->safe_psql("CREATE TYPE mood AS ENUM ('glad'); CREATE TABLE moods (k int PRIMARY KEY, m mood); SELECT shardfdw.shard_table('moods', 'k', colocate_with => 't')");
@said = asked("INSERT INTO moods VALUES (1, 'glad') RETURNING m;");
is($said[-1], 'COMMIT', 'nothing is committed before values are taken whose types may refuse them') or diag join "\n", @said;
fails(q{SET client_encoding = 'LATIN1'; INSERT INTO t VALUES (2003, 1) RETURNING k, U&'\\20AC'}, qr/has no equivalent in encoding "LATIN1"/, 'a character that the client lacks');
is($c->safe_psql('SELECT count(*) FROM t WHERE k > 2000'), 0, 'undoes the row');
@said = asked("DO 'BEGIN UPDATE t SET v = 3 WHERE k = 1; END';");
is(words(@said), 'BEGIN+UPDATE COMMIT', 'so has a statement of a function') or diag join "\n", @said;
@said = asked("SELECT v FROM t WHERE k = 1;\n" x 6);
is(scalar(grep { /\$1/ } @said), 6, 'constants are parameters');

# the messages of a driver's extended protocol, with pgbench as an example; rc: whether pgbench has
# to succeed
sub asked_by_extended
{
	my ($script, $rc) = @_;
	my $file = $c->coordinator->basedir . '/extended.sql';
	my $position = $c->log_position($nodeno);

	unlink $file;
	append_to_file($file, "SELECT v AS begins_here FROM t WHERE k = 1;\n$script");
	my $ended = run_log([ 'pgbench', '-n', '-M', 'prepared', '-t', 1, '-f', $file, '-h', $c->coordinator->host, '-p', $c->coordinator->port, 'postgres' ]);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($ended ? 1 : 0, $rc, 'pgbench ends as it should');
	return words(said_since($position));
}
is(asked_by_extended("UPDATE t SET v = v + 1 WHERE k = 1;\n", 1), 'UPDATE', 'an UPDATE by the extended protocol is a transaction, too');
is($c->safe_psql('SELECT v FROM t WHERE k = 1'), 4, 'and is made');
is(asked_by_extended("INSERT INTO t VALUES (1, 4) ON CONFLICT (k) DO UPDATE SET v = excluded.v RETURNING v;\n", 1), 'INSERT', 'so is an INSERT that returns its row');
is(asked_by_extended("BEGIN;\nUPDATE t SET v = v - 1 WHERE k = 1;\nCOMMIT;\n", 1), 'BEGIN+UPDATE COMMIT', 'not within a block');
# statements between two Syncs are one transaction
is(asked_by_extended("\\startpipeline\nUPDATE t SET v = v + 10 WHERE k = 1;\nUPDATE t SET v = v - 10 WHERE k = 1;\n\\endpipeline\n", 1),
	'BEGIN+UPDATE UPDATE COMMIT', 'nor in a pipeline');
asked_by_extended("\\startpipeline\nUPDATE t SET v = v + 10 WHERE k = 1;\nSELECT 1 / 0;\n\\endpipeline\n", 0);
asked_by_extended("\\startpipeline\nSELECT 1;\nUPDATE t SET v = v / (v - v) WHERE k = 1;\n\\endpipeline\n", 0);
is(asked_by_extended("\\startpipeline\nSELECT 1;\nUPDATE t SET v = v WHERE k = 1;\n\\endpipeline\n", 1), 'BEGIN+UPDATE COMMIT', 'whatever is before it there');
is($c->safe_psql('SELECT v FROM t WHERE k = 1'), 3, 'one that fails has changed nothing');

# a change of a reference table and two messages of its commit, whatever is unique in it
$c->safe_psql(q{CREATE TABLE kind (id int PRIMARY KEY, name text UNIQUE, note text); SELECT shardfdw.create_reference_table('kind')});
for my $sql (q{INSERT INTO kind VALUES (1, 'one', $$it's$$), (2, NULL, 'two')}, q{UPDATE kind SET note = '' WHERE id > 0}, q{UPDATE kind SET id = 3, name = 'three' WHERE id = 1}, q{DELETE FROM kind WHERE id = 2})
{
	my ($verb) = $sql =~ /^(\w+)/;
	@said = asked("$sql;");
	is(words(@said), "BEGIN+$verb PREPARE+SELECT COMMIT", $sql) or diag join "\n", @said;
}
is($c->node_safe_psql($nodeno, 'TABLE kind'), '3|three|', 'the replica has all that');

# --- atomicity

fails('UPDATE t SET v = 1 / (k - 1) WHERE k = 1', qr/division by zero/, 'an error of the node is an error');
is($c->safe_psql('SELECT v FROM t WHERE k = 1'), 3, 'and nothing is changed');
fails("INSERT INTO t VALUES (1, 1)", qr/duplicate key/, 'a key that is there is refused');
is($c->safe_psql("INSERT INTO t VALUES (1001, 1); INSERT INTO t VALUES (1002, 1); SELECT count(*) FROM t WHERE k > 1000"), 2,
	'the connection goes on');
fails("BEGIN; UPDATE t SET v = 50 WHERE k = 1; SELECT 1 / 0; COMMIT", qr/division/, 'a block that fails');
is($c->safe_psql('SELECT v FROM t WHERE k = 1'), 3, 'takes back what it did');
# several statements of one message are one transaction
fails('UPDATE t SET v = 51 WHERE k = 1\; SELECT 1 / 0', qr/division/, 'two statements in one message');
is($c->safe_psql('SELECT v FROM t WHERE k = 1'), 3, 'are one transaction');

# a deferred check fails when the node commits, after the answer to the statement
$node->safe_psql('postgres', qq{
	CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN IF NEW.v = 13 THEN RAISE 'refused at the end'; END IF; RETURN NULL; END \$\$;
	CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON $shard DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()});
fails('UPDATE t SET v = 13 WHERE k = 1', qr/refused at the end/, 'a deferred trigger of the node');
is($c->safe_psql('SELECT v FROM t WHERE k = 1'), 3, 'undoes the statement');
$node->safe_psql('postgres', "DROP TRIGGER refuse ON $shard");

# a row that another session has locked
my $blocker = $node->background_psql('postgres');
$blocker->query_safe("BEGIN; UPDATE $shard SET s = 'locked' WHERE k = 1");
fails("SET statement_timeout = 500; UPDATE t SET v = 60 WHERE k = 1", qr/canceling statement due to statement timeout/,
	'a statement that waits');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"), 0, 'on the node, too');
$blocker->query_safe('ROLLBACK');
is($c->safe_psql('SELECT v FROM t WHERE k = 1'), 3, 'and has done nothing');
$blocker->quit;
is($c->safe_psql("SET statement_timeout = 5000; UPDATE t SET v = 4 WHERE k = 1; SELECT v FROM t WHERE k = 1"), 4,
	'a statement in time is carried out');

# the node's own defaults do not matter
$node->safe_psql('postgres', qq{
	ALTER DATABASE postgres SET default_transaction_isolation = 'serializable';
	ALTER DATABASE postgres SET default_transaction_read_only = on;
	ALTER DATABASE postgres SET default_transaction_deferrable = on});
$node->safe_psql('postgres', qq{BEGIN READ WRITE;
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN NEW.s = current_setting('transaction_isolation'); RETURN NEW; END \$\$;
	CREATE TRIGGER note BEFORE UPDATE ON $shard FOR EACH ROW EXECUTE FUNCTION note(); COMMIT});
is($c->safe_psql("UPDATE t SET v = 3 WHERE k = 1; SELECT s FROM t WHERE k = 1"), 'read committed', 'isolation is that of this session');
is($c->safe_psql("BEGIN; UPDATE t SET v = 3 WHERE k = 1; COMMIT; SELECT s FROM t WHERE k = 1"), 'read committed', 'in a transaction');
is($c->safe_psql("SET default_transaction_isolation = 'repeatable read'; UPDATE t SET v = 3 WHERE k = 1; SELECT s FROM t WHERE k = 1"), 'repeatable read', 'which may be another');
$c->safe_psql("ALTER SERVER $server OPTIONS (ADD session_state 'off')");
is($c->safe_psql("UPDATE t SET v = 3 WHERE k = 1; SELECT s FROM t WHERE k = 1"), 'read committed', 'without session state, too');
is($c->safe_psql("SET shardfdw.snapshot = cluster; BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT v FROM t WHERE k = 1; UPDATE t SET v = 3 WHERE k = 1; COMMIT; SELECT s FROM t WHERE k = 1"), "3\nserializable", 'and with one snapshot of all nodes');
$c->safe_psql("ALTER SERVER $server OPTIONS (DROP session_state)");
$node->safe_psql('postgres', qq{SET transaction_read_only = off; SELECT 1; BEGIN READ WRITE; ALTER DATABASE postgres RESET ALL; DROP TRIGGER note ON $shard; UPDATE $shard SET s = 's1' WHERE k = 1; COMMIT});

# --- evaluated once

$c->safe_psql('CREATE SEQUENCE calls; CREATE FUNCTION counted() RETURNS int STABLE LANGUAGE plpgsql AS $$BEGIN PERFORM nextval(\'calls\'); RETURN 1; END$$');
$c->safe_psql('SELECT v FROM t WHERE k = counted() AND v >= counted()');
is($c->safe_psql('SELECT last_value FROM calls'), 1, 'equal functions are called once');
is($c->safe_psql("INSERT INTO child (k, v) VALUES (1, 1), (1, 2), (1, 3) RETURNING i"), "1\n2\n3", 'sequences once per row');

# --- plans

$c->safe_psql('ALTER TABLE t ADD w int DEFAULT 9');
is($c->safe_psql("PREPARE p AS SELECT k, v FROM t WHERE k = \$1;\n" . join('', map { "EXECUTE p ($_);\n" } 1 .. 8) .
	"ALTER TABLE t DROP w; EXECUTE p (1)") =~ tr/\n//, 8, 'a prepared statement survives a change of its table');
my $generic = $c->safe_psql("SET plan_cache_mode = force_generic_plan; PREPARE p (int) AS SELECT k FROM t WHERE k = \$1;\n" .
	join('', map { "EXECUTE p ($_);\n" } 2 .. 9));
is($generic, join("\n", 2 .. 9), 'a generic plan finds the shard of each key');
like($c->safe_psql('EXPLAIN (ANALYZE, TIMING off) SELECT k FROM t WHERE k = 3'), qr/ShardStatement.*\n.*Shards: 1 of 4(.*\n)*.*Rows Received: 1/, 'EXPLAIN ANALYZE');
$c->safe_psql("SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on; UPDATE t SET v = 5 WHERE k = 1");
is($c->safe_psql('SELECT v FROM t WHERE k = 1'), 5, 'with auto_explain');

# a role without a mapping cannot use the session's connections
$c->safe_psql('CREATE ROLE other; GRANT ALL ON t TO other');
fails("PREPARE p AS SELECT v FROM t WHERE k = 1; EXECUTE p; SET ROLE other; EXECUTE p", qr/user mapping/,
	'SET ROLE with a prepared statement looks for the mapping of the new role');

# --- row locks last as long as the transaction

my $locker = $c->coordinator->background_psql('postgres');
$locker->query_safe('BEGIN');
$locker->query_safe('SELECT k FROM t WHERE k = 1 FOR UPDATE');
fails("SELECT k FROM t WHERE k = 1 FOR UPDATE NOWAIT", qr/could not obtain lock/, 'a locked row');
is($c->safe_psql('SELECT k FROM t WHERE k = 1 FOR UPDATE SKIP LOCKED'), '', 'or skipped');
$locker->query_safe('COMMIT');
is($c->safe_psql('SELECT k FROM t WHERE k = 1 FOR UPDATE NOWAIT'), 1, 'until the end of the transaction');
$locker->quit;

# a connection that the node has closed between two statements
sub close_connections
{
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
		WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'");
}

my $session = $c->coordinator->background_psql('postgres');
$session->query_safe('SELECT v FROM t WHERE k = 1');
close_connections();
is($session->query_safe('SELECT v FROM t WHERE k = 1'), 5, 'a dead connection is replaced');
close_connections();
$session->query_safe('UPDATE t SET v = 6 WHERE k = 1');
is($session->query_safe('SELECT v FROM t WHERE k = 1'), 6, 'for a change, too');
$session->quit;

# Another session changes tables of plans that the router has kept.
$c->safe_psql('CREATE TABLE kept (id int PRIMARY KEY, v int, w text)');
$c->shard_table('kept', 'id', shards => 4);
$c->safe_psql('INSERT INTO kept SELECT g, g, $$x$$ FROM generate_series(1, 30) g');
$session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$session->query_safe("SELECT * FROM kept WHERE id = $_") for 1 .. 6;
$c->safe_psql('ALTER TABLE kept DROP COLUMN v; ALTER TABLE kept ADD COLUMN n int DEFAULT 7');
is($session->query_safe('SELECT * FROM kept WHERE id = 7'), '7|x|7', 'a column is dropped, another one added');
$session->query_safe("UPDATE kept SET n = $_ WHERE id = $_ + 10") for 1 .. 6;
$c->safe_psql('ALTER TABLE kept RENAME COLUMN n TO m; ALTER TABLE kept ADD COLUMN n int');
$session->query_safe('UPDATE kept SET n = 5 WHERE id = 17');
is($session->query_safe('SELECT * FROM kept WHERE id = 17'), '17|x|7|5', 'a column is renamed, another one gets its name');
$session->query_safe("SELECT m FROM kept WHERE id = $_") for 11 .. 16;
$c->safe_psql(q{ALTER SERVER node1 OPTIONS (ADD connect_timeout '7'); ALTER SERVER node2 OPTIONS (ADD connect_timeout '7')});
is($session->query_safe('SELECT m FROM kept WHERE id = 11'), '1', 'options of the nodes change');
$c->safe_psql(q{CREATE ROLE reader; GRANT SELECT ON kept TO reader; ALTER TABLE kept ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON kept USING (id > 12);
	CREATE USER MAPPING FOR reader SERVER node1 OPTIONS (user 'postgres', password_required 'false'); CREATE USER MAPPING FOR reader SERVER node2 OPTIONS (user 'postgres', password_required 'false')});
$session->query_safe('SET ROLE reader');
is($session->query_safe("SELECT m FROM kept WHERE id = $_"), $_ > 12 ? $_ - 10 : '', "a policy comes: row $_") for 11 .. 14;
$c->safe_psql('DROP POLICY p ON kept; CREATE POLICY p ON kept USING (id > 13)');
is($session->query_safe('SELECT m FROM kept WHERE id = 13'), '', 'the policy changes');
$c->safe_psql('REVOKE SELECT ON kept FROM reader');
$session->query('SELECT m FROM kept WHERE id = 14');
like($session->{stderr}, qr/permission denied for table kept/, 'the privilege goes');
$session->quit;

# --- small queries over all shards: prepared on each node, whatever their constants

$session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
my @positions = map { $c->log_position($_) } 1, 2;
is($session->query_safe("SELECT count(*), min(id), max(id) FROM kept WHERE id BETWEEN $_ AND $_ + 4"), '5|' . $_ . '|' . ($_ + 4), "a range from $_")
	for 11 .. 16;

# How node $i ran the queries after $position.
sub executed
{
	my ($position, $i) = @_;

	return join(' ', map { /^shardfdw_/ ? 'prepared' : 'unnamed' } $c->log_since($position, $i) =~ /LOG:  execute ([^:]*): SELECT/g);
}

is(executed($positions[ $_ - 1 ], $_), 'unnamed unnamed prepared prepared prepared prepared', "node $_ keeps its plan from the third time on") for 1, 2;
@positions = map { $c->log_position($_) } 1, 2;
is($session->query_safe("SELECT count(*) FROM kept WHERE w = 'x' AND m < $_"), $_ - 1, "a condition without index: $_") for 1 .. 4;
is(executed($positions[ $_ - 1 ], $_), 'unnamed unnamed prepared prepared', "node $_ keeps that plan, too: the table is small") for 1, 2;

# a large one keeps its constants, and keeps its plan if they are the same
$session->query_safe('SET cpu_tuple_cost = 1000; SET shardfdw.query_per_node = on');
@positions = map { $c->log_position($_) } 1, 2;
is($session->query_safe("SELECT id FROM kept WHERE w = 'x' ORDER BY id DESC LIMIT 1"), '30', 'the first one of a large table') for 1 .. 4;
is($session->query_safe("SELECT id FROM kept WHERE w = 'x' AND m < $_ ORDER BY m DESC LIMIT 1"), $_ + 9, "below $_") for 5 .. 7;
is($session->query_safe("SELECT count(*) FROM kept WHERE w = 'x' AND m > 0"), 30, 'all of it') for 1 .. 3;
is(executed($positions[ $_ - 1 ], $_), 'unnamed unnamed prepared prepared unnamed unnamed unnamed unnamed unnamed unnamed', "node $_ plans anew for other constants, and for what reads all") for 1, 2;
$session->query_safe('RESET cpu_tuple_cost; RESET shardfdw.query_per_node');

# a query that stops early is planned with its constants, because a generic plan could read the
# whole table for a rare value
@positions = map { $c->log_position($_) } 1, 2;
is($session->query_safe("SELECT id FROM kept WHERE w = 'x' AND m = $_ LIMIT 1"), $_ + 10, "one row with $_") for 2 .. 4;
is($session->query_safe("SELECT max(id) FROM kept WHERE m = $_"), $_ + 10, "the greatest with $_") for 2 .. 4;
for (1, 2)
{
	my $log = $c->log_since($positions[ $_ - 1 ], $_);

	is(scalar(() = $log =~ /LOG:  execute <unnamed>: SELECT/g), 6, "node $_ plans each anew");
	unlike($log, qr/= \(\$1\)::integer/, 'for its constants');
}
my $at = $c->log_position($nodeno);
for my $i (1 .. 4)
{
	$session->query_safe($_) for "SELECT v FROM t WHERE k = 1 AND s = 's$i' LIMIT 1", "SELECT max(v) FROM child WHERE k = 1 AND v > $i", "SELECT v FROM child WHERE k = 1 AND v > $i ORDER BY v LIMIT 1",
	  "UPDATE child SET v = v WHERE k = 1 AND i = (SELECT i FROM child WHERE k = 1 AND v > $i LIMIT 1)";
}
my $log = $c->log_since($at, $nodeno);
is(join(' ', $log =~ /execute (<unnamed>|shardfdw).*AS v FROM public.t_/g), '<unnamed> <unnamed> shardfdw shardfdw', 'by a unique key a statement finds one row at most: it is prepared');
is(scalar(() = $log =~ /execute <unnamed>.*public.child_/g), 12, 'others of one shard are not') or diag $log;
is($session->query_safe("SELECT count(*) FROM kept WHERE id = ANY (ARRAY[$_, $_ + 1, $_ + 2])"), 3, "an array from $_") for 11 .. 16;
is($session->query_safe("SELECT count(*) FROM kept WHERE id < $_ AND id IS NOT NULL AND (id > 12 OR id = 11)"), $_ - 12, "constants below OR: $_") for 14 .. 18;
is($session->query_safe('SELECT count(*) FROM kept WHERE id BETWEEN 1 AND 15 AND (' . join(' OR ', map { "id = $_" } 1 .. 300) . ')'), 15, 'more constants than parameters')
	for 1 .. 4;
is($session->query_safe("SELECT count(*) FROM kept WHERE id < $_ AND id > NULL"), 0, 'NULL') for 14 .. 17;
# an error of the statement itself is not taken for the error of a plan whose table has changed
@positions = map { $c->log_position($_) } 1, 2;
for (1 .. 20)
{
	$session->query("SELECT count(*) FROM kept WHERE date_trunc('timezone', timestamp '2024-01-01' + n * interval '1 day') > '2024-01-01' AND id > $_ AND id < 31");
	$session->{stderr} = '';
}
for my $i (1, 2)
{
	my %names = map { $_ => 1 } $c->log_since($positions[ $i - 1 ], $i) =~ /execute (shardfdw_\w+)/g;
	cmp_ok(keys %names, '<=', 1, "node $i prepares a failing statement once");
}
$c->safe_psql('ALTER TABLE kept ALTER COLUMN n TYPE bigint');
is($session->query_safe('SELECT n FROM kept WHERE id BETWEEN 17 AND 18 AND n = 5'), '5', 'the type of a column changes');
$session->quit;

done_testing();
