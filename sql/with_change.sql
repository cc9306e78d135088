-- Statements that insert rows into a sharded table and change rows of it in WITH, or the other way round: parts see
-- what was there before the statement, on nodes too; what cannot be done so is refused (docs/limits.md).
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set dir :srcdir '/sql/diff'
SET client_min_messages = warning;
\set f :dir '/pair.sql'
\i :f
\set ECHO all
CREATE SCHEMA plain;
CREATE SCHEMA sharded;
CREATE TABLE plain.t (id int PRIMARY KEY, grp int);
CREATE TABLE sharded.t (LIKE plain.t INCLUDING ALL);
SELECT shardfdw.shard_table('sharded.t', 'id', shards => 6);
INSERT INTO plain.t SELECT i, i % 3 FROM generate_series(1, 3000) i;
INSERT INTO sharded.t SELECT i, i % 3 FROM generate_series(1, 3000) i;
\pset format unaligned
\pset tuples_only on
-- nothing reads what WITH returns
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1 AND id < 100) INSERT INTO t SELECT i, 1 FROM generate_series(10001, 10300) i$$);
SELECT pair.same($$WITH u AS (UPDATE t SET grp = 7 WHERE grp = 1) INSERT INTO t SELECT i, 1 FROM generate_series(10301, 10304) i RETURNING id, grp$$);
SELECT pair.same($$WITH u AS (UPDATE t SET grp = 8 WHERE grp + random() * 0 = 1) INSERT INTO t SELECT i, 1 FROM generate_series(10401, 10500) i$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE id = 5), u AS (UPDATE t SET grp = 9 WHERE grp = 1) INSERT INTO t SELECT i, 1 FROM generate_series(10501, 10600) i$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1) INSERT INTO t SELECT i, 1 FROM generate_series(10601, 10700) i ON CONFLICT (id) DO UPDATE SET grp = 5$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1) INSERT INTO t SELECT i, 1 FROM generate_series(10701, 10800) i ON CONFLICT (id) DO UPDATE SET grp = (random() * 0)::int$$);
SELECT pair.same($$WITH i AS (INSERT INTO t SELECT i, 1 FROM generate_series(10801, 10900) i) DELETE FROM t WHERE grp = 1$$);
SELECT pair.same($$WITH i AS (INSERT INTO t SELECT i, 1 FROM generate_series(10901, 11000) i RETURNING *), d AS (DELETE FROM t WHERE grp = 1) SELECT count(*) FROM i$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE id IN (10801, 10802, 10803) RETURNING id), u AS (UPDATE t SET grp = 3 WHERE id = 10804 RETURNING *) INSERT INTO t SELECT i, 1 FROM generate_series(11201, 11203) i /* count */$$);
-- the INSERT reads it
SELECT pair.same($$UPDATE t SET grp = 1 WHERE id % 4 = 0$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1 RETURNING *) INSERT INTO t SELECT id + 100000, 1 FROM d /* count */$$);
SELECT pair.same($$WITH d AS (UPDATE t SET grp = grp + 1 WHERE grp = 1 RETURNING *) INSERT INTO t SELECT id + 200000, 1 FROM d /* count */$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1 RETURNING *), e AS (SELECT * FROM d WHERE id % 2 = 0), i AS (INSERT INTO t SELECT id + 100000, 1 FROM e RETURNING *)
	SELECT count(*), sum(id) FROM i$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1 AND id % 4 = 0 RETURNING id) INSERT INTO t SELECT id + 100000, 1 FROM d ON CONFLICT (id) DO UPDATE SET grp = 5 /* count */$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1 RETURNING *), i AS (INSERT INTO t SELECT i, 1 FROM generate_series(11001, 11100) i) SELECT count(*) FROM d$$);
