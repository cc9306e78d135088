# Tests the plans of moves, and the procedures that make them. Nodes are added, emptied, or larger
# than others, and some shards may not move. Also tests what is left when the procedures are
# interrupted.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 4, add_nodes => 0, node_conf => "wal_level = logical\nmax_wal_senders = 10\n");
$c->add_node($_) for 1, 2;
my $faults = $c->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});

# Groups on each node.
sub spread
{
	return $c->safe_psql(q{SELECT string_agg(node || '=' || n, ' ' ORDER BY node) FROM (SELECT node, count(*) AS n FROM shardfdw.shards WHERE relation = 'orders'::regclass GROUP BY node) x});
}

sub fails
{
	my ($sql, $error, $name) = @_;
	like(($c->psql($sql))[2], $error, $name);
	return;
}

$c->safe_psql(q{CREATE TABLE orders (id int PRIMARY KEY, v int); CREATE TABLE lines (id int, pos int, PRIMARY KEY (id, pos)); CREATE TABLE kind (k int PRIMARY KEY)});
$c->shard_table('orders', 'id', shards => 8);
$c->shard_table('lines', 'id', colocate_with => 'orders');
$c->safe_psql(q{SELECT shardfdw.create_reference_table('kind'); INSERT INTO kind VALUES (1);
	INSERT INTO orders SELECT i, i FROM generate_series(1, 2000) i; INSERT INTO lines SELECT i, 1 FROM generate_series(1, 2000) i});
my $query = 'SELECT count(*), sum(v), count(pos) FROM orders JOIN lines USING (id)';
my $before = $c->safe_psql($query);

# ---------- plans ----------

is($c->safe_psql('SELECT count(*) FROM shardfdw.rebalance_plan()'), 0, 'nothing is to be done where nodes are used alike');
like(($c->psql(q{SELECT shardfdw.add_node('node3', '} . ($c->node_address(3))[0] . q{', } . ($c->node_address(3))[1] . q{)}))[2], qr/node "node3" has no shards yet.*shardfdw\.rebalance\(\)/s, 'a node that is added');
is($c->safe_psql(q{SELECT count(*), count(DISTINCT shard), string_agg(DISTINCT target, ' '), min(cardinality(shards)), bool_and(imbalance_after <= imbalance_before) FROM shardfdw.rebalance_plan('count')}),
	'2|2|node3|2|t', 'gets its share');
is($c->safe_psql(q{SELECT count(*), bool_and(size_bytes > 0) FROM shardfdw.rebalance_plan()}), '2|t', 'by bytes, too');
is($c->safe_psql(q{SELECT count(*) FILTER (WHERE source = 'node1'), count(*) FILTER (WHERE target = 'node1') FROM shardfdw.rebalance_plan('count', 1, 'node1')}), '4|0', 'a node that is to be drained is emptied');
fails(q{SELECT shardfdw.rebalance_plan('luck')}, qr/strategy must be "bytes" or "count"/, 'no other strategy');
fails(q{SELECT shardfdw.rebalance_plan(threshold => 7)}, qr/threshold must be between 0 and 1/, 'no other threshold');
fails(q{SELECT shardfdw.rebalance_plan(drain => 'nowhere')}, qr/node "nowhere" does not exist/, 'no unknown node');
$c->stop_node(2);
fails(q{SELECT shardfdw.rebalance_plan()}, qr/sizes of the shards of node "node2" are not known/, 'no plan by half of the sizes');
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.rebalance_plan('count')}), 2, 'but one by number');
$c->start_node(2);

# ---------- moves ----------

my $job = $c->safe_psql('SELECT shardfdw.rebalance()');
is($c->safe_psql("SELECT kind, state, mode, error FROM shardfdw.jobs WHERE id = $job"),
	'rebalance|done|online|', 'a job makes them');
is($c->safe_psql("SELECT count(*), min(target) FROM shardfdw.jobs WHERE id > $job AND kind = 'move'"), '2|node3', 'by others');
is(spread(), 'node1=3 node2=3 node3=2', 'all nodes have some');
is($c->safe_psql($query), $before, 'all rows are there');
is($c->safe_psql('SELECT count(*) FROM shardfdw.rebalance_plan()'), 0, 'then nothing is to be done');
fails('BEGIN; SELECT shardfdw.rebalance(); COMMIT', qr/^$/, 'it can be called in a transaction');
fails('BEGIN; SELECT count(*) FROM orders; SELECT shardfdw.rebalance(); COMMIT', qr/rebalance\(\) cannot wait in a transaction that has used (?:nodes|tables)/, 'not in one that has used nodes');
fails('BEGIN; SELECT count(*) FROM pg_class; CREATE TABLE made (); SELECT shardfdw.rebalance(); COMMIT', qr/rebalance\(\) cannot wait in a transaction that has used tables/, 'or tables');
fails('BEGIN; CREATE TABLE made (); SELECT shardfdw.rebalance(wait => false); COMMIT', qr/^$/, 'but it can start there');
# It must not plan with what changes next.
$c->wait_for(q{SELECT count(*) = 0 FROM shardfdw.jobs WHERE state = 'running'});

