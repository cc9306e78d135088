# Merges sorted streams: many shards and few connections, limits, and failures and timeouts during
# the merge.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = ShardCluster->new(nodes => 2);

$c->safe_psql(q{CREATE TABLE t (id int, v int, pad text); CREATE TABLE t_plain (LIKE t)});
$c->shard_table('t', 'id', shards => 64);
$c->safe_psql(q{INSERT INTO t_plain SELECT g, g * 7919 % 10007, repeat('x', 100) FROM generate_series(1, 40000) g;
	INSERT INTO t SELECT * FROM t_plain; ANALYZE t; ANALYZE t_plain});

# 32 shards on each node, one connection, and then other scans that need it too.
for my $connections (1, 2, 5)
{
	my @settings = ("shardfdw.max_connections_per_node = $connections", "work_mem = '64kB'");
	$c->compare('SELECT id, v FROM {t} ORDER BY v, id', settings => \@settings, ordered => 1, name => "all rows, $connections connections");
	$c->compare('SELECT a.v, b.id FROM (SELECT * FROM {t} ORDER BY v, id LIMIT 3000) a JOIN (SELECT * FROM {t} ORDER BY id DESC LIMIT 30000) b USING (id) ORDER BY 1, 2',
		settings => [ @settings, 'enable_hashjoin = off', 'enable_nestloop = off' ], ordered => 1, name => "two merges, $connections connections");
}
# Two cursors that take turns have to buffer rows for each other.
my $cursors = $c->safe_psql(q{
	SET shardfdw.max_connections_per_node = 1;
	SET work_mem = '64kB';
	BEGIN;
	DECLARE x CURSOR FOR SELECT id, pad FROM t ORDER BY id;
	DECLARE y CURSOR FOR SELECT id, pad FROM t ORDER BY id DESC;
	DO $$
	DECLARE x refcursor = 'x'; y refcursor = 'y'; a record; b record; n int = 0; wrong int = 0;
	BEGIN
		LOOP
			FETCH x INTO a;
			FETCH y INTO b;
			EXIT WHEN a.id IS NULL;
			n := n + 1;
			IF a.id <> n OR b.id <> 40001 - n THEN wrong := wrong + 1; END IF;
		END LOOP;
		RAISE EXCEPTION 'n % wrong %', n, wrong;
	EXCEPTION WHEN raise_exception THEN
		PERFORM set_config('test.result', SQLERRM, false);
	END $$;
	SELECT current_setting('test.result');
	ROLLBACK});
is($cursors, 'n 40000 wrong 0', 'two cursors in opposite orders over one connection');

# A client that wants no more rows soon ends the nodes' queries.
$c->safe_psql(q{SET shardfdw.max_connections_per_node = 4; BEGIN; DECLARE x CURSOR FOR SELECT * FROM t ORDER BY v; FETCH 5 FROM x; CLOSE x; COMMIT});
for my $i (1, 2)
{
	$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() AND query LIKE '%public.t%'", $i);
}
pass('nodes are idle after an early end');

# One shard is a view that sleeps: the first row cannot be known, and the wait ends with the timeout (R2).
my ($shard, $node) = @{ ($c->shards_of('t'))[-1] };
$c->node_safe_psql($node, "ALTER TABLE $shard RENAME TO real_rows; CREATE VIEW $shard AS SELECT r.* FROM real_rows r, pg_sleep(600)");
for my $connections (1, 8)
{
	my $start = time;
	my ($rc, $out, $err) = $c->psql(
		"SET shardfdw.max_connections_per_node = $connections; SET statement_timeout = '500ms'; SELECT id FROM t ORDER BY v LIMIT 3;\n"
		  . 'SET statement_timeout = 0; SELECT id FROM t WHERE id = 5 ORDER BY v', on_error_stop => 0);
	like($err, qr/canceling statement due to statement timeout/, "$connections connections: timed out");
	cmp_ok(time - $start, '<', 8, "$connections connections: soon");
	like($out, qr/^5$/m, "$connections connections: the session goes on");
}
$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'", $node);
pass('the node was told to stop');

# The view sleeps after its first rows, and then the node crashes: 58000; the rows before the crash
# may be returned or not.
$c->node_safe_psql($node, "CREATE OR REPLACE VIEW $shard AS SELECT id, CASE WHEN v >= 5000 THEN v + length(pg_sleep(600)::text) ELSE v END AS v, pad FROM real_rows");
for my $connections (1, 8)
{
	my $session = $c->start_sql("\\set VERBOSITY verbose\nSET shardfdw.max_connections_per_node = $connections; SELECT id FROM t ORDER BY id;");
	$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'", $node);
	$c->kill9_node($node);
	my ($status, $out, $err) = $c->wait_sql($session);
	isnt($status, 0, "a node is killed in mid-merge, $connections connections: an error");
	like($err, qr/ERROR:  58000/, 'its SQLSTATE');
	like($err, qr/node$node/, 'it names the node');
	$c->start_node($node);
}
$c->node_safe_psql($node, "DROP VIEW $shard; ALTER TABLE real_rows RENAME TO ${\($shard =~ s/.*\.//r)}");
$c->compare('SELECT id, v FROM {t} ORDER BY v DESC, id', ordered => 1, name => 'all is well afterwards');

done_testing();
