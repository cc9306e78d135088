# Writes to shards with replicas while servers and sessions die. All placements that are not stale
# must have the same rows.

use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

# ROUNDS of random DML by eight clients; KILLS of a node at work.
my $rounds = $ENV{REPLICA_ROUNDS} // (ShardCluster::halved() ? 1 : 3);
my $kills = $ENV{REPLICA_KILLS} // 3;

my $c = ShardCluster->new(nodes => 3, coordinator_conf => "deadlock_timeout = '200ms'\n", node_conf => "deadlock_timeout = '200ms'\n");

# Lists the differences between placements. Empty if they are equal.
sub differences
{
	my ($table) = @_;
	return $c->safe_psql("SELECT shard, node, role, row_count FROM shardfdw.compare_replicas('$table') WHERE NOT is_equal");
}

sub fails
{
	my ($sql, $error, $name) = @_;
	my ($rc, $out, $err) = $c->psql($sql);
	like($err, $error, $name);
	return;
}

# ---------- all ways to write ----------

$c->safe_psql(q{
	CREATE TABLE t (id int, part text COLLATE "C", v text, n bigint DEFAULT 0, ts timestamptz DEFAULT clock_timestamp(), twice bigint GENERATED ALWAYS AS (n * 2) STORED, PRIMARY KEY (id, part));
	INSERT INTO t (id, part, v) SELECT g, 'p' || g % 3, 'row ' || g FROM generate_series(1, 500) g;
	CREATE INDEX ON t (n);
	SELECT shardfdw.shard_table('t', key => 'id', shards => 6, replication_factor => 2)});
is($c->safe_psql(q{SELECT count(*), count(*) FILTER (WHERE cardinality(replica_nodes) = 1 AND replica_nodes[1] <> node) FROM shardfdw.shards WHERE relation = 't'::regclass}), '6|6', 'each shard is on two nodes');
is($c->safe_psql(q{SELECT count(DISTINCT node), count(DISTINCT replica_nodes) FROM shardfdw.shards WHERE relation = 't'::regclass}), '3|3', 'of three');
is(differences('t'), '', 'a table with rows gets replicas');
my @writes = (
	q{UPDATE t SET v = 'one' WHERE id = 5},
	q{UPDATE t SET ts = clock_timestamp(), n = id WHERE id < 100},
	q{UPDATE t SET id = id + 10000 WHERE id BETWEEN 100 AND 120},
	q{UPDATE t SET part = part || 'x' WHERE id BETWEEN 130 AND 140},
	q{DELETE FROM t WHERE id BETWEEN 200 AND 250},
	q{INSERT INTO t (id, part) VALUES (5000, 'a'), (5001, 'b')},
	q{INSERT INTO t (id, part, v) SELECT g, 's', clock_timestamp()::text FROM generate_series(6000, 6500) g},
	q{INSERT INTO t (id, part, v) VALUES (5000, 'a', 'upsert'), (5002, 'c', 'new') ON CONFLICT (id, part) DO UPDATE SET v = excluded.v || random()},
	q{INSERT INTO t (id, part) SELECT g, 'a' FROM generate_series(4995, 5005) g ON CONFLICT DO NOTHING},
	q{MERGE INTO t USING (VALUES (5001, 'b'), (7000, 'm')) s(i, p) ON t.id = s.i AND t.part = s.p WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, part) VALUES (s.i, s.p)},
	q{BEGIN; UPDATE t SET n = n + 1; SAVEPOINT a; DELETE FROM t; ROLLBACK TO a; DELETE FROM t WHERE id < 10; INSERT INTO t (id, part) VALUES (5, 'again'); COMMIT},
	q{BEGIN; DELETE FROM t WHERE id = 20; INSERT INTO t (id, part, v) VALUES (20, 'p2', 'back'); UPDATE t SET id = 21 WHERE id = 20; DELETE FROM t WHERE id = 21; ROLLBACK},
	q{DO $$ BEGIN FOR i IN 1 .. 300 LOOP UPDATE t SET n = n + i WHERE id = 5 + i % 20; END LOOP; END $$},
	q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; UPDATE t SET n = n - 1 WHERE id > 6000; COMMIT},
	q{DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY n LIMIT 3 FOR UPDATE SKIP LOCKED)},
	q{WITH d AS (DELETE FROM t WHERE id = 30 RETURNING *) INSERT INTO t (id, part, v) SELECT id + 20000, part, v FROM d},
	q{BEGIN; DELETE FROM t WHERE id BETWEEN 40 AND 49; INSERT INTO t (id, part, v) SELECT g, 'p' || g % 3, 'replaced' FROM generate_series(40, 49) g; COMMIT},
	q{WITH d AS (DELETE FROM t WHERE id BETWEEN 50 AND 59 RETURNING *) INSERT INTO t (id, part, v) SELECT id, part, 'replaced' FROM d},
	q{BEGIN; DELETE FROM t WHERE id = 60; UPDATE t SET id = 60, part = 'p0' WHERE id = 61; COMMIT},
	q{BEGIN; DELETE FROM t WHERE id = 62; COPY t (id, part, v) FROM PROGRAM 'echo 62,p2,replaced' CSV; COMMIT},
	q{BEGIN; SET CONSTRAINTS ALL IMMEDIATE; UPDATE t SET v = 'immediate' WHERE id < 70; COMMIT},
	q{BEGIN; INSERT INTO t (id, part) VALUES (9001, 'd'); SET CONSTRAINTS ALL IMMEDIATE; INSERT INTO t (id, part) VALUES (9002, 'd'); COMMIT},
	q{BEGIN; INSERT INTO t (id, part) VALUES (9003, 'd'); ALTER TABLE t ADD COLUMN extra int DEFAULT 7; UPDATE t SET extra = id WHERE id > 9000; CREATE INDEX ON t (extra); ALTER TABLE t ADD CHECK (id > 0); COMMIT},
	q{SET shardfdw.commit_protocol = '1pc'; UPDATE t SET n = 1},
	q{BEGIN; TRUNCATE t; INSERT INTO t (id, part) SELECT g, 'n' FROM generate_series(1, 300) g; SAVEPOINT a; TRUNCATE t; ROLLBACK TO a; INSERT INTO t (id, part) VALUES (301, 'n'); COMMIT},
	q{BEGIN; UPDATE t SET n = 3; ALTER TABLE t DROP COLUMN extra; COMMIT},
);
for my $sql (@writes)
{
	$c->safe_psql($sql);
	is(differences('t'), '', $sql);
}
is($c->safe_psql('SELECT count(*), count(*) FILTER (WHERE twice = 6) FROM t'), '301|301', 'the rows that were to be there');

