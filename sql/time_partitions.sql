-- Partitions by time that are made and dropped with their shards.
\set VERBOSITY terse
SET client_min_messages = warning;
SET timezone = 'Europe/Berlin';
SET datestyle = ISO;
SET intervalstyle = postgres;
CREATE SCHEMA tims;
SET search_path = tims;
CREATE VIEW parts AS SELECT c.relname AS part, pg_get_expr(c.relpartbound, c.oid) AS bounds, pg_get_partkeydef(c.oid) AS key,
	(SELECT string_agg(s.srvname || ' ' || pg_get_expr(k.relpartbound, k.oid), ', ' ORDER BY k.relname) FROM pg_inherits j JOIN pg_class k ON k.oid = j.inhrelid
		JOIN pg_foreign_table f ON f.ftrelid = k.oid JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE j.inhparent = c.oid) AS shards
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass('r') ORDER BY c.relname;

CREATE TABLE r (at timestamptz NOT NULL, d int NOT NULL, v int, PRIMARY KEY (at, d)) PARTITION BY RANGE (at);
-- nothing says how
SELECT shardfdw.create_time_partitions('r', '1 month', '2026-03-15');
-- an empty partition gets its shards where it stands
CREATE TABLE r_2026_01 PARTITION OF r FOR VALUES FROM ('2026-01-01') TO ('2026-02-01') PARTITION BY HASH (d);
SELECT shardfdw.shard_table('r_2026_01', shards => 2, nodes => '{node2,node4}');
SELECT shardfdw.shard_table('r_2026_01', shards => 2);
-- further ones are as the last is
SELECT shardfdw.create_time_partitions('r', '1 month', '2026-04-01');
SELECT shardfdw.create_time_partitions('r', '1 month', '2026-04-01');
TABLE parts;
INSERT INTO r SELECT timestamptz '2026-01-01' + i * interval '1 day', i % 7, i FROM generate_series(0, 80) i;
SELECT tableoid::regclass, * FROM r WHERE at = '2026-03-20' ORDER BY d;
INSERT INTO r VALUES ('2026-03-20', 2, 1);
EXPLAIN (COSTS OFF) SELECT count(*) FROM r;
-- over the end of summer time, with more shards
SELECT shardfdw.create_time_partitions('r', '1 day', '2026-04-03', shards => 3);
TABLE parts;
SELECT * FROM shardfdw.drop_old_time_partitions('r', '2026-02-15');
SELECT min(at), count(*) FROM r;
SELECT * FROM shardfdw.drop_old_time_partitions('r', '2026-02-15');
DROP TABLE r CASCADE;
-- the first ones, of other types, and parts of a day
CREATE TABLE r (at date, d int) PARTITION BY RANGE (at);
SELECT count(*) FROM shardfdw.create_time_partitions('r', '7 days', now() + interval '14 days', key => 'd', shards => 2);
SELECT bool_and(extract(isodow FROM substring(pg_get_expr(relpartbound, c.oid) FROM $$FROM \('(.*?)'\)$$)::date) = 1) AS from_monday FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'r'::regclass;
DROP TABLE r CASCADE;
CREATE TABLE r (at timestamp, d int) PARTITION BY RANGE (at);
SELECT count(*) FROM shardfdw.create_time_partitions('r', '6 hours', now(), '1 day', 'd', 1);
-- what is older than the retention goes
SELECT count(*) FROM shardfdw.create_time_partitions('r', '6 hours', now(), '1 hour');
SELECT count(*) BETWEEN 1 AND 2 AS kept, bool_and(ends > now() AT TIME ZONE 'Europe/Berlin' - interval '1 hour') AS none_is_older
FROM parts, substring(bounds FROM $$TO \('(.*?)'\)$$) b, CAST(b AS timestamp) ends;
DROP TABLE r CASCADE;
-- hours that there are not in Berlin, or twice: a column without a time zone has all of them once, another one by UTC
CREATE TABLE r (at timestamp, d int) PARTITION BY RANGE (at);
CREATE TABLE r_0 PARTITION OF r FOR VALUES FROM ('2026-03-29') TO ('2026-03-29 01:00') PARTITION BY HASH (d);
SELECT count(*) FROM shardfdw.create_time_partitions('r', '1 hour', '2026-03-29 04:00 Europe/Berlin', key => 'd', shards => 1);
SELECT count(*) FROM shardfdw.create_time_partitions('r', '1 hour', '2026-03-29 04:00 Europe/Berlin');
SELECT part, bounds FROM parts;
DROP TABLE r CASCADE;
CREATE TABLE r (at timestamptz, d int) PARTITION BY RANGE (at);
CREATE TABLE r_0 PARTITION OF r FOR VALUES FROM ('2026-10-25') TO ('2026-10-25 01:00') PARTITION BY HASH (d);
SELECT count(*) FROM shardfdw.create_time_partitions('r', '1 hour', '2026-10-25 04:00 Europe/Berlin', key => 'd', shards => 1);
SELECT count(*) FROM shardfdw.create_time_partitions('r', '1 hour', '2026-10-25 04:00 Europe/Berlin');
SELECT part, bounds FROM parts;
DROP TABLE r CASCADE;
-- what shards alone have: foreign keys, and rights, of which those on a month are its own; readers and writers do not wait
CREATE TABLE kind (id int PRIMARY KEY);
INSERT INTO kind VALUES (1);
SELECT shardfdw.create_reference_table('kind') \g /dev/null
CREATE TABLE r (gone int, at timestamptz, d int, k int CHECK (k > 0), PRIMARY KEY (at, d)) PARTITION BY RANGE (at);
CREATE TABLE r_0 PARTITION OF r FOR VALUES FROM ('2026-01-01') TO ('2026-02-01') PARTITION BY HASH (d);
SELECT shardfdw.shard_table('r_0', shards => 2) \g /dev/null
ALTER TABLE r ADD CONSTRAINT of_kind FOREIGN KEY (k) REFERENCES kind;
ALTER TABLE r DROP COLUMN gone;
CREATE ROLE tims_all;
CREATE ROLE tims_month;
GRANT SELECT, UPDATE (k) ON r TO tims_all;
GRANT SELECT ON r_0 TO tims_month;
BEGIN;
SELECT count(*) FROM shardfdw.create_time_partitions('r', '1 month', '2026-03-01');
SELECT mode FROM pg_locks WHERE relation = 'r'::regclass AND pid = pg_backend_pid() AND mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock');
COMMIT;
CREATE TABLE r_1 PARTITION OF r FOR VALUES FROM ('2026-03-01') TO ('2026-04-01') PARTITION BY HASH (d);
SELECT shardfdw.shard_table('r_1', shards => 2) \g /dev/null
CREATE TABLE r_2 PARTITION OF r FOR VALUES FROM ('2026-04-01') TO ('2026-05-01') PARTITION BY HASH (d);
SELECT shardfdw.create_shard('r_2', 'r_2_0', 'WITH (MODULUS 1, REMAINDER 0)', 'node1') \g /dev/null
SELECT m AS month, s.result FROM unnest('{r_0,r_2026_02,r_1,r_2}'::regclass[]) m, shardfdw.run_on_shards(m, $$SELECT concat_ws(', ',
	(SELECT string_agg(conname, ' ' ORDER BY conname) FROM pg_constraint WHERE conrelid = %L::regclass AND contype IN ('c', 'f')),
	(SELECT 'all ' || has_table_privilege('tims_all', %L, 'SELECT') || ' ' || has_column_privilege('tims_all', %L, 'k', 'UPDATE') || ' ' || has_column_privilege('tims_all', %L, 'd', 'UPDATE')),
	(SELECT 'month ' || has_table_privilege('tims_month', %L, 'SELECT')))$$) s ORDER BY m::text COLLATE "C", s.shard::text COLLATE "C";
