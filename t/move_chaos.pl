# Runs jobs of all kinds, one after the other. Each job may end at any of its points: by an error,
# by a cancel, or by the death of its process, of the coordinator or of a node. Clients read and
# write, and recovery runs, all the time. Afterwards one round of recovery must leave nothing
# behind. No acknowledged change may be lost, and clients may have seen only documented errors.
#
# MOVE_CHAOS_S is the duration in seconds (30 by default). MOVE_CHAOS_SEED changes the random
# choices.

use strict;
use warnings;

use POSIX ();
use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use Time::HiRes qw(time sleep);
use WireClient;

my $seconds = $ENV{MOVE_CHAOS_S} // (ShardCluster::halved() ? 15 : 30);
my $seed = $ENV{MOVE_CHAOS_SEED} // int rand 1_000_000;
srand $seed;
note "MOVE_CHAOS_S=$seconds MOVE_CHAOS_SEED=$seed";

my $c = ShardCluster->new(nodes => 3, node_conf => "wal_level = logical\nmax_wal_senders = 10\n", preload => 1, coordinator_conf => "shardfdw.recovery_interval = 2\n");
plan skip_all => 'needs a build with FAULT_POINTS=1' unless $c->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
my $nrows = 200;
my $nclients = 3;
$c->ask("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL, w bigint NOT NULL); INSERT INTO t SELECT i, 0, 0 FROM generate_series(1, $nrows) i");
my $dir = $c->coordinator->basedir . '/chaos';
mkdir $dir;

# ---------- clients ----------

# A client writes for each statement that adds to w one line before it is sent, and one when it is acknowledged; and one for each error.
sub client
{
	my ($number) = @_;
	srand $seed + $number;
	open my $fh, '>>', "$dir/client_$number" or die $!;
	$fh->autoflush(1);
	my $session;
	until (-e "$dir/stop")
	{
		my ($a, $b) = sort { $a <=> $b } 1 + int rand $nrows, 1 + int rand $nrows;
		my $kind = int rand 5;
		# the client changes only its rows: other clients would lock them in another order on the
		# nodes
		($a, $b) = sort { $a <=> $b } map { $nclients * int(rand($nrows / $nclients - 1)) + $number } 1 .. 2 if $kind == 1 || $kind == 2;
		my $sql = (
			"UPDATE t SET w = w + 1 WHERE id = $a",
			"UPDATE t SET v = v + CASE id WHEN $a THEN 1 ELSE -1 END WHERE id IN ($a, $b)",
			"BEGIN; UPDATE t SET v = v + 1 WHERE id = $a; UPDATE t SET v = v - 1 WHERE id = $b; COMMIT",
			'SELECT count(*) FROM t', 'COPY t TO STDOUT')[$kind];
		next if $kind == 1 && $a == $b;
		my $result = eval {
			$session //= WireClient->new($c->coordinator, 'postgres');
			print $fh "send\n" if $kind == 0;
			$session->query($sql);
		};
		if (!$result)
		{
			# the coordinator is restarting
			undef $session;
			sleep 0.05;
		}
		elsif ($result->{error})
		{
			# a fault point of the commit is reached by jobs and by clients
			print $fh "error $result->{error}{C} $result->{error}{M} in: $sql\n" unless $result->{error}{M} =~ /^fault at "/;
			eval { $session->query('ROLLBACK') };
		}
		else
		{
			print $fh "done\n" if $kind == 0;
			print $fh "error count $result->{rows}[0][0] in: $sql\n" if $kind == 3 && $result->{rows}[0][0] != $nrows;
		}
		sleep 0.005;
	}
	return;
}

my @pids;
for my $number (1 .. $nclients)
{
	my $pid = fork // die $!;
	push @pids, $pid;
	next if $pid;
	eval { client($number) };
	print STDERR $@ if $@;
	POSIX::_exit(0);
}
sub lines { my ($pattern) = @_; return grep { /$pattern/ } map { split /\n/, slurp_file("$dir/client_$_") } 1 .. $nclients; }

# ---------- jobs ----------

# Returns a call that starts a job on the table in its present state.
sub choose_job
{
	my $kind = $c->ask(q{SELECT relkind FROM pg_class WHERE relname = 't'});
	return q{shard_table('t', shards => 4, mode => 'online', wait => false)} if $kind eq 'r';
	return q{unshard_table('t', 'online', wait => false)} if rand() < 0.35;
	my @shards = map { [ split /\|/ ] } split /\n/, $c->ask(q{SELECT shard, node FROM shardfdw.shards WHERE relation = 't'::regclass ORDER BY random()});
	my ($shard, $node) = @{ $shards[0] };
	my $mode = rand() < 0.8 ? 'online' : 'block';
	return "split_shard('$shard', mode => '$mode', wait => false)" if @shards < 7 && rand() < 0.4;
	my ($target) = grep { $_ ne $node } map { 'node' . (1 + int rand 3) } 1 .. 10;
	return "move_shard('$shard', '$target', mode => '$mode', wait => false)";
}

my @points = (qw(convert_begun convert_noted convert_copied convert_followed convert_locked convert_switched leftover_claimed),
	qw(move_prepared move_published move_copied move_indexed move_compared move_locked move_named move_closed move_placed move_switched move_released move_finished move_dropped),
	qw(prepare prepared commit committed));

