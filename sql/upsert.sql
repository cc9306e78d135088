-- INSERT ... ON CONFLICT and MERGE of rows that belong to many shards: each statement runs on a plain
-- and on a sharded table, and must change and return the same.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set dir :srcdir '/sql/diff'
SET DateStyle = 'ISO, MDY';
SET TimeZone = 'UTC';
SET client_min_messages = warning;
\set f :dir '/pair.sql'
\i :f
\set ECHO all
CREATE SCHEMA plain;
CREATE SCHEMA sharded;
CREATE TYPE pair.mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN pair.small AS int CHECK (VALUE < 1000000);
CREATE DOMAIN pair.calm AS pair.mood CHECK (VALUE <> 'sad');
CREATE TABLE plain.t (
	k int, part text, v numeric(10, 2) DEFAULT 7, s text, m pair.mood, d pair.small, a int[], b bytea,
	j jsonb, c pair.calm, n int, at timestamptz DEFAULT '2024-01-01', twice numeric GENERATED ALWAYS AS (v * 2) STORED,
	PRIMARY KEY (k, part), CHECK (v < 10000));
CREATE TABLE sharded.t (LIKE plain.t INCLUDING ALL);
CREATE SEQUENCE plain.s;
CREATE SEQUENCE sharded.s;
ALTER TABLE plain.t ALTER n SET DEFAULT nextval('plain.s');
ALTER TABLE sharded.t ALTER n SET DEFAULT nextval('sharded.s');
CREATE TABLE plain.src AS SELECT g AS k, 'p' || g % 3 AS part, g * 1.5 AS v FROM generate_series(1, 300) g;
CREATE TABLE sharded.src AS TABLE plain.src;
SELECT shardfdw.shard_table('sharded.t', 'k', shards => 7);

\pset format unaligned
\pset tuples_only on
-- rows of all kinds of types, special characters and NULLs
SELECT pair.same($$INSERT INTO t (k, part, s, m, d, a, b, j) VALUES
	(1, 'a', E'quote'' "double" \\ back\nline', 'sad', 5, '{{1,2},{3,NULL}}', '\x00ff5c', '{"a": [1, "x\"y"]}'),
	(2, 'NULL', 'null', NULL, NULL, '{}', '', 'null'), (3, '', '{,}', 'happy', 7, NULL, NULL, NULL)
	ON CONFLICT (k, part) DO UPDATE SET v = 1 RETURNING k, part, v, s, m, d, a, b, j, at, twice$$);
SELECT pair.same($$INSERT INTO t (k, part, s) VALUES (1, 'a', 'x'), (2, 'NULL', 'y'), (4, 'a', 'z')
	ON CONFLICT (k, part) DO UPDATE SET s = excluded.s || coalesce(t.s, '-'), v = t.v + 1 RETURNING *$$);
SELECT pair.same($$INSERT INTO t (k, part) VALUES (1, 'a'), (5, 'b') ON CONFLICT DO NOTHING$$);
SELECT pair.same($$INSERT INTO t (k, part) VALUES (1, 'a'), (6, 'b') ON CONFLICT (k, part) DO NOTHING RETURNING k, part$$);
SELECT pair.same($$INSERT INTO t (k, part, v) SELECT k, part, v FROM src ON CONFLICT (k, part) DO UPDATE SET v = excluded.v$$);
SELECT pair.same($$INSERT INTO t (k, part, v) SELECT k, part, v + 1 FROM src
	ON CONFLICT (k, part) DO UPDATE SET v = excluded.v + t.v, k = excluded.k WHERE t.k % 2 = 0$$);
SELECT pair.same($$INSERT INTO t AS x (k, part, v) SELECT k, part, v FROM t
	ON CONFLICT (k, part) DO UPDATE SET v = x.v / 2 WHERE x.k < 5 RETURNING x.k, x.v$$);
