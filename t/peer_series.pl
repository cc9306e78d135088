# Two coordinators move shards of the same nodes at the same time. A job waits for transactions of
# the other coordinator that may read its old tables. But it must not wait for those that wait for a
# job, since that job may wait for a transaction which waits for the first one.

use strict;
use warnings;

use ShardPeers;
use Test::More;
use WireClient;

my $p = ShardPeers->new(coordinators => 2, nodes => 2,
	node_conf => "wal_level = logical\nmax_wal_senders = 10\nmax_replication_slots = 10\n");
my ($c1, $c2) = $p->all;

$c1->safe_psql(qq{CREATE TABLE $_->[0] (id $_->[1] PRIMARY KEY);
	SELECT shardfdw.shard_table('$_->[0]', shards => 4, nodes => '{node1}');
	INSERT INTO $_->[0] SELECT generate_series(1, 100)}) for [ 'a', 'int' ], [ 'b', 'bigint' ];
$p->add_all;

# ---------- wait_job() in a transaction that has a snapshot ----------

# Each job waits in the stage dropping for the transaction that waits for the other one.
my @waiters = map { WireClient->new($_->coordinator, 'postgres') } $c1, $c2;
$_->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class') for @waiters;
my @jobs = ($c1->safe_psql(q{SELECT shardfdw.move_shard('a_00', 'node2', wait => false)}),
	$c2->safe_psql(q{SELECT shardfdw.move_shard('b_00', 'node2', wait => false)}));
for my $i (0, 1)
{
	$p->coordinator($i + 1)->wait_for("SELECT waits_for LIKE 'transactions on%' FROM shardfdw.jobs
		WHERE id = $jobs[$i] AND stage = 'dropping'");
}
$waiters[$_]->start_query("SELECT shardfdw.wait_job($jobs[$_]); COMMIT") for 0, 1;
for my $i (0, 1)
{
	my $result = $waiters[$i]->finish_query(120);
	is($result && $result->{rows}[0][0], 'done', 'the job of coordinator ' . ($i + 1) . ' ends')
	  || diag $result->{error}{M} // 'it does not end';
	$waiters[$i]->close if $result;
}

# ---------- rebalance() on both ----------

my $rebalance = "SET client_min_messages = warning; SELECT shardfdw.rebalance('count')";
my @running = map { $_->start_sql($rebalance) } $c1, $c2;
for my $i (0, 1)
{
	my $c = $p->coordinator($i + 1);
	$c->wait_for('SELECT count(*) = 0 FROM shardfdw.jobs WHERE ended_at IS NULL');
	my (undef, undef, $err) = $c->wait_sql($running[$i]);
	# they may have chosen the same shard
	unlike($err, qr/ERROR:\ \ (?!job\ \d+\ of\ coordinator\ "c\d"\ works\ on|
		shard\ \S+\ is\ (?:no\ longer\ )?on\ node|coordinator\ "c\d"\ does\ not\ have\ shard)/x,
		'rebalance() of coordinator ' . ($i + 1) . ' ends');
}
$p->same("SELECT count(*), sum(id) FROM $_", '100|5050', "all rows of $_ are there") for 'a', 'b';
$p->all_alike('afterwards', rows => 1);

done_testing();
