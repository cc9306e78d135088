# Tests what a job waits for, and what waits for a job: transactions of clients, other jobs, and
# statements that would take away its shard or its node.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use WireClient;

my $c = ShardCluster->new(nodes => 4, node_conf => "wal_level = logical\nmax_wal_senders = 10\n");
my $faults = $c->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
plan skip_all => 'needs a build with FAULT_POINTS=1' unless $faults;

# Lets jobs stop at a fault point. Another call lets them continue.
sub hold
{
	my ($point) = @_;
	append_to_file($c->coordinator->data_dir . "/shardfdw_fault_$point", '');
	$c->set_faults("$point=wait");
	return;
}

sub release
{
	my ($point) = @_;
	unlink $c->coordinator->data_dir . "/shardfdw_fault_$point";
	$c->set_faults('');
	return;
}

# Starts a job, and waits until it is in a stage.
sub start
{
	my ($call, $stage) = @_;
	my $job = $c->ask("SELECT shardfdw.$call");
	$c->ask_until("SELECT stage = '$stage' OR state <> 'running' FROM shardfdw.jobs WHERE id = $job");
	return $job;
}

sub wait_job { my ($job) = @_; return ($c->psql("SELECT shardfdw.wait_job($job)"))[ 1, 2 ]; }

# Lists the leftovers of jobs on nodes.
sub traces
{
	$c->wait_for_slots;
	return join ' ', map { $c->ask(q{SELECT (SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'), (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_replication_slots),
		(SELECT count(*) FROM pg_trigger WHERE tgname = 'shardfdw_moved'), (SELECT count(*) FROM pg_class WHERE relreplident = 'f')}, $_) } 1 .. 4;
}
my $no_traces = join ' ', ('0|0|0|0|0') x 4;

$c->ask('CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE other (id int PRIMARY KEY); CREATE TABLE keyless (id int, v int)');
$c->shard_table('t', 'id', shards => 2, nodes => ['node1', 'node3']);
$c->ask(q{SELECT shardfdw.shard_table('other', 'id', shards => 3, nodes => '{node1,node2,node3}', colocate_with => NULL)});
$c->ask(q{SELECT shardfdw.shard_table('keyless', 'id', shards => 4, nodes => '{node1}', colocate_with => NULL)});
$c->ask('INSERT INTO t SELECT i, 0 FROM generate_series(1, 1000) i; INSERT INTO other SELECT generate_series(1, 100); INSERT INTO keyless SELECT i, 0 FROM generate_series(1, 100) i');

# ---------- a node that a job works on ----------

hold('move_copied');
my $job = start(q{move_shard('t_00', 'node4', wait => false)}, 'copying');
for my $statement (q{SELECT shardfdw.remove_node('node4')}, 'DROP SERVER node4 CASCADE')
{
	my ($rc, $out, $err) = $c->psql("\\set VERBOSITY verbose\n$statement");
	like($err, qr/55006: server "node4" cannot be dropped while job $job works on it/, $statement);
}
# a job that waits for its turn names its node, too
my $next = start(q{move_shard('other_01', 'node4', wait => false)}, 'waiting for its turn');
$c->ask_until("SELECT waits_for IS NOT NULL FROM shardfdw.jobs WHERE id = $next");
is($c->ask("SELECT waits_for FROM shardfdw.jobs WHERE id = $next"), qq{job $job, which works on node "node4"}, 'a job tells for which job it waits');
$c->ask("SELECT shardfdw.cancel_job($next)");
like((wait_job($next))[1], qr/canceling statement due to user request/, 'it can be cancelled while it waits');

# ---------- a shard that a job works on ----------

my $on_shard = qr/the definition of the table cannot be changed while job $job moves a shard of it/;
for my $statement ('DROP FOREIGN TABLE t_00', 'DROP TABLE t', 'ALTER TABLE t DETACH PARTITION t_00', 'ALTER TABLE t DETACH PARTITION t_00 CONCURRENTLY')
{
	like(($c->psql($statement))[2], $on_shard, $statement);
}
release('move_copied');
is((wait_job($job))[0], 'done', 'the job goes on');
is(traces(), $no_traces, 'and leaves nothing');

# By a session that changes the coordinator only, so that nothing refuses it. The job ends with an
# error, and leaves nothing.
for my $case ([ 'move_copied', 'copying', 'ALTER TABLE t DETACH PARTITION t_00' ], [ 'move_copied', 'copying', 'DROP FOREIGN TABLE t_00' ],
	[ 'move_compared', 'comparing', 'DROP FOREIGN TABLE t_00' ])
{
	my ($point, $stage, $statement) = @$case;
	my $place = $c->ask(q{SELECT node FROM shardfdw.shards WHERE shard = 't_00'::regclass});
	my $target = $place eq 'node4' ? 'node2' : 'node4';
	hold($point);
	$job = start("move_shard('t_00', '$target', wait => false)", $stage);
	$c->safe_psql("SET shardfdw.enable_ddl_propagation = off; $statement");
	release($point);
	like((wait_job($job))[1], qr/ERROR:  (?:table public\.t_00 was dropped while the job worked on it|shard public\.t_00 has been dropped or detached while it was moved|the definition of shard public\.t_00 has changed while it was moved|shard public\.t_00 is no longer on node)/,
		"$statement at $point: the job says why it ends");
	is(traces(), $no_traces, 'and leaves nothing');
	$c->safe_psql('SET shardfdw.enable_ddl_propagation = off; ' . ($statement =~ /DETACH/ ? 'ALTER TABLE t ATTACH PARTITION t_00 FOR VALUES WITH (MODULUS 2, REMAINDER 0)' :
			"CREATE FOREIGN TABLE t_00 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER $place"));
	is($c->ask('SELECT count(*) FROM t'), 1000, 'the rows are where they were');
}

# ---------- transactions that keep the old tables ----------

my $reader = WireClient->new($c->coordinator, 'postgres');
$reader->query('BEGIN; DECLARE c CURSOR FOR SELECT generate_series(1, 1000); FETCH 1 FROM c');
my $place = $c->ask(q{SELECT node FROM shardfdw.shards WHERE shard = 't_00'::regclass});
my ($target) = grep { $_ ne $place } qw(node4 node2);
$job = start("move_shard('t_00', '$target', wait => false)", 'dropping');
$c->ask_until("SELECT waits_for LIKE 'transactions on the coordinator that began before the switch%' FROM shardfdw.jobs WHERE id = $job");
my $away = start("move_shard('other_00', '$target', wait => false)", 'dropping');
is($c->ask("SELECT stage FROM shardfdw.jobs WHERE id = $away"), 'dropping', 'a job of the same node does not wait for the drop');
my $back = start("move_shard('t_00', '$place', wait => false)", 'waiting for its turn');
$c->ask_until("SELECT waits_for = 'job $job, which works on table public.t_00' FROM shardfdw.jobs WHERE id = $back");
pass('a job of the same shard does, and says so');
like(($c->psql("SELECT shardfdw.remove_node('$target')"))[2], qr/cannot (?:be dropped|remove node)/, 'nor can the node be removed');
$reader->query('COMMIT');
is((wait_job($_))[0], 'done', "job $_ ends") for $job, $away, $back;
is($c->ask(q{SELECT node FROM shardfdw.shards WHERE shard = 't_00'::regclass}), $place, 'the shard is back');
is(traces(), $no_traces, 'nothing is left');

# ---------- steady transactions that use the tables ----------

# Overlapping transactions of up to 0.3 s: at every moment some transaction uses the table. To lock
# the whole table, the attempts must be longer than the transactions. Each attempt keeps others
# waiting for less than a second.
my $script = $c->coordinator->basedir . '/steady.sql';
append_to_file($script, "\\set id random(1, 1000)\n\\set ms random(100, 300)\nBEGIN;\nUPDATE t SET v = v + 1 WHERE id = :id;\nSELECT pg_sleep(:ms / 1000.0);\nCOMMIT;\n");
my ($log) = $c->log_position;
my $bench_out = $c->coordinator->basedir . '/steady.out';
my $bench = IPC::Run::start([ 'pgbench', '-n', '-c', 4, '-T', 600, '-h', $c->coordinator->host, '-p', $c->coordinator->port, '-f', $script, 'postgres' ], '>', $bench_out, '2>&1');
$c->ask_until(q{SELECT count(*) >= 3 FROM pg_stat_activity WHERE query ~ '^(SELECT pg_sleep|UPDATE t)' AND pid <> pg_backend_pid()});
for my $call ("split_shard('t_00')", sub { "merge_shards('{" . join(',', split /\n/, $c->ask(qq{SELECT shard FROM shardfdw.shards WHERE relation = 't'::regclass AND bounds LIKE '%modulus 4%'})) . "}')" },
	"unshard_table('t', 'online')", "shard_table('t', 'id', shards => 2, mode => 'online')")
{
	my $text = ref $call ? $call->() : $call;
	is(($c->psql("SELECT shardfdw.$text"))[2] =~ s/^NOTICE.*\n(?:DETAIL.*\n)?//mgr, '', "$text while there are always transactions");
}
$bench->signal('INT');
eval { $bench->finish };
cmp_ok($c->ask('SELECT sum(v) FROM t'), '>', 20, 'transactions have gone on');
unlike(slurp_file($bench_out) . $c->log_since($log), qr/deadlock detected|ERROR:  (?!canceling)/, 'no client gets an error');
is($c->ask('SELECT count(*) FROM t'), 1000, 'all rows are there');
is(traces(), $no_traces, 'nothing is left');

done_testing();