SELECT pair.same($$WITH w AS (SELECT k + 1000 AS k FROM src LIMIT 50) INSERT INTO t (k, part) SELECT k, 'w' FROM w
	ON CONFLICT (k, part) DO NOTHING$$);
SELECT pair.same($$INSERT INTO t (k, part, at) VALUES (1, 'a', now()), (2, 'NULL', now())
	ON CONFLICT (k, part) DO UPDATE SET at = date_trunc('year', now()), s = extract(year FROM current_date)::text || length(current_user)$$);
SELECT pair.same($$INSERT INTO t (k, part) VALUES (1, 'a'), (900, 'zz')
	ON CONFLICT (k, part) DO UPDATE SET m = 'ok', at = '2024-02-02' RETURNING t, s || '!', tableoid = 0$$);
SELECT pair.same($$INSERT INTO t (k, part) SELECT 1, 'a' WHERE false ON CONFLICT (k, part) DO NOTHING$$);
-- what nodes cannot compute goes row by row
CREATE FUNCTION pair.twice(numeric) RETURNS numeric LANGUAGE sql VOLATILE AS 'SELECT $1 * 2';
SELECT pair.same($$INSERT INTO t (k, part) VALUES (1, 'a'), (2, 'b') ON CONFLICT (k, part) DO UPDATE SET v = (SELECT max(v) FROM src)$$);
SELECT pair.same($$INSERT INTO t (k, part) VALUES (1, 'a'), (2, 'b'), (30, 'a') ON CONFLICT (k, part) DO UPDATE SET v = twice(t.v) + random() * 0 RETURNING k, v$$);
SELECT pair.same($$INSERT INTO t (k, part) VALUES (1, 'a'), (2, 'b') ON CONFLICT (k, part) DO UPDATE SET v = 5 WHERE t.k IN (SELECT k FROM src WHERE v < 2)$$);
SELECT pair.same($$INSERT INTO t (k, part) VALUES (1, 'a'), (31, 'b') ON CONFLICT (k, part) DO UPDATE SET v = 6 RETURNING k, (SELECT max(k) FROM src WHERE src.k <= t.k)$$);
-- errors
SELECT pair.same($$INSERT INTO t (k, part) VALUES (1, 'a'), (1, 'a') ON CONFLICT (k, part) DO UPDATE SET v = 2$$);
SELECT pair.same($$INSERT INTO t (k, part) SELECT 10 + g % 2, 'dup' FROM generate_series(1, 4) g
	ON CONFLICT (k, part) DO UPDATE SET v = 2$$);
SELECT pair.same($$INSERT INTO t (k, part) VALUES (1, 'a'), (20, NULL) ON CONFLICT (k, part) DO UPDATE SET v = 2$$);
SELECT pair.same($$INSERT INTO t (k, part) VALUES (1, 'a'), (2, 'NULL') ON CONFLICT (k, part) DO UPDATE SET v = 99999$$);
SELECT pair.same($$INSERT INTO t (k, part, v) VALUES (1, 'a', 10000), (21, 'x', 1) ON CONFLICT (k, part) DO NOTHING$$);
SELECT pair.same($$INSERT INTO t (k, part) VALUES (1, 'a'), (2, 'b') ON CONFLICT (part) DO NOTHING$$);
SELECT pair.same($$INSERT INTO t (k, part) VALUES (1, 'a'), (2, 'b') ON CONFLICT (k) DO NOTHING$$);
-- EXPLAIN fails in the same way, however the rows travel
SELECT pair.same($$EXPLAIN INSERT INTO t (k, part) VALUES (1, 'a') ON CONFLICT (part) DO NOTHING$$);
SELECT pair.same($$EXPLAIN INSERT INTO t (k, part) VALUES (1, 'a'), (2, 'b') ON CONFLICT (part) DO UPDATE SET v = 1$$);
SELECT pair.same($$EXPLAIN INSERT INTO t (k, part) SELECT k, s FROM t ON CONFLICT (part) DO NOTHING$$);
SELECT pair.same($$EXPLAIN WITH w AS (INSERT INTO t (k, part) VALUES (1, 'a') ON CONFLICT (part) DO NOTHING RETURNING k) SELECT k FROM w$$);
SELECT pair.same($$EXPLAIN WITH w AS (INSERT INTO t (k, part) VALUES (1, 'a') ON CONFLICT (part) DO NOTHING RETURNING k) INSERT INTO src (k) SELECT 1$$);
SELECT pair.same($$INSERT INTO t (k, part) VALUES (1, 'a') ON CONFLICT (k int4_ops, part text_ops) DO NOTHING$$);

