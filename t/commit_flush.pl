# What other servers are told about a commit on the coordinator must survive a crash of the
# coordinator, also with synchronous_commit = off. FLUSH_CRASHES is the number of crashes of the
# coordinator under a subscription.

use strict;
use warnings;

use ShardCluster;
use ShardServer;
use PostgreSQL::Test::Utils;
use Test::More;

my $crashes = $ENV{FLUSH_CRASHES} // 3;

# With these settings, a crash loses each commit that no code flushes.
my $lazy = "synchronous_commit = off\nwal_writer_delay = 10s\nwal_writer_flush_after = 0\n";
my $c = ShardCluster->new(nodes => 2, preload => 1,
	coordinator_conf => "${lazy}shardfdw.recovery_interval = 1s\nwal_level = replica\nmax_wal_senders = 1\n");

sub crash
{
	$c->coordinator->stop('immediate');
	$c->coordinator->start;
	return;
}

# ---------- the crash loses commits that were reported to no other server ----------
# Processes that might write the WAL before the crash are stopped. Workers that read files for
# sessions continue.
$c->safe_psql('CREATE TABLE here (id int); CHECKPOINT');
kill 'STOP', split /\n/, $c->safe_psql(q{SELECT pid FROM pg_stat_activity WHERE backend_type NOT IN ('client backend', 'io worker')});
$c->safe_psql('INSERT INTO here VALUES (1)');
$c->kill9_coordinator;
$c->coordinator->start;
is($c->safe_psql('SELECT count(*) FROM here'), 0, 'a plain commit is lost');

