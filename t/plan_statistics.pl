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

# What ANALYZE VERBOSE says of each shard: "sampled" or "taken over".
sub analyze
{
	my ($tables) = @_;
	my ($rc, $out, $err) = $c->psql("SET client_min_messages = info; ANALYZE VERBOSE $tables");
	my %what;

	# a shard that is part of the table's own sample is named there first
	while ($err =~ /INFO:  "(t_\d+)": table contains \d+ rows, (\d+ rows in sample|statistics taken over from the node)/g)
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

# The user says how; the node's column has another type.
$c->safe_psql(q{ALTER FOREIGN TABLE t_00 OPTIONS (ADD analyze_sampling 'off')});
$c->node_safe_psql($shards[1][1], "ALTER TABLE t_01 ALTER COLUMN d TYPE timestamp; ANALYZE t_01");
is(analyze('t_00, t_01'), 't_00 sampled t_01 sampled', 'analyze_sampling, and another type');

done_testing();