$c->safe_psql(q{ALTER SERVER node3 OPTIONS (ADD capacity '2')});
is($c->safe_psql(q{SELECT string_agg(DISTINCT target, ' '), count(*) FROM shardfdw.rebalance_plan('count')}), 'node3|2', 'a larger node gets more');
fails(q{ALTER SERVER node3 OPTIONS (SET capacity '0')}, qr/"capacity" must be a finite value greater than zero/, 'no node without capacity');
$c->safe_psql(q{ALTER SERVER node3 OPTIONS (DROP capacity)});

# ---------- shards that do not move ----------

my $pinned = $c->safe_psql(q{SELECT min(shard::text) FROM shardfdw.shards WHERE node = 'node1' AND relation = 'orders'::regclass});
$c->safe_psql("ALTER FOREIGN TABLE $pinned OPTIONS (ADD pinned 'true')");
my ($rc, $out, $err) = $c->psql(q{SELECT shardfdw.drain_node('node1', mode => 'block')});
like($err, qr/2 shards stay on node "node1".*One of them is/s, 'a shard that is pinned stays, with those that go with it');
is($c->safe_psql($query), $before, 'all rows are there');
fails(q{CREATE TABLE more (id int PRIMARY KEY); SELECT shardfdw.shard_table('more', 'id', nodes => '{node1}')}, qr/node "node1" does not accept shards/, 'a drained node gets no tables');
is($c->safe_psql(q{SELECT shardfdw.shard_table('more', 'id', shards => 6); SELECT string_agg(DISTINCT node, ' ') FROM shardfdw.shards WHERE relation = 'more'::regclass}) =~ /node1/ ? 1 : 0, 0, 'by default, too');
fails("SELECT shardfdw.move_shard('more_00', 'node1')", qr/node "node1" does not accept shards/, 'nor shards');
fails(q{SELECT shardfdw.remove_node('node1')}, qr/holds 2 shards/, 'it is not removed while it has some');
is($c->safe_psql(q{SELECT shardfdw.drain_node('node1', undo => true); SELECT shardfdw_internal.node_option('node1', 'accepts_shards')}), "\ntrue", 'undo lets it accept shards again');
$c->safe_psql("ALTER SERVER node1 OPTIONS (SET accepts_shards 'false'); ALTER FOREIGN TABLE $pinned OPTIONS (DROP pinned)");

# ---------- moves that are refused, without a caller that waits ----------

# before a job starts (a trigger), and by the job (a view on the node)
{
	my $of = 'SELECT state, error FROM shardfdw.jobs WHERE id =';
	my %calls = ('node "node1"' => q{drain_node('node1', wait => false)},
		'their nodes' => q{rebalance('count', wait => false)});
	my $leader = $c->safe_psql(q{SELECT shard FROM shardfdw.rebalance_plan('count', 1, 'node1')
		WHERE source = 'node1'});
	my @obstacles = (
		[ "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
			CREATE TRIGGER keeps BEFORE INSERT ON $leader FOR EACH ROW EXECUTE FUNCTION keep()", undef,
			"DROP FUNCTION keep() CASCADE", undef, qr/the shard itself has triggers/ ],
		[ undef, "CREATE VIEW seen AS SELECT * FROM $leader", undef, 'DROP VIEW seen', qr/in views/ ]);
	for my $obstacle (@obstacles)
	{
		my ($here, $there, $undo_here, $undo_there, $why) = @$obstacle;
		$c->safe_psql($here) if $here;
		$c->node_safe_psql(1, $there) if $there;
		for my $where (sort keys %calls)
		{
			my $id = $c->safe_psql("SELECT shardfdw.$calls{$where}");
			my (undef, undef, $warning) = $c->psql("SELECT shardfdw.wait_job($id)");
			like($c->safe_psql("$of $id"), qr/^done\|2 shards stay on $where; public\.$leader: .*$why/,
				"$calls{$where}: the job says what stays, and why");
			like($warning, qr/WARNING:  2 shards stay on $where; .*$why/, 'wait_job() too');
		}
		$c->safe_psql($undo_here) if $undo_here;
		$c->node_safe_psql(1, $undo_there) if $undo_there;
	}
	$c->safe_psql("ALTER FOREIGN TABLE $leader OPTIONS (ADD pinned 'true')");
	my $id = $c->safe_psql(q{SELECT shardfdw.drain_node('node1', wait => false)});
	$c->wait_for("SELECT state <> 'running' FROM shardfdw.jobs WHERE id = $id");
	like($c->safe_psql("$of $id"), qr/^done\|2 shards stay on node "node1"; they are pinned/,
		'pinned shards count, too');
	$c->safe_psql("ALTER FOREIGN TABLE $leader OPTIONS (DROP pinned)");
}

