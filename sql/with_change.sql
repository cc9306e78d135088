-- Statements of which two parts (WITH) write to the same sharded table: parts see what was there before the statement,
-- on nodes too; what cannot be done so is refused (docs/limits_sql.md).
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
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE id = 5), u AS (DELETE FROM t WHERE grp = 1 AND id BETWEEN 5 AND 30) INSERT INTO t SELECT i, 1 FROM generate_series(10501, 10600) i$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1) INSERT INTO t SELECT i, 1 FROM generate_series(10601, 10700) i ON CONFLICT (id) DO UPDATE SET grp = 5$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1) INSERT INTO t SELECT i, 1 FROM generate_series(10701, 10800) i ON CONFLICT (id) DO UPDATE SET grp = (random() * 0)::int$$);
SELECT pair.same($$WITH i AS (INSERT INTO t SELECT i, 1 FROM generate_series(10801, 10900) i) DELETE FROM t WHERE grp = 1$$);
SELECT pair.same($$WITH i AS (INSERT INTO t SELECT i, 1 FROM generate_series(10901, 11000) i RETURNING *), d AS (DELETE FROM t WHERE grp = 1) SELECT count(*) FROM i$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE id IN (10801, 10802, 10803) RETURNING id), u AS (DELETE FROM t WHERE id = 10804 RETURNING *) INSERT INTO t SELECT i, 1 FROM generate_series(11201, 11203) i /* count */$$);
-- the INSERT reads it
SELECT pair.same($$UPDATE t SET grp = 1 WHERE id % 4 = 0$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1 RETURNING *) INSERT INTO t SELECT id + 100000, 1 FROM d /* count */$$);
SELECT pair.same($$WITH d AS (UPDATE t SET grp = grp + 1 WHERE grp = 1 RETURNING *) INSERT INTO t SELECT id + 200000, 1 FROM d /* count */$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1 RETURNING *), e AS (SELECT * FROM d WHERE id % 2 = 0), i AS (INSERT INTO t SELECT id + 100000, 1 FROM e RETURNING *)
	SELECT count(*), sum(id) FROM i$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1 AND id % 4 = 0 RETURNING id) INSERT INTO t SELECT id + 100000, 1 FROM d ON CONFLICT (id) DO UPDATE SET grp = 5 /* count */$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1 RETURNING *), i AS (INSERT INTO t SELECT i, 1 FROM generate_series(11001, 11100) i) SELECT count(*) FROM d$$);
-- other parts read what both parts return
SELECT pair.same($$WITH i AS (INSERT INTO t SELECT i, 1 FROM generate_series(12001, 12010) i RETURNING *), d AS (DELETE FROM t WHERE grp = 1 RETURNING *)
	SELECT (SELECT count(*) FROM i), (SELECT count(*) FROM d)$$);
