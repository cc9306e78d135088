# Two coordinators and jobs on the same shards: a shard takes part in one job at a time, whichever
# coordinator runs the job.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardPeers;
use Test::More;

my $p = ShardPeers->new(coordinators => 2, nodes => 2,
	node_conf => "wal_level = logical\nmax_wal_senders = 10\nmax_replication_slots = 10\n");
my ($c1, $c2) = $p->all;
my $faults = $c1->safe_psql(q{LOAD 'shardfdw';
	SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
plan skip_all => 'needs a build with FAULT_POINTS=1' unless $faults;

# without primary key: a job publishes it with REPLICA IDENTITY FULL
$c1->safe_psql(q{CREATE TABLE np (id int, v int);
	SELECT shardfdw.shard_table('np', 'id', shards => 2, nodes => '{node1}');
	INSERT INTO np SELECT i, 0 FROM generate_series(1, 200) i});
$p->add_all;

# Starts a job on coordinator 1 that stops at a fault point in this stage. Returns its number.
sub hold
{
	my ($point, $stage, $call) = @_;
	my $file = $c1->coordinator->data_dir . "/shardfdw_fault_$point";
	append_to_file($file, '');
	$c1->set_faults("$point=wait");
	my $job = $c1->safe_psql("SELECT shardfdw.$call");
	$c1->wait_for("SELECT stage = '$stage' FROM shardfdw.jobs WHERE id = $job");
	return $job;
}

sub release
{
	my ($point) = @_;
	unlink $c1->coordinator->data_dir . "/shardfdw_fault_$point";
	$c1->set_faults('');
	return;
}

# Lists the leftovers of jobs on nodes.
sub traces
{
	return join ' ', map { $c1->node_safe_psql($_, q{SELECT
		(SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'),
		(SELECT count(*) FROM pg_publication),
		(SELECT count(*) FROM pg_class WHERE relreplident = 'f')}) } 1, 2;
}

my $write = 'UPDATE np SET v = v + 1';

# ---------- move and move, the first one is cancelled ----------

my $job = hold('move_copied', 'copying', q{move_shard('np_00', 'node2', wait => false)});
$c2->psql_fails_like(q{SELECT shardfdw.move_shard('np_00', 'node2')},
	qr/55006: job $job of coordinator "c1" works on shard public\.np_00/, 'a move of the same shard');
$c2->psql_fails_like(q{SELECT shardfdw.split_shard('np_00')},
	qr/55006: job $job of coordinator "c1" works on shard public\.np_00/, 'a split of it');
$c2->safe_psql($write);
$c2->safe_psql(q{SELECT shardfdw.move_shard('np_01', 'node2')});
pass('another shard moves');
$c1->safe_psql("SELECT shardfdw.cancel_job($job)");
release('move_copied');
$c1->psql_fails_like("SELECT shardfdw.wait_job($job)", qr/cancel/, 'the first job is cancelled');
$c2->safe_psql($write);
$c2->safe_psql(q{SELECT shardfdw.move_shard('np_00', 'node2');
	SELECT shardfdw.move_shard('np_01', 'node1'); SELECT shardfdw.move_shard('np_00', 'node1')});
is(traces(), '0|0|0 0|0|0', 'the jobs have left nothing');

# ---------- a server hangs while a job has locked a shard ----------

# Starts a job on coordinator 1, and stops a server when the job has its locks. The job must fail,
# and a statement that waits for the locks must continue, while the server still hangs.
sub hang
{
	my ($server, $call, $statement, $name, $message) = @_;
	my $id = hold('move_locked', 'switching', $call);
	$c1->wait_for(q{SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'np_00'::regclass
		AND mode = 'ExclusiveLock' AND granted)}, 1);
	$c1->sigstop_server($server);
	my $waiting = $c1->start_sql($statement);
	$c1->wait_for(q{SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)});
	release('move_locked');
	is(($c1->wait_sql($waiting))[2], '', "$name: other sessions do not wait for it");
	$c1->sigcont_server($server);
	$c1->psql_fails_like("SELECT shardfdw.wait_job($id)",
		qr/58000: $message has not answered within 10 s/, "$name: the job says so");
	$c1->wait_for(q{SELECT count(*) = 0 FROM shardfdw.recover_prepared_transactions()});
	is(traces(), '0|0|0 0|0|0', "$name: the job has left nothing");
	return;
}

hang($c1->node(2), q{move_shard('np_00', 'node2', wait => false)}, $write, 'the target',
	'node "node2"');
hang($c2->coordinator, q{move_shard('np_00', 'node2', wait => false)}, $write,
	'a coordinator', 'coordinator "c2"');
hang($c2->coordinator, q{split_shard('np_00', wait => false)}, 'SELECT count(*) FROM np',
	'a coordinator, in a split', 'another coordinator');

# ---------- split and split of another shard, which would choose the same names ----------

$job = hold('move_copied', 'copying', q{split_shard('np_00', wait => false)});
$c2->psql_fails_like(q{SELECT shardfdw.split_shard('np_01')},
	qr/55006: job $job of coordinator "c1" works on shard public\.np_02/, 'a split of another shard');
$c2->safe_psql($write);
release('move_copied');
$c1->safe_psql("SELECT shardfdw.wait_job($job)");
$c2->safe_psql(q{SELECT shardfdw.split_shard('np_01')});

# ---------- jobs begin one after the other, and other roles cannot stop them ----------

$c1->node_safe_psql(1, 'CREATE ROLE intruder LOGIN');
my $intruder = $c1->node(1)->background_psql('postgres');
$intruder->query_safe(q{SET ROLE intruder;
	SELECT pg_advisory_lock(hashtextextended('shardfdw job', 0))});
$c2->safe_psql(q{SELECT shardfdw.move_shard('np_03', 'node2')});
pass('an advisory lock of another role');
$intruder->query_safe('RESET ROLE; BEGIN; CREATE SCHEMA shardfdw_job; DROP SCHEMA shardfdw_job');
my $moving = $c2->start_sql(q{SELECT shardfdw.move_shard('np_02', 'node2')});
$c1->wait_for(q{SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'transactionid'
	AND NOT granted)}, 1);