# ---------- interrupted ----------

SKIP:
{
	skip 'needs a build with FAULT_POINTS=1', 2 unless $faults;
	$c->add_node(4);
	$c->set_faults('move_named=abort');
	like(($c->psql(q{SELECT shardfdw.rebalance('count')}))[2], qr/server closed the connection|terminating connection|could not/, 'the coordinator dies within');
	$c->wait_for_restart;
	$c->set_faults('');
	$c->wait_for(q{SELECT count(*) = 0 FROM shardfdw.recover_prepared_transactions() WHERE action NOT LIKE 'removed%'});
	$c->safe_psql(q{SELECT shardfdw.rebalance('count')});
	is($c->safe_psql(q{SELECT count(*) FROM shardfdw.shards WHERE node = 'node1'}), 0, 'the next call goes on');
}
$c->safe_psql(q{SELECT shardfdw.drain_node('node1')});
$c->safe_psql(q{SELECT shardfdw.remove_node('node1')});
is($c->safe_psql($query), $before, 'a node is taken out with nothing lost');
is($c->safe_psql(q{SELECT check_name, detail FROM shardfdw.check_cluster() WHERE status = 'error'}), '', 'check_cluster finds nothing wrong');

# ---------- two sessions at the same time ----------

$c->safe_psql(q{UPDATE orders SET v = v; CREATE TABLE two (id int PRIMARY KEY); SELECT shardfdw.shard_table('two', 'id', shards => 6, nodes => '{node2}')});
my @sessions = map { $c->start_sql(q{SELECT shardfdw.rebalance('count')}) } 1, 2;
is(join('', map { ($c->wait_sql($_))[2] =~ /ERROR.*/ ? $& : '' } @sessions), '', 'both end');
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.rebalance_plan('count')}), 0, 'with all moves made');
is($c->safe_psql($query), $before, 'and all rows there');

# ---------- a job that is cancelled ----------

# the first move waits for a transaction that has written to the shards
my $writer = $c->start_sql('BEGIN; UPDATE orders SET v = v; SELECT pg_sleep(600)');
$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)' AND wait_event = 'PgSleep'");
my $drain = $c->safe_psql(q{SELECT shardfdw.drain_node('node2', wait => false)});
$c->wait_for(q{SELECT count(*) = 1 FROM shardfdw.jobs WHERE kind = 'move' AND state = 'running' AND source = 'node2'});
is($c->safe_psql("SELECT kind, state, source FROM shardfdw.jobs WHERE id = $drain"), 'drain_node|running|node2', 'a node is being drained');
is($c->safe_psql(q{SELECT shardfdw_internal.node_option('node2', 'accepts_shards')}), 'false', 'and takes no new shards meanwhile');
is($c->safe_psql(q{SELECT shardfdw.drain_node('node2', undo => true) IS NULL}), 't', 'undo is no job');
$c->wait_for(q{SELECT count(*) = 0 FROM shardfdw.jobs WHERE state = 'running'});
is($c->safe_psql("SELECT state FROM shardfdw.jobs WHERE id >= $drain"), "cancelled\ncancelled", 'but ends the job, and the move under way');
is($c->safe_psql(q{SELECT shardfdw_internal.node_option('node2', 'accepts_shards')}), 'true', 'and the node takes shards');
$c->safe_psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)' AND pid <> pg_backend_pid()");
$c->wait_sql($writer);

# ---------- locks of a transaction that starts a job ----------

# Steps of the job may have to lock these tables.
$c->safe_psql(q{CREATE TABLE held (id int PRIMARY KEY);
	SELECT shardfdw.shard_table('held', shards => 2, nodes => '{node2}');
	CREATE TABLE held_replicas (id int PRIMARY KEY);
	SELECT shardfdw.shard_table('held_replicas', shards => 2, replication_factor => 2);
	CREATE TABLE held_plain (id int PRIMARY KEY)});