# ---------- few rows, and many ----------

# Values of all kinds on their way as literals, long ones by COPY; keys whose type has a length.
$c->safe_psql(q{
	CREATE DOMAIN word AS text CHECK (value <> 'no');
	CREATE TYPE pair AS (x int, y text);
	CREATE TABLE few (c char(5), b bit(3), v word, a text[], p pair, f float8, j jsonb, x bytea, i interval, r int4range, d date, e "char", n numeric(10, 3), PRIMARY KEY (c, b));
	SELECT shardfdw.shard_table('few', key => 'c', shards => 6, replication_factor => 2);
	INSERT INTO few SELECT 'k' || g, (g % 8)::bit(3) FROM generate_series(1, 20) g});
my @few = (
	q{INSERT INTO few VALUES ('it''s', '101', E'back\\slash ''quote'' "double" $1 $do$\n\ttab', ARRAY['', NULL, 'NULL', 'a,b"c\d'], (1, 'x"y\z'), 'NaN', '{"a": "\\u00e9"}', '\x00ff27', '1 mon -2 days 3.5 s', '[1,5)', '2024-02-29', 'z', 1.5)},
	q{INSERT INTO few (c, b, v, f, e) VALUES ('', '000', '', 0.1::float8 + 0.2, ''), ('é', '111', NULL, '-0', '\377')},
	q{UPDATE few SET v = '', d = 'infinity', i = '-1 year' WHERE c = 'it''s'},
	q{UPDATE few SET c = 'new' WHERE c = 'é'},
	q{UPDATE few SET v = repeat('long ', 4000) WHERE c = 'k1'},
	q{UPDATE few SET v = v || 'er', f = 2 WHERE c IN ('k1', 'k2', 'new')},
	q{DELETE FROM few WHERE c IN ('k1', 'k3', '')},
	q{BEGIN; SET LOCAL DateStyle = 'SQL, DMY'; SET LOCAL IntervalStyle = 'sql_standard'; SET LOCAL bytea_output = 'escape'; SET LOCAL extra_float_digits = -5; UPDATE few SET d = '2024-02-01', f = 1.0::float8 / 3, x = '\x5c', i = '1-2 3 4:05:06' WHERE c = 'k4'; COMMIT},
	q{BEGIN; INSERT INTO few SELECT 'm' || g, '010' FROM generate_series(1, 150) g; UPDATE few SET v = 'many' WHERE c = 'k5'; COMMIT},
	q{DO $$ BEGIN FOR g IN 1 .. 150 LOOP UPDATE few SET n = g WHERE c = 'm' || g; END LOOP; END $$},
	q{BEGIN; UPDATE few SET v = 'gone' WHERE c = 'k6'; SAVEPOINT a; UPDATE few SET n = 7; ROLLBACK TO a; UPDATE few SET v = 'here' WHERE c = 'k7'; COMMIT});
