# Sets up a tree of servers: a node is itself a coordinator of other nodes. The node must combine
# what these nodes return.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
my $middle = $c->coordinator;

# The top is another database of the same server; its table has one shard in a table that is sharded itself.
my $columns = 'id bigint, grp int, i int, n numeric, f float8, t text';
$c->safe_psql("CREATE TABLE t ($columns)");
$c->shard_table('t', 'id', shards => 8);
$c->safe_psql(q{INSERT INTO t SELECT i, i % 5, i, i / 7.0, i / 8.0, 'x' || i % 9 FROM generate_series(1, 2000) i;
	CREATE TABLE plain AS SELECT * FROM t; ANALYZE t});
$middle->safe_psql('postgres', 'CREATE DATABASE top');
$middle->safe_psql('top', 'CREATE EXTENSION shardfdw');
$middle->safe_psql('top', sprintf q{SELECT shardfdw.add_node('middle', '%s', %d, 'postgres');
	CREATE TABLE t (%s) PARTITION BY HASH (id);
	CREATE FOREIGN TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0) SERVER middle OPTIONS (table_name 't')}, $middle->host, $middle->port, $columns);

for my $query (
	'SELECT grp, count(*), avg(i), stddev(i), sum(n), variance(n), round(corr(f, i)::numeric, 6), max(t) FROM t GROUP BY grp',
	'SELECT count(DISTINCT t), stddev_pop(n), bool_or(i > 3), regr_count(f, i) FROM t',
	'SELECT a.grp, count(*) FROM t a JOIN t b USING (id) WHERE b.i % 3 = 0 GROUP BY 1 HAVING avg(a.n) > 1')
{
	my ($plain) = $c->safe_psql("SELECT * FROM (${\ ($query =~ s/\bt( a| b|$| GROUP)/plain$1/gr)}) q ORDER BY 1");
	is($middle->safe_psql('top', "SELECT * FROM ($query) q ORDER BY 1"), $plain, $query);
}

# With two shards on the node, partial states of partial states.
$middle->safe_psql('top', q{DROP TABLE t;
	CREATE TABLE t (id bigint, grp int, i int, n numeric, f float8, t text) PARTITION BY RANGE (id);
	CREATE FOREIGN TABLE t_0 PARTITION OF t FOR VALUES FROM (1) TO (1001) SERVER middle OPTIONS (table_name 't_low');
	CREATE FOREIGN TABLE t_1 PARTITION OF t FOR VALUES FROM (1001) TO (2001) SERVER middle OPTIONS (table_name 't_high')});
$c->safe_psql('CREATE VIEW t_low AS SELECT * FROM t WHERE id < 1001; CREATE VIEW t_high AS SELECT * FROM t WHERE id > 1000');
is($middle->safe_psql('top', 'SELECT grp, stddev(i), avg(n), variance(n), sum(i) FROM t GROUP BY grp ORDER BY grp'),
	$c->safe_psql('SELECT grp, stddev(i), avg(n), variance(n), sum(i) FROM plain GROUP BY grp ORDER BY grp'), 'two shards that are views of the sharded table');

my $plan = $middle->safe_psql('top', q{SET shardfdw.explain_remote = on;
	EXPLAIN (VERBOSE, COSTS OFF) SELECT stddev(i), avg(n), regr_slope(f, i) FROM t});
like($plan, qr/Remote Plan:.*PARTIAL shardfdw_internal\.partial_.*Remote SQL: SELECT \(?shardfdw_internal\.partial_/s, 'the node asks its own nodes for partial states');

done_testing();
