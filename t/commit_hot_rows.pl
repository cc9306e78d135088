# Many clients write a few rows at the same time: single statements, transactions over several
# nodes, notifications, and readers of cluster snapshots. Nodes stop for a while. Each snapshot must
# have the right sums, and each acknowledged commit must be there. A session must not wait for a
# node that it does not use.
#
# HOT_SECONDS is the duration in seconds (5 by default; PG_TEST_TIMEOUT_DEFAULT has to be longer).
# HOT_STOP is the longest time in seconds for which nodes are stopped (1). If HOT_BOUND is set, no
# commit on running nodes may take more seconds than that. Otherwise the test only prints the
# longest time, because a busy machine may take any time.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use Time::HiRes qw(sleep time);
use WireClient;

my $seconds = $ENV{HOT_SECONDS} // 5;
my $longest_stop = $ENV{HOT_STOP} // 1;
my $nnodes = 4;
my $c = ShardCluster->new(nodes => $nnodes, preload => 1, coordinator_conf => 'shardfdw.recovery_interval = 1s');
my $dir = PostgreSQL::Test::Utils::tempdir();

# v: transfers do not change its sum; n: counts single statements
$c->safe_psql('CREATE TABLE hot (k int PRIMARY KEY, v bigint NOT NULL DEFAULT 0, n bigint NOT NULL DEFAULT 0)');
$c->shard_table('hot', 'k', shards => 2 * $nnodes);
$c->safe_psql('INSERT INTO hot SELECT i FROM generate_series(1, 1000) i');

# Per node two hot rows, and further ones that belong to one client each
my @rows = map { [] } 0 .. $nnodes;
for (split /\n/, $c->safe_psql("SELECT substr(srvname, 5), k FROM hot JOIN pg_foreign_table ON ftrelid = hot.tableoid JOIN pg_foreign_server s ON s.oid = ftserver ORDER BY k"))
{
	my ($node, $k) = split /\|/;
	push @{ $rows[$node] }, $k;
}
my @hot = sort { $a <=> $b } map { shift @{ $rows[$_] }, shift @{ $rows[$_] } } 1 .. $nnodes;

my $end = time + $seconds;
my %client;    # pid -> name

# Starts a client. It calls body with its connection again and again until the time is over. It
# writes each result of body as a line to the client's file. body has to handle lost connections and
# errors.
sub start_client
{
	my ($name, $body) = @_;
	my $pid = fork // die "could not fork: $!";

	if ($pid == 0)
	{
		$SIG{$_} = 'DEFAULT' for keys %SIG;
		open my $out, '>', "$dir/$name" or POSIX::_exit(1);
		$out->autoflush(1);
		srand $$;
		my $ok = eval {
			my $session = WireClient->new($c->coordinator, 'postgres');
			while (time < $end)
			{
				print $out "$_\n" for $body->($session);
			}
			1;
		};
		print $out 'died: ' . ($@ || '') . "\n" unless $ok;
		POSIX::_exit($ok ? 0 : 1);
	}
	$client{$pid} = $name;
	return;
}

sub lines
{
	my ($name) = @_;
	open my $fh, '<', "$dir/$name" or die "$name: $!";
	chomp(my @lines = <$fh>);
	return @lines;
}

require POSIX;
sub any { return $_[ int rand @_ ]; }

# what: "ok", or the SQLSTATE
sub outcome { my ($result) = @_; return $result->{error} ? $result->{error}{C} : 'ok'; }

for my $i (1 .. 4)
{
	start_client("single$i", sub {
		my ($session) = @_;
		return outcome($session->query('UPDATE hot SET n = n + 1 WHERE k = ' . any(@hot)));
	});
	start_client("transfer$i", sub {
		my ($session) = @_;
		my ($from, $to) = sort { $a <=> $b } any(@hot), any(@hot);
		my $amount = int(rand 200) - 100;
		my $result = $session->query("BEGIN; UPDATE hot SET v = v - ($amount) WHERE k = $from; UPDATE hot SET v = v + ($amount) WHERE k = $to; COMMIT");
		$session->query('ROLLBACK') if $result->{error};
		return outcome($result);
	});
}
for my $i (1 .. 2)
{
	start_client("notifier$i", sub {
		my ($session) = @_;
		my $result = $session->query('BEGIN; UPDATE hot SET n = n + 1 WHERE k = ' . any(@hot) . "; NOTIFY hot; COMMIT");
		$session->query('ROLLBACK') if $result->{error};
		return outcome($result);
	});
	start_client("reader$i", sub {
		my ($session) = @_;
		my $result = $session->query("SET shardfdw.snapshot = 'cluster'; SELECT sum(v) FROM hot");
		return $result->{error} ? $result->{error}{C} . ' ' . $result->{error}{M} : "sum $result->{rows}[0][0]";
	});
}

