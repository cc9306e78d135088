-- Statements of sql/write_nested.sql, for the tables that search_path finds.
TRUNCATE t, one, ref;
INSERT INTO t SELECT i, i % 2, 100 * i - 23 FROM generate_series(1, 8) AS i;
INSERT INTO one SELECT i, i % 2, i FROM generate_series(1, 8) AS i;
INSERT INTO ref SELECT i, 0 FROM generate_series(1, 4) AS i;

-- STABLE functions do not see what their own statement has written
BEGIN;
DELETE FROM t WHERE stable_count(grp) = 4;
SELECT count(*) FROM t;
ROLLBACK;
DELETE FROM one WHERE stable_one(grp) = 4;
INSERT INTO one SELECT i, i % 2, i FROM generate_series(1, 8) AS i;
UPDATE t SET v = stable_count(grp) WHERE stable_count(grp) = 4 RETURNING stable_count(0);
INSERT INTO t SELECT i, 0, stable_count(0) FROM generate_series(9, 12) AS i;
INSERT INTO t SELECT i, 0, 1 FROM generate_series(5, 14) AS i ON CONFLICT (k) DO UPDATE SET v = t.v + stable_count(0);
WITH d AS (DELETE FROM t WHERE k > 10) SELECT stable_count(0);
SELECT v, count(*) FROM t GROUP BY v ORDER BY v;

-- VOLATILE functions see it row by row
BEGIN;
UPDATE t SET v = volatile_max() + 10;
SELECT v FROM t ORDER BY v;
DELETE FROM t WHERE volatile_count() > 2;
SELECT count(*) FROM t;
INSERT INTO t SELECT i, 0, volatile_count() FROM generate_series(20, 23) AS i RETURNING v;
INSERT INTO t VALUES (30, 0, volatile_count()), (31, 0, volatile_count()) ON CONFLICT (k) DO NOTHING RETURNING v;
ROLLBACK;

-- sub-selects, and the same after an earlier write in the transaction
BEGIN;
INSERT INTO t VALUES (40, 1, 1);
DELETE FROM t AS x WHERE v = (SELECT max(v) FROM t AS z WHERE z.grp = x.grp);
SELECT k, v FROM t ORDER BY k;
UPDATE t SET v = stable_count(grp);
UPDATE t AS x SET v = (SELECT count(*) FROM t AS z WHERE z.v <= x.v);
SELECT k, v FROM t ORDER BY k;
WITH i AS (INSERT INTO t VALUES (50, 1, 1) RETURNING k) SELECT k FROM i UNION ALL SELECT count(*)::int FROM t;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DELETE FROM t WHERE stable_count(grp) > 4;
SELECT k, v FROM t ORDER BY k;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
WITH u AS (UPDATE t SET v = 0 WHERE k < 5 RETURNING k) SELECT (SELECT count(*) FROM u), (SELECT sum(v) FROM t);
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
WITH d AS (DELETE FROM t WHERE k = 3 RETURNING k) SELECT (SELECT k FROM d), count(*), sum(v) FROM t;
ROLLBACK;

-- a table of which nodes have replicas
BEGIN;
UPDATE ref SET v = volatile_ref() + 1;
SELECT k, v FROM ref ORDER BY k;
UPDATE ref SET v = volatile_both() + 1;
UPDATE ref SET v = stable_join() + 1;
INSERT INTO ref VALUES (9, volatile_join());
UPDATE ref SET v = volatile_join() + 1 WHERE k = 9;
INSERT INTO ref VALUES (9, volatile_join()) ON CONFLICT (k) DO UPDATE SET v = excluded.v + 1;
SELECT k, v FROM ref ORDER BY k;
ROLLBACK;
-- its AFTER triggers see all that the statement has written
BEGIN;
CREATE TRIGGER logs AFTER INSERT OR UPDATE OR DELETE ON ref FOR EACH ROW EXECUTE FUNCTION logs_join();
CREATE TRIGGER logs_all AFTER INSERT OR UPDATE OR DELETE ON ref FOR EACH STATEMENT EXECUTE FUNCTION logs_join();
UPDATE ref SET v = v + 10 WHERE k < 3;
DELETE FROM ref WHERE k = 2;
INSERT INTO ref VALUES (1, 30) ON CONFLICT (k) DO UPDATE SET v = excluded.v;
INSERT INTO ref VALUES (2, 40) ON CONFLICT (k) DO UPDATE SET v = excluded.v;
SELECT event, level, sum FROM log ORDER BY n;
ROLLBACK;