for my $sql (@few)
{
	$c->safe_psql($sql);
	is(differences('few'), '', $sql);
}
is($c->safe_psql(q{SELECT count(*), count(v), sum(n) FROM few}), '170|4|11326.500', 'the rows that were to be there');
$c->safe_psql('DROP TABLE few; DROP TYPE word, pair');

# ---------- loads ----------

my $load = join '', map { "$_,l,load $_\n" } 1000 .. 3000;
my $clock = "4000,c,now,now\n4001,c,x,2020-01-01\n4002,c,x,\"to\"\"day\"\n";
my $file = PostgreSQL::Test::Utils::tempdir() . '/load.csv';
PostgreSQL::Test::Utils::append_to_file($file, $load);
$c->safe_psql("COPY t (id, part, v) FROM '$file' CSV");
is(differences('t'), '', 'a load');
fails("COPY t (id, part, v) FROM '$file' CSV", qr/duplicate key .*\n.*\n.*\n?CONTEXT:  COPY t, line 1/s, 'its error has the line');
$c->safe_psql("COPY t (id, part, v) FROM '$file' CSV WHERE id > 5000");
$c->safe_psql("DELETE FROM t WHERE id BETWEEN 1000 AND 2500; COPY t (id, part, v) FROM '$file' (FORMAT csv, ON_ERROR 'ignore')");
is($c->safe_psql('SELECT count(*) FROM t'), 301 + 2001, 'a load that leaves out what is there');
is(differences('t'), '', 'on replicas, too');
PostgreSQL::Test::Utils::append_to_file($file . '2', "4000,c,w,now\n4001,c,x,2020-01-01\n4002,c,x,\"n\"o\"w\"\n");
$c->safe_psql("COPY t (id, part, v, ts) FROM '${file}2' CSV");
PostgreSQL::Test::Utils::append_to_file($file . '3', "4003\tyw\t2020-01-01\tw\\ty\n4004\tn\\157w\tn\\157w\tx\n4005\tx\tNOW\ty\n4006\tnow\t\\N\tx\n");
$c->safe_psql("COPY t (id, part, ts, v) FROM '${file}3'");
is($c->safe_psql('SELECT count(*) FROM t WHERE id BETWEEN 4000 AND 4006 AND ts > now() - interval $$5 minutes$$'), 4, 'words that ask the clock');
is(differences('t'), '', 'are read once');
$c->safe_psql("BEGIN; COPY t (id, part, v) FROM PROGRAM 'seq 100000 120000 | sed s/\$/,q,r/' CSV; UPDATE t SET v = 'u' WHERE id > 119000; SAVEPOINT s; COPY t (id, part, v) FROM PROGRAM 'seq 200000 220000 | sed s/\$/,q,r/' CSV; ROLLBACK TO s; DELETE FROM t WHERE id = 100000; COMMIT");
is(differences('t'), '', 'loads within a transaction');

# ---------- changes that nodes refuse, and that the coordinator refuses ----------