my $last_id = $c->safe_psql('SELECT max(id) FROM shardfdw.jobs');
my $locks = q{SELECT string_agg(l.relation::regclass || ' ' || l.mode, ', ')
	FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
	WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation'
		AND c.relnamespace = 'public'::regnamespace};
for my $call (
	q{move_shard('held_00', 'node3', mode => 'block', wait => false)},
	q{split_shard('held_00', 2, mode => 'block', wait => false)},
	q{set_shard_count('held', 4, mode => 'block', wait => false)},
	q{rebalance(mode => 'block', wait => false)},
	q{drain_node('node2', mode => 'block', wait => false)},
	q{shard_table('held_plain', shards => 2, mode => 'online', wait => false)},
	q{unshard_table('held_plain', mode => 'online', wait => false)},
	q{import_table('held', 'host=/nowhere', wait => false)})
{
	my ($id, @held) = split /\n/, $c->safe_psql("BEGIN; SELECT shardfdw.$call; $locks; COMMIT");
	is("@held", '', "none: $call");
	$c->wait_for("SELECT state <> 'running' FROM shardfdw.jobs WHERE id = $id");
}
is($c->safe_psql("SELECT string_agg(DISTINCT kind, ' ') FROM shardfdw.jobs
	WHERE state = 'failed' AND id > $last_id"), 'import', 'the jobs have succeeded');
$c->safe_psql(q{SELECT shardfdw.drain_node('node2', undo => true);
	DROP TABLE held, held_replicas, held_plain});
is(($c->psql(q{BEGIN; SELECT count(*) FROM shardfdw.rebalance_plan();
	SELECT shardfdw.rebalance(wait => false) \gset
	SELECT shardfdw.rebalance(); COMMIT}))[2], '', 'a plan and a job before do not prevent a wait');
$c->wait_for(q{SELECT count(*) = 0 FROM shardfdw.jobs WHERE state = 'running'});

# ---------- the last node ----------

$c->safe_psql(q{ALTER SERVER node3 OPTIONS (ADD accepts_shards 'false')});
$c->safe_psql(q{ALTER SERVER node4 OPTIONS (ADD accepts_shards 'false')}) if $faults;
fails(q{SELECT shardfdw.drain_node('node2')}, qr/no other node than "node2" accepts shards/, 'the last one is not drained');
is($c->safe_psql(q{SELECT shardfdw_internal.node_option('node2', 'accepts_shards')}), 'true', 'and goes on to accept shards');

# ---------- random sizes and capacities ----------

# Each plan ends. No move makes the balance worse. Each moves a shard that may move from its present
# node. No shard moves twice. Nodes without capacity become empty.
is($c->safe_psql(q{
	SELECT setseed(0.17);
	CREATE TEMP TABLE trial AS SELECT t, 1 + (random() * 7)::int AS nodes, (random() * 60)::int AS items, random() AS skew FROM generate_series(1, 500) t;
	CREATE TEMP TABLE args AS SELECT t.*,
		ARRAY(SELECT (random() ^ (1 + 8 * skew)) * 1e9 FROM generate_series(1, items) WHERE t.t > 0) AS costs,
		ARRAY(SELECT 1 + (random() * (nodes - 1))::int FROM generate_series(1, items) WHERE t.t > 0) AS places,
		ARRAY(SELECT random() < 0.9 FROM generate_series(1, items) WHERE t.t > 0) AS movable,
		ARRAY(SELECT CASE WHEN random() < 0.15 THEN 0 ELSE 0.5 + random() * 3 END FROM generate_series(1, nodes) WHERE t.t > 0)::float8[] AS capacities FROM trial t;
	CREATE TEMP TABLE moves AS SELECT a.t, b.* FROM args a, shardfdw_internal.balance(costs, places, movable, capacities, 0.1) WITH ORDINALITY b;
	SELECT count(*) FILTER (WHERE b.source <> a.places[b.item]), count(*) FILTER (WHERE NOT a.movable[b.item]), count(*) FILTER (WHERE a.capacities[b.target] = 0),
		count(*) FILTER (WHERE b.after > b.before * (1 + 1e-9) AND a.capacities[b.source] > 0), count(*) - count(DISTINCT (b.t, b.item)), count(*) > 1000,
		(SELECT count(*) FROM args a, unnest(a.places, a.movable) WITH ORDINALITY p(place, movable, i) WHERE p.movable AND a.capacities[p.place] = 0
			AND (SELECT max(x) FROM unnest(a.capacities) x) > 0 AND NOT EXISTS (SELECT FROM moves m WHERE m.t = a.t AND m.item = p.i))
	FROM moves b JOIN args a USING (t)}), "\n0|0|0|0|0|t|0", 'random plans');

done_testing();
