# Reads shardfdw.stat_load in the session of the load and in others, while a node does not answer.
# The view must show the right values, and only to users who may see them. Also tests loads that
# fail, are cancelled or killed, and loads inside loads.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $c = ShardCluster->new(nodes => 2);
my $dir = PostgreSQL::Test::Utils::tempdir();
my $rows = 200_000;

# hold() returns when file "go" exists.
$c->safe_psql(qq{
	CREATE TABLE t (a int, b text);
	CREATE TABLE inner_t (a int);
	CREATE FUNCTION hold() RETURNS text LANGUAGE plpgsql AS
		\$\$BEGIN WHILE pg_stat_file('$dir/go', true) IS NULL LOOP PERFORM pg_sleep(0.02); END LOOP; RETURN 'x'; END\$\$;
	CREATE ROLE nobody LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_read_all_stats;
	CREATE DATABASE other});
$c->shard_table($_, 'a', shards => 4) for qw(t inner_t);
$c->coordinator->safe_psql('other', 'CREATE EXTENSION shardfdw');
$c->safe_psql('GRANT pg_read_all_stats TO nobody; REVOKE pg_read_all_stats FROM nobody');

sub go { PostgreSQL::Test::Utils::append_to_file("$dir/go", ''); return; }
sub no_go { unlink "$dir/go"; return; }

# Checks that the view has no rows of ended loads.
sub nothing_in_progress
{
	my ($name) = @_;
	$c->wait_for('SELECT count(*) = 0 FROM shardfdw.stat_load');
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($c->safe_psql('SELECT count(*) FROM shardfdw.stat_load'), '0', $name);
}

