# enable_node() makes a replica of a reference table again that differs. Readers that join it with
# shards on that node must wait on their coordinators. If they waited on the node, their snapshots
# there would be older than the rows of the new replica. The same with a second coordinator.

use strict;
use warnings;

use ShardPeers;
use Test::More;
use WireClient;

my $p = ShardPeers->new(conf => "shardfdw.recovery_interval = 2\n");
my ($c, $other) = $p->all;
$c->safe_psql(q{CREATE TABLE t (id int PRIMARY KEY);
	INSERT INTO t SELECT generate_series(1, 100); SELECT shardfdw.shard_table('t', shards => 4);
	CREATE TABLE r (id int PRIMARY KEY); INSERT INTO r TABLE t;
	SELECT shardfdw.create_reference_table('r')});

# Enables node2 while sessions on these coordinators read.
sub enable
{
	my ($what, $query, @coordinators) = @_;
	my $admin = WireClient->new($c->coordinator, 'postgres');
	my @readers = map { my $at = $_; map { WireClient->new($at->coordinator, 'postgres') } 1, 2 }
	  @coordinators;
	my ($result, %seen);
	my $nafter = 0;
	my $end = time + 60;

	$c->node_safe_psql(2, 'SET session_replication_role = replica; INSERT INTO r VALUES (1000)');
	$admin->start_query("SELECT shardfdw.enable_node('node2')");
	$_->start_query($query) for @readers;
	while ($nafter < 10 && time < $end)
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
	BAIL_OUT('enable_node() does not end') unless $result;
	$_->finish_query for @readers;
	$_->close for $admin, @readers;
	is($result->{error} ? $result->{error}{M} : '', '', "$what: enable_node()");
	is(join(' ', sort keys %seen), 100, "$what: $query always sees all rows");
	is($c->node_safe_psql(2, 'SELECT count(*) FROM r'), 100, "$what: the replica is right again");
	return;
}

my @queries = ('SELECT count(*) FROM t JOIN r USING (id)',
	"SET shardfdw.snapshot = 'cluster'; SELECT count(*) FROM t JOIN r USING (id)",
	'SELECT 100 + count(*) FROM t WHERE NOT EXISTS (SELECT FROM r WHERE r.id = t.id)');
for my $round (1, 2) { enable('one coordinator', $_, $c) for @queries; }
$p->add_all;
for my $round (1, 2) { enable('two coordinators', $_, $c, $other) for @queries[ 0, 2 ]; }
done_testing();
