# Cuts moves and splits at the messages that they exchange with a node. After a round of recovery
# the shard must be on one node with all rows. Nothing else may be left, and it must be possible to
# start the job again. MOVE_CUT=all cuts at every message. By default the test cuts at one of STRIDE
# messages in each direction, and at a different one in each kind of job.

use strict;
use warnings;

use ProtocolProxy;
use ShardCluster;
use Test::More;
use Time::HiRes qw(usleep);

my $stride = ($ENV{MOVE_CUT} // '') eq 'all' ? 1 : $ENV{STRIDE} // 101;
my $c = ShardCluster->new(nodes => 2, add_nodes => 0, node_conf => "wal_level = logical\nmax_wal_senders = 20\nmax_replication_slots = 20\nmax_connections = 60\n");
my @proxies = map { ProtocolProxy->new(port => $c->node($_)->port) } 1, 2;
$c->safe_psql("SELECT shardfdw.add_node('node$_', '127.0.0.1', " . $proxies[ $_ - 1 ]->port . ", 'postgres')") for 1, 2;
$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int, v text)');
$c->shard_table('t', 'id', shards => 1, nodes => ['node1']);
$c->shard_table('u', 'id', colocate_with => 't');
$c->safe_psql(q{INSERT INTO t SELECT i, i FROM generate_series(1, 100) i; INSERT INTO u SELECT i % 50, 'x' FROM generate_series(1, 100) i});

my $sums = q{SELECT count(*), sum(v), (SELECT count(*) FROM u), (SELECT sum(id) FROM u) FROM t};
my $before = $c->ask($sums);
my $traces = q{SELECT (SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'), (SELECT count(*) FROM pg_publication),
	(SELECT count(*) FROM pg_replication_slots), (SELECT count(*) FROM pg_trigger WHERE tgname = 'shardfdw_moved'),
	(SELECT count(*) FROM pg_class WHERE relreplident = 'f'), (SELECT count(*) FROM pg_prepared_xacts)};
my $clean = '0|0|0|0|0|0';

# shard, node of each shard of t
sub shards { return map { [ split /\|/ ] } split /\n/, $c->ask(q{SELECT shard, substr(node, 5) FROM shardfdw.shards WHERE relation = 't'::regclass ORDER BY shard::text}); }

# Returns what is wrong after a cut; '' for nothing.
sub wrong
{
	my ($left, $end) = ('', time + 60);

	$c->wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'shardfdw mover'});
	do
	{
		usleep(50_000) if $left ne '';
		eval { $c->ask('SELECT shardfdw.recover_prepared_transactions()') };
		$left = join ' ', map { $c->ask($traces, $_) } 1, 2;
	} while ($left ne "$clean $clean" && time < $end);
	return "left: $left" if $left ne "$clean $clean";
	my $found = $c->ask($sums);
	return "rows: $found" if $found ne $before;
	my @shards = shards();
	my @tables = map { $c->ask(q{SELECT count(*) FROM pg_class WHERE relname ~ '^[tu]_\d+$' AND relkind = 'r'}, $_) } 1, 2;
	my @expected = map { my $node = $_; 2 * grep { $_->[1] == $node } @shards } 1, 2;
	return "tables: @tables, expected @expected" if "@tables" ne "@expected";
	$c->ask('UPDATE t SET v = v + 1; UPDATE t SET v = v - 1');
	return '';
}

# Cuts job, a function that returns the SQL that starts it, at one message of a node after the
# other, until there are no more.
sub cut
{
	my ($name, $first, $node, $from, $job) = @_;
	my ($n, $cuts, $failed, @wrong) = ($first, 0, 0);
	my $proxy = $proxies[ $node - 1 ];

	return unless ShardCluster::in_half(int($first / 3));
	for (; $n < 5000; $n += $stride)
	{
		my $sql = $job->();
		$proxy->arm(from => $from, n => $n, action => 'reset');
		my ($rc, $out, $err) = $c->psql($sql);
		my $fired = $proxy->fired;
		$proxy->clear;
		last unless $fired;
		$cuts++;
		$failed++ if $rc;
		my $problem = wrong();
		push @wrong, "message $n: $problem" if $problem ne '';
		last if @wrong > 3;
	}
	is(join("\n", @wrong), '', "$name: $cuts messages, $failed of which ended the job");
	cmp_ok($cuts, '>', 0, "$name was cut");
	return;
}

# The node of t_00, and SQL that moves the shard to the other node.
sub place { return (shards())[0][1]; }

my $first = 1;
for my $mode (qw(online block))
{
	for my $from (qw(node coordinator))
	{
		# the shard may be on either node when the next round starts: move it to the node that will
		# be the source
		for my $role (qw(source target))
		{
			cut("$mode move, $role, from the $from", $first, 1, $from, sub {
				my $source = $role eq 'source' ? 1 : 2;
				my $target = 3 - $source;

				$c->safe_psql("SELECT shardfdw.move_shard('t_00', 'node$source', mode => 'block', verify => false)") if place() != $source;
				return "SELECT shardfdw.move_shard('t_00', 'node$target', mode => '$mode')";
			});
			$first += 3;
		}
	}
}
for my $from (qw(node coordinator))
{
	cut("split, from the $from", $first, 1, $from, sub {
		my @shards = shards();

		if (@shards > 1)
		{
			my $all = join ',', map { "'$_->[0]'" } @shards;
			$c->safe_psql("SELECT shardfdw.merge_shards(ARRAY[$all]::regclass[], mode => 'block', verify => false)");
		}
		my ($shard, $node) = @{ (shards())[0] };
		$c->safe_psql("SELECT shardfdw.move_shard('$shard', 'node1', mode => 'block', verify => false)") if $node != 1;
		return "SELECT shardfdw.split_shard('$shard')";
	});
	$first += 3;
}
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.check_cluster() WHERE status = 'error'}), '0', 'nothing differs in the end');

done_testing();