-- MERGE
SELECT pair.same($$MERGE INTO t USING src s ON t.k = s.k AND t.part = s.part
	WHEN MATCHED AND s.k % 3 = 0 THEN DELETE
	WHEN MATCHED AND s.k % 3 = 1 THEN UPDATE SET v = t.v + s.v, s = 'merged ' || s.part
	WHEN MATCHED THEN DO NOTHING
	WHEN NOT MATCHED THEN INSERT (k, part, n) VALUES (s.k, s.part, 1)$$);
SELECT pair.same($$MERGE INTO t USING (SELECT g AS id, NULLIF(g % 5, 0) AS x FROM generate_series(290, 320) g) s ON s.id = t.k
	WHEN MATCHED THEN UPDATE SET v = x
	WHEN NOT MATCHED AND x IS NOT NULL THEN INSERT (k, part, v, m, n) VALUES (id, 'new', x, 'happy', 2)$$);
SELECT pair.same($$MERGE INTO t USING src a JOIN src b USING (k) ON t.k = a.k AND t.part = b.part
	WHEN MATCHED AND a.v > 100 THEN UPDATE SET v = a.v - b.v$$);
SELECT pair.same($$MERGE INTO t USING (VALUES (1), (2), (4000)) s (k) ON t.k = s.k
	WHEN MATCHED THEN UPDATE SET at = date_trunc('year', now()), d = length('abc')
	WHEN NOT MATCHED THEN INSERT (k, part, n) VALUES (s.k, upper('up'), 3)$$);
