# What others are told because of a commit on the coordinator stays after a crash, also with synchronous_commit = off.
# FLUSH_CRASHES: how often the coordinator crashes under a subscription.

use strict;
use warnings;

use ShardCluster;
use ShardServer;
use PostgreSQL::Test::Utils;
use Test::More;

my $crashes = $ENV{FLUSH_CRASHES} // 3;

# Commits that nothing forces to the disk are surely lost by a crash.
my $c = ShardCluster->new(nodes => 2, preload => 1,
	coordinator_conf => "synchronous_commit = off\nwal_writer_delay = 10s\nwal_writer_flush_after = 0\nshardfdw.recovery_interval = 1s\n");

sub crash
{
	$c->coordinator->stop('immediate');
	$c->coordinator->start;
	return;
}

# ---------- the crash loses commits that nobody was told of ----------
$c->safe_psql('CREATE TABLE here (id int); SELECT pg_switch_wal(); CHECKPOINT');
$c->safe_psql('INSERT INTO here VALUES (1)');
crash();
is($c->safe_psql('SELECT count(*) FROM here'), 0, 'a plain commit is lost');

# ---------- a commit on the coordinator, then one of the same session on a node ----------
$c->safe_psql(q{CREATE TABLE t (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('t', shards => 2); INSERT INTO t SELECT g, 0 FROM generate_series(1, 10) g});
for my $write (q{UPDATE t SET v = 1 WHERE id = 1}, q{BEGIN; UPDATE t SET v = 1 WHERE id = 2; COMMIT})
{
	$c->safe_psql("TRUNCATE here; CHECKPOINT; INSERT INTO here VALUES (1); $write");
	crash();
	is($c->safe_psql('SELECT count(*) FROM here'), 1, "an earlier commit of the session is on disk before a node commits: $write");
}

# ---------- where shards are ----------
{
	my ($host, $port) = $c->node_address(1);

	$c->safe_psql("CHECKPOINT; ALTER SERVER node1 OPTIONS (SET host '/nowhere')");
	crash();
	is($c->safe_psql(q{SELECT count(*) FROM pg_foreign_server WHERE srvname = 'node1' AND srvoptions::text LIKE '%host=/nowhere%'}), 1, 'the address of a node stays changed');
	$c->safe_psql("ALTER SERVER node1 OPTIONS (SET host '$host')");
}

# ---------- tables that are sharded online ----------
$c->safe_psql(q{CREATE TABLE o (id int PRIMARY KEY, v int); INSERT INTO o SELECT g, 0 FROM generate_series(1, 100) g; SELECT shardfdw.shard_table('o', shards => 2, mode => 'online')});
$c->safe_psql('UPDATE o SET v = 1 WHERE id = 1');
crash();
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.shards WHERE table_name = 'o'}), 2, 'a table that was sharded online stays sharded');
is($c->safe_psql('SELECT count(*), sum(v) FROM o'), '100|1', 'and has what was written to its shards');

# ---------- loads that were forgotten ----------
my $load = PostgreSQL::Test::Utils::tempdir() . '/load.csv';
append_to_file($load, "1001,1\n1002,1\n");
$c->safe_psql("COPY t FROM '$load' (FORMAT csv, RESUME 'load')");
$c->safe_psql(q{CHECKPOINT; DELETE FROM t WHERE id > 1000; SELECT shardfdw.forget_load('load')});
crash();
is($c->safe_psql('SELECT count(*) FROM shardfdw.resumable_loads'), 0, 'a load stays forgotten');
$c->safe_psql("COPY t FROM '$load' (FORMAT csv, RESUME 'load')");
is($c->safe_psql('SELECT count(*) FROM t WHERE id > 1000'), 2, 'and is loaded again');

# ---------- subscriptions ----------
my $publisher = ShardServer->new('publisher');
$publisher->init(extra => [ '--no-locale', '-E', 'UTF8' ]);
$publisher->append_conf('postgresql.conf', "wal_level = logical\nfsync = off\nautovacuum = off\nmax_wal_senders = 10\nmax_replication_slots = 10\n");
$publisher->start;
my $conninfo = $publisher->connstr('postgres') =~ s/'/''/gr;
my $tables = 'CREATE TABLE plain (id int PRIMARY KEY, v int); CREATE TABLE other (id int PRIMARY KEY, v int); CREATE TABLE sharded (id int PRIMARY KEY, v int);';
$publisher->safe_psql('postgres', "$tables INSERT INTO plain VALUES (0, 0); CREATE PUBLICATION p FOR TABLE plain, sharded");
$c->safe_psql("$tables SELECT shardfdw.shard_table('sharded', shards => 2)");
$c->safe_psql("CREATE SUBSCRIPTION s CONNECTION '$conninfo' PUBLICATION p");
$c->wait_for(q{SELECT copied = tables FROM shardfdw.subscriptions});

# Waits until the publisher has been told that everything is on the subscriber's disk.
sub told
{
	my $lsn = $publisher->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');

	$publisher->safe_psql('postgres', q{SELECT pg_logical_emit_message(true, '', '')});
	$publisher->poll_query_until('postgres', "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots WHERE slot_name = 's'") or die 'the publisher is not told';
	return;
}

told();
my $missing = 0;
for my $round (1 .. $crashes)
{
	# plain tables alone, sharded ones alone, both
	my @into = ([ 'plain' ], [ 'sharded' ], [ 'plain', 'sharded' ])[ $round % 3 ];

	for my $i (1 .. 5)
	{
		$publisher->safe_psql('postgres', join(';', 'BEGIN', (map { "INSERT INTO $_ VALUES ($round * 10 + $i, 0)" } @{ $into[0] }), 'COMMIT'));
	}
	told();
	crash();
	told();
	for my $table ('plain', 'sharded')
	{
		my $sql = "SELECT count(*) FROM $table";

		$missing += $publisher->safe_psql('postgres', $sql) - $c->safe_psql($sql);
	}
}
is($missing, 0, "$crashes crashes under a subscription: no row is lost");

# a table that is copied later
$publisher->safe_psql('postgres', 'INSERT INTO other SELECT g, 0 FROM generate_series(1, 10) g; ALTER PUBLICATION p ADD TABLE other');
$c->safe_psql('ALTER SUBSCRIPTION s REFRESH PUBLICATION');
$c->wait_for(q{SELECT copied = tables FROM shardfdw.subscriptions});
told();
crash();
$publisher->safe_psql('postgres', 'UPDATE other SET v = 1');
told();
is($c->safe_psql('SELECT count(*), sum(v) FROM other'), '10|10', 'a copied table is there once');
$c->safe_psql('DROP SUBSCRIPTION s');

done_testing();