# Commits on one node and on two nodes, on rows that no other session writes. Each commit's time is
# recorded.
for my $node (1 .. $nnodes)
{
	my $next = $node % $nnodes + 1;
	my ($alone, $first, $second) = ($rows[$node][0], $rows[$node][1], $rows[$next][2]);

	start_client("probe$node", sub {
		my ($session) = @_;
		my @told;
		for my $probe ([ "$node", "UPDATE hot SET n = n + 1 WHERE k = $alone" ], [ "$node", "BEGIN; UPDATE hot SET n = n + 1 WHERE k = $alone; COMMIT" ],
			[ "$node,$next", "BEGIN; UPDATE hot SET n = n + 1 WHERE k = $first; UPDATE hot SET n = n + 1 WHERE k = $second; COMMIT" ])
		{
			my $start = time;
			my $result = $session->query($probe->[1]);
			push @told, join ' ', $probe->[0], $start, time, outcome($result);
			$session->query('ROLLBACK') if $result->{error};
		}
		sleep 0.01;
		return @told;
	});
}

# Stop nodes while the clients work.
my @stops;
while (time < $end)
{
	my $node = 1 + int rand $nnodes;
	my $start = time;
	$c->sigstop_node($node);
	sleep(0.2 + rand($longest_stop - 0.2));
	$c->sigcont_node($node);
	push @stops, [ $node, $start, time ];
	sleep rand 1;
}
my $failed = 0;
while (%client)
{
	my $pid = waitpid -1, 0;
	my $name = delete $client{$pid} // next;
	$failed++ if $? != 0;
	diag("$name: " . (lines($name))[-1]) if $? != 0;
}
is($failed, 0, 'all clients have come to an end');

my %count;
my $wrong = 0;
for my $name (map { ("reader$_") } 1 .. 2)
{
	for (lines($name))
	{
		my $kind = /^sum/ ? 'taken' : 'refused';
		$count{$kind}++;
		$wrong++ if /^sum/ && $_ ne 'sum 0';
		fail("a snapshot is refused for a strange reason: $_") if $kind eq 'refused' && !/node "node\d" did not answer in time|within 5 seconds|connect(?:ion)? to node/;
	}
}
is($wrong, 0, 'each snapshot over all nodes has the right sum');
note(sprintf '%d snapshots taken, %d refused', map { $count{$_} // 0 } qw(taken refused));
is($c->safe_psql('SELECT sum(v) FROM hot'), '0', 'and so has the end');

# Each transaction that was reported as committed must be there. A transaction with an unknown
# outcome may be.
my %told;
for my $name (map { ("single$_") } 1 .. 4) { $told{$_}++ for lines($name); }
for my $name (map { ("notifier$_") } 1 .. 2) { $told{$_}++ for lines($name); }
my $done = $c->safe_psql('SELECT sum(n) FROM hot WHERE k IN (' . join(', ', @hot) . ')');
my $unknown = $told{'08007'} // 0;
ok($told{ok} <= $done && $done <= $told{ok} + $unknown, 'what was told to be committed, and nothing else, is there')
  or diag("$told{ok} told, $unknown unknown, $done done");
$told{$_}++ for map { lines("transfer$_") } 1 .. 4;
note('outcomes of writers: ' . join ', ', map { "$_ $told{$_}" } sort keys %told);

# How long did commits on running nodes take?  (A node that continues first has a backlog. It gets
# one more second.)
my @took;
my $nprobes = 0;
for my $name (map { "probe$_" } 1 .. $nnodes)
{
	for (lines($name))
	{
		my ($nodes, $start, $stop, $outcome) = split / /;
		my %needs = map { $_ => 1 } split /,/, $nodes;
		$nprobes++;
		next if grep { $needs{ $_->[0] } && $_->[1] < $stop && $_->[2] + 1 > $start } @stops;
		push @took, $stop - $start;
		fail("a commit on nodes that run fails: $_") if $outcome ne 'ok';
	}
}
@took = sort { $a <=> $b } @took;
ok(@took > 0, 'commits on nodes that run were looked at');
note(sprintf '%d stops; %d of %d commits on rows of their own had nodes that ran all the time: median %.1f ms, 99 of 100 %.1f ms, longest %.1f ms', scalar @stops, scalar @took, $nprobes, map { 1000 * $_ } $took[ @took / 2 ], $took[ @took * 0.99 ], $took[-1]);
cmp_ok($took[-1], '<', $ENV{HOT_BOUND}, "none took longer than $ENV{HOT_BOUND} s") if $ENV{HOT_BOUND};

$c->wait_for('SELECT count(*) = 0 FROM pg_prepared_xacts', $_) for 1 .. $nnodes;
pass('nothing is prepared any more');
$c->wait_for("SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory' AND classid = x'73686172'::int::oid");
pass('no lock is left');

done_testing();