my ($shard, $home) = split /\|/, $c->safe_psql(q{SELECT shard, right(node, 1) FROM shardfdw.shards WHERE relation = 't'::regclass LIMIT 1});
for my $sql ("UPDATE $shard SET v = 'by hand'", "BEGIN; SAVEPOINT a; UPDATE $shard SET v = 'by hand'; ROLLBACK TO a; UPDATE $shard SET v = 'by'; UPDATE $shard SET v = 'hand'; COMMIT", "INSERT INTO $shard (id, part, v) VALUES (-1, 'x', 'by hand')", "DELETE FROM $shard")
{
	my ($rc, $out, $err) = $c->node_psql($home, $sql);
	like($err, qr/shard public\.$shard was changed, and its replicas were not|violates check constraint/, "a client of a node: $sql");
}
(undef, undef, my $refused) = $c->psql(q{SELECT shardfdw.run_on_shards('t', 'UPDATE %s SET v = ''by hand''')});
like($refused, qr/ERROR:  shard public\.t_\d+ was changed, and its replicas were not/, 'run_on_shards() raises the error of the node');
unlike($refused, qr/max_prepared_transactions/, 'and no hint that does not help');
my ($rc, $out, $err) = $c->node_psql($home, "TRUNCATE $shard");
like($err, qr/cannot be truncated without its replicas/, 'TRUNCATE by a client of a node');
$c->node_safe_psql($home, "CREATE FUNCTION own() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.v := ''other''; RETURN NEW; END'; CREATE TRIGGER own BEFORE INSERT OR UPDATE ON $shard FOR EACH ROW EXECUTE FUNCTION own()");
fails(q{UPDATE t SET v = 'x'}, qr/shard public\.$shard has replicas, and triggers, rules or row security on its node/, 'a trigger of the node');
$c->node_safe_psql($home, "DROP FUNCTION own CASCADE; ALTER TABLE $shard ENABLE ROW LEVEL SECURITY");
fails(q{UPDATE t SET v = 'x'}, qr/shard public\.$shard has replicas, and triggers, rules or row security on its node/, 'row security of the node');
$c->node_safe_psql($home, "ALTER TABLE $shard DISABLE ROW LEVEL SECURITY");
$c->node_safe_psql($home, "ALTER TABLE $shard DISABLE TRIGGER shardfdw_replica_update");
like($c->safe_psql(q{SELECT detail FROM shardfdw.check_cluster() WHERE status = 'error'}), qr/what notes changes of shard public\.$shard is missing or disabled/, 'check_cluster() sees that a trigger is disabled');
$c->node_safe_psql($home, "ALTER TABLE $shard ENABLE ALWAYS TRIGGER shardfdw_replica_update");
is($c->safe_psql(q{SELECT detail FROM shardfdw.check_cluster('rows') WHERE status = 'error'}), '', 'and nothing else');
{
	# the state after a session that ended when it had sent its commit to the primary only
	my $copy = $c->safe_psql(qq{SELECT right(replica_nodes[1], 1) FROM shardfdw.shards WHERE shard = '$shard'::regclass});
	my $id = $c->safe_psql(qq{SELECT min(g) FROM generate_series(500000, 501000) g WHERE shardfdw.shard_for('t', g) = '$shard'::regclass});
	my $insert = "SET LOCAL shardfdw_replica.applied = on; INSERT INTO $shard (id, part, ts) VALUES ($id, 'late', '2026-01-01')";
	my $gid = $c->gid_prefix . '3:17';

	$c->node_safe_psql($home, "BEGIN; $insert; COMMIT");
	$c->node_safe_psql($copy, "BEGIN; $insert; PREPARE TRANSACTION '$gid'");
	fails(qq{UPDATE t SET v = 'x' WHERE id = $id}, qr/rows of the replica of shard public\.$shard on node "node$copy" are missing, and transactions are prepared there/, 'a row that is prepared on the replica');
	$c->node_safe_psql($copy, "COMMIT PREPARED '$gid'");
	$c->safe_psql(qq{UPDATE t SET v = 'x' WHERE id = $id});
	is(differences('t'), '', 'is found when that is committed');
}
fails($_->[0], $_->[1], $_->[0]) for
	[ 'ALTER TABLE t DROP COLUMN part', qr/DROP COLUMN of the primary key, where shards have replicas/ ],
	[ 'ALTER TABLE t RENAME v TO w', qr/is not supported for table "t", whose shards have replicas/ ],
	[ 'ALTER TABLE t ALTER n TYPE numeric', qr/this form of ALTER TABLE is not supported for table "t", whose shards have replicas/ ],
	[ 'ALTER TABLE t ADD COLUMN s serial', qr/this form of ALTER TABLE is not supported/ ],
	[ 'ALTER TABLE t ADD COLUMN r float DEFAULT random()', qr/this form of ALTER TABLE is not supported/ ],
	[ 'ALTER TABLE t DROP CONSTRAINT t_pkey', qr/this form of ALTER TABLE is not supported/ ],
	[ "ALTER TABLE t DETACH PARTITION $shard", qr/this form of ALTER TABLE is not supported/ ],
	[ "DROP FOREIGN TABLE $shard", qr/cannot drop shard public\.$shard alone because it has replicas/ ],
	[ "ALTER FOREIGN TABLE $shard OPTIONS (DROP replicas)", qr/this form of ALTER TABLE is not supported/ ],
	[ 'CREATE INDEX CONCURRENTLY ON t (v)', qr/CREATE INDEX CONCURRENTLY is not supported/ ],
	[ 'ALTER SCHEMA public RENAME TO other', qr/ALTER SCHEMA is not supported for table "t", whose shards have replicas/ ],
	[ 'CLUSTER t USING t_pkey', qr/CLUSTER is not supported/ ],
	[ "SELECT shardfdw.move_shard('$shard', 'node3', mode => 'block')", qr/shard public\.$shard cannot be moved: shard public\.$shard has replicas/ ],
	[ "SELECT shardfdw.split_shard('$shard', mode => 'block')", qr/cannot be split: shard public\.$shard has replicas/ ],
	[ q{SELECT shardfdw.create_shard('t', 'more', 'FOR VALUES WITH (MODULUS 12, REMAINDER 1)', 'node1')}, qr/cannot add a shard to table "t" because its shards have replicas/ ],
	[ q{SELECT shardfdw.unshard_table('t', mode => 'online')}, qr/cannot unshard table "t" online because its shards have replicas/ ],
	[ q{SELECT shardfdw.import_table('t', 'host=nowhere')}, qr/cannot import rows into table "t" because its shards have replicas/ ],
	[ q{SELECT shardfdw.add_coordinator('one', 'nowhere')}, qr/cannot have several coordinators of table "t" because its shards have replicas/ ],
	[ q{SELECT shardfdw.set_shards_schema('t', 'elsewhere')}, qr/cannot move the shards of table "t" because its shards have replicas/ ],
	(map { [ $_, qr/cannot drop server "node\d" because it has a replica of shard .*\nHINT:  .*remove_all_nodes\(/s ] }
		'DROP EXTENSION shardfdw CASCADE', 'DROP SERVER node1 CASCADE'),
	[ q{ALTER SERVER node2 RENAME TO other}, qr/cannot rename server "node2" because it has a replica of shard/ ],
	[ q{CREATE TABLE u (a int); SELECT shardfdw.shard_table('u', 'a', replication_factor => 2)}, qr/cannot make replicas of the shards of table "u" because it has no primary key/ ],
	[ q{CREATE UNLOGGED TABLE u2 (a int PRIMARY KEY); SELECT shardfdw.shard_table('u2', replication_factor => 2)}, qr/because it is unlogged/ ],
	[ q{CREATE TABLE u3 (a int[] PRIMARY KEY); SELECT shardfdw.shard_table('u3', replication_factor => 2)}, qr/because of column "a" of its primary key/ ],
	[ q{CREATE TABLE x (a int PRIMARY KEY); SELECT shardfdw.shard_table('x', replication_factor => 4)}, qr/replication_factor is 4, and there are only 3 nodes/ ],
	[ q{BEGIN; ALTER SERVER node1 OPTIONS (ADD accepts_shards 'false'); ALTER SERVER node3 OPTIONS (ADD accepts_shards 'false'); SELECT shardfdw.shard_table('x', replication_factor => 2)},
		qr/replication_factor is 2, and there are only 1 nodes\nDETAIL:  Nodes that do not accept shards: node1, node3\.\nHINT:  ALTER SERVER node1 OPTIONS \(SET accepts_shards 'true'\)/ ],
	[ q{SELECT shardfdw.shard_table('x', replication_factor => 2, mode => 'online')}, qr/cannot shard table "x" online with replicas/ ],
	[ q{SELECT shardfdw.shard_table('x', colocate_with => 't', replication_factor => 3)}, qr/has its shards on 2 nodes each/ ];
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.rebalance_plan()}), 0, 'shards with replicas stay where they are');
$c->safe_psql(q{SELECT shardfdw.shard_table('x', colocate_with => 't'); INSERT INTO x SELECT id FROM t});
is(differences('x'), '', 'a colocated table has replicas, too');
$c->safe_psql(q{CREATE SCHEMA app; CREATE TABLE app.y (a int PRIMARY KEY, b text); SELECT shardfdw.shard_table('app.y', shards => 4, shards_in => 'app_shards', replication_factor => 3); INSERT INTO app.y SELECT g, 'y' FROM generate_series(1, 100) g; UPDATE app.y SET b = 'z' WHERE a < 50; DELETE FROM app.y WHERE a > 90});
is(differences('app.y'), '', 'shards in a schema of their own have replicas');
$c->safe_psql(q{CREATE ROLE caller; CREATE FUNCTION write_y() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'UPDATE app.y SET b = b || 1'; SET ROLE caller; SELECT write_y(); RESET ROLE; DROP ROLE caller});
is(differences('app.y'), '', 'a function writes to a schema which its caller may not use');
$c->safe_psql('DROP TABLE app.y');
like($c->safe_psql('EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM t JOIN x ON t.id = x.a'), qr/Remote SQL: .*JOIN/, 'and is joined on the nodes');

