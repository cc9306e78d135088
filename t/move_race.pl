# Statements meet the switch of a move at its worst moments. Tests what they see and do.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2, coordinator_conf => "shardfdw.default_shards = 2\n", node_conf => "wal_level = logical\nmax_wal_senders = 10\n");
my $faults = $c->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});

$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int)');
$c->shard_table('t', 'id', shards => 2);
$c->safe_psql('INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i; CREATE TABLE here AS SELECT id FROM t');
my $id = $c->safe_psql(q{SELECT min(i) FROM generate_series(1, 100) i WHERE shardfdw.shard_for('t', i) = 't_00'::regclass});
my $new = $c->safe_psql(q{SELECT min(i) FROM generate_series(1000, 1100) i WHERE shardfdw.shard_for('t', i) = 't_00'::regclass});
my $other = $c->safe_psql(q{SELECT min(i) FROM generate_series(1, 100) i WHERE shardfdw.shard_for('t', i) = 't_01'::regclass});

sub place { return (map { $_->[1] } grep { $_->[0] eq 't_00' } $c->shards_of('t'))[0]; }

# Moves t_00 to the other node.
sub move
{
	my (%opt) = @_;
	my $target = 3 - place();
	my $mode = $opt{mode} // 'online';
	return $c->psql("SELECT shardfdw.move_shard('t_00', 'node$target', mode => '$mode')");
}

# ---------- sessions that know the old place ----------

for my $mode (qw(online block))
{
	my $session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	my $prepared = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	$session->query_safe('BEGIN; SELECT count(*) FROM t');
	$prepared->query_safe("SET plan_cache_mode = force_generic_plan; PREPARE r(int) AS SELECT v FROM t WHERE id = \$1; PREPARE w(int) AS UPDATE t SET v = v + 1 WHERE id = \$1; PREPARE a AS UPDATE t SET v = v + 1; EXECUTE r($id); EXECUTE w($id); EXECUTE a");
	my $sum = $c->safe_psql('SELECT sum(v) FROM t');
	my ($rc, $out, $err) = move(mode => $mode);
	is($err, '', "$mode: a move");
	is(scalar $session->query("SELECT sum(v) FROM t"), $sum, 'a transaction at READ COMMITTED that has read the table finds it');
	is(scalar $session->query("UPDATE t SET v = v + 1 WHERE id = $id RETURNING id"), $id, 'and changes a row');
	$session->query('COMMIT');
	$prepared->query("EXECUTE w($id); EXECUTE a");
	is($c->safe_psql('SELECT sum(v) FROM t'), $sum + 102, 'prepared statements find it');
	is($c->node_safe_psql(place(), "SELECT v FROM t_00 WHERE id = $id"), scalar $prepared->query("EXECUTE r($id)"), 'on the new node');
	$_->quit for $session, $prepared;
}

# ---------- REPEATABLE READ ----------

for my $snapshot (qw(node cluster))
{
	my $session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	my $sum = $c->safe_psql('SELECT sum(v) FROM t');
	$session->query_safe("\\set VERBOSITY sqlstate\nSET shardfdw.snapshot = '$snapshot'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t");
	my $target = 3 - place();
	my $from = place();
	my $id_of_job = $c->safe_psql("SELECT shardfdw.move_shard('t_00', 'node$target', wait => false)");
	$c->wait_for("SELECT stage = 'dropping' FROM shardfdw.jobs WHERE id = $id_of_job");
	$c->safe_psql("UPDATE t SET v = v + 1 WHERE id = $id");
	$c->wait_for("SELECT waits_for LIKE 'transactions on the coordinator%' FROM shardfdw.jobs WHERE id = $id_of_job");
	is($c->node_safe_psql($from, q{SELECT count(*) FROM pg_class WHERE relname = 't_00'}), 1, "snapshot $snapshot: the old table waits for older snapshots");
	my $out = $session->query('SELECT sum(v) FROM t');
	my $err = $session->{stderr};
	if ($snapshot eq 'cluster')
	{
		is($out, $sum, 'an older snapshot reads on');
		is(scalar $session->query("SELECT v FROM t WHERE id = $other"), $c->safe_psql("SELECT v FROM t WHERE id = $other"), 'other shards, too');
		$session->query("UPDATE t SET v = 0 WHERE id = $id");
		like($session->{stderr}, qr/40001/, 'and must not write there');
	}
	else
	{
		like($err, qr/40001/, 'an older snapshot is refused');
	}
	$session->query('ROLLBACK');
	$session->quit;
	is($c->safe_psql("SELECT shardfdw.wait_job($id_of_job)"), 'done', 'the job ends');
	is($c->node_safe_psql($from, q{SELECT count(*) FROM pg_class WHERE relname = 't_00'}), 0, 'the old table is gone');
}

