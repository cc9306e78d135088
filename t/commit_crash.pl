# Sets up a bank over four nodes and crashes something every second: the coordinator, a node, a
# backend or a postmaster, at each point of a commit. Nodes also hang, and sessions are terminated.
# No acknowledged commit may be lost and no commit may be partial. Each cluster snapshot must have
# the right sum. No transaction may stay prepared.
#
# CRASH_CYCLES is the number of crashes (20 by default). CRASH_SEED changes the random choices.

use strict;
use warnings;

use CrashDriver;
use ShardCluster;
use Test::More;

my $cycles = $ENV{CRASH_CYCLES} // 20;
my $c = ShardCluster->new(
	nodes            => 4,
	preload          => 1,
	coordinator_conf => CrashDriver::coordinator_conf(),
	node_conf        => "checkpoint_timeout = 30s\n");
my $bank = CrashDriver->new(cluster => $c, seed => $ENV{CRASH_SEED} // 1);

$bank->start;
my @kinds = map { $bank->crash($_) } 1 .. $cycles;
$bank->stop;
my %found = $bank->verdict;
note "$cycles crashes: $found{committed} transactions committed, $found{acknowledged} acknowledged; $found{audits} audits; died at: $found{reached}";
cmp_ok($found{acknowledged}, '>', 10 * $cycles, 'the bank was at work');
is($found{lost}, 0, 'no acknowledged commit is lost');
is($found{halves}, 0, 'no transaction is there in part');
is($found{balance}, 0, 'the balances add up');
is($found{wrong}, 0, 'nor does any audit differ');
is($found{prepared}, 0, 'nothing stays prepared');
is($found{panics}, 0, 'no server panics');
is($found{outlived}, 0, 'no backend outlives its postmaster');
SKIP:
{
	skip 'the library has no fault points', 1 unless $bank->{faults};
	skip 'too few cycles to come by every point', 1 if $cycles < 20;
	for my $point (CrashDriver::points())
	{
		like(" $found{reached} ", qr/ $point /, "a process died at \"$point\"");
	}
}

done_testing();
