# A statement that writes, and calls functions that are not VOLATILE, takes its snapshot of a node
# before it writes there. These functions read by that snapshot. During the statement, a shard
# may get another place. The functions must read all rows of its table, or fail (40001). The same holds for a
# transaction at REPEATABLE READ.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use WireClient;

my $c = ShardCluster->new(nodes => 4,
	node_conf => "wal_level = logical\nmax_wal_senders = 10\n");
my $holder = $c->coordinator->background_psql('postgres');

# w_NN are not on node1, from which shards move, because jobs wait for writers there. The functions
# wait, so that the snapshots are older than what they read.
$c->safe_psql(q{CREATE TABLE w (id int PRIMARY KEY, v text);
	SELECT shardfdw.shard_table('w', shards => 3, nodes => '{node2,node3,node4}');
	CREATE FUNCTION counted() RETURNS text LANGUAGE plpgsql STABLE AS
		$$BEGIN PERFORM pg_advisory_lock_shared(1);
		RETURN format('%s %s', (SELECT count(*) FROM t), (SELECT v FROM t WHERE id = 5)); END$$;
	CREATE FUNCTION joined() RETURNS text LANGUAGE plpgsql STABLE AS
		$$BEGIN PERFORM pg_advisory_lock_shared(1);
		RETURN (SELECT count(*) FROM t JOIN r USING (id)); END$$});

