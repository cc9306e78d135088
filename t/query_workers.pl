# The parallel workers of a node must be used if the node's active shards leave cores idle, and not
# otherwise.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use Time::HiRes qw(usleep);
use WireClient;

# The postmaster logs each start of a worker at this level.
my $c = ShardCluster->new(
	nodes     => 2,
	node_conf => "log_min_messages = debug1\nmax_parallel_workers_per_gather = 2\nmax_parallel_workers = 8\n"
	  . "min_parallel_table_scan_size = 0\nparallel_setup_cost = 0\nparallel_tuple_cost = 0\n");
$c->safe_psql('CREATE TABLE large (id int, g int, v numeric); CREATE TABLE many (id int, g int, v numeric)');
$c->shard_table('large', 'id', shards => 2);
$c->shard_table('many', 'id', shards => 16);

# What add_node found out about this machine's cores does not matter here.
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
		# What a worker says when it ends may come after the answer, what starts it may not.
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

# The number of cores that a node is said to have
set_cores(64);
my ($out, @n) = workers('SELECT g, count(*) FROM many GROUP BY g ORDER BY g');
is($out, $groups, 'many cores: groups');
cmp_ok($n[0] + $n[1], '>', 0, 'eight shards on a node with many cores: workers');
set_cores(2);
($out, @n) = workers('SELECT g, count(*) FROM many GROUP BY g ORDER BY g');
is(join(' ', @n), '0 0', 'eight shards on a node with two cores: none');
# Costs of CPU by how many streams share a core: the user's costs here, times that
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
my $one = $c->safe_psql("SELECT i FROM generate_series(1, 1000) i WHERE (SELECT s.node FROM shardfdw.shards s WHERE s.shard = shardfdw.shard_for('many', i)) = 'node1' LIMIT 1");
is(costs("SET shardfdw.enable_router = off; $all; SELECT count(*) FROM many WHERE id = $one"),
	join(' ', ('SET cpu_tuple_cost = 0.04') x 8, 'RESET cpu_tuple_cost'), q{a stream alone: the node's own costs again});
set_cores(64);
is(costs($all), '', q{many cores: the node's own costs});
$c->psql("ALTER SERVER node$_ OPTIONS (DROP cores)") for 1, 2;
is(costs($all), '', 'not known how many cores: likewise');

# Groups of whole nodes: nodes of one machine take turns when it has fewer cores
$c->safe_psql('CREATE TABLE grouped (id int, g int, v int); CREATE TABLE plain AS SELECT i AS id, i % 3000 AS g, i AS v FROM generate_series(1, 60000) i');
$c->shard_table('grouped', 'id', shards => 16);
$c->safe_psql('INSERT INTO grouped SELECT * FROM plain; ANALYZE grouped');
my $by_group = 'SELECT g, count(*), stddev(v) FROM %s GROUP BY g';
my $sums     = 'SELECT count(*), sum(g), sum(count), sum(stddev) FROM (' . $by_group . ') s';
my $expected = $c->safe_psql(sprintf $sums, 'plain');
like($c->safe_psql('EXPLAIN (VERBOSE) ' . sprintf $by_group, 'grouped'), qr/Query Per Node: true/, 'groups are combined on the nodes');

my ($first, $second) = map { my $i = $_; (grep { $_->[1] == $i } $c->shards_of('grouped'))[0]->[0] } 1, 2;
my $locker = WireClient->new($c->node(1), 'postgres');
my $reader = WireClient->new($c->coordinator, 'postgres');
for my $case ([ 1, 0 ], [ 2, 1 ])
{
	my ($cores, $others) = @$case;
	set_cores($cores);
	is($c->safe_psql(sprintf $sums, 'grouped'), $expected, "$cores cores, two nodes: groups");
	$locker->query("BEGIN; LOCK TABLE $first");
	my @position = map { $c->log_position($_) } 1, 2;
	$reader->start_query(sprintf $sums, 'grouped');
	$c->wait_for('SELECT count(*) > 0 FROM pg_locks WHERE NOT granted', 1);
	usleep(100_000);    # the other one has long been sent its statement, if it is to be sent one
	is(scalar(() = $c->log_since($position[1], 2) =~ /GROUP BY/g), $others, "$cores cores: " . ($others ? 'the other one works' : 'the other one has its turn later'));
	$locker->query('COMMIT');
	my $result = $reader->finish_query($PostgreSQL::Test::Utils::timeout_default);
	is(join('|', @{ $result->{rows}[0] }), $expected, "$cores cores: then it works");
}
# Groups of single shards, many of each: the shards of a node in one statement where it has no more than a core for itself
my $by_key = 'SELECT count(*), sum(n), sum(v) FROM (SELECT id, count(*) AS n, max(v) AS v FROM %s GROUP BY id OFFSET 0) s';
my $expected_keys = $c->safe_psql(sprintf $by_key, 'plain');
sub statements
{
	my ($sql) = @_;
	my @position = map { $c->log_position($_) } 1, 2;
	my $out = $c->safe_psql("SET shardfdw.query_per_node = off; $sql");
	return "$out: " . join ' ', map { scalar(() = $c->log_since($position[ $_ - 1 ], $_) =~ /statement: .*FROM public\.grouped_/g) } 1, 2;
}
for my $case ([ 1, '1 1' ], [ 2, '1 1' ], [ 4, '8 8' ])
{
	set_cores($case->[0]);
	is(statements(sprintf $by_key, 'grouped'), "$expected_keys: $case->[1]", "$case->[0] cores, two nodes: statements for groups of shards");
}
set_cores(2);
is(statements('SET shardfdw.max_connections_per_node = 7; ' . sprintf $by_key, 'grouped'), "$expected_keys: 8 8", 'more shards than connections: a statement for each');
is(statements('SELECT count(*) FROM grouped'), '60000: 8 8', 'one group: a statement for each shard');
is($c->safe_psql('SELECT count(*), sum(v) FROM (SELECT DISTINCT id, v FROM grouped) s'), $c->safe_psql('SELECT count(*), sum(v) FROM plain'), 'distinct rows');
is($c->safe_psql(sprintf $by_key, 'grouped WHERE id = ANY (ARRAY[5, 6, 7])'), '3|3|18', 'groups of some keys');
set_cores(1);
$locker->query("BEGIN; LOCK TABLE $first");
{
	my @position = map { $c->log_position($_) } 1, 2;
	$reader->start_query(sprintf $by_key, 'grouped');
	$c->wait_for('SELECT count(*) > 0 FROM pg_locks WHERE NOT granted', 1);
	usleep(100_000);
	unlike($c->log_since($position[1], 2), qr/GROUP BY/, 'groups of shards: the other node has its turn later');
	$locker->query('COMMIT');
	my $result = $reader->finish_query($PostgreSQL::Test::Utils::timeout_default);
	is(join('|', @{ $result->{rows}[0] }), $expected_keys, 'groups of shards: then it works');
}
# A statement, a loop or a cursor's transaction may write while groups are read. Groups that are
# read later must not show these rows.
$c->safe_psql(q{CREATE FUNCTION write(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO grouped SELECT 100000 + i, 0, 0 FROM generate_series($1 * 10, $1 * 10 + 9) i; RETURN $1; END'});
is($c->safe_psql("BEGIN; SELECT count(*), sum(n) FROM (SELECT id, count(*) AS n, write(id % 100) AS w FROM grouped GROUP BY id HAVING id <= 20 OFFSET 0) s; ROLLBACK"), '20|20', 'a function that writes, called for groups');
is($c->safe_psql(q{CREATE FUNCTION loop_over() RETURNS bigint LANGUAGE plpgsql AS $$DECLARE r record; n bigint := 0; BEGIN
	FOR r IN SELECT id, count(*) AS c FROM grouped GROUP BY id LOOP n := n + 1; IF r.id < 10 THEN INSERT INTO grouped VALUES (200000 + r.id, 0, 0); END IF; END LOOP; RETURN n; END$$;
	BEGIN; SELECT loop_over(); ROLLBACK}), '60000', 'a loop that writes');
# One server has more shards than connections, the other waits for it
$c->safe_psql('CREATE TABLE uneven (id int, g int, v int) PARTITION BY HASH (id)');
$c->safe_psql(q{SELECT shardfdw.create_shard('uneven', 'uneven_' || i, format('FOR VALUES WITH (MODULUS 8, REMAINDER %s)', i), CASE WHEN i < 7 THEN 'node1' ELSE 'node2' END) FROM generate_series(0, 7) i});
$c->safe_psql('INSERT INTO uneven SELECT * FROM plain; ANALYZE uneven');
is($c->safe_psql("SET shardfdw.max_connections_per_node = $_; " . sprintf $by_key, 'uneven'), $expected_keys, "all shards are read, $_ connections to a node") for 1, 1, 1, 2, 3, 8;
is($c->safe_psql('SELECT id, n FROM (SELECT id, count(*) AS n FROM grouped GROUP BY id) s ORDER BY id LIMIT 2'), "1|1\n2|1", 'groups of shards, and a LIMIT');
is($c->safe_psql('BEGIN; DELETE FROM grouped WHERE id = 0; DECLARE c CURSOR FOR SELECT id, count(*) FROM grouped GROUP BY id; MOVE 1 IN c; DELETE FROM grouped WHERE g < 100; MOVE ALL IN c; ROLLBACK; SELECT count(*) FROM grouped'),
	60000, 'groups of shards in a cursor beside one that writes');
is($c->safe_psql('SELECT g, count FROM (' . sprintf($by_group, 'grouped') . ' ORDER BY g LIMIT 2) s'), "0|20\n1|20", 'turns, and a LIMIT');
is( $c->safe_psql('SELECT sum(n) FROM generate_series(1, 3) i, LATERAL (SELECT count(*) AS n FROM (' . sprintf($by_group, 'grouped WHERE v % 10 <> i') . ' OFFSET 0) s) l'),
	$c->safe_psql('SELECT sum(n) FROM generate_series(1, 3) i, LATERAL (SELECT count(*) AS n FROM (' . sprintf($by_group, 'plain WHERE v % 10 <> i') . ' OFFSET 0) s) l'),
	'turns, scanned again with other values');
$c->safe_psql('CREATE TABLE target (g int, n bigint, s numeric)');
$c->shard_table('target', 'g', shards => 4);
$c->safe_psql('BEGIN; INSERT INTO grouped VALUES (0, 3001, 1); INSERT INTO target ' . sprintf($by_group, 'grouped') . '; COMMIT');
is($c->safe_psql('SELECT count(*), sum(n) FROM target'), '3001|60001', 'a statement that writes');
is($c->safe_psql('BEGIN; DELETE FROM grouped WHERE id = 0; DECLARE c CURSOR FOR ' . sprintf($by_group, 'grouped') . '; MOVE 1 IN c; DELETE FROM grouped WHERE g < 100; MOVE ALL IN c; ROLLBACK; SELECT count(*) FROM grouped'),
	60001, 'a cursor beside one that writes');
is($c->safe_psql("SET shardfdw.snapshot = 'cluster'; BEGIN; $_; " . sprintf($sums, 'grouped WHERE id > 0') . '; COMMIT'), $expected, "turns, one snapshot of all nodes: $_")
  for 'SAVEPOINT a', 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ', 'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE';
is($c->safe_psql('SELECT count(*), sum(c) FROM (SELECT g, count(*) AS c FROM grouped GROUP BY g UNION ALL SELECT g, count(*) FROM grouped GROUP BY g) s'), '6002|120002', 'turns of two scans');
is($c->safe_psql('SELECT count(*) FROM grouped JOIN (SELECT g, max(v) AS v FROM grouped GROUP BY g) m USING (g, v)'), '3001', 'turns beside another scan');
$c->node_safe_psql(2, "ALTER TABLE $second RENAME TO away");
$c->psql_fails_like(sprintf($sums, 'grouped'), qr/does not exist.*node2/s, 'an error of a node that had to wait');

done_testing();
