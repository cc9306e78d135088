# A reader with read_from = 'standby' waits on the standby for the lock of a change that gives a
# table a new file. It must see all rows, or fail: its snapshot there may be older than the new file.

use strict;
use warnings;

use ShardCluster;
use ShardServer;
use Test::More;
use WireClient;

my $c = ShardCluster->new(nodes => 1, preload => 1, node_conf => q{
wal_level = replica
max_wal_senders = 6
hot_standby = on
wal_keep_size = 256MB
max_standby_streaming_delay = -1
});
my $standby = ShardServer->standby_of('standby1', $c->node(1));
$c->safe_psql(sprintf q{ALTER SERVER node1 OPTIONS (ADD standbys '%s:%d')},
	$standby->host, $standby->port);
$c->safe_psql(q{CREATE TABLE t (id int PRIMARY KEY, v int);
	INSERT INTO t SELECT i, i FROM generate_series(1, 100) i;
	SELECT shardfdw.shard_table('t', shards => 4)});

sub wait_on_standby
{
	my ($sql) = @_;
	$standby->poll_query_until('postgres', $sql) or die "timed out waiting for: $sql";
	return;
}

for my $change (
	'CREATE TEMP TABLE kept ON COMMIT DROP AS TABLE t; TRUNCATE t; INSERT INTO t TABLE kept',
	'ALTER TABLE t ALTER v TYPE bigint')
{
	for my $read (
		'SELECT count(*) FROM t',
		'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT count(*) FROM t',
		'COPY t TO STDOUT')
	{
		my ($writer, $reader) = map { WireClient->new($c->coordinator, 'postgres') } 1, 2;
		$c->node(1)->wait_for_catchup($standby, 'replay', $c->node(1)->lsn('insert'));
		$reader->query(q{SET shardfdw.read_from = 'standby'; SET shardfdw.max_standby_lag = '1min';
			SELECT count(*) FROM t});
		is($writer->query("BEGIN; $change")->{error}, undef, $change);

		# the standby has the locks, and not the commit
		$c->node(1)->safe_psql('postgres', 'CHECKPOINT; SELECT pg_switch_wal()');
		wait_on_standby(q{SELECT count(*) >= 4 FROM pg_locks
			WHERE mode = 'AccessExclusiveLock' AND granted
				AND relation IN (SELECT oid FROM pg_class WHERE relname LIKE 't\_0_')});
		$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
		wait_on_standby(q{SELECT pg_get_wal_replay_pause_state() = 'paused'});
		is($writer->query('COMMIT')->{error}, undef, 'committed');
		$reader->start_query($read);
		wait_on_standby(q{SELECT count(*) > 0 FROM pg_stat_activity
			WHERE application_name LIKE 'shardfdw:%' AND wait_event_type = 'Lock'});
		$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
		my $result = $reader->finish_query;
		my $seen = $read =~ /^COPY/ && !$result->{error} ? () = $result->{copied} =~ /\n/g :
			WireClient::shown($result);
		like($seen, qr/^(?:100|40001)/, $read);
		$_->close for $writer, $reader;
	}
}
done_testing();