# ---------- a commit on the coordinator, then one of the same session on a node ----------
$c->safe_psql(q{CREATE TABLE t (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('t', shards => 2); INSERT INTO t SELECT g, 0 FROM generate_series(1, 10) g});
for my $write (q{UPDATE t SET v = 1 WHERE id = 1}, q{BEGIN; UPDATE t SET v = 1 WHERE id = 2; COMMIT})
{
	$c->safe_psql("TRUNCATE here; CHECKPOINT; INSERT INTO here VALUES (1); $write");
	crash();
	is($c->safe_psql('SELECT count(*) FROM here'), 1, "an earlier commit of the session is on disk before a node commits: $write");
}

# ---------- synchronous standbys: a node commits after they have the local commits ----------
# No standby has this name. So a session that waits for it continues when the setting is empty
# again.
{
	my $set = sub { return $c->safe_psql("ALTER SYSTEM SET synchronous_standby_names = '$_[0]'"); };

	$set->('nowhere');
	$c->coordinator->restart;
	my $writer = $c->start_sql(q{SET synchronous_commit = on; UPDATE t SET v = 7 WHERE id = 4});
	$c->wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%SET v = 7%'});
	is($c->safe_psql('SELECT count(*) FROM t WHERE v = 7'), 0, 'a node does not commit before synchronous standbys have the WAL');
	$set->('');
	$c->coordinator->reload;
	$c->wait_sql($writer);
	is($c->safe_psql('SELECT count(*) FROM t WHERE v = 7'), 1, 'the node commits then');
}

# ---------- values of a sequence ----------
# A failed INSERT draws the first value, and writes to the WAL that 32 more are drawn. The INSERTs after it write nothing here.
$c->safe_psql('CREATE TABLE drawn (k int, id bigserial, v int CHECK (v > 0), PRIMARY KEY (k, id))');
$c->shard_table('drawn', 'k', shards => 2);
for my $insert ('INSERT INTO drawn (k, v) VALUES (1, 1)', 'BEGIN; INSERT INTO drawn (k, v) VALUES (1, 1); COMMIT')
{
	$c->safe_psql('CHECKPOINT');
	$c->psql('INSERT INTO drawn (k, v) VALUES (1, -1)');
	$c->safe_psql("$insert; $insert");
	crash();
	$c->safe_psql("$insert; $insert; $insert");
	is($c->safe_psql('SELECT count(*) - count(DISTINCT id) FROM drawn'), 0, "no value is drawn twice: $insert");
	$c->safe_psql('TRUNCATE drawn RESTART IDENTITY');
}

# ---------- commits of another session ----------
$c->safe_psql('TRUNCATE here; CHECKPOINT');
$c->safe_psql('INSERT INTO here VALUES (1)');
$c->safe_psql('UPDATE t SET v = (SELECT count(*) FROM here) WHERE id = 3');
crash();
is($c->safe_psql('SELECT count(*) FROM here'), 1, 'a commit of another session is on disk before a node commits');
# ---------- definitions, which other sessions use ----------
# A session that writes to one node commits nothing on the coordinator. So its commit does not flush
# those of other sessions.
{
	$c->node_safe_psql(1, 'CREATE TABLE m_1 (k int, v int); CREATE TABLE m_2 (k int, v int)');
	$c->safe_psql(q{CREATE TABLE m (k int, v int) PARTITION BY LIST (k); CREATE FOREIGN TABLE m_2 (k int, v int) SERVER node1; CREATE FUNCTION attach() RETURNS void LANGUAGE plpgsql SET synchronous_commit = off AS $$ BEGIN ALTER TABLE m ATTACH PARTITION m_2 FOR VALUES IN (2); END $$});
	for my $row ([ 1, 'CREATE FOREIGN TABLE m_1 PARTITION OF m FOR VALUES IN (1) SERVER node1' ], [ 2, 'SELECT attach()' ])
	{
		my ($k, $sql) = @$row;

		$c->safe_psql("CHECKPOINT; $sql");
		$c->safe_psql("SET synchronous_commit = on; INSERT INTO m VALUES ($k, 1)");
		crash();
		is($c->safe_psql("SELECT count(*) FROM m WHERE k = $k"), 1, "a row is there in a partition of another session: $sql");
	}
	$c->safe_psql('CHECKPOINT; CREATE UNIQUE INDEX CONCURRENTLY here_id ON here (id)');
	crash();
	is($c->safe_psql(q{SELECT indisvalid FROM pg_index WHERE indexrelid = 'here_id'::regclass}), 't', 'a statement that commits several times is on disk with all of it');
	$c->safe_psql('DROP INDEX here_id');
}

# Is the statement's commit on disk when the client gets the result?
sub flushed
{
	my ($cluster, $sql) = @_;
	my $before = $cluster->safe_psql('INSERT INTO here VALUES (0); SELECT pg_current_wal_insert_lsn()');

	$cluster->safe_psql($sql);
	return $cluster->safe_psql("SELECT pg_current_wal_flush_lsn() > '$before'");
}

my @definitions = (
	'ALTER TABLE t ENABLE ROW LEVEL SECURITY', 'CREATE POLICY p ON t USING (true)', 'ALTER TABLE t RENAME COLUMN v TO w', 'ALTER TABLE m DETACH PARTITION m_2',
	'CREATE SERVER other FOREIGN DATA WRAPPER shardfdw', 'ALTER SERVER other RENAME TO another', 'CREATE USER MAPPING FOR PUBLIC SERVER another', 'DROP SERVER another CASCADE',
	'CREATE ROLE r', 'GRANT SELECT ON t TO r', 'DROP OWNED BY r', 'DROP ROLE r', q{COMMENT ON TABLE t IS 'x'},
	q{CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'}, 'CREATE SEQUENCE s', 'ALTER SEQUENCE s RESTART 7', 'CREATE DOMAIN d AS int', 'CREATE VIEW v AS SELECT 1',
	'CREATE TABLE made AS SELECT 1 AS id', 'EXPLAIN (ANALYZE, COSTS off) CREATE TABLE explained AS SELECT 1 AS id', q{DO $$ BEGIN CREATE TABLE done (id int); COMMIT; END $$},
	'BEGIN; SAVEPOINT a; CREATE TABLE kept (id int); RELEASE a; INSERT INTO here VALUES (0); COMMIT', 'DROP VIEW v; DROP TABLE made, explained, done, kept');
is(join("\n", grep { flushed($c, $_) ne 't' } @definitions), '', 'definitions are on disk');
{
	# Sessions of roles with a different session_preload_libraries load the library when they need
	# it.
	my $without = ShardCluster->new(nodes => 1, coordinator_conf => $lazy);

	$without->safe_psql('CREATE TABLE here (id int)');
	local $ENV{PGOPTIONS} = '-c session_preload_libraries=';
	is(flushed($without, 'CREATE TABLE made (id int)'), 't', 'definitions of sessions that have not loaded the library are on disk');
}

# ---------- placement of shards ----------
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
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.shards WHERE relation = 'o'::regclass}), 2, 'a table that was sharded online stays sharded');
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

# Waits until the subscriber has confirmed to the publisher that everything is on its disk.
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
	# only plain tables, only sharded tables, both
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