CREATE TABLE plain.log (id int);
CREATE TABLE sharded.log (id int);
SELECT pair.same($$WITH u AS (UPDATE t SET grp = 1 WHERE id % 4 = 1 RETURNING id), l AS (INSERT INTO log SELECT id FROM u), i AS (INSERT INTO t SELECT i, 1 FROM generate_series(12011, 12100) i) SELECT 1$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1 RETURNING id), l AS (INSERT INTO log SELECT id FROM d LIMIT 3), i AS (INSERT INTO t SELECT i, 1 FROM generate_series(12101, 12200) i) SELECT 1$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE grp = 1 RETURNING id), e AS (DELETE FROM log WHERE id IN (SELECT id FROM d)), i AS (INSERT INTO t SELECT i, 1 FROM generate_series(12201, 12300) i RETURNING *) SELECT count(*) FROM i$$);
SELECT (SELECT count(*) FROM plain.log) = (SELECT count(*) FROM sharded.log);
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
-- both delete rows
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE id BETWEEN 1040 AND 1060 RETURNING id) DELETE FROM t WHERE id BETWEEN 1050 AND 1070 /* count */$$);
SELECT pair.same($$WITH d AS (DELETE FROM t WHERE id BETWEEN 1080 AND 1090 AND random() < 2) DELETE FROM t WHERE id BETWEEN 1085 AND 1095 AND random() < 2$$);
-- the node of a single shard runs the whole statement
SELECT pair.same($$WITH a AS (UPDATE t SET grp = 1 WHERE id = 1112 RETURNING *) UPDATE t SET grp = 2 FROM a WHERE t.id = 1112 /* count */$$);
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
WITH d AS (DELETE FROM t WHERE grp = 1) INSERT INTO t SELECT id + 1000000, grp FROM t WHERE grp = 1;
-- nothing reads what depends on the INSERT: by a join, by sub-selects, through another part
\set VERBOSITY terse
WITH i AS (INSERT INTO t SELECT i, 1 FROM generate_series(12001, 12100) i RETURNING *), d AS (DELETE FROM t USING i WHERE t.grp = i.grp) SELECT 1;
WITH i AS (INSERT INTO t SELECT i, 1 FROM generate_series(12001, 12100) i RETURNING *), d AS (UPDATE t SET grp = 8 WHERE grp NOT IN (SELECT grp FROM i)) SELECT 1;
WITH i AS (INSERT INTO t SELECT i, 1 FROM generate_series(12001, 12100) i RETURNING *), d AS (UPDATE t SET grp = 8 WHERE grp > (SELECT max(grp) FROM i)) SELECT 1;
WITH i AS (INSERT INTO t SELECT i, 1 FROM generate_series(12001, 12100) i RETURNING *), d AS (UPDATE t SET grp = (SELECT max(i.grp) FROM i WHERE i.id > t.id)) SELECT 1;
WITH i AS (INSERT INTO t SELECT i, 1 FROM generate_series(12001, 12100) i RETURNING *), j AS MATERIALIZED (SELECT grp FROM i),
	d AS (DELETE FROM t WHERE grp IN (SELECT grp FROM j)) SELECT 1;
WITH i AS (INSERT INTO t VALUES (12001, 1) ON CONFLICT (id) DO UPDATE SET grp = 3 RETURNING *), d AS (DELETE FROM t USING i WHERE t.grp = i.grp) SELECT 1;
\set VERBOSITY default
-- the same row would be changed twice
WITH u AS (UPDATE t SET grp = 20 WHERE grp = 2 RETURNING *) DELETE FROM t USING u WHERE t.id = u.id;
WITH u AS (UPDATE t SET grp = 20 WHERE id < 1000 RETURNING *) UPDATE t SET grp = 21 WHERE id < 10;
\set VERBOSITY terse
WITH u AS (UPDATE t SET grp = 20 WHERE id < 10), v AS (UPDATE t SET grp = 21 WHERE grp = 2) SELECT 1;
-- what one part assigns, the other one may find
WITH u AS (UPDATE t SET grp = 22 WHERE grp = 1 RETURNING *) UPDATE t SET grp = 21 WHERE grp = 22;
WITH u AS (UPDATE t SET grp = 22 WHERE id % 2 = 0) MERGE INTO t USING (VALUES (1), (2)) s (k) ON t.id = s.k WHEN MATCHED THEN UPDATE SET grp = 23;
WITH u AS (UPDATE t SET grp = 22 WHERE id % 2 = 0 RETURNING *) MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE;
WITH d AS (DELETE FROM t WHERE id % 2 = 0 RETURNING *) MERGE INTO t USING d ON t.id = d.id WHEN NOT MATCHED THEN INSERT VALUES (d.id, 1);
WITH u AS (UPDATE t SET grp = 22 WHERE id % 2 = 0 RETURNING *) INSERT INTO t SELECT * FROM u ON CONFLICT (id) DO UPDATE SET grp = 24;
WITH i AS (INSERT INTO t VALUES (1, 1), (2, 1), (3, 1) ON CONFLICT (id) DO UPDATE SET grp = 24) UPDATE t SET grp = 25 WHERE id % 2 = 0;
WITH i AS (INSERT INTO t VALUES (1, 1), (2, 1), (3, 1) ON CONFLICT (id) DO UPDATE SET grp = 24)
	INSERT INTO t VALUES (2, 1), (3, 1), (4, 1) ON CONFLICT (id) DO UPDATE SET grp = (random() * 0)::int;