# ---------- eight clients ----------

my $script = PostgreSQL::Test::Utils::tempdir() . '/random.sql';
PostgreSQL::Test::Utils::append_to_file($script, <<'EOF');
\set id random(1, 200)
\set other random(1, 200)
\set op random(1, 12)
\if :op = 1
INSERT INTO r VALUES (:id, random()::text, :other) ON CONFLICT (id) DO UPDATE SET v = excluded.v, n = r.n + 1;
\elif :op = 2
DELETE FROM r WHERE id = :id;
\elif :op = 3
UPDATE r SET v = clock_timestamp()::text WHERE id BETWEEN :id AND :id + 3;
\elif :op = 4
UPDATE r SET n = n + 1 WHERE id = :id;
\elif :op = 5
BEGIN; SELECT * FROM r WHERE id = :id FOR UPDATE; UPDATE r SET n = n * 2 % 1000 WHERE id = :id; COMMIT;
\elif :op = 6
INSERT INTO r SELECT g, 'i', 0 FROM generate_series(:id, :id + 3) g ON CONFLICT DO NOTHING;
\elif :op = 7
BEGIN; INSERT INTO r VALUES (:id + 1000, 'x', 1) ON CONFLICT DO NOTHING; SAVEPOINT a; UPDATE r SET v = 'sp' WHERE id < :id % 20; ROLLBACK TO a; DELETE FROM r WHERE id = :id + 1000; COMMIT;
\elif :op = 8
MERGE INTO r USING (VALUES (:id, :other)) s(i, m) ON r.id = s.i WHEN MATCHED AND r.n > 50 THEN DELETE WHEN MATCHED THEN UPDATE SET n = r.n + s.m WHEN NOT MATCHED THEN INSERT VALUES (s.i, 'm', 1);
\elif :op = 9
BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM r; UPDATE r SET n = n + 1 WHERE id = :id; COMMIT;
\elif :op = 10
DELETE FROM r WHERE id IN (SELECT id FROM r WHERE n > 100 ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED);
\elif :op = 11
WITH d AS (DELETE FROM r WHERE id = :id RETURNING *) INSERT INTO r SELECT id + 700, v, n FROM d ON CONFLICT DO NOTHING;
\else
COPY r FROM PROGRAM 'echo $((RANDOM % 200 + 2000))' (ON_ERROR 'ignore');
\endif
EOF
$c->safe_psql(q{CREATE TABLE r (id int PRIMARY KEY, v text DEFAULT 'd', n bigint DEFAULT 0); SELECT shardfdw.shard_table('r', shards => 6, replication_factor => 2); INSERT INTO r SELECT g, 'v', g FROM generate_series(1, 100) g});

