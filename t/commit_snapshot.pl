# A statement must see each node as of one moment, however many connections read the node. At
# REPEATABLE READ the whole transaction must see that moment.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2, preload => 1);
# recovery has asked the nodes, so reads do not lock tables first (deparse/table_check.h)
$c->safe_psql('SELECT count(*) FROM shardfdw.recover_prepared_transactions()');
$c->safe_psql('CREATE TABLE acc (id int PRIMARY KEY, v int); CREATE TABLE one (id int, v int)');
$c->shard_table('acc', 'id', shards => 8, nodes => ['node1']);
$c->shard_table('one', 'id', shards => 2);
$c->safe_psql('INSERT INTO acc SELECT g, 1000 FROM generate_series(1, 800) g; INSERT INTO one SELECT g, g FROM generate_series(1, 10) g');
my @shards = map { $_->[0] } $c->shards_of('acc');

# The node moves values from shard to shard as fast as it can, until table stop has a row.
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

	# Many scans of one statement have one snapshot.
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

	# At READ COMMITTED a statement sees the commits since the previous one.
	$out = $c->safe_psql("SET $mode; BEGIN; $nmoved; SELECT 0 FROM pg_sleep(0.3); $nmoved; COMMIT");
	my ($first, undef, $second) = split /\n/, $out;
	isnt($first, $second, "READ COMMITTED: the next statement sees later rows ($mode)");
}

# The same in a transaction that has written. It also sees its own rows.
my $out = $c->safe_psql(
	"BEGIN; INSERT INTO acc VALUES (-1, 5), (-2, 5), (-3, 5), (-4, 5), (-5, 5);\n" . join("\n", ('SELECT sum(v) FROM acc;') x 40) . "\nROLLBACK");
is(join(' ', keys %{ { map { $_ => 1 } split /\n/, $out } }), '800025', 'one moment after writing');

$c->node_safe_psql(1, 'INSERT INTO stop VALUES (1)');
for my $session (@writers)
{
	$session->query_until(qr/stopped/, '');
	$session->quit;
}
# The client gets the node's error, not the errors of streams that were given up because of it.
$c->safe_psql('CREATE TABLE key (id int PRIMARY KEY)');
$c->shard_table('key', 'id', shards => 8);
$c->safe_psql('INSERT INTO key SELECT generate_series(1, 100)');
for my $load ('INSERT INTO key SELECT generate_series(1, 100)', "COPY key FROM PROGRAM 'seq 1 100'", "COPY key FROM PROGRAM 'seq 101 100000; seq 1 100; seq 100001 200000'")
{
	for my $n (1 .. 4)
	{
		my ($rc, undef, $err) = $c->psql("\\set VERBOSITY verbose\nBEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM key; UPDATE key SET id = id; UPDATE acc SET v = v; $load", on_error_stop => 1);
		like($err, qr/23505/, "the node's error, not that of a lost snapshot: $load");
	}
}

# If one connection to a node waits, the other connections continue: they need its snapshot, not its
# rows.
for my $mode ('shardfdw.enable_shard_scan = on', 'shardfdw.enable_shard_scan = off', 'shardfdw.enable_copy_fetch = off')
{
	for my $i (0, $#shards)
	{
		my $lock = $c->node(1)->background_psql('postgres');
		$lock->query_safe("BEGIN; LOCK TABLE $shards[$i]");
		my $query = $c->start_sql("SET $mode; SELECT count(*), sum(v) FROM acc");
		$c->wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'", 1);
		my $others = join ' AND ',
		  map { "count(*) FILTER (WHERE query LIKE '%$_%' AND pid <> pg_backend_pid() AND wait_event_type <> 'Lock') > 0" }
		  grep { $_ ne $shards[$i] } @shards;
		ok($c->node(1)->poll_query_until('postgres', "SELECT $others FROM pg_stat_activity"),
			"the others read while shard $i is locked ($mode)");
		$lock->query_safe('COMMIT');
		$lock->quit;
		is(join(' ', ($c->wait_sql($query))[ 0, 1 ]), '0 800|800000', "then that one reads as well ($mode)");
	}
}

# The connection that exported a snapshot ends before another one imports the snapshot. The node
# finds no file.
for my $mode ('shardfdw.enable_copy_fetch = on', 'shardfdw.enable_copy_fetch = off')
{
	my $session = $c->coordinator->background_psql('postgres', on_error_stop => 0);
	$session->query("\\set VERBOSITY verbose\nSET $mode");
	is($session->query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM $shards[0] WHERE id < 0"), '0', "a snapshot of a transaction ($mode)");
	my @files = glob $c->node(1)->data_dir . '/pg_snapshots/*';
	is(scalar @files, 1, "is exported ($mode)");
	unlink @files;
	$session->query('SELECT sum(v) FROM acc');
	like($session->{stderr}, qr/40001: the snapshot on node "node1" was lost.*node "node1"/si, "lost: an error that names the node ($mode)");
	$session->{stderr} = '';
	is($session->query('ROLLBACK; SELECT sum(v) FROM acc'), '800000', "then the session goes on ($mode)");
	$session->quit;
}

# The connection ends between two shards of a statement at READ COMMITTED. The statement must not go
# on with a later snapshot.
my $cursor = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$cursor->query_safe('SET shardfdw.query_per_node = off; SET shardfdw.max_connections_per_node = 1; SET shardfdw.enable_copy_fetch = off; BEGIN; DECLARE c CURSOR FOR SELECT v FROM acc');
is($cursor->query_safe('FETCH 1 FROM c'), '1000', 'a statement has begun');
$c->node_safe_psql(1, join ';', map { "UPDATE $_ SET v = 2000" } @shards);
$c->end_sessions_on(1);
$cursor->query('FETCH ALL FROM c');
like($cursor->{stderr}, qr/the snapshot of this statement on node "node1" was lost with its connection|lost connection|terminating connection/, 'that its snapshot is lost is an error');
$cursor->{stderr} = '';
$cursor->query_safe('ROLLBACK');
$cursor->quit;

for my $i (1 .. 2)
{
	$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'", $i);
	is($c->node_safe_psql($i, 'SELECT count(*) FROM pg_prepared_xacts'), '0', "no prepared transaction on node $i");
}
done_testing();
