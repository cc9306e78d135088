# Runs the queries of sql/diff as statements of a client, on nodes that are separate servers. They
# must give the same rows as from plain tables: with every switch of the planner and the fetchers,
# through cursors, and in a transaction that has written.

use strict;
use warnings;

use ShardCluster;
use DiffQueries;
use Test::More;

my $c = ShardCluster->new(nodes => 3);
make_diff_tables($c);
$c->safe_psql('CREATE TABLE scratch (id int, v int)');
$c->shard_table('scratch', 'id', shards => 6);

my @files = qw(filter prune group query join misc);
my @modes = (
	[ 'diff_seven', [] ],
	[ 'diff_seven', ['shardfdw.enable_shard_scan=off'] ],
	[ 'diff_seven', [ 'shardfdw.enable_copy_fetch=off', 'shardfdw.max_connections_per_node=1' ] ],
	[ 'diff_seven', [ 'shardfdw.enable_partial_aggregate=off', 'enable_hashagg=off', 'shardfdw.max_connections_per_node=2' ] ],
	[ 'diff_one', ['shardfdw.enable_copy_fetch=off'] ],
	# core's own partition planning with joins and groupings of single shards; no hash or merge joins,
	# so that inner sides run again and again
	[ 'diff_seven', [ 'shardfdw.enable_shard_scan=off', 'enable_partitionwise_join=on', 'enable_partitionwise_aggregate=on' ] ],
	[ 'diff_seven', [ 'enable_hashjoin=off', 'enable_mergejoin=off', 'enable_material=off', 'shardfdw.max_connections_per_node=1' ] ]);

# Settings that change how values and names are printed and read; 19 does not let go of standard strings.
my @strange = (
	'DateStyle=German', 'IntervalStyle=iso_8601', 'bytea_output=escape', 'quote_all_identifiers=on',
	'TimeZone=Asia/Kolkata', 'extra_float_digits=0', 'array_nulls=off', 'jit=off');
push @strange, 'standard_conforming_strings=off'
  if $c->safe_psql('SHOW server_version_num') < 190000;

my @runs = (
	(map { [ @$_, common => [ 'TimeZone=America/New_York', 'jit=off' ] ] } @modes),
	# Floats within a whole row are printed by the node with this few digits.
	[ 'diff_seven', [], common => \@strange, skip => qr/^SELECT x FROM types/ ],
	[ 'diff_seven', ['shardfdw.max_connections_per_node=2'],
		before    => "\\set FETCH_COUNT 3\n",
		no_errors => 1,
		skip      => qr/^SELECT FROM/,    # psql prints such rows in another way
		title     => 'through cursors' ],
	[ 'diff_seven', [],
		before => "BEGIN ISOLATION LEVEL REPEATABLE READ; INSERT INTO public.scratch SELECT g, g FROM generate_series(1, 50) g;\n",
		after  => 'ROLLBACK;',
		no_errors => 1,
		title     => 'after writing' ]);
my $n = 0;
for my $file (@files)
{
	queries_ok($c, $file, @$_) for grep { ShardCluster::in_half($n++) } @runs;
}

# Nothing is open on the nodes at the end.
for my $i (1 .. 3)
{
	$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'", $i);
	is($c->node_safe_psql($i, 'SELECT count(*) FROM pg_prepared_xacts'), '0', "no prepared transaction on node $i");
}

done_testing();
