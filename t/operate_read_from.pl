# Reads from standbys of nodes: server option standbys, shardfdw.read_from,
# shardfdw.max_standby_lag. A session must see its writes, and must not read data older than the
# bound. Reads must continue while a node's primary is lost.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use ShardServer;
use Test::More;

my $c = ShardCluster->new(nodes => 2, preload => 1, node_conf => "wal_level = replica\nmax_wal_senders = 6\nhot_standby = on\nfull_page_writes = on\nwal_keep_size = 256MB\n");

# Each node has a standby. The first host that does not answer shows that the others are tried.
my @standbys;
for my $i (1 .. 2)
{
	my $standby = ShardServer->standby_of("standby$i", $c->node($i));
	push @standbys, $standby;
	my ($host, $port) = $c->node_address($i);
	$c->safe_psql(sprintf q{ALTER SERVER node%d OPTIONS (SET host '%s,%s', SET port '%d,%d', ADD target_session_attrs 'read-write', ADD standbys '%2$s:%4$d, 127.0.0.1:%4$d')},
		$i, $standby->host, $host, $standby->port, $port);
}
$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int)');
$c->shard_table('t', 'id', shards => 4);
$c->safe_psql('INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i');

sub caught_up
{
	$c->node($_)->wait_for_catchup($standbys[ $_ - 1 ], 'replay', $c->node($_)->lsn('insert')) for 1 .. 2;
	return;
}

# The rows that a new session reads from standbys with a bound of zero. On a busy machine a standby
# may need longer than the session waits.
sub at_zero
{
	my ($sql) = @_;
	my ($code, $out, $err);
	for (1 .. 20)
	{
		($code, $out, $err) = $c->psql("SET shardfdw.read_from = 'standby'; SET shardfdw.max_standby_lag = 0; $sql");
		last if $code == 0 || $err !~ /no standby of node/;
	}
	return $code == 0 ? $out : $err;
}

sub pause_replay
{
	my ($i) = @_;
	$standbys[ $i - 1 ]->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
	$standbys[ $i - 1 ]->poll_query_until('postgres', q{SELECT pg_get_wal_replay_pause_state() = 'paused'}) or die 'replay goes on';
	return;
}

sub resume_replay
{
	my ($i) = @_;
	$standbys[ $i - 1 ]->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
	return;
}

# ---- the server that is read: the standbys have 0, the primaries 1 -------------------------------