SELECT pair.same($$MERGE INTO t USING (VALUES (1), (1)) s (k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 3$$);
SELECT pair.same($$MERGE INTO t USING (VALUES (7001), (7002)) s (k) ON t.k = s.k
	WHEN NOT MATCHED THEN INSERT (k, part, v) VALUES (s.k, 'x', 20000)$$);
SELECT pair.same($$MERGE INTO t USING t AS s ON t.k = s.k AND t.part = s.part WHEN MATCHED AND s.k > 200 THEN DELETE$$);

-- UPDATE of generated columns alone
SELECT pair.same($$INSERT INTO t (k, part, n) VALUES (1, 'a', 0) ON CONFLICT (k, part) DO UPDATE SET twice = DEFAULT RETURNING k, part, v, n, twice$$);
SELECT pair.same($$INSERT INTO t (k, part, n) VALUES (1, 'a', 0), (2, 'NULL', 0), (9000, 'x', 0) ON CONFLICT (k, part) DO UPDATE SET twice = DEFAULT WHERE t.k < 2 RETURNING k, part, twice$$);
SELECT pair.same($$MERGE INTO t USING (VALUES (1), (3), (9001)) s (k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET twice = DEFAULT WHEN NOT MATCHED THEN INSERT (k, part, n) VALUES (s.k, 'm', 0)$$);

-- a constant outside the domain matters only where it is assigned
SELECT pair.same($$INSERT INTO t (k, part, n) VALUES (9100, 'd', 0) ON CONFLICT (k, part) DO UPDATE SET d = 1000000$$);
SELECT pair.same($$INSERT INTO t (k, part, n) VALUES (9101, 'd', 0), (9102, 'd', 0) ON CONFLICT (k, part) DO UPDATE SET d = 1000000$$);
SELECT pair.same($$INSERT INTO t (k, part, n) VALUES (9100, 'd', 0) ON CONFLICT (k, part) DO UPDATE SET d = 1000000$$);
SELECT pair.same($$INSERT INTO t (k, part, n) VALUES (9100, 'd', 0) ON CONFLICT (k, part) DO UPDATE SET d = 1000000 WHERE t.v < 0$$);
SELECT pair.same($$UPDATE t SET d = 1000000 WHERE k = 9999$$);
SELECT pair.same($$UPDATE t SET d = 1000000 WHERE k = 9101$$);
SELECT pair.same($$UPDATE t SET d = 1000000 WHERE v < 0$$);
SELECT pair.same($$UPDATE t SET d = 1000000 WHERE part = 'd'$$);
SELECT pair.same($$MERGE INTO t USING (VALUES (9100), (9103)) s (k) ON t.k = s.k AND t.part = 'd'
	WHEN MATCHED AND t.v < 0 THEN UPDATE SET d = 1000000 WHEN NOT MATCHED AND s.k < 0 THEN INSERT (k, part, d, n) VALUES (s.k, 'd', 1000000, 0)$$);
SELECT pair.same($$INSERT INTO t (k, part, d, n) VALUES (9104, 'd', 1000000, 0)$$);
-- a constant that has a type of users
SELECT pair.same($$MERGE INTO t USING (VALUES (9101), (9105)) s (k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET c = 'ok'$$);
SELECT pair.same($$MERGE INTO t USING (VALUES (9101), (9105)) s (k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET c = 'sad'$$);
SELECT pair.same($$MERGE INTO t USING (VALUES (9105)) s (k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET c = 'sad'$$);
-- several parts of a column
SELECT pair.same($$UPDATE t SET a[1] = k, a[2] = k WHERE part = 'd'$$);
SELECT pair.same($$UPDATE t SET a[1] = k + 1, a[3] = 7 WHERE k = 9101 AND part = 'd'$$);
SELECT pair.same($$INSERT INTO t (k, part, n) VALUES (9101, 'd', 0) ON CONFLICT (k, part) DO UPDATE SET a[2] = t.k, a[4] = t.k$$);
-- what cannot be exact is refused, and says why
SET search_path = sharded, pair;
INSERT INTO t (k, part) VALUES (1, 'a'), (2, 'b') ON CONFLICT (k, part) DO UPDATE SET k = 5;
MERGE INTO t USING src s ON t.part = s.part WHEN MATCHED THEN DELETE;
MERGE INTO t USING src s ON t.k = s.k WHEN MATCHED THEN UPDATE SET k = s.k + 1;
MERGE INTO t USING src s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, part) VALUES (s.k + 1, '');
MERGE INTO t USING src s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = (SELECT max(5) FROM src x WHERE 5 = t.v);

-- plans, of a cached statement too
PREPARE up(int) AS INSERT INTO t (k, part, v) SELECT g, 'prep', $1 FROM generate_series(1, 20) g
	ON CONFLICT (k, part) DO UPDATE SET v = t.v + $1 RETURNING v;
SET plan_cache_mode = force_generic_plan;
EXECUTE up(1);
WITH x AS (SELECT 1) SELECT count(*) FROM t WHERE part = 'prep';
EXECUTE up(2);
EXPLAIN (COSTS OFF) EXECUTE up(3);
RESET plan_cache_mode;
BEGIN;
SAVEPOINT a;
INSERT INTO t (k, part) SELECT g, 'rolled back' FROM generate_series(1, 50) g ON CONFLICT (k, part) DO NOTHING;
ROLLBACK TO a;
INSERT INTO t (k, part) SELECT g, 'kept' FROM generate_series(1, 50) g ON CONFLICT (k, part) DO NOTHING;
COMMIT;
SELECT part, count(*) FROM t WHERE part IN ('rolled back', 'kept') GROUP BY part;
RESET search_path;
DROP SCHEMA sharded, plain, pair CASCADE;