-- a transaction that has written before
BEGIN;
UPDATE plain.t SET grp = 1 WHERE id < 500;
UPDATE sharded.t SET grp = 1 WHERE id < 500;
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1 AND id < 100) INSERT INTO t SELECT i, 1 FROM generate_series(11101, 11200) i$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1 RETURNING *) INSERT INTO t SELECT id + 300000, 1 FROM d /* count */$$);
COMMIT;
PREPARE change (int) AS WITH d AS (DELETE FROM sharded.t WHERE grp = 1 AND id % 7 = $1) INSERT INTO sharded.t SELECT 400000 + $1 * 100 + i, 1 FROM generate_series(1, 50) i;
DO $$BEGIN FOR i IN 0 .. 6 LOOP EXECUTE format('EXECUTE change(%s)', i); END LOOP; END$$;
DO $$BEGIN FOR i IN 0 .. 6 LOOP EXECUTE format('WITH d AS (DELETE FROM plain.t WHERE grp = 1 AND id %% 7 = %1$s) INSERT INTO plain.t SELECT 400000 + %1$s * 100 + i, 1 FROM generate_series(1, 50) i', i); END LOOP; END$$;
SELECT pair.contents('plain') = pair.contents('sharded');
-- a sharded table that is a partition itself, by its own name and by that of the table above it
CREATE TABLE sharded.top (id int, grp int) PARTITION BY RANGE (id);
CREATE TABLE sharded.mid PARTITION OF sharded.top FOR VALUES FROM (0) TO (1000000) PARTITION BY HASH (id);
SELECT shardfdw.create_shard('sharded.mid', 'mid_' || i, format('FOR VALUES WITH (MODULUS 4, REMAINDER %s)', i), 'node' || 1 + i % 2) FROM generate_series(0, 3) i;
INSERT INTO sharded.top SELECT i, i % 3 FROM generate_series(1, 9) i;
WITH d AS (DELETE FROM sharded.mid WHERE grp = 1) INSERT INTO sharded.mid SELECT i, 1 FROM generate_series(101, 103) i;
WITH d AS (DELETE FROM sharded.top WHERE grp = 1) INSERT INTO sharded.top SELECT i, 1 FROM generate_series(201, 203) i;
WITH d AS (DELETE FROM sharded.mid WHERE grp = 1) INSERT INTO sharded.top SELECT i, 1 FROM generate_series(301, 303) i;
SELECT grp, count(*), sum(id) FROM sharded.top GROUP BY grp ORDER BY grp;
-- other tables do not matter
CREATE TABLE plain.o (id int PRIMARY KEY, grp int);
CREATE TABLE sharded.o (LIKE plain.o INCLUDING ALL);
SELECT shardfdw.shard_table('sharded.o', 'id', colocate_with => 'sharded.t');
SELECT pair.same($$WITH i AS (INSERT INTO o SELECT i, 1 FROM generate_series(1, 100) i RETURNING *) DELETE FROM t USING i WHERE t.grp = i.grp AND t.id = i.id /* count */$$);
-- refused, with nothing done
\set VERBOSITY default
SET search_path = sharded, pair;
WITH i AS (INSERT INTO t SELECT i, 1 FROM generate_series(12001, 12100) i RETURNING *) DELETE FROM t USING i WHERE t.grp = i.grp;
WITH i AS (INSERT INTO t SELECT i, 1 FROM generate_series(12001, 12100) i RETURNING *) UPDATE t SET grp = 8 WHERE grp IN (SELECT grp FROM i);
WITH i AS (INSERT INTO t VALUES (12001, 1) RETURNING *), d AS (DELETE FROM t WHERE grp = 1 RETURNING *) SELECT (SELECT count(*) FROM i), (SELECT count(*) FROM d);
WITH d AS (DELETE FROM t WHERE grp = 1) INSERT INTO t SELECT id + 1000000, grp FROM t WHERE grp = 1;
RESET search_path;
SELECT pair.contents('plain') = pair.contents('sharded');
\pset tuples_only off
\pset format aligned
SET client_min_messages = warning;
-- A session that knows nothing yet of the rest of the partition tree, which the statement does not lock.
CREATE TABLE plain.m (id int, day int) PARTITION BY LIST (day);
CREATE TABLE plain.m1 PARTITION OF plain.m FOR VALUES IN (1) PARTITION BY HASH (id);
CREATE TABLE plain.m1_0 PARTITION OF plain.m1 FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE plain.m2 PARTITION OF plain.m FOR VALUES IN (2) PARTITION BY HASH (id);
CREATE TABLE plain.m2_0 PARTITION OF plain.m2 FOR VALUES WITH (MODULUS 1, REMAINDER 0);
\c -
SET client_min_messages = warning;
WITH a AS (UPDATE plain.m1 SET id = id RETURNING *) SELECT count(*) FROM a;
DROP SCHEMA plain, sharded, pair CASCADE;
