# ANALYZE of shards must take over the statistics of the nodes if the nodes have them. Otherwise the
# statistics must come from a sample.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2);

$c->safe_psql('CREATE TABLE t (id bigint NOT NULL, v int, d date)');
$c->shard_table('t', 'id', shards => 2);
$c->safe_psql(q{INSERT INTO t SELECT i, i % 20, date '2024-01-01' + i % 400 FROM generate_series(1, 4000) i});

# Returns the message of ANALYZE VERBOSE for each shard: "sampled" or "taken over".
sub analyze
{
	my ($tables) = @_;
	my ($rc, $out, $err) = $c->psql("SET client_min_messages = info; ANALYZE VERBOSE $tables");
	my %what;

	# a shard that is part of the table's sample is first named there
	while ($err =~ /INFO:  "([tu]_\d+)": table contains \d+ rows, (\d+ rows in sample|statistics taken over from the node)/g)
	{
		$what{$1} = index($2, 'sample') < 0 ? 'taken over' : 'sampled';
	}
	return join ' ', map { "$_ $what{$_}" } sort keys %what;
}

# ANALYZE on the node of each shard, or of all.
sub analyze_nodes
{
	is($c->safe_psql(q{SELECT bool_and(ok) FROM shardfdw.run_on_shards('t', 'ANALYZE %s')}), 't', 'ANALYZE on the nodes');
}

is(analyze('t'), 't_00 sampled t_01 sampled', 'nodes that have no statistics');
analyze_nodes();
is(analyze('t'), 't_00 taken over t_01 taken over', 'nodes that have some');

# Rows that changed since make them stale.
$c->safe_psql('UPDATE t SET v = v + 1');
my @shards = $c->shards_of('t');
$c->wait_for("SELECT n_mod_since_analyze > 1000 FROM pg_stat_user_tables WHERE relname = '$_->[0]'", $_->[1]) for @shards;
is(analyze('t_00, t_01'), 't_00 sampled t_01 sampled', 'stale statistics');
analyze_nodes();
is(analyze('t_00, t_01'), 't_00 taken over t_01 taken over', 'fresh ones');

# An option chooses the way. The node's column has another type.
$c->safe_psql(q{ALTER FOREIGN TABLE t_00 OPTIONS (ADD analyze_sampling 'off')});
$c->node_safe_psql($shards[1][1], "ALTER TABLE t_01 ALTER COLUMN d TYPE timestamp; ANALYZE t_01");
is(analyze('t_00, t_01'), 't_00 sampled t_01 sampled', 'analyze_sampling, and another type');

# A node may return anything. Statistics that the planner cannot read are not used.
$c->safe_psql(q{CREATE TABLE u (id int NOT NULL, v int)});
$c->shard_table('u', 'id', shards => 1);
my ($node) = map { $_->[1] } $c->shards_of('u');
$c->safe_psql(q{INSERT INTO u SELECT i, i % 20 FROM generate_series(1, 4000) i});
$c->node_safe_psql($node, 'SET allow_system_table_mods = on; ALTER VIEW pg_catalog.pg_stats RENAME TO pg_stats_real;
	ANALYZE u_00');
my %says = (
	null_frac => [ 'NULL::real', q{'NaN'::real}, '-1::real', '2::real', q{'x'::text} ],
	avg_width => [ 'NULL::int', '-5', q{'many'::text} ],
	n_distinct => [ 'NULL::real', q{'NaN'::real}, q{'infinity'::real}, '-2::real' ],
	most_common_vals => [ q{'{1}'::int[]}, q{'{}'::int[]}, q{'{{1,2},{3,4}}'::int[]},
		q{array_append(array_fill(1, '{19}'), NULL)} ],
	most_common_freqs => [ q{'{0.5}'::real[]}, q{array_fill('NaN'::real, '{20}')}, q{array_fill(-0.1, '{20}')},
		q{array_append(array_fill(0.1, '{19}'), NULL)}, q{array_fill(2, '{20}')} ],
	histogram_bounds => [ q{'{}'::int[]}, q{'{1}'::int[]}, q{'{1,NULL}'::int[]}, q{'{{1,2}}'::int[]} ],
	correlation => [ q{'NaN'::real}, '7::real', q{'x'::text} ]);
my @columns = qw(schemaname tablename attname inherited null_frac avg_width n_distinct most_common_vals
  most_common_freqs histogram_bounds correlation);
sub with_stats
{
	my ($column, $value) = @_;
	my $list = join ', ', map { $_ eq $column ? "$value AS $_" : $_ } @columns;

	$c->node_safe_psql($node, "SET allow_system_table_mods = on;
		DROP VIEW IF EXISTS pg_catalog.pg_stats; CREATE VIEW pg_catalog.pg_stats AS SELECT $list FROM pg_catalog.pg_stats_real");
	return analyze('u') . ' ' . $c->safe_psql('SELECT count(*) FROM u WHERE v = 3 AND id < 100');
}
is(with_stats('', ''), 'u_00 taken over 5', 'statistics as they are');
for my $column (sort keys %says)
{
	is(with_stats($column, $_), 'u_00 sampled 5', "$column: $_") for @{ $says{$column} };
}

done_testing();