# ---------- sessions that keep a move waiting ----------

{
	my $writer = $c->coordinator->background_psql('postgres');
	$writer->query_safe("BEGIN; UPDATE t SET v = v + 1 WHERE id = $id");
	my $from = place();
	my $target = 3 - $from;
	my $job = $c->safe_psql("SELECT shardfdw.move_shard('t_00', 'node$target', wait => false)");
	$c->wait_for("SELECT waits_for IS NOT NULL OR stage = 'waiting for transactions of the source' FROM shardfdw.jobs WHERE id = $job");
	is($c->safe_psql("UPDATE t SET v = v + 1 WHERE id = $other RETURNING id"), $other, 'other shards are written');
	is(place(), $from, 'it waits for a transaction that has written');
	$writer->query_safe("UPDATE t SET v = v + 1 WHERE id = $id; COMMIT");
	is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'and goes on when that has ended');
	$writer->quit;

	my $locker = $c->coordinator->background_psql('postgres');
	$locker->query_safe("BEGIN; SELECT v FROM t WHERE id = $id FOR UPDATE");
	($from, $target) = ($target, $from);
	$job = $c->safe_psql("SELECT shardfdw.move_shard('t_00', 'node$target', mode => 'block', wait => false)");
	$c->wait_for("SELECT waits_for LIKE 'transactions that have written%' FROM shardfdw.jobs WHERE id = $job");
	is(place(), $from, 'it waits for a row lock');
	is($c->safe_psql("SELECT shardfdw.cancel_job($job)"), 't', 'it is cancelled');
	like(($c->psql("SELECT shardfdw.wait_job($job)"))[2], qr/canceling statement due to user request/, 'with an error');
	is($c->safe_psql("SELECT state FROM shardfdw.jobs WHERE id = $job"), 'cancelled', 'as the view says');
	is($c->node_safe_psql($_, q{SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'}), 0, "nothing is left on node $_") for 1, 2;
	$job = $c->safe_psql("SELECT shardfdw.move_shard('t_00', 'node$target', mode => 'block', wait => false)");
	$c->wait_for("SELECT waits_for LIKE 'transactions that have written%' FROM shardfdw.jobs WHERE id = $job");
	like(($c->psql('CREATE INDEX ON t (v)'))[2], qr/definition of the table cannot be changed while job $job moves a shard of it/, 'definitions are not changed meanwhile');
	$locker->query_safe("UPDATE t SET v = v + 1 WHERE id = $id; COMMIT");
	is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'the next one');
	$locker->quit;
}

# ---------- a reader of a table without a key ----------

{
	$c->safe_psql('CREATE TABLE bare (id int, v int)');
	$c->safe_psql(q{SELECT shardfdw.shard_table('bare', 'id', shards => 1, nodes => '{node1}')});
	my $reader = $c->node(1)->background_psql('postgres');
	$reader->query_safe('BEGIN; SELECT count(*) FROM bare_00');
	my $job = $c->safe_psql(q{SELECT shardfdw.move_shard('bare_00', 'node2', wait => false)});
	$c->wait_for("SELECT waits_for LIKE 'sessions on node %' FROM shardfdw.jobs WHERE id = $job");
	$reader->query_safe('COMMIT');
	$reader->quit;
	is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'a move says whose locks it waits for');
}

# ---------- a prepared transaction ----------

{
	my $from = place();
	my $target = 3 - $from;
	$c->node_safe_psql($from, "BEGIN; UPDATE t_00 SET v = v + 1 WHERE id = $id; PREPARE TRANSACTION 'of_somebody'");
	my $job = $c->safe_psql("SELECT shardfdw.move_shard('t_00', 'node$target', mode => 'block', wait => false)");
	$c->wait_for("SELECT waits_for LIKE 'transactions that have written%' FROM shardfdw.jobs WHERE id = $job");
	is($c->safe_psql("SELECT count(*) FROM t"), 100, 'readers do not wait for it');
	$c->node_safe_psql($from, "COMMIT PREPARED 'of_somebody'");
	is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'a prepared transaction is waited for');
	is($c->node_safe_psql($target, "SELECT v FROM t_00 WHERE id = $id"), $c->safe_psql("SELECT v FROM t WHERE id = $id"), 'its change is there');
}

