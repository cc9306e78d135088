# The parallel workers of a node must be used if the node's active shards leave cores idle, and not
# otherwise.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

# The postmaster logs each start of a worker at this level.
my $c = ShardCluster->new(
	nodes     => 2,
	node_conf => "log_min_messages = debug1\nmax_parallel_workers_per_gather = 2\nmax_parallel_workers = 8\n"
	  . "min_parallel_table_scan_size = 0\nparallel_setup_cost = 0\nparallel_tuple_cost = 0\n");
$c->safe_psql('CREATE TABLE large (id int, g int, v numeric); CREATE TABLE many (id int, g int, v numeric)');
$c->shard_table('large', 'id', shards => 2);
$c->shard_table('many', 'id', shards => 16);

# The number of cores that add_node found on this machine does not matter here.
sub set_cores
{
	my ($n) = @_;
	for my $i (1 .. 2)
	{
		my ($rc) = $c->psql("ALTER SERVER node$i OPTIONS (SET cores '$n')");
		$c->safe_psql("ALTER SERVER node$i OPTIONS (ADD cores '$n')") if $rc != 0;
	}
	return;
}
set_cores(2);
$c->safe_psql("INSERT INTO $_ SELECT g, g % 7, g FROM generate_series(1, 60000) g") for 'large', 'many';
$c->node_safe_psql($_, 'ANALYZE') for 1 .. 2;

# Workers that each node started for a query, and its answer.
sub workers
{
	my ($sql) = @_;
	my @position = map { $c->log_position($_) } 1 .. 2;
	my $out = $c->safe_psql($sql);
	my @n;
	for my $i (1 .. 2)
	{
		# A worker's message at its end may come after the answer. Its message at the start may not.
		my $log = $c->log_since($position[ $i - 1 ], $i);
		push @n, scalar(() = $log =~ /starting background worker process "parallel worker/g);
	}
	return ($out, @n);
}

my $groups = join "\n", map { my $g = $_; "$g|" . scalar(grep { $_ % 7 == $g } 1 .. 60_000) } 0 .. 6;
for my $copy ('on', 'off')
{
	my $set = "SET shardfdw.enable_copy_fetch = $copy;";
	my ($out, @n) = workers("$set SELECT g, count(*) FROM large GROUP BY g ORDER BY g");
	is($out, $groups, "one large shard per node: groups (copy fetch $copy)");
	cmp_ok($n[$_], '>', 0, 'one large shard per node: workers on node ' . ($_ + 1) . " (copy fetch $copy)") for 0, 1;

	($out, @n) = workers("$set SELECT g, count(*), avg(v) FROM many GROUP BY g ORDER BY g");
	is(join(' ', @n), '0 0', "eight shards per node: no workers (copy fetch $copy)");

	($out, @n) = workers("$set SELECT g, count(*) FROM many WHERE id = 5 GROUP BY g");
	is($out, '5|1', "one shard: pruned (copy fetch $copy)");
}

# The number of cores in a node's options
set_cores(64);
my ($out, @n) = workers('SELECT g, count(*) FROM many GROUP BY g ORDER BY g');
is($out, $groups, 'many cores: groups');
cmp_ok($n[0] + $n[1], '>', 0, 'eight shards on a node with many cores: workers');
set_cores(2);
($out, @n) = workers('SELECT g, count(*) FROM many GROUP BY g ORDER BY g');
is(join(' ', @n), '0 0', 'eight shards on a node with two cores: none');
# Costs of CPU depend on how many streams share a core: the user's costs, times that number
$c->node_safe_psql($_, q{DO $$BEGIN EXECUTE format('ALTER DATABASE %I SET log_statement = %L', current_database(), 'all'); END$$}) for 1, 2;
sub costs
{
	my ($sql) = @_;
	my $position = $c->log_position(1);
	$c->safe_psql("SET shardfdw.query_per_node = off; $sql");
	return join ' ', $c->log_since($position, 1) =~ /((?:RE)?SET cpu_tuple_cost(?: = [0-9.]+)?);/g;
}
my $all = 'SELECT count(*) FROM many';
is(costs($all), join(' ', ('SET cpu_tuple_cost = 0.04') x 8), 'eight streams of either node on two cores: four times the costs, no more');
is(costs("SET cpu_tuple_cost = 0.02; $all"), join(' ', ('SET cpu_tuple_cost = 0.08') x 8), 'of what the user has set here');
is(costs("SET shardfdw.enable_cpu_factor = off; $all"), '', 'not when it is switched off');
set_cores(8);
is(costs($all), join(' ', ('SET cpu_tuple_cost = 0.02') x 8), 'both nodes are on one machine, whose eight cores sixteen streams share');
set_cores(2);
my $one = $c->safe_psql("SELECT i FROM generate_series(1, 1000) i WHERE (SELECT s.node FROM shardfdw.shards s WHERE s.shard = shardfdw.shard_for('many', i)) = 'node1' LIMIT 1");
is(costs("SET shardfdw.enable_router = off; $all; SELECT count(*) FROM many WHERE id = $one"),
	join(' ', ('SET cpu_tuple_cost = 0.04') x 8, 'RESET cpu_tuple_cost'), q{a stream alone: the node's own costs again});
set_cores(64);
is(costs($all), '', q{many cores: the node's own costs});
$c->psql("ALTER SERVER node$_ OPTIONS (DROP cores)") for 1, 2;
is(costs($all), '', 'not known how many cores: likewise');

# A node has more shards than connections
$c->safe_psql('CREATE TABLE uneven (id int, g int, v int) PARTITION BY HASH (id)');
$c->safe_psql(q{SELECT shardfdw.create_shard('uneven', 'uneven_' || i, format('FOR VALUES WITH (MODULUS 8, REMAINDER %s)', i), CASE WHEN i < 7 THEN 'node1' ELSE 'node2' END) FROM generate_series(0, 7) i});
$c->safe_psql('INSERT INTO uneven SELECT i, i % 3000, i FROM generate_series(1, 60000) i; ANALYZE uneven');
my $by_key = 'SELECT count(*), sum(n), sum(v) FROM (SELECT id, count(*) AS n, max(v) AS v FROM uneven GROUP BY id OFFSET 0) s';
is($c->safe_psql("SET shardfdw.max_connections_per_node = $_; $by_key"), '60000|60000|1800030000', "all shards are read, $_ connections to a node") for 1, 1, 1, 2, 3, 8;

done_testing();
