-- Statements of sql/write_nested.sql, for the tables that search_path finds.
TRUNCATE t, one;
INSERT INTO t SELECT i, i % 2, 100 * i - 23 FROM generate_series(1, 8) AS i;
INSERT INTO one SELECT i, i % 2, i FROM generate_series(1, 8) AS i;

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