# ---------- within the switch ----------

SKIP:
{
	skip 'needs a build with FAULT_POINTS=1', 8 unless $faults;
	for my $point (qw(move_locked move_closed move_placed))
	{
		my $from = place();
		my $target = 3 - $from;
		my $file = $c->coordinator->data_dir . "/shardfdw_fault_$point";
		append_to_file($file, '');
		$c->set_faults("$point=wait");
		my $before = $c->safe_psql('SELECT sum(v) FROM t');
		my $job = $c->safe_psql("SELECT shardfdw.move_shard('t_00', 'node$target', wait => false)");
		$c->wait_for("SELECT count(*) > 0 FROM pg_locks WHERE relation = 't_00'::regclass AND mode = 'ExclusiveLock' AND granted");
		is($c->safe_psql('SELECT sum(v) FROM t'), $before, "$point: readers do not wait");
		is($c->safe_psql("SET shardfdw.snapshot = 'cluster'; SELECT sum(v) FROM t"), $before, 'nor for one moment') if $point eq 'move_locked';
		my @writers = map { $c->start_sql($_, name => "writer$point") } "UPDATE t SET v = v + 1 WHERE id = $id", 'UPDATE t SET v = v + 1',
			"INSERT INTO t VALUES ($id, 0) ON CONFLICT (id) DO UPDATE SET v = t.v + 1", "COPY t FROM PROGRAM 'echo $new,0' (FORMAT csv)", "DELETE FROM t WHERE id = $id AND v = -77",
			"BEGIN; SELECT v FROM t WHERE id = $id FOR UPDATE; UPDATE t SET v = v + 1 WHERE id = $id; COMMIT",
			"BEGIN; SELECT v FROM t JOIN here USING (id) WHERE id = $id FOR UPDATE OF t; UPDATE t SET v = v + 1 WHERE id = $id; COMMIT";
		$c->wait_for("SELECT count(*) = 7 FROM pg_stat_activity WHERE application_name = 'writer$point' AND wait_event_type = 'Lock'");
		unlink $file;
		is(join('', map { ($c->wait_sql($_))[2] } @writers), '', 'writers wait, and go on');
		$c->set_faults('');
		is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'the job');
		is($c->safe_psql("SELECT sum(v) FROM t WHERE id <> $new"), $before + 104, 'all they did is there');
		is($c->node_safe_psql($target, "SELECT v FROM t_00 WHERE id = $id"), $c->safe_psql("SELECT v FROM t WHERE id = $id"), 'on the new node');
		$c->safe_psql("DELETE FROM t WHERE id = $new");
	}
}

# ---------- tables that the job does not see ----------

for my $call ("shard_table('fresh', mode => 'online')", "shard_table('fresh', mode => 'online', wait => false)")
{
	my ($rc, $out, $err) = $c->psql("BEGIN; CREATE TABLE fresh (id int PRIMARY KEY); SELECT shardfdw.$call");
	like($err, qr/table "fresh" has been made or changed in this transaction/, "a table that is not committed: $call");
}
# A job that begins while its table is being dropped.
for my $call (
	[ 'gone_00', "split_shard('gone_00', 2)" ],
	[ 'gone_00', "move_shard('gone_00', (SELECT s.srvname FROM pg_foreign_server s WHERE srvname LIKE 'node%' AND s.oid <> (SELECT ftserver FROM pg_foreign_table WHERE ftrelid = 'gone_00'::regclass) LIMIT 1))" ],
	[ 'gone', "unshard_table('gone', mode => 'online')" ])
{
	my ($name, $function) = @$call;
	$c->safe_psql("CREATE TABLE gone (id int PRIMARY KEY, v int CHECK (v > 0)); SELECT shardfdw.shard_table('gone', shards => 2)");
	my $holder = $c->coordinator->background_psql('postgres');
	$holder->query_safe('BEGIN; DROP TABLE gone');
	my $job = $c->start_sql("\\set VERBOSITY verbose\nSELECT shardfdw.$function");
	$c->wait_for("SELECT count(*) > 0 FROM pg_locks WHERE NOT granted");
	$holder->query_safe('COMMIT');
	$holder->quit;
	like(($c->wait_sql($job))[2], qr/ERROR:  42(P01|704): /, "dropped: $function");
	$c->wait_for("SELECT count(*) = 0 FROM shardfdw.jobs WHERE state = 'running'");
}