# Starts clients that write until $seconds are over; errors of single transactions do not end them.
# @rate: transactions in a second. Without it, the clients do all that the processors can.
sub start_clients
{
	my ($seconds, $out, @rate) = @_;
	return IPC::Run::start([ 'pgbench', '-n', '-h', $c->coordinator->host, '-p', $c->coordinator->port, '-c', 8, '-j', 2, '-T', $seconds, '--max-tries=1', (map { ('-R', $_) } @rate), '-f', $script, 'postgres' ], '>', $out, '2>', $out);
}

sub stop_clients
{
	my ($clients) = @_;

	$clients->signal('TERM');
	eval { $clients->finish };
	# their sessions end when they notice
	$c->wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pgbench'});
	return;
}

for my $round (1 .. $rounds)
{
	my $log = '';
	my $clients = start_clients(2, \$log);
	$clients->finish;
	like($log, qr/number of transactions actually processed: [1-9]/, "clients have written in round $round");
	# duplicate keys come from MERGE, as on a plain table; if a machine is stopped for long,
	# connections time out
	is(join(' ', grep { !/duplicate key|could not connect/ } $log =~ /^.*client \d+ .*aborted.*$/mg), '', 'and none has got another error than for deadlocks and snapshots');
	is(differences('r'), '', "all placements are equal after round $round");
}

# ---------- a node dies ----------