sub wait_up { $c->coordinator->poll_query_until('postgres', 'SELECT true'); return; }

my %happened;
my $end = time + $seconds;
while (time < $end)
{
	my $call = eval { choose_job() } // next;
	my ($what) = $call =~ /^(\w+)/;
	my $event = (qw(nothing error abort cancel terminate kill recover), $seconds > 100 ? 'node' : ())[ rand 8 ] // 'nothing';
	eval { $c->set_faults($points[ rand @points ] . "=$event\@0.3") } if $event =~ /error|abort/;
	my ($rc, $job, $err) = $c->psql("SELECT shardfdw.$call");
	if ($rc == 0)
	{
		sleep rand 1 if $event !~ /nothing|error|abort/;
		my ($pid) = ($c->psql("SELECT pid FROM shardfdw.jobs WHERE id = $job AND state = 'running'"))[1] =~ /^(\d+)$/;
		$c->psql("SELECT shardfdw.cancel_job($job)") if $event eq 'cancel';
		$c->psql("SELECT pg_terminate_backend($pid)") if $event eq 'terminate' && $pid;
		kill 'KILL', $pid if $event eq 'kill' && $pid;
		$c->psql('SELECT shardfdw.recover_prepared_transactions()') if $event eq 'recover';
		if ($event eq 'node')
		{
			my $node = 1 + int rand 3;
			$c->kill9_node($node);
			sleep rand 1;
			$c->start_node($node);
		}
		wait_up();
		(undef, undef, $err) = $c->psql("SELECT shardfdw.wait_job($job)");
	}
	wait_up();
	$happened{$what}{$event}++;
	# the job, or a message with advice
	note "$what, $event: " . ($err =~ s/\n.*//sr) if $err =~ /ERROR/;
	eval { $c->set_faults('') };
}
wait_up();
$c->set_faults('');
append_to_file("$dir/stop", '');
waitpid $_, 0 for @pids;
note join "\n", map { my $what = $_; "$what: " . join ', ', map { "$_ $happened{$what}{$_}" } sort keys %{ $happened{$what} } } sort keys %happened;

# ---------- leftovers ----------

$c->wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'shardfdw mover'});
$c->wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'walsender'}, $_) for 1 .. 3;
# a round that the launcher has begun has ended
$c->wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'shardfdw recovery worker'});
my $said = $c->ask(q{SELECT string_agg(concat_ws(' ', node, action), '; ') FROM shardfdw.recover_prepared_transactions()});
unlike($said, qr/not removed|failed|unreachable/, 'one round of recovery removes all');
my $here = q{SELECT (SELECT count(*) FROM pg_class WHERE relname ~ '^shardfdw_(new|old|changed)_'), (SELECT count(*) FROM pg_proc WHERE proname ~ '^shardfdw_note_[0-9]'), (SELECT count(*) FROM pg_trigger WHERE tgname ~ '^shardfdw_(note|moved)')};
is($c->ask($here), '0|0|0', 'nothing is left here');
for my $node (1 .. 3)
{
	is($c->ask($here, $node), '0|0|0', "nor tables, functions and triggers on node $node");
	is($c->ask(q{SELECT (SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'), (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_replication_slots),
		(SELECT count(*) FROM pg_class WHERE relreplident = 'f'), (SELECT count(*) FROM pg_prepared_xacts), (SELECT count(*) FROM pg_description WHERE description ~ '^shardfdw_[0-9a-f]{16}_')}, $node),
		'0|0|0|0|0|0', 'nor schemas, publications, slots and marks');
	is($c->ask(q{SELECT count(*) FROM pg_class WHERE relname ~ '^t_\d+$' AND relkind = 'r'}, $node), $c->ask("SELECT count(*) FROM shardfdw.shards WHERE relation = 't'::regclass AND node = 'node$node'"), 'and no table besides the shards');
}
is($c->ask(q{SELECT count(*) FROM shardfdw.check_cluster() WHERE status = 'error'}), 0, 'check_cluster() finds nothing wrong');

# ---------- rows ----------

my ($count, $sum, $changes) = split /\|/, $c->ask('SELECT count(*), sum(v), sum(w) FROM t');
is("$count $sum", "$nrows 0", 'all rows are there, and no transaction is half there');
cmp_ok($changes, '>=', scalar lines('^done$'), 'no acknowledged change is lost');
cmp_ok($changes, '<=', scalar lines('^send$'), 'and none was made twice');
cmp_ok(scalar lines('^done$'), '>', $seconds, 'clients were at work');

# ---------- errors ----------

# 40001: the transaction is to be repeated. 57P01, 57P02, 57P03: the coordinator crashed. 58000: a node was lost; 08007: before its answer.
my %allowed = map { $_ => 0 } qw(40001 57P01 57P02 57P03 58000 08007);
my @errors = grep { !/^error (\w+)/ || !exists $allowed{$1} } lines('^error ');
is(join("\n", @errors), '', 'clients have seen documented errors alone');
unlike($c->log_since(0), qr/PANIC|TRAP|segmentation fault/, 'no crash that the test has not made');

done_testing();
