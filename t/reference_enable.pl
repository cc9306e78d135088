# enable_node() makes a replica of a reference table again that differs. Readers that join it with
# shards on that node must wait on the coordinator. If they waited on the node, their snapshots
# there would be older than the rows of the new replica.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use WireClient;

my $c = ShardCluster->new(nodes => 2);
$c->safe_psql(q{CREATE TABLE t (id int PRIMARY KEY);
	INSERT INTO t SELECT generate_series(1, 100); SELECT shardfdw.shard_table('t', shards => 4);
	CREATE TABLE r (id int PRIMARY KEY); INSERT INTO r TABLE t;
	SELECT shardfdw.create_reference_table('r')});

for my $query ('SELECT count(*) FROM t JOIN r USING (id)',
	"SET shardfdw.snapshot = 'cluster'; SELECT count(*) FROM t JOIN r USING (id)",
	'SELECT 100 + count(*) FROM t WHERE NOT EXISTS (SELECT FROM r WHERE r.id = t.id)')
{
	my (%seen, $problem);
	for my $round (1 .. 3)
	{
		$c->node_safe_psql(2, "SET session_replication_role = replica; INSERT INTO r VALUES (1000)");
		my ($admin, @readers) = map { WireClient->new($c->coordinator, 'postgres') } 1 .. 4;
		my $result;
		my $nafter = 0;

		$admin->start_query("SELECT shardfdw.enable_node('node2')");
		$_->start_query($query) for @readers;
		while ($nafter < 10)
		{
			$result ||= $admin->finish_query(0.001);
			$nafter++ if $result;
			for my $reader (@readers)
			{
				my $answer = $reader->finish_query(0.001) or next;
				$seen{ WireClient::shown($answer) }++;
				$reader->start_query($query);
			}
		}
		$problem //= $result->{error}{M} if $result->{error};
		$_->finish_query for @readers;
		$_->close for $admin, @readers;
	}
	is($problem, undef, 'enable_node()');
	is(join(' ', sort keys %seen), 100, "$query always sees all rows");
	is($c->node_safe_psql(2, 'SELECT count(*) FROM r'), 100, 'the replica is right again');
}
done_testing();