# Each client writes separate rows, and notes acknowledged rows in a ledger.
$c->safe_psql(q{CREATE TABLE l (id bigint PRIMARY KEY, v int); SELECT shardfdw.shard_table('l', shards => 6, replication_factor => 2)});
for my $kill (1 .. $kills)
{
	my $victim = 1 + $kill % 3;
	my @told;
	my $base = $kill * 1_000_000;
	my $log = '';
	my $clients = start_clients(600, \$log, 50);
	my $n = 0;

	# a load, rows one by one and an UPDATE at the moment of the kill
	my $copy = IPC::Run::start([ 'psql', '-X', '-q', '-h', $c->coordinator->host, '-p', $c->coordinator->port, '-d', 'postgres', '-v', 'ON_ERROR_STOP=1', '-c', "COPY l FROM PROGRAM 'for i in 1 2 3 4 5 6 7 8; do seq $base 1 \$(($base + 200000)) | sed \"s/\$/\\t1/\"; break; done'" ], '>', \my $copied, '2>', \my $copy_error);
	for my $i (1 .. 40)
	{
		$c->kill9_node($victim) if $i == 20;
		my ($rc, $out, $err) = $c->psql("INSERT INTO l VALUES ($base + 500000 + $i, $i); UPDATE l SET v = v + 1 WHERE id BETWEEN $base + 500001 AND $base + 500000 + $i", on_error_stop => 1);
		push @told, $base + 500000 + $i if $rc == 0;
	}
	$copy->finish;
	my $loaded = $copy->full_result(0) == 0;
	stop_clients($clients);
	my $there = $c->safe_psql("SELECT count(*) FROM l WHERE id IN (" . join(',', 0, @told) . ")");
	is($there, scalar @told, "kill $kill: reads go on, and find what clients were told of");
	like($c->safe_psql("SELECT count(*) FROM l WHERE id BETWEEN $base AND $base + 200000"), $loaded ? qr/^200001$/ : qr/^(0|200001)$/, "the load of kill $kill is there as a whole or not at all");
	fails("INSERT INTO l SELECT $base + 600000 + g, 0 FROM generate_series(1, 50) g", qr/could not connect to node "node$victim".*disable_node\('node$victim'\)/s, 'writes say what to do');
	cmp_ok($c->safe_psql("SELECT shardfdw.disable_node('node$victim')"), '>', 0, "node $victim is disabled");
	$c->safe_psql("INSERT INTO l SELECT $base + 600000 + g, 0 FROM generate_series(1, 50) g; UPDATE r SET n = n + 1; UPDATE t SET n = n + 1; DELETE FROM l WHERE id = $base + 600001");
	is($c->safe_psql("SELECT count(*) FROM l WHERE id IN (" . join(',', 0, @told) . ")"), scalar @told, 'nothing is lost');
	like($c->safe_psql(q{SELECT detail FROM shardfdw.check_cluster() WHERE check_name = 'replicas'}), qr/replicas of \d+ shards are stale/, 'check_cluster() lists what is stale');
	$c->node($victim)->start;
	cmp_ok($c->safe_psql("SELECT shardfdw.enable_node('node$victim')"), '>', 0, "node $victim is enabled again");
	is(differences($_), '', "all placements of $_ are equal") for qw(t r l x);
	is($c->safe_psql(q{SELECT count(*) FROM shardfdw.shards WHERE stale_replica_nodes <> '{}' OR cardinality(replica_nodes) <> 1 AND relation IN ('t'::regclass, 'r'::regclass, 'l'::regclass, 'x'::regclass)}), 0, 'none is stale');
	$c->safe_psql('UPDATE r SET n = n - 1; DELETE FROM l');
	is($c->safe_psql(q{SELECT count(*) FROM shardfdw.recover_prepared_transactions() WHERE gid IS NOT NULL}), 0, 'nothing is left prepared');
}

# ---------- placements move ----------

sub placements
{
	my ($table) = @_;
	return $c->safe_psql(qq{SELECT string_agg(node || replica_nodes::text, ' ' ORDER BY shard::text) FROM shardfdw.shards WHERE relation = '$table'::regclass});
}

# Moves a placement of each shard of a table to the node that has none, while clients write.
# $column: node (the primary), or replica_nodes[1].
sub move_all
{
	my ($table, $column) = @_;
	my @moves = split /\n/, $c->safe_psql(qq{SELECT format('SELECT shardfdw.move_replica(%L, %L, %L)', shard, $column, (SELECT 'node' || i FROM generate_series(1, 3) i WHERE 'node' || i <> ALL (replica_nodes || node)))
		FROM shardfdw.shards WHERE relation = '$table'::regclass ORDER BY shard::text});
	$c->safe_psql($_) for @moves;
	return scalar @moves;
}

{
	my $log = '';
	my $clients = start_clients(600, \$log, 50);
	my $before = placements('r');

	$c->safe_psql('INSERT INTO x SELECT id FROM t ON CONFLICT DO NOTHING');
	for my $column ('replica_nodes[1]', 'node')
	{
		is(move_all('r', $column), 6, "$column of a table moves while clients write");
		is(differences('r'), '', 'the placements are equal');
		isnt(placements('r'), $before, 'and elsewhere');
		$before = placements('r');
	}
	is(move_all('t', 'node'), 6, 'primaries move');
	is(placements('x'), placements('t'), 'those of colocated tables, too');
	is(differences($_), '', "the placements of $_ are equal") for 't', 'x';
	stop_clients($clients);
	like($c->safe_psql('EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM t JOIN x ON t.id = x.a'), qr/Remote SQL: .*JOIN/, 'which are joined on the nodes as before');
	$c->safe_psql('UPDATE t SET n = n + 1; DELETE FROM x WHERE a % 3 = 0; UPDATE r SET n = n + 1');
	is(differences($_), '', "and so are those of $_ after a change") for qw(t x r);
	for my $node (1 .. 3)
	{
		is($c->node_safe_psql($node, q{SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname !~ '^shardfdw_notes_'}),
			$c->safe_psql("SELECT string_agg(shard::text, ' ' ORDER BY shard::text) FROM shardfdw.shards WHERE 'node$node' = ANY (replica_nodes || node)"), "node $node has what the coordinator says");
	}
}
my ($moved, $from, $copy) = split /\|/, $c->safe_psql(q{SELECT shard, node, replica_nodes[1] FROM shardfdw.shards WHERE relation = 'r'::regclass LIMIT 1});
my ($third) = grep { $_ ne $from && $_ ne $copy } 'node1', 'node2', 'node3';
fails($_->[0], $_->[1], $_->[0]) for
	[ "SELECT shardfdw.move_replica('$moved', '$from', '$copy')", qr/shard public\.\w+ is already on node "$copy"/ ],
	[ "SELECT shardfdw.move_replica('$moved', '$third', '$from')", qr/shard public\.\w+ is not on node "$third"/ ],
	[ "SELECT shardfdw.move_replica('$moved', '$from', 'nowhere')", qr/node "nowhere" does not exist/ ],
	[ "SELECT shardfdw.move_replica('r', '$from', '$third')", qr/r is no shard with replicas/ ];
