# Runs the commands of the pages from which users learn, in order. Most pages get a separate
# cluster. The results must be those that the pages show.

use strict;
use warnings;

use DocBlocks;
use ShardCluster;
use Test::More;

# how many blocks of each page are run, and how many are not
my %expected = (
	'docs/start.md' => [ 14, 3 ],
	'docs/choosing.md' => [ 10, 0 ],
	'docs/extensions.md' => [ 4, 0 ],
	'docs/frameworks.md' => [ 4, 2 ],
	'docs/tuning.md' => [ 10, 0 ],
	'docs/install.md' => [ 6, 9 ],
	'docs/migration.md' => [ 10, 4 ],
	'docs/usage.md' => [ 10, 13 ],
	'docs/production.md' => [ 10, 2 ],
	'docs/tutorial_saas.md' => [ 10, 2 ],
	'docs/tutorial_analytics.md' => [ 9, 0 ],
	'docs/tutorial_time_series.md' => [ 10, 0 ]);

my $shared;
for my $page (grep { -e } sort keys %expected)
{
	# the tables of these pages have different names, so the pages share a cluster
	my $shares = $page =~ /tutorial|production/;
	my $c = ($shares && $shared) || ShardCluster->new(nodes => 4, $shares ? (node_conf => "wal_level = logical\n") : ());
	$shared = $c if $shares;
	$c->safe_psql("ALTER SERVER node$_ RENAME TO n$_") for $page eq 'docs/usage.md' ? (1 .. 4) : ();
	my %count = run_blocks($c, $page);

	is("$count{run} run, $count{fragments} fragments", "$expected{$page}[0] run, $expected{$page}[1] fragments", "blocks of $page");
	note "$page: $count{outputs} outputs";
	next if $shares;
	$_->stop('immediate') for $c->coordinator, $c->nodes;
}

done_testing();