INSERT INTO r VALUES ('2026-02-03', 1, 1), ('2026-03-03', 1, 2);
INSERT INTO r VALUES ('2026-02-03', 1, 2);
INSERT INTO r VALUES ('2026-02-03', 1, -2);
SELECT node, check_name, detail FROM shardfdw.check_cluster() WHERE status = 'error' AND check_name ~ 'tims';
DROP TABLE r CASCADE;
DROP TABLE kind;
DROP ROLE tims_all, tims_month;
-- after a partition whose shards are not even
CREATE TABLE r (at timestamptz, d int) PARTITION BY RANGE (at);
CREATE TABLE r_0 PARTITION OF r FOR VALUES FROM ('2026-01-01') TO ('2026-02-01') PARTITION BY HASH (d);
SELECT shardfdw.create_shard('r_0', 'r_0_' || i, b, n) FROM (VALUES (0, 'WITH (MODULUS 2, REMAINDER 0)', 'node3'), (1, 'WITH (MODULUS 4, REMAINDER 1)', 'node2'), (2, 'WITH (MODULUS 4, REMAINDER 3)', 'node2')) v(i, b, n) \g /dev/null
SELECT shardfdw.create_time_partitions('r', '1 month', '2026-04-01');
TABLE parts;
DROP TABLE r CASCADE;
-- refused
CREATE TABLE r (at timestamptz, d int) PARTITION BY RANGE (at);
SELECT shardfdw.create_time_partitions('r', '1 month 1 day', now(), key => 'd');
SELECT shardfdw.create_time_partitions('r', '7 hours', now(), key => 'd');
SELECT shardfdw.create_time_partitions('r', '-1 month', now(), key => 'd');
SELECT shardfdw.create_time_partitions('r', '1 month', 'infinity', key => 'd');
SELECT shardfdw.create_time_partitions('r', NULL, now(), key => 'd');
SELECT shardfdw.create_time_partitions('r', '1 month', now(), key => 'nope');
CREATE TABLE h (at timestamptz, d int) PARTITION BY HASH (d);
SELECT shardfdw.create_time_partitions('h', '1 month', now(), key => 'd');
SELECT shardfdw.drop_old_time_partitions('h', now());
DROP SCHEMA tims CASCADE;