$c->safe_psql("BEGIN; UPDATE r SET n = n + 1; SELECT shardfdw.move_replica('$moved', '$from', '$third'); UPDATE r SET n = n + 1; ROLLBACK");
$c->safe_psql("BEGIN; UPDATE r SET n = n + 1; SELECT shardfdw.move_replica('$moved', '$from', '$third'); UPDATE r SET n = n + 1; COMMIT");
is(differences('r'), '', 'a move in the middle of a transaction');
# a node that is permanently lost
$c->safe_psql("SELECT shardfdw.disable_node('$copy'); SELECT shardfdw.move_replica('$moved', '$copy', '$from')");
is($c->safe_psql("SELECT node || replica_nodes::text || stale_replica_nodes::text FROM shardfdw.shards WHERE shard = '$moved'::regclass"), "$third\{$from}{}", 'what is stale is made again elsewhere');
$c->safe_psql("SELECT shardfdw.enable_node('$copy')");
$c->node_safe_psql(substr($copy, -1), $c->safe_psql("SELECT string_agg(shardfdw_internal.drop_replica_command('public', g::text), ';') FROM shardfdw_internal.shard_group('$moved') g"));
is(differences('r'), '', 'and equal');

# ---------- a node that is disabled stays ----------

$c->safe_psql(q{SELECT shardfdw.disable_node('node1')});
fails(q{SELECT shardfdw.remove_node('node1')}, qr/cannot remove node "node1" because it holds replicas of shards/, 'a node with stale replicas stays');
$c->safe_psql(q{SELECT shardfdw.enable_node('node1')});

# ---------- a table that is dropped while a node is disabled, and made again ----------

$c->safe_psql(q{CREATE TABLE again (id int PRIMARY KEY); SELECT shardfdw.shard_table('again', shards => 3, replication_factor => 2)});
$c->safe_psql(q{SELECT shardfdw.disable_node('node1'); DROP TABLE again; CREATE TABLE again (id int PRIMARY KEY)});
fails("SELECT shardfdw.$_", qr/node "node1" still has table public\.again_0\d\n.*HINT:.*SELECT shardfdw\.enable_node\('node1'\)/s, "$_ says what is left, and what drops it")
	for "shard_table('again', shards => 3)", "shard_table('again', shards => 3, nodes => '{node1,node2}', replication_factor => 2)";
$c->safe_psql(q{SELECT shardfdw.enable_node('node1'); SELECT shardfdw.shard_table('again', shards => 3, replication_factor => 2); DROP TABLE again});

# ---------- a node that is to go ----------
$c->safe_psql(q{CREATE TABLE w (id int PRIMARY KEY); SELECT shardfdw.shard_table('w', shards => 5, nodes => '{node1,node2}', replication_factor => 2); INSERT INTO w SELECT generate_series(1, 100)});
(undef, $out, $err) = $c->psql(q{SELECT shardfdw.drain_node('node2')});
like($err, qr/WARNING:  \d+ shards stay on node "node2".*mode 'block'/s, 'drain_node() says what moves replicas');
($rc, $out, $err) = $c->psql(q{SELECT shardfdw.drain_node('node2', mode => 'block')});
unlike($err, qr/WARNING|ERROR/, 'which then leaves none');
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.shards WHERE 'node2' = ANY (replica_nodes || stale_replica_nodes || node)}), 0, 'on the node');
is(differences($_), '', "the placements of $_ are equal") for qw(t r l x w);
$c->safe_psql(q{DROP TABLE w; ALTER SERVER node2 OPTIONS (DROP accepts_shards)});

# ---------- the end ----------

$c->safe_psql(q{BEGIN; UPDATE t SET n = 0; SELECT shardfdw.unshard_table('t'); COMMIT; DROP TABLE x; BEGIN; DELETE FROM r; DROP TABLE r; COMMIT; DROP TABLE l});
is($c->node_safe_psql($_, q{SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r'}), 0, "no table is left on node $_") for 1 .. 3;
is($c->node_safe_psql($_, q{SELECT count(*) FROM pg_proc p WHERE p.proname ~ '^shardfdw_notes_'}), 0, "no function is left on node $_") for 1 .. 3;

done_testing();