# ---------- TRUNCATE between the snapshot of the comparison and its COPY ----------

# The snapshot shows no rows in the new file, because they are younger.
SKIP:
{
	skip 'needs a build with FAULT_POINTS=1', 8 if !$faults;
	my $hold = $c->coordinator->data_dir . '/shardfdw_fault_move_compare';
	$c->safe_psql(q{CREATE TABLE emptied (id int PRIMARY KEY, v int);
		CREATE TABLE emptied_too (id int PRIMARY KEY);
		SELECT shardfdw.shard_table('emptied', shards => 1, nodes => '{node1}', colocate_with => NULL);
		SELECT shardfdw.shard_table('emptied_too', colocate_with => 'emptied')});
	for my $call ("move_shard('emptied_00', 'node2', wait => false)",
		"split_shard('emptied_00', wait => false)")
	{
		my $source = substr $c->safe_psql(q{SELECT node FROM shardfdw.shards
			WHERE shard = 'emptied_00'::regclass}), 4;
		$c->safe_psql('INSERT INTO emptied SELECT i, 0 FROM generate_series(1, 50) i;
			INSERT INTO emptied_too SELECT id FROM emptied');
		append_to_file($hold, '');
		$c->set_faults('move_compare=wait');
		my $job = $c->safe_psql("SELECT shardfdw.$call");
		$c->wait_for("SELECT stage = 'comparing' FROM shardfdw.jobs WHERE id = $job");
		$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity
			WHERE state = 'idle in transaction' AND query LIKE 'SET TRANSACTION SNAPSHOT%'}, $source);
		$c->safe_psql('TRUNCATE emptied; INSERT INTO emptied SELECT i, 1 FROM generate_series(1, 70) i;
			DELETE FROM emptied_too WHERE id % 2 = 0');
		unlink $hold;
		$c->set_faults('');
		is(($c->psql("SELECT shardfdw.wait_job($job)"))[2], '', "TRUNCATE: $call");
		is($c->safe_psql('SELECT (SELECT count(*) FROM emptied WHERE v = 1), (SELECT sum(id) FROM emptied_too)'),
			'70|625', 'all rows are there');
		is($c->safe_psql(q{SELECT detail FROM shardfdw.check_cluster('rows') WHERE status = 'error'}),
			'', 'and check_cluster finds nothing');
		$c->safe_psql('TRUNCATE emptied, emptied_too');
	}

	# a difference that is none of TRUNCATE is still found
	append_to_file($hold, '');
	$c->set_faults('move_compare=wait');
	my ($shard, $node) = @{ ($c->shards_of('emptied'))[0] };
	my $target = 3 - $node;
	$c->safe_psql('INSERT INTO emptied SELECT i, 0 FROM generate_series(1, 50) i');
	my $job = $c->safe_psql("SELECT shardfdw.move_shard('$shard', 'node$target', wait => false)");
	$c->wait_for("SELECT stage = 'comparing' FROM shardfdw.jobs WHERE id = $job");
	$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity
		WHERE state = 'idle in transaction' AND query LIKE 'SET TRANSACTION SNAPSHOT%'}, $node);
	my $staging = $c->node_safe_psql($target, qq{SELECT n.nspname || '.$shard' FROM pg_namespace n
		WHERE n.nspname ~ '^shardfdw_[0-9a-f]{16}_'});
	$c->node_safe_psql($target, "UPDATE $staging SET v = 2");
	# the file of the table changes, its rows do not
	$c->node_safe_psql($node, "VACUUM FULL $shard");
	unlink $hold;
	$c->set_faults('');
	like(($c->psql("SELECT shardfdw.wait_job($job)"))[2],
		qr/the rows of shard \S+ differ on nodes "node$node" and "node$target"/,
		'a difference is still found, after VACUUM FULL');
	is($c->safe_psql('SELECT count(*) FROM emptied WHERE v = 0'), 50, 'the shard stays');
}

unlike(slurp_file($c->coordinator->logfile), qr/terminated by signal 11/, 'no process has crashed');

done_testing();
