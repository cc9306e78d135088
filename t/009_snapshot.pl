# What a statement sees of one node is one moment of that node, however many connections read it; at
# REPEATABLE READ the whole transaction sees that moment.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
$c->safe_psql('CREATE TABLE acc (id int PRIMARY KEY, v int); CREATE TABLE one (id int, v int)');
$c->shard_table('acc', 'id', shards => 8, nodes => ['node1']);
$c->shard_table('one', 'id', shards => 2);
$c->safe_psql('INSERT INTO acc SELECT g, 1000 FROM generate_series(1, 800) g; INSERT INTO one SELECT g, g FROM generate_series(1, 10) g');
my @shards = map { $_->[0] } $c->shards_of('acc');

# The node moves values from shard to shard as fast as it can, until it is told to stop.
$c->node_safe_psql(1, 'CREATE TABLE stop (x int)');
my $moves = join "\n", map {
	my ($from, $to) = ($shards[$_], $shards[ ($_ + 5) % @shards ]);
	"UPDATE $from SET v = v - 1 WHERE id = (SELECT min(id) FROM $from); UPDATE $to SET v = v + 1 WHERE id = (SELECT max(id) FROM $to); COMMIT;"
} 0 .. $#shards;
my @writers = map {
	my $session = $c->node(1)->background_psql('postgres');
	$session->query_until(qr/started/, "\\echo started\nDO \$\$ BEGIN WHILE NOT EXISTS (SELECT FROM stop) LOOP $moves END LOOP; END \$\$;\n\\echo stopped\n");
	$session;
} 1;

my $nmoved = "SELECT md5(string_agg(v::text, ',' ORDER BY id)) FROM acc";
for my $mode ('shardfdw.enable_shard_scan = on', 'shardfdw.enable_shard_scan = off', 'shardfdw.enable_copy_fetch = off')
{
	my $n    = 150;
	my $read = 'SELECT sum(v) FROM (SELECT v FROM acc OFFSET 0) x;';

	for my $settings ($mode, "$mode; SET shardfdw.max_connections_per_node = 3")
	{
		my $out = $c->safe_psql("SET $settings;\n" . join("\n", ('SELECT sum(v) FROM acc;', $read) x $n));
		my %seen;
		$seen{$_}++ for split /\n/, $out;
		is_deeply([ sort keys %seen ], ['800000'], "one moment per statement: $settings");
	}

	# Many scans of one statement are one statement.
	my $out = $c->safe_psql(
		"SET $mode;\n" . join("\n", ('SELECT (SELECT sum(v) FROM acc), (SELECT sum(v) FROM acc WHERE id % 2 = 0) + (SELECT sum(v) FROM acc WHERE id % 2 = 1), a.s - b.s
			FROM (SELECT sum(v) AS s FROM acc) a, (SELECT sum(v) AS s FROM acc WHERE v > -1000000) b;') x 40));
	my %seen;
	$seen{$_}++ for split /\n/, $out;
	is_deeply([ sort keys %seen ], ['800000|800000|0'], "one moment for all scans of a statement: $mode");

	for my $level ('REPEATABLE READ', 'SERIALIZABLE')
	{
		$out = $c->safe_psql(
			"SET $mode; BEGIN ISOLATION LEVEL $level; SELECT sum(v) FROM acc; $nmoved; SELECT count(*) FROM one; SELECT 0 FROM pg_sleep(0.3); $nmoved; SELECT sum(v) FROM acc; COMMIT; $nmoved");
		my ($sum1, $md5, $count, undef, $again, $sum2, $later) = split /\n/, $out;
		is("$sum1 $sum2", '800000 800000', "$level: right sums ($mode)");
		is($again, $md5, "$level: the same moment all along ($mode)");
		isnt($later, $md5, "$level: later another one ($mode)");
	}

	# READ COMMITTED sees what was committed since.
	$out = $c->safe_psql("SET $mode; BEGIN; $nmoved; SELECT 0 FROM pg_sleep(0.3); $nmoved; COMMIT");
	my ($first, undef, $second) = split /\n/, $out;
	isnt($first, $second, "READ COMMITTED: the next statement sees later rows ($mode)");
}

# In a transaction that has written, too; its own rows count.
my $out = $c->safe_psql(
	"BEGIN; INSERT INTO acc VALUES (-1, 5), (-2, 5), (-3, 5), (-4, 5), (-5, 5);\n" . join("\n", ('SELECT sum(v) FROM acc;') x 40) . "\nROLLBACK");
is(join(' ', keys %{ { map { $_ => 1 } split /\n/, $out } }), '800025', 'one moment after writing');

$c->node_safe_psql(1, 'INSERT INTO stop VALUES (1)');
for my $session (@writers)
{
	$session->query_until(qr/stopped/, '');
	$session->quit;
}
for my $i (1 .. 2)
{
	$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'", $i);
	is($c->node_safe_psql($i, 'SELECT count(*) FROM pg_prepared_xacts'), '0', "no prepared transaction on node $i");
}
done_testing();