# Watches a load that waits after its first rows, and then waits for a node that hangs.
sub watch_load
{
	my ($mode, $reason, $load) = @_;
	my $sum = 'sum(rows_sent) = ' . $rows . ', bool_and(ended_at > started_at), max(bytes_buffered), count(*), count(DISTINCT shard), count(DISTINCT pid), min(relation::text), min(method), min(reason)';

	no_go();
	my $handle = $c->start_sql("SET shardfdw.copy_buffer_size = '1MB'; $load; SELECT $sum FROM shardfdw.stat_load");
	$c->wait_for("SELECT count(*) = 4 AND sum(rows_sent + bytes_buffered) > 0 FROM shardfdw.stat_load WHERE relation = 't'::regclass AND ended_at IS NULL");
	is($c->safe_psql("SELECT DISTINCT l.method, l.reason, l.started_at BETWEEN a.query_start - interval '1 s' AND now(), l.ended_at FROM shardfdw.stat_load l
			JOIN pg_stat_activity a USING (pid) WHERE a.application_name = '$handle->{name}'"),
		"$mode|$reason|t|", "$mode: is seen from another session");
	is($c->safe_psql("SELECT count(*) FROM shardfdw.stat_load l JOIN pg_foreign_table f ON f.ftrelid = l.shard::regclass
			JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE s.srvname = l.node"), '4', "$mode: shards and nodes");

	# The rights are those of pg_stat_progress_copy.
	my $hidden = 'SELECT count(*), count(pid), count(relation), count(method), count(started_at), count(shard), count(rows_sent) FROM shardfdw.stat_load';
	is($c->safe_psql("SET ROLE nobody; $hidden"), '1|1|0|0|0|0|0', "$mode: another role sees the process only");
	is($c->safe_psql("SET ROLE watcher; $hidden"), '4|4|4|4|4|4|4', "$mode: pg_read_all_stats sees all");
	is($c->coordinator->safe_psql('other', $hidden), '0|0|0|0|0|0|0', "$mode: another database does not");

	# Node 2 accepts no more rows: they are buffered up to the limit, and then the load stops.
	$c->sigstop_node(2);
	go();
	$c->wait_for("SELECT coalesce(sum(bytes_buffered) > 0 AND max(stalled) > interval '0.5 s', false) FROM shardfdw.stat_load WHERE node = 'node2'");
	is($c->safe_psql("SELECT sum(bytes_buffered) < 8000000, sum(rows_sent) < $rows FROM shardfdw.stat_load"), 't|t', "$mode: what waits is bounded");
	my $seen = $c->safe_psql("SELECT max(stalled) FROM shardfdw.stat_load WHERE node = 'node2'");
	$c->wait_for("SELECT max(stalled) > interval '$seen' FROM shardfdw.stat_load WHERE node = 'node2'");
	is($c->safe_psql("SELECT bool_and(stalled >= '0' AND stalled < now() - started_at + interval '1 s') FROM shardfdw.stat_load"), 't',
		"$mode: the time stalled grows while it waits, and is no longer than the load");
	$c->sigcont_node(2);

	my ($rc, $out, $err) = $c->wait_sql($handle);
	is($rc, 0, "$mode: the load ends well") or diag($err);
	is($out, "t|t|0|4|4|1|t|$mode|$reason", "$mode: the session sees its last load");
	nothing_in_progress("$mode: others do not");
	is($c->safe_psql('SELECT count(*) FROM t'), $rows, "$mode: all rows are there");
	$c->safe_psql('TRUNCATE t');
	return;
}

my $pad = 'x' x 300;
my $program = "seq -f '%.0f,$pad' 1 5000; while [ ! -e $dir/go ]; do sleep 0.05; done; seq -f '%.0f,$pad' 5001 $rows";
(my $quoted = $program) =~ s/'/''/g;

watch_load('insert', '', "INSERT INTO t SELECT g, CASE WHEN g = 5000 THEN hold() ELSE '$pad' END FROM generate_series(1, $rows) g");
watch_load('raw', '', "COPY t FROM PROGRAM '$quoted' (FORMAT csv)");
watch_load('parsed', 'there is a WHERE clause', "COPY t FROM PROGRAM '$quoted' (FORMAT csv) WHERE a > 0");

# ---------- loads that are interrupted ----------

my $watched = "SELECT count(*) > 0 FROM shardfdw.stat_load WHERE relation = 't'::regclass AND ended_at IS NULL";
my $held = "INSERT INTO t SELECT g, CASE WHEN g = 5000 THEN hold() ELSE 'x' END FROM generate_series(1, 10000) g";

no_go();
my $handle = $c->start_sql($held);
$c->wait_for($watched);
$c->safe_psql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = '$handle->{name}'");
my ($rc, $out, $err) = $c->wait_sql($handle);
like($err, qr/canceling statement/, 'cancelled');
nothing_in_progress('nothing is left of a load that was cancelled');

$handle = $c->start_sql($held);
$c->wait_for($watched);
$c->safe_psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '$handle->{name}'");
$c->wait_sql($handle);
nothing_in_progress('nor of one whose session was ended');
go();

is($c->safe_psql(q{
	INSERT INTO t SELECT g, 'x' FROM generate_series(1, 3000) g;
	\set ON_ERROR_STOP 0
	\o /dev/null
	INSERT INTO t SELECT CASE WHEN g < 3000 THEN g ELSE g / 0 END, 'x' FROM generate_series(1, 3000) g;
	\o
	SELECT count(*) FROM shardfdw.stat_load}, on_error_stop => 0), '0', 'a load that failed is not the last that finished');
is($c->safe_psql(q{
	BEGIN; SAVEPOINT s;
	INSERT INTO t SELECT g, 'x' FROM generate_series(1, 3000) g;
	ROLLBACK TO s;
	INSERT INTO t SELECT g, 'x' FROM generate_series(1, 2000) g;
	SELECT sum(rows_sent) FROM shardfdw.stat_load;
	COMMIT}), '2000', 'a load after one that was rolled back');

is($c->safe_psql(q{
	DO $$BEGIN
		INSERT INTO t SELECT CASE WHEN g < 3000 THEN g ELSE g / 0 END, 'x' FROM generate_series(1, 3000) g;
	EXCEPTION WHEN division_by_zero THEN
		INSERT INTO t SELECT g, 'x' FROM generate_series(1, 1700) g;
	END$$;
	SELECT sum(rows_sent), min(method) FROM shardfdw.stat_load}), '1700|insert', 'nor is one whose error was caught');

# Seen from outside while the transaction of the load that failed is still open.
no_go();
$handle = $c->start_sql(qq{
	\\set ON_ERROR_STOP 0
	BEGIN;
	COPY t FROM PROGRAM 'seq -f %.0f,$pad 1 5000; while [ ! -e $dir/go ]; do sleep 0.05; done; echo x' (FORMAT csv);
	\\! while [ -e $dir/go ]; do sleep 0.05; done
	ROLLBACK;
	SELECT count(*) FROM shardfdw.stat_load});
$c->wait_for($watched);
go();
$c->wait_for("SELECT state = 'idle in transaction (aborted)' FROM pg_stat_activity WHERE application_name = '$handle->{name}'");
is($c->safe_psql('SELECT count(*) FROM shardfdw.stat_load'), '0', 'a COPY that failed is gone before its transaction is');
no_go();
($rc, $out, $err) = $c->wait_sql($handle);
is($out, '0', 'for its session, too') or diag($err);
go();

# ---------- rows set aside: by the coordinator, and by nodes ----------

$c->safe_psql('CREATE TABLE u (a int PRIMARY KEY, b int CHECK (b < 5)); INSERT INTO u SELECT g, 0 FROM generate_series(1, 10) g');
$c->shard_table('u', 'a', shards => 4);
PostgreSQL::Test::Utils::append_to_file("$dir/bad.csv", join '', map { "$_\n" } 'x,1', (map { "$_,1" } 6 .. 3000), '4001,7', 'z,1', '4002,8');
my $set_aside = 'SELECT min(method), sum(rejected) FILTER (WHERE shard IS NULL), sum(rejected) FILTER (WHERE shard IS NOT NULL), sum(duplicates), sum(replaced) FROM shardfdw.stat_load';
is($c->safe_psql("COPY u FROM '$dir/bad.csv' (FORMAT csv, ON_ERROR ignore, ON_DUPLICATE keep_old, LOG_VERBOSITY silent); $set_aside"), 'raw|2|2|5|0', 'rejected rows and duplicates');
$c->safe_psql('DELETE FROM u WHERE a > 10');
is($c->safe_psql("COPY u FROM '$dir/bad.csv' (FORMAT csv, ON_ERROR ignore, ON_DUPLICATE keep_new, LOG_VERBOSITY silent); $set_aside"), 'raw|2|2|0|5', 'replaced rows');
$c->safe_psql('DELETE FROM u WHERE a > 10');
is($c->safe_psql("COPY u FROM '$dir/bad.csv' (FORMAT csv, ON_ERROR ignore, ON_DUPLICATE keep_new, LOG_VERBOSITY silent) WHERE a <> 8; $set_aside"), 'parsed|2|2|0|4', 'and in parsed mode');

# ---------- loads inside loads ----------

$c->safe_psql(q{CREATE FUNCTION load_inner(x int) RETURNS text LANGUAGE plpgsql AS
	$$BEGIN INSERT INTO inner_t SELECT g FROM generate_series(1, 2000) g; RETURN 'x'; END$$});
is($c->safe_psql(q{
	INSERT INTO t SELECT g, CASE WHEN g = 1500 THEN load_inner(g) ELSE 'x' END FROM generate_series(1, 3000) g;
	SELECT min(relation::text), max(relation::text), sum(rows_sent) FROM shardfdw.stat_load}), 't|t|3000', 'a load inside a load is not shown');
is($c->safe_psql('SELECT count(*) FROM inner_t'), '2000', 'but loads');

# ---------- many shards ----------

$c->safe_psql('CREATE TABLE wide (a int)');
$c->shard_table('wide', 'a', shards => 150);
no_go();
$handle = $c->start_sql("SELECT count(*) FROM shardfdw.stat_load; INSERT INTO t SELECT g, 'x' FROM generate_series(1, 3000) g;
	INSERT INTO wide SELECT CASE WHEN g = 5000 THEN length(hold()) ELSE g END FROM generate_series(1, 8000) g; SELECT count(*), sum(rows_sent) FROM shardfdw.stat_load");
$c->wait_for("SELECT count(*) = 150 AND count(DISTINCT shard) = 150 AND sum(bytes_buffered + rows_sent) > 0 FROM shardfdw.stat_load WHERE relation = 'wide'::regclass");
pass('a load into more shards than the one before');
go();
($rc, $out, $err) = $c->wait_sql($handle);
is($out, "0\n150|8000", 'and at its end') or diag($err);

# ---------- settings ----------

no_go();
$handle = $c->start_sql("SET track_activities = off; $held; SELECT sum(rows_sent) FROM shardfdw.stat_load");
$c->wait_for("SELECT count(*) > 0 FROM pg_locks WHERE relation = 't'::regclass AND mode = 'RowExclusiveLock'");
is($c->safe_psql('SELECT count(*) FROM shardfdw.stat_load'), '0', 'without track_activities others see nothing');
go();
($rc, $out, $err) = $c->wait_sql($handle);
is($out, '10000', 'but the session itself does') or diag($err);

done_testing();
