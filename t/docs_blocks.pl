# The commands of the pages from which people learn, in order, each page on a cluster of its own; what the pages show
# of their results is what comes.

use strict;
use warnings;

use DocBlocks;
use ShardCluster;
use Test::More;

# how many blocks of each page are run, and how many are not
my %expected = ('docs/start.md' => [ 13, 3 ], 'docs/choosing.md' => [ 9, 0 ], 'docs/migration.md' => [ 10, 3 ]);

for my $page (grep { -e } sort keys %expected)
{
	my $c = ShardCluster->new(nodes => 4);
	my %count = run_blocks($c, $page);

	is("$count{run} run, $count{fragments} fragments", "$expected{$page}[0] run, $expected{$page}[1] fragments", "blocks of $page");
	note "$page: $count{outputs} outputs";
	$_->stop('immediate') for $c->coordinator, $c->nodes;
}

done_testing();