$intruder->query_safe('ROLLBACK');
is(($c2->wait_sql($moving))[2], '', 'a job waits for one that begins');
$intruder->quit;
$c1->node_safe_psql(1, 'DROP ROLE intruder');
$c2->safe_psql(q{SELECT shardfdw.move_shard('np_02', 'node1')});

# ---------- until the job ends ----------

$job = hold('move_switched', 'dropping', q{move_shard('np_02', 'node2', wait => false)});
$c2->psql_fails_like(q{SELECT shardfdw.split_shard('np_02')},
	qr/55006: job $job of coordinator "c1" works on shard public\.np_02/, 'the switch does not end it');
$c2->psql_fails_like(q{SELECT shardfdw.move_shard('np_02', 'node1')},
	qr/55006: job $job of coordinator "c1" works on shard public\.np_02/, 'nor for a move back');
release('move_switched');
$c1->safe_psql("SELECT shardfdw.wait_job($job)");

# ---------- the note of a role that cannot work on the shard ----------

my $identity = $c1->safe_psql('SELECT identity FROM shardfdw.coordinators WHERE is_this');
my $note = '{"server": 1, "other": 1, "tables": [{"schema": "public", "table": "np_02"}]}';
$c1->node_safe_psql(2, qq{CREATE ROLE stranger;
	CREATE SCHEMA shardfdw_${identity}_99_00000000 AUTHORIZATION stranger;
	COMMENT ON SCHEMA shardfdw_${identity}_99_00000000 IS '$note'});
$c2->safe_psql(q{SELECT shardfdw.move_shard('np_02', 'node1')});
$c1->node_safe_psql(2, "DROP SCHEMA shardfdw_${identity}_99_00000000; DROP ROLE stranger");

is(traces(), '0|0|0 0|0|0', 'the jobs have left nothing');
$p->same('SELECT count(*), sum(v) FROM np', '200|1000', 'all rows are there');
$p->all_alike('afterwards', rows => 1);

# ---------- a coordinator is lost while it runs a job, and removed ----------

$job = hold('move_copied', 'copying', q{move_shard('np_02', 'node2', wait => false)});
$c1->coordinator->stop('immediate');
my $not_removed = q{SELECT node, action FROM shardfdw.recover_prepared_transactions()
	WHERE action ~ '^not removed' ORDER BY 1};
is($c2->safe_psql($not_removed), '',
	'while it is declared, it removes what the job has left itself');
$c2->safe_psql(q{SELECT shardfdw.remove_coordinator('c1')});
my $left = qq{not removed: what job $job of coordinator "$identity" has left, } .
  'which is not among shardfdw.coordinators';
is($c2->safe_psql($not_removed),
	"node1|$left\nnode2|$left", 'the others name what is left');

done_testing();