-- also if their conditions exclude each other
WITH u AS (UPDATE t SET grp = 20 WHERE id < 10), v AS (UPDATE t SET grp = 21 WHERE id > 20) SELECT 1;
WITH u AS (UPDATE t SET grp = 20 WHERE grp = 1) DELETE FROM t WHERE grp = 2;
-- a part that locks the rows that it reads
WITH d AS (UPDATE t SET grp = 20 WHERE grp = 1), i AS (INSERT INTO t VALUES (12001, 1)), s AS (SELECT * FROM t WHERE id < 5 FOR SHARE) SELECT count(*) FROM s;
-- rows of a table that inherits from the table of the other part
CREATE TABLE above (id int, grp int);
CREATE FOREIGN TABLE heir () INHERITS (above) SERVER node1 OPTIONS (table_name 'heir');
SELECT node FROM shardfdw.run_on_nodes('CREATE TABLE sharded.heir (id int, grp int)') WHERE ok AND node = 'node1';
WITH u AS (UPDATE above SET grp = 1 WHERE id = 1) UPDATE heir SET grp = 2 WHERE id = 2;
WITH i AS (INSERT INTO heir VALUES (1, 1) RETURNING *) DELETE FROM above USING i WHERE above.grp = i.grp;
WITH d AS (DELETE FROM heir WHERE grp = 1) INSERT INTO heir SELECT * FROM above;
DROP TABLE above CASCADE;
-- partitions that run-time pruning removes (18 and later) from a part that is changed row by row
CREATE TABLE pruned (k int PRIMARY KEY, v int);
CREATE TABLE other (k int PRIMARY KEY, v int);
SELECT shardfdw.shard_table('pruned', shards => 4), shardfdw.shard_table('other', colocate_with => 'pruned');
INSERT INTO pruned SELECT i, i FROM generate_series(1, 20) i;
CREATE FUNCTION as_it_is(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
SET plan_cache_mode = force_generic_plan;
PREPARE by_key(int) AS WITH u AS (UPDATE pruned SET v = as_it_is(v) WHERE k = $1 RETURNING k, v) INSERT INTO other SELECT k, v FROM u RETURNING k, v;
EXECUTE by_key(3);
PREPARE by_keys(int) AS WITH u AS (UPDATE pruned SET v = as_it_is(v) WHERE k = $1 RETURNING k), d AS (DELETE FROM other WHERE v = as_it_is($1) AND k = $1 RETURNING k)
	SELECT (SELECT count(*) FROM u), (SELECT count(*) FROM d);
EXECUTE by_keys(3);
RESET plan_cache_mode;
DEALLOCATE ALL;
-- two proposed rows, which core would print as "excluded" and "excluded_1"
WITH p AS (INSERT INTO pruned VALUES (1, 7) ON CONFLICT (k) DO UPDATE SET v = excluded.v + 100 RETURNING k)
	INSERT INTO other SELECT k, 5 FROM p ON CONFLICT (k) DO UPDATE SET v = excluded.v;
WITH p AS (INSERT INTO pruned VALUES (1, 8) ON CONFLICT (k) DO UPDATE SET v = excluded.v + 100)
	INSERT INTO other VALUES (1, 6) ON CONFLICT (k) DO UPDATE SET v = excluded.v;
WITH p AS (INSERT INTO pruned VALUES (1, 9) ON CONFLICT (k) DO UPDATE SET v = excluded.v + 100)
	UPDATE other AS excluded SET v = excluded.v + 1 WHERE excluded.k = 1;
WITH p AS (INSERT INTO pruned VALUES (1, 9) ON CONFLICT (k) DO UPDATE SET v = pruned.v + excluded.v)
	SELECT excluded.k, excluded.v FROM other AS excluded WHERE excluded.k = 1;
SELECT p.v, o.v FROM pruned p JOIN other o USING (k) WHERE k = 1;
-- rows that are computed first are counted once
CREATE FUNCTION counted(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) ' || query LOOP
		IF line ~ '(Delete|Update) on .*actual' THEN
			RETURN NEXT substring(line FROM '(Delete|Update).*') || ' ' || substring(line FROM 'rows=(\d+)');
		END IF;
	END LOOP;
END $$;
SELECT counted('WITH d AS (DELETE FROM pruned WHERE k < 3 RETURNING *) INSERT INTO pruned SELECT k + 200, v FROM d');
DROP TABLE pruned, other;
\set VERBOSITY default
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