my $sum = 'SELECT count(*), sum(v) FROM t';
caught_up();
pause_replay($_) for 1 .. 2;
$c->safe_psql('UPDATE t SET v = 1');
my $standby = "SET shardfdw.read_from = 'standby'; SET shardfdw.max_standby_lag = -1";
is($c->safe_psql($sum), '100|100', 'primaries are read');
is($c->safe_psql("$standby; $sum; SELECT count(*) > 0 FROM shardfdw.connections WHERE is_standby"), "100|0\nt", 'standbys are, when asked for');
is($c->safe_psql("$standby; SET shardfdw.query_per_node = off; $sum; SELECT v FROM t WHERE id = 7; COPY t TO STDOUT") =~ s/^\d+\t0\n?//gmr, "100|0\n0\n", 'by several streams, statements on one shard, COPY');
is($c->safe_psql("SET shardfdw.read_from = 'any'; $sum"), '100|100', 'with any it is primaries');

my $read = 'SELECT min(v) FROM t';
my %primary = (
	'FOR UPDATE'                => 'SELECT v FROM t WHERE id = 1 FOR UPDATE',
	'UPDATE'                    => 'UPDATE t SET v = v WHERE id = 1 RETURNING v',
	'UPDATE by rows'            => 'UPDATE t SET v = v + (random() < 0)::int WHERE id = 1 RETURNING v',
	'WITH that writes'          => 'WITH u AS (UPDATE t SET v = v WHERE id = 1 RETURNING id) SELECT min(t.v) FROM t, u',
	'INSERT ... SELECT'         => 'INSERT INTO t SELECT id + 1000, v FROM t WHERE id = 1 RETURNING v; DELETE FROM t WHERE id > 1000',
	'SERIALIZABLE'              => "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY; $read; COMMIT",
	'REPEATABLE READ'           => "BEGIN ISOLATION LEVEL REPEATABLE READ; $read; COMMIT",
	'a snapshot over all nodes' => "SET shardfdw.snapshot = 'cluster'; $read",
	'a transaction that wrote'  => "BEGIN; CREATE TEMP TABLE local (); $read; COMMIT",
);
for my $what (sort keys %primary)
{
	is($c->safe_psql("$standby; $primary{$what}"), '1', "$what: the primary");
}
resume_replay($_) for 1 .. 2;
$c->safe_psql('UPDATE t SET v = 0');
caught_up();
is($c->safe_psql("SET shardfdw.read_from = 'standby'; BEGIN; $sum; UPDATE t SET v = 1 WHERE id = 1; $sum; ROLLBACK; $sum"), "100|0\n100|1\n100|0",
	'from its first write on a transaction reads what it has written');

# one snapshot for the transaction, over several streams
my $s = $c->coordinator->background_psql('postgres');
$s->query_safe("SET shardfdw.read_from = 'standby'; SET shardfdw.query_per_node = off; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
is($s->query_safe($sum), '100|0', 'REPEATABLE READ READ ONLY reads standbys');
$c->safe_psql('UPDATE t SET v = 1');
caught_up();
is($s->query_safe($sum), '100|0', 'with one snapshot');
like($s->query("SELECT shardfdw.run_on_nodes('SELECT 1', in_transaction => true)"), qr/cannot use the primary of node ""node1"" in a transaction whose snapshot is that of a standby/, 'which primaries cannot take part in');
$s->query_safe('ROLLBACK');
is($s->query_safe($sum), '100|100', 'the next one is new');
$s->quit;

# ---- own writes, and the bound -------------------------------------------------------------------

my $missed = $c->safe_psql(q{SET shardfdw.read_from = 'standby';
CREATE TEMP TABLE seen (n int, v int);
} . join '', map { my $v = 1000 + $_;
	my $write = ("UPDATE t SET v = $v WHERE id = 3", "UPDATE t SET v = $v", "BEGIN; UPDATE t SET v = $v WHERE id < 50; COMMIT", "SELECT count(*) FROM shardfdw.run_on_shards('t', 'UPDATE %s SET v = $v', false)")[ $_ % 4 ];
	"$write \\g /dev/null\nSELECT count(*) FROM t WHERE id = 3 AND v <> $v \\gset\nSELECT :count AS missed WHERE :count > 0;\n" } 1 .. 40);
is($missed, '', 'a session sees what it has committed, over one node, two, in a block and by commands');
is($c->safe_psql(q{UPDATE t SET v = 5; SET shardfdw.read_from = 'standby'; SELECT DISTINCT v FROM t}), '5', 'also what it wrote before it asked for standbys');

pause_replay(1);
$c->safe_psql('UPDATE t SET v = 6');
my ($old) = map { $_->[0] } grep { $_->[1] == 1 } $c->shards_of('t');
my $key = $c->safe_psql("SELECT min(id) FROM t WHERE shardfdw.shard_for('t', id) = '$old'::regclass");
is($c->safe_psql("SET shardfdw.read_from = 'standby'; SET shardfdw.max_standby_lag = -1; SELECT v FROM t WHERE id = $key"), '5', 'without a bound old rows are read');
my ($code, $out, $error) = $c->psql("SET shardfdw.read_from = 'standby'; SET shardfdw.max_standby_lag = '2s'; UPDATE t SET v = 7 WHERE id = $key; SELECT v FROM t WHERE id = $key");
isnt($code, 0, 'what a session has written and the standby has not is an error');
like($error, qr/no standby of node "node1" can be read.*DETAIL:  Standby \d: It has not replayed what this session has committed: it is at .*Standby \d: It has not/s, 'that says why');
($code, $out, $error) = $c->psql("SET shardfdw.read_from = 'standby'; SET shardfdw.max_standby_lag = 0; SELECT v FROM t WHERE id = $key");
like($error, qr/no standby of node "node1" can be read.*DETAIL:  Standby \d: Its data may be \d+ ms old, and shardfdw.max_standby_lag is 0 ms/s, 'so is what others have committed, with a bound of zero');
is($c->safe_psql("SET shardfdw.read_from = 'any'; SET shardfdw.max_standby_lag = 0; SELECT v FROM t WHERE id = $key"), '7', 'primaries have no lag');
$c->safe_psql(q{CREATE FUNCTION tries(n int) RETURNS text LANGUAGE plpgsql AS $$DECLARE r text := ''; BEGIN
	FOR i IN 1 .. n LOOP BEGIN r := r || (SELECT count(*) FROM t); EXCEPTION WHEN system_error THEN r := r || 'e'; END; END LOOP; RETURN r; END$$});
is($c->safe_psql("SET shardfdw.read_from = 'standby'; SET shardfdw.max_standby_lag = 0; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT tries(2)"), 'ee', 'an error that was caught has chosen nothing');
# functions of a statement that writes see the written rows
$c->safe_psql(q{CREATE TABLE local (n int); CREATE FUNCTION v_of(k int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT v FROM t WHERE id = k); END';
	CREATE TABLE filled (n int); CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.n := v_of(NEW.n); RETURN NEW; END';
	CREATE TRIGGER fill BEFORE INSERT ON filled FOR EACH ROW EXECUTE FUNCTION fill()});
my $old_rows = "SET shardfdw.read_from = 'standby'; SET shardfdw.max_standby_lag = -1";
is($c->safe_psql("$old_rows; SELECT v_of($key)"), '5', 'a function reads standbys');
is($c->safe_psql("$old_rows; INSERT INTO local VALUES (v_of($key)) RETURNING n"), '7', 'but not for INSERT,');
is($c->safe_psql("$old_rows; DELETE FROM local WHERE n <> v_of($key); SELECT count(*) FROM local"), '1', 'nor for DELETE,');
is($c->safe_psql("$old_rows; UPDATE t SET v = v_of($key) WHERE id = $key AND v_of($key) > 0 RETURNING v"), '7', 'nor for UPDATE,');
$c->safe_psql(q{CREATE TABLE parts (k int, n int) PARTITION BY LIST (k); CREATE TABLE p5 PARTITION OF parts FOR VALUES IN (5); CREATE TABLE p7 PARTITION OF parts FOR VALUES IN (7);
	INSERT INTO parts VALUES (5, 0), (7, 0); CREATE FUNCTION stable_v_of(k int) RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT v FROM t WHERE id = k); END'});
is($c->safe_psql("$old_rows; SELECT k FROM parts WHERE k = stable_v_of($key)"), '5', 'partitions are chosen by a standby,');
is($c->safe_psql("$old_rows; UPDATE parts SET n = 1 WHERE k = stable_v_of($key) RETURNING k"), '7', 'but not for UPDATE,');
is($c->safe_psql("$old_rows; CREATE TABLE of_parts AS SELECT k FROM parts WHERE k = stable_v_of($key); SELECT k FROM of_parts"), '7', 'nor for CREATE TABLE AS;');
is($c->safe_psql("$old_rows; PREPARE w (int) AS WITH i AS (INSERT INTO local VALUES (\$1) RETURNING n) SELECT n FROM i; EXECUTE w(v_of($key)); PREPARE r (int) AS SELECT \$1; EXECUTE r(v_of($key))"),
	"7\n5", 'parameters of EXECUTE are written, or only read;');
is($c->safe_psql("$old_rows; ALTER TABLE local ADD COLUMN d int DEFAULT v_of($key); SELECT DISTINCT d FROM local"), '7', 'defaults of a new column are written,');
is($c->safe_psql("$old_rows; INSERT INTO filled VALUES ($key); COPY filled FROM PROGRAM 'echo $key'; SELECT string_agg(n::text, ' ') FROM filled"), '7 7', 'and what triggers do, of COPY, too');

is($c->safe_psql("$old_rows; BEGIN; SAVEPOINT a; UPDATE t SET v = 8 WHERE id = $key; ROLLBACK TO a; SELECT v FROM t WHERE id = $key; ROLLBACK"), '7', 'a transaction that has written does not go back, when it has rolled that back either');

# a node confirms a commit some time later, and the commit's position is after every position that
# the session can require
is($c->safe_psql("$old_rows; SELECT v FROM t WHERE id = $key; SELECT ok FROM shardfdw.run_on_nodes('SELECT pg_terminate_backend(pg_backend_pid())', in_transaction => false); SELECT v FROM t WHERE id = $key"), "5\nf\nf\n7",
	'a session with an unanswered command reads primaries');
SKIP:
{
	skip 'built without fault points', 2 unless $c->safe_psql(q{SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
	is($c->safe_psql("$old_rows; SELECT v FROM t WHERE id = $key; SET shardfdw.fault_points = 'commit=error'; UPDATE t SET v = 8; SET shardfdw.fault_points = ''; SELECT v FROM t WHERE id = $key"), "5\n7",
		'a session with an unconfirmed commit reads primaries');
	$c->safe_psql('SELECT count(*) FROM shardfdw.recover_prepared_transactions()');
	is($c->safe_psql('UPDATE t SET v = 7; SELECT DISTINCT v FROM t'), '7', 'it was completed');
}
resume_replay(1);
is(at_zero("SELECT v FROM t WHERE id = $key"), '7', 'a bound of zero shows all that was committed before');

# an idle primary's position is reached, also if the next record comes after the header of a file
caught_up();
$c->node_safe_psql($_, 'SELECT pg_switch_wal()') for 1 .. 2;
is(at_zero("SELECT count(*) FROM t"), '100', 'after a switch of WAL files');

# the last writes of open transactions are not flushed, and must not prevent a primary's position
# from being reached
my $writer = $c->node(1)->background_psql('postgres');
$writer->query_safe('CREATE TABLE IF NOT EXISTS written (n int); BEGIN; INSERT INTO written SELECT generate_series(1, 10)');
is(at_zero("SELECT count(*) FROM t"), '100', 'a transaction that writes on a node goes on');
$writer->query_safe('ROLLBACK');
$writer->quit;

# a connection that the standby has ended is replaced
$s = $c->coordinator->background_psql('postgres', on_error_stop => 0);
is($s->query_safe("SET shardfdw.read_from = 'standby'; SELECT v FROM t WHERE id = $key"), '7', 'a session reads a standby');
$_->safe_psql('postgres', q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'shardfdw:%'}) for @standbys;
$_->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'shardfdw:%'}) for @standbys;
is($s->query("SELECT v FROM t WHERE id = $key"), '7', 'and reads it again when its connections have ended') || diag $s->{stderr};
$s->quit;

# a session never sees an older state than before: with the bound at zero, each read sees the
# earlier writes of another session
$s = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$s->query_safe("SET shardfdw.read_from = 'standby'; SET shardfdw.max_standby_lag = 0");
my $stale = 0;
for my $v (2001 .. 2020)
{
	$c->safe_psql("UPDATE t SET v = $v");
	my $seen = '';
	for (1 .. 20)
	{
		last if ($seen = $s->query('SELECT DISTINCT v FROM t')) ne '' || $s->{stderr} !~ /no standby of node/;
		$s->{stderr} = '';
	}
	$stale++ if $seen ne $v;
}
is($stale, 0, 'no read is older than what was committed before it');
$s->quit;

# a role that may not read the state of the WAL receiver
$c->safe_psql(q{CREATE ROLE reader LOGIN; GRANT SELECT ON t TO reader});
$c->node_safe_psql($_, q{CREATE ROLE reader LOGIN; DO $$DECLARE r regclass; BEGIN FOR r IN SELECT oid FROM pg_class WHERE relname LIKE 't\_0%' AND relkind = 'r' LOOP EXECUTE format('GRANT SELECT ON %s TO reader', r); END LOOP; END$$}) for 1 .. 2;
$c->safe_psql(qq{CREATE USER MAPPING FOR reader SERVER node$_ OPTIONS (user 'reader', password_required 'false')}) for 1 .. 2;
caught_up();
is($c->safe_psql("SET ROLE reader; SET shardfdw.read_from = 'standby'; SELECT DISTINCT v FROM t"), '2020', 'a role without pg_monitor reads standbys');

# a moved shard is read from its new node
$c->safe_psql("SELECT shardfdw.move_shard('$old', 'node2', mode => 'block', wait => true)");
is(at_zero("SELECT v FROM t WHERE id = $key"), '2020', 'a shard that was moved');

my $away = "SELECT shardfdw.move_shard('$old', 'node%d', mode => 'block')";
$c->safe_psql(sprintf $away, 1);
caught_up();
pause_replay(1);
($code, $out, $error) = $c->psql("SET shardfdw.read_from = 'standby'; " . sprintf($away, 2) . "; UPDATE t SET v = 2021 WHERE id = $key" . '; ' . sprintf($away, 1) . "; SELECT v FROM t WHERE id = $key");
like($error, qr/no standby of node "node1" can be read.*It is not known to have the shards as they were placed last, with what this session has committed/s, 'own writes have come with it');
resume_replay(1);
$c->safe_psql(sprintf $away, 2);
is(at_zero("SELECT v FROM t WHERE id = $key"), '2021', 'they are there');
$c->safe_psql('UPDATE t SET v = 2020');
caught_up();

is($c->safe_psql(q{SELECT string_agg(format('%s %s %s', node, state, lag_bytes >= 0), ' ' ORDER BY node) FROM shardfdw.stat_replication WHERE standby IS NOT NULL}),
	'node1 streaming t node2 streaming t', 'the view of standbys');
is($c->safe_psql('SELECT count(*), count(standby) FROM shardfdw.stat_replication WHERE node IS NULL'), '0|0', 'a server without standbys has no row');

# ---- a standby of a standby, and one that has crashed --------------------------------------------

# messages from a server that is cut off from its primary do not make its rows newer
($old) = map { $_->[0] } grep { $_->[1] == 1 } $c->shards_of('t');
$key = $c->safe_psql("SELECT min(id) FROM t WHERE shardfdw.shard_for('t', id) = '$old'::regclass");
my $below = ShardServer->standby_of('below', $standbys[0]);
sub list_standby
{
	my ($server) = @_;
	$c->safe_psql(sprintf q{ALTER SERVER node1 OPTIONS (SET standbys '%s:%d')}, $server->host, $server->port);
	return;
}
list_standby($below);
is(at_zero("SELECT v FROM t WHERE id = $key"), '2020', 'a standby of a standby is read');
my $upstream = $standbys[0]->safe_psql('postgres', 'SHOW primary_conninfo');
$standbys[0]->safe_psql('postgres', $_) for q{ALTER SYSTEM SET primary_conninfo = 'host=127.0.0.1 port=1'}, 'SELECT pg_reload_conf()';
$standbys[0]->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_wal_receiver') or die 'it is not cut off';
$c->safe_psql('UPDATE t SET v = 2030');
($code, $out, $error) = $c->psql("SET shardfdw.read_from = 'standby'; SET shardfdw.max_standby_lag = 0; SELECT v FROM t WHERE id = $key");
like($error, qr/no standby of node "node1" can be read.*Its data may be \d+ ms old/s, 'when that is cut off it is not up to date');
$standbys[0]->safe_psql('postgres', $_) for "ALTER SYSTEM SET primary_conninfo = '" . $upstream =~ s/'/''/gr . "'", 'SELECT pg_reload_conf()';
is(at_zero("SELECT v FROM t WHERE id = $key"), '2030', 'until it has caught up');

# a cursor reads its remaining rows from the same server as the others
$c->safe_psql(q{CREATE TABLE wide (id int, v int); SELECT shardfdw.shard_table('wide', 'id', shards => 8, nodes => '{node1}', colocate_with => NULL); INSERT INTO wide SELECT i, 1 FROM generate_series(1, 100) i});
caught_up();
$s = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$s->query_safe(q{SET shardfdw.read_from = 'standby'; SET shardfdw.query_per_node = off; SET shardfdw.enable_copy_fetch = off; SET shardfdw.max_connections_per_node = 1;
	BEGIN; DECLARE c CURSOR FOR SELECT v FROM wide; FETCH 1 c});
$c->safe_psql('UPDATE wide SET v = 2');
list_standby($standbys[0]);
caught_up();
is($s->query('SELECT min(v) FROM wide'), '2', 'another standby is read') || diag $s->{stderr};
is($s->query('FETCH ALL c'), '', 'but not by a cursor that has begun');
like($s->{stderr}, qr/connections to node "node1.*" go to different servers/, 'whose snapshot is on the other one');
$s->quit;
list_standby($below);

# a statement reads a node as of one moment, also by way of another role's view
$c->safe_psql(sprintf q{ALTER SERVER node1 OPTIONS (SET standbys '%s:%d,%s:%d'); CREATE ROLE viewer LOGIN; GRANT SELECT ON t TO viewer; CREATE VIEW of_viewer AS SELECT * FROM t; ALTER VIEW of_viewer OWNER TO viewer},
	map { ($_->host, $_->port) } $standbys[0], $below);
$c->safe_psql("CREATE USER MAPPING FOR viewer SERVER node$_ OPTIONS (user 'reader', password_required 'false')") for 1, 2;
caught_up();
$below->poll_query_until('postgres', qq{SELECT min(v) = 2030 FROM $old}) or die 'it does not catch up';
$below->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
$c->safe_psql('UPDATE t SET v = 2031');
$s = $c->coordinator->background_psql('postgres', on_error_stop => 0);
my %pairs;
for my $i (1 .. 8)
{
	# each role finds out separately which server is read
	$s->query_safe(($i % 2 ? '' : 'SET ROLE viewer; ') . "SET shardfdw.read_from = 'standby'; SET shardfdw.max_standby_lag = 0");
	for (1 .. 20)
	{
		last if $s->query("SELECT min(v) FROM t WHERE id = $key") ne '';
		$s->{stderr} = '';
	}
	$s->query_safe('RESET ROLE; RESET shardfdw.max_standby_lag');
	$pairs{ $s->query_safe("SELECT a.v = b.v FROM t a, of_viewer b WHERE a.id = $key AND b.id = a.id") } = 1;
}
is(join(' ', keys %pairs), 't', 'from one standby');
$s->quit;
$below->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
$c->safe_psql('UPDATE t SET v = 2030');
list_standby($below);
at_zero('SELECT min(v) FROM t');

# a crashed standby begins again at an earlier position; its former position is not used any more
$s = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$c->safe_psql(q{CREATE TABLE large (id int, note text); SELECT shardfdw.shard_table('large', 'id', shards => 1, nodes => '{node1}', colocate_with => NULL);
	INSERT INTO large SELECT i, repeat('x', 1000) FROM generate_series(1, 20000) i});
$c->node_safe_psql(1, 'CHECKPOINT');
caught_up();
$below->safe_psql('postgres', 'CHECKPOINT');
$s->query_safe("SET shardfdw.read_from = 'standby'; SET shardfdw.max_standby_lag = -1; UPDATE t SET v = 2031 WHERE id = $key");
is($s->query("SELECT v FROM t WHERE id = $key; BEGIN; DECLARE c CURSOR FOR SELECT * FROM large; MOVE 10 c"), '2031', 'a standby is read, and a cursor goes on') || diag $s->{stderr};
$below->append_conf('postgresql.conf', 'recovery_min_apply_delay = 1h');
$c->kill9_server($below);
$below->start;
is($below->safe_psql('postgres', qq{SELECT v FROM $old WHERE id = $key}), '2030', 'the standby is further back after a crash');
is($s->query("SELECT v FROM t WHERE id = $key"), '', 'and is not read');
# a session that has connected to it again has the statement run again, and finds out why
$s->query("ROLLBACK; SELECT v FROM t WHERE id = $key")
  if $s->{stderr} =~ s/.*is not as far as it was a moment ago.*Run the statement again\.//s;
like($s->{stderr}, qr/no standby of node "node1" can be read.*It has not replayed what this session has committed/s, 'since it has not what this session has committed');
$s->quit;
$below->stop('immediate');

# ---- servers that are no standbys of the node ----------------------------------------------------

for my $case (
	[ sprintf('%s:%d', $c->node(1)->host, $c->node(1)->port), qr/is not in hot standby mode/, 'a primary' ],
	[ sprintf('%s:%d', $standbys[1]->host, $standbys[1]->port), qr/It is a standby of another server/, q{another node's standby} ],
	[ '127.0.0.1:1', qr/Connection refused/, 'nobody' ])
{
	$c->safe_psql("BEGIN; ALTER SERVER node1 OPTIONS (SET standbys '$case->[0]'); COMMIT");
	($code, $out, $error) = $c->psql("UPDATE t SET v = v WHERE id <= 20; SET shardfdw.read_from = 'standby'; SELECT count(*) FROM t");
	like($error, $case->[1], "$case->[2] in the place of a standby is an error");
}
$c->safe_psql(sprintf q{ALTER SERVER node1 OPTIONS (SET standbys '127.0.0.1:1,%s:%d')}, $standbys[0]->host, $standbys[0]->port);
is($c->safe_psql("SET shardfdw.read_from = 'standby'; SELECT count(*) FROM t") , '100', 'of several standbys one is enough');

# ---- a primary that is lost ----------------------------------------------------------------------

my @sessions = map { $c->coordinator->background_psql('postgres', on_error_stop => 0) } 1 .. 3;
$_->query_safe("SET shardfdw.read_from = 'any'") for @sessions;
$sessions[0]->query_safe("UPDATE t SET v = 3000");    # over both nodes
is($sessions[1]->query_safe('SELECT DISTINCT v FROM t'), '3000', 'primaries are read');
$sessions[1]->query_safe("UPDATE t SET v = 3001 WHERE id = 1");
caught_up();
# a primary that hangs, with an active and an idle connection to it: its position is queried again
# after five seconds
is($sessions[2]->query('SET shardfdw.query_per_node = off; SELECT count(*) FROM t; RESET shardfdw.query_per_node'), '100', 'several connections');
sleep 6;
$c->sigstop_node(1);
is($sessions[2]->query('SELECT count(*) FROM t'), '100', 'when a primary hangs a standby is read') || diag $sessions[2]->{stderr};
$c->sigcont_node(1);
$sessions[2]->{stderr} = '';
caught_up();
my $log = $c->log_position;
$c->kill9_node(1);

# the first or the second statement after the loss gets its rows
for my $i (0 .. 1)
{
	my $errors = 0;
	my $answer = '';
	for (1 .. 2)
	{
		$answer = $sessions[$i]->query('SELECT count(*), min(v) FROM t');
		last if $answer ne '';
		$errors++;
	}
	is($answer, '100|3000', "session $i goes on reading");
	cmp_ok($errors, '<=', 1, 'with one error at most');
	$sessions[$i]->{stderr} = '';
}
is($sessions[1]->query('SELECT v FROM t WHERE id = 1'), '3001', 'and sees its own writes');
like($c->log_since($log), qr/LOG:  could not read the primary of node "node1"/, 'the log says so');
is($c->safe_psql("SET shardfdw.read_from = 'any'; SELECT count(*), min(v) FROM t"), '100|3000', 'a new session reads, too');
$sessions[2]->query('UPDATE t SET v = 3002');
like($sessions[2]->{stderr}, qr/could not connect to node "node1"/, 'writes fail');
$sessions[2]->{stderr} = '';

# Nothing may be read that may be older than the bound: the standby's distance from the primary is
# unknown.
$standbys[0]->poll_query_until('postgres', q{SELECT clock_timestamp() - pg_last_xact_replay_timestamp() > interval '1 s'}) or die 'it has something new';
$s = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$s->query_safe(q{SET shardfdw.read_from = 'any'; SET shardfdw.max_standby_lag = '1s'});
$s->query('SELECT count(*) FROM t');
like($s->{stderr}, qr/neither the primary nor a standby of node "node1" can be read.*DETAIL:  Primary: .*Standby \d: Its data may be \d{4,} ms old, and shardfdw.max_standby_lag is 1000 ms/s, 'what may be older than the bound is not read');
$s->{stderr} = '';

# ---- after the promotion -------------------------------------------------------------------------

$standbys[0]->promote;
is($sessions[2]->query('UPDATE t SET v = 3003; SELECT count(*), min(v) FROM t'), '100|3003', 'writes go on after the promotion') || diag $sessions[2]->{stderr};
is($s->query('SELECT count(*), min(v) FROM t'), '100|3003', 'and reads go to the new primary') || diag $s->{stderr};
is($sessions[0]->query('SELECT count(*), min(v) FROM t'), '100|3003', 'of all sessions') || diag $sessions[0]->{stderr};
$_->quit for @sessions, $s;

done_testing();