# Runs statements that have begun before $change and read after it.
sub compare
{
	my ($change, $expected, %opt) = @_;
	my $function = $opt{function} // 'counted';
	my $name = ref $change ? $opt{name} : $change;
	$c->safe_psql(q{SET client_min_messages = warning; TRUNCATE w; DROP TABLE IF EXISTS t, r;
		CREATE TABLE t (id int PRIMARY KEY, v int);
		INSERT INTO t SELECT i, i FROM generate_series(1, 100) i; } . ($opt{make} // ''));
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	my $insert = 'INSERT INTO w SELECT i, 0 FROM generate_series(1, 100) i RETURNING id';
	my @statements = ("WITH i AS ($insert)
		SELECT $function() FROM (SELECT count(*) FROM i OFFSET 0) n");
	push @statements, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) > 1000 FROM w;
		SELECT $function(); COMMIT", "SELECT $function()";
	my @running = map { $c->start_sql("\\set VERBOSITY verbose\n$_", name => 'old') } @statements;
	$c->wait_for(sprintf q{SELECT count(*) = %d FROM pg_stat_activity
		WHERE application_name = 'old' AND wait_event = 'advisory'}, scalar @statements);
	$change->() if ref $change;
	my $job = ref $change ? '' : $c->safe_psql("SET client_min_messages = warning; SELECT $change");
	$c->wait_for("SELECT stage = 'dropping' OR state = 'done' FROM shardfdw.jobs WHERE id = $job")
	  if $job ne '';
	$holder->query_safe('SELECT pg_advisory_unlock(1)');
	my @results = map { [ $c->wait_sql($_) ] } @running;
	my $alone = $opt{alone} // $expected;
	my @got = map { $_->[2] =~ /ERROR:  (\w{5})/ ? $1 : $_->[1] =~ s/^f\n//r } @results;
	is($got[0], $expected, "$name: a statement that has written");
	is($got[1], '40001', "$name: REPEATABLE READ");
	is($got[2], $alone, "$name: a statement that only reads");
	is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'the job ends') if $job ne '';
	is($c->safe_psql("SELECT $function()"), $opt{all} // '100 5', "$name: afterwards");
}

# The shard of key 5 moves from node1.
my $one = q{SELECT shardfdw.shard_table('t', shards => 1, nodes => '{node1}');};
compare("shardfdw.move_shard('t_00', 'node2', mode => '$_', wait => false)", '100 5',
	make => $one) for qw(online block);
compare("shardfdw.split_shard('t_00', 2, wait => false)", '40001', make => $one,
	alone => '100 5');

# The process of a move is killed while it waits for these statements. Recovery must wait, too. Only
# then can the shard move back, and an old snapshot shows no row of the table that it gets there.
my $killed;
my $old_table = q{SELECT count(*) FROM pg_class WHERE relname = 't_00'};
compare(sub {
	$killed = $c->safe_psql(q{SELECT shardfdw.move_shard('t_00', 'node2', wait => false)});
	$c->wait_for("SELECT waits_for LIKE 'transactions on the coordinator%' FROM shardfdw.jobs
		WHERE id = $killed");
	$c->safe_psql("SELECT pg_terminate_backend(pid, 60000) FROM shardfdw.jobs WHERE id = $killed");
	is($c->safe_psql('SELECT node, action FROM shardfdw.recover_prepared_transactions()
		WHERE action ~ $$^not removed$$'), "node1|not removed: what job $killed has left: " .
		'transactions that began before the switch may read the old tables', 'recovery waits');
	is($c->node_safe_psql(1, $old_table), '1', 'the old table is there');
	$c->psql_fails_like($_, qr/55000: names of the shard cannot be changed before it is recovered from job $killed\b/, $_)
	  for 'ALTER FOREIGN TABLE t_00 RENAME TO x_00', 'ALTER FOREIGN TABLE t_00 SET SCHEMA pg_catalog',
	  'ALTER TABLE t RENAME v TO w';
	$c->psql_fails_like(q{SELECT shardfdw.move_shard('t_00', 'node1')},
		qr/42P07: .*exists on node "node1" already.*An earlier job has left it/s, 'the shard does not move back');
}, '100 5', name => 'a killed process', make => $one);
$c->wait_for(q{SELECT count(*) FILTER (WHERE action ~ '^not removed') = 0
	FROM shardfdw.recover_prepared_transactions()});
is($c->node_safe_psql(1, $old_table), '0', 'recovery drops the old table afterwards');
$c->safe_psql('ALTER FOREIGN TABLE t_00 RENAME TO x_00; ALTER FOREIGN TABLE x_00 RENAME TO t_00');
$c->safe_psql(q{SELECT shardfdw.move_shard('t_00', 'node1')});
is($c->safe_psql('SELECT count(*) FROM t'), '100', 'and the shard moves back');

# Even if no process has waited for these statements, none of them reads the new table by an old
# snapshot: the leftovers of a killed process are dropped by hand. The last statement has read node1 before the
# shard moves, and reads the shard afterwards.
my ($late, $back);
my $without_waiting = sub {
	my $job = $c->safe_psql(q{SELECT shardfdw.move_shard('t_00', 'node2', wait => false)});
	$c->wait_for("SELECT waits_for LIKE 'transactions on the coordinator%' FROM shardfdw.jobs
		WHERE id = $job");
	$c->safe_psql("SELECT pg_terminate_backend(pid, 60000) FROM shardfdw.jobs WHERE id = $job");
	my $own = $c->safe_psql(q{SELECT identity FROM shardfdw_internal.coordinator_identity()});
	my $schema = qr/shardfdw_${own}_${job}_\w+/;
	my ($name) = $c->node_safe_psql(1, 'SELECT nspname FROM pg_namespace') =~ /($schema)/;
	$c->node_safe_psql(1, "SET client_min_messages = warning; DROP TABLE t_00;
		DROP PUBLICATION $name; DROP SCHEMA $name CASCADE");
	$back = $c->safe_psql(q{SELECT shardfdw.move_shard('t_00', 'node1', mode => 'block',
		wait => false)});
	$c->wait_for(q{SELECT node = 'node1' FROM shardfdw.shards WHERE shard = 't_00'::regclass});
};
my $read_before = q{CREATE TABLE r (id bigint PRIMARY KEY);
	INSERT INTO r SELECT generate_series(1, 100);
	SELECT shardfdw.shard_table('r', shards => 1, nodes => '{node1}');};
compare(sub {
	$late = $c->start_sql("\\set VERBOSITY verbose
		SELECT count(*) FROM t WHERE (SELECT count(*) FROM r
			WHERE id < 9 AND pg_advisory_lock_shared(1) IS NULL) = 0", name => 'late');
	$c->wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE application_name = 'late' AND wait_event = 'advisory'});
	$without_waiting->();
}, '40001', name => 'no process waits', make => $one . $read_before, alone => '100 5');
like(($c->wait_sql($late))[2], qr/ERROR:  40001/, 'a scan that begins late, READ COMMITTED');
# The job drops the old table after these statements. Until then, the table cannot be dropped.
is($c->safe_psql("SELECT shardfdw.wait_job($back)"), 'done', 'the job back ends');

# A job does not wait for a transaction that imports an older snapshot while the job waits.
my ($exporter, $importer) = map { WireClient->new($c->coordinator, 'postgres') } 1, 2;
my $repeatable = 'BEGIN ISOLATION LEVEL REPEATABLE READ';
$c->safe_psql("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY); $one
	INSERT INTO t SELECT generate_series(1, 100)");
my $snapshot = $exporter->query("$repeatable; SELECT pg_export_snapshot()")->{rows}[0][0];
my $away = $c->safe_psql(q{SELECT shardfdw.move_shard('t_00', 'node2', wait => false)});
$c->wait_for("SELECT waits_for LIKE 'transactions on the coordinator%' FROM shardfdw.jobs
	WHERE id = $away");
$importer->query("$repeatable; SET TRANSACTION SNAPSHOT '$snapshot'; SELECT count(*) FROM r");
$exporter->query('COMMIT');
$c->safe_psql("SELECT shardfdw.wait_job($away)");
$back = $c->safe_psql(q{SELECT shardfdw.move_shard('t_00', 'node1', wait => false)});
$c->wait_for(q{SELECT node = 'node1' FROM shardfdw.shards WHERE shard = 't_00'::regclass});
is($importer->query('SELECT count(*) FROM t')->{error}{C}, '40001', 'an imported snapshot');
$importer->query('ROLLBACK');
is($importer->query('SELECT count(*) FROM t')->{rows}[0][0], '100', 'and afterwards');
is($c->safe_psql("SELECT shardfdw.wait_job($back)"), 'done', 'the job back ends');

# A replica that is dropped and made again is another table on the same node.
my $two = q{SELECT shardfdw.shard_table('t', shards => 1, nodes => '{node2,node1}',
	replication_factor => 2);};
compare(sub {
	for my $step ([ 2, 3 ], [ 1, 2 ], [ 3, 1 ])
	{
		my ($from, $to) = @$step;
		$c->safe_psql("SELECT shardfdw.move_replica('t_00', 'node$from', 'node$to')");
	}
	is($c->safe_psql(q{SELECT string_agg(node || ' ' || role, ', ' ORDER BY role)
		FROM shardfdw.compare_replicas('t')}), 'node2 primary, node1 replica',
		'the shard is where it was');
}, '40001', name => 'move_replica', make => $two, alone => '100 5');

# Conversions copy all rows.
my $reference = q{SELECT shardfdw.create_reference_table('t');};
my $third = q{CREATE TABLE r (id int PRIMARY KEY); INSERT INTO r SELECT generate_series(1, 100);
	SELECT shardfdw.create_reference_table('r');};
compare(sub { $c->safe_psql("SET client_min_messages = warning; $one") }, '40001',
	name => 'shard_table');
compare(sub { $c->safe_psql("SET client_min_messages = warning; $reference") }, '40001',
	name => 'create_reference_table');
compare(sub { $c->safe_psql(q{SELECT shardfdw.unshard_table('t')}) }, '40001',
	name => 'unshard_table', make => $one);
compare(sub {
	$c->safe_psql(q{SELECT shardfdw.disable_node('node2')});
	$c->node_safe_psql(2, 'DELETE FROM r WHERE id = 1');
	$c->safe_psql(q{SET client_min_messages = warning; SELECT shardfdw.enable_node('node2')});
}, '40001', name => 'enable_node', make => $two . $third, function => 'joined', all => '100');

done_testing();
