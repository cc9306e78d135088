-- INSERT ... ON CONFLICT and MERGE of rows that belong to many shards: inside WITH, on tables with dropped,
-- identity and generated columns, with keys narrower or wider than what they are compared with.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set dir :srcdir '/sql/diff'
SET client_min_messages = warning;
\set f :dir '/pair.sql'
\i :f
\set ECHO all
CREATE SCHEMA plain;
CREATE SCHEMA sharded;
CREATE TABLE plain.t (
	junk int, k int, gone text, a text DEFAULT 'dflt', v int DEFAULT 3, i int GENERATED ALWAYS AS IDENTITY, s int, n int DEFAULT 5,
	late int[], c int GENERATED ALWAYS AS (n * 2) STORED, PRIMARY KEY (k), CONSTRAINT lazy UNIQUE (v, k) DEFERRABLE);
ALTER TABLE plain.t DROP COLUMN junk, DROP COLUMN gone, DROP COLUMN late;
CREATE TABLE sharded.t (
	junk int, k int, gone text, a text DEFAULT 'dflt', v int DEFAULT 3, i int GENERATED ALWAYS AS IDENTITY, s int, n int DEFAULT 5,
	late int[], c int GENERATED ALWAYS AS (n * 2) STORED, PRIMARY KEY (k), CONSTRAINT lazy UNIQUE (v, k) DEFERRABLE);
ALTER TABLE sharded.t DROP COLUMN junk, DROP COLUMN gone;
CREATE SEQUENCE plain.seq;
CREATE SEQUENCE sharded.seq;
ALTER TABLE plain.t ALTER s SET DEFAULT nextval('plain.seq');
ALTER TABLE sharded.t ALTER s SET DEFAULT nextval('sharded.seq');
CREATE TABLE plain.o (id int PRIMARY KEY, w text);
CREATE TABLE sharded.o (id int PRIMARY KEY, w text);
SELECT shardfdw.shard_table('sharded.t', 'k', shards => 5);
SELECT shardfdw.shard_table('sharded.o', 'id', shards => 3);
ALTER TABLE sharded.t DROP COLUMN late;

\pset format unaligned
\pset tuples_only on
-- dropped, generated and identity columns, defaults
SELECT pair.same($$INSERT INTO t (k) VALUES (1), (2), (9) ON CONFLICT (k) DO UPDATE SET a = t.a || excluded.n RETURNING k, i, s, n, c, a$$);
SELECT pair.same($$INSERT INTO t (k) VALUES (2), (9), (10) ON CONFLICT (k) DO UPDATE SET a = t.a || excluded.n, s = excluded.s, n = excluded.n + 1 RETURNING *$$);
SELECT pair.same($$INSERT INTO t (k, n) VALUES (2, DEFAULT), (11, 4) ON CONFLICT (k) DO UPDATE SET (a, v) = (excluded.a, excluded.c) RETURNING t$$);
SELECT pair.same($$INSERT INTO t VALUES (1, 'again', 1) ON CONFLICT (k) DO UPDATE SET a = excluded.a RETURNING *$$);
SELECT pair.same($$INSERT INTO t VALUES (2, 'x', 1), (12, 'nine', 9) ON CONFLICT (k) DO UPDATE SET a = excluded.a RETURNING *$$);
SELECT pair.same($$INSERT INTO t (k, c) VALUES (2, 1), (12, 9) ON CONFLICT (k) DO UPDATE SET a = excluded.a$$);
SELECT pair.same($$INSERT INTO t (k, i) VALUES (2, 1), (12, 9) ON CONFLICT (k) DO UPDATE SET a = excluded.a$$);
SELECT pair.same($$INSERT INTO t (k, i) OVERRIDING SYSTEM VALUE VALUES (2, 1), (13, 900) ON CONFLICT (k) DO UPDATE SET a = excluded.i RETURNING k, i, a$$);
SELECT pair.same($$INSERT INTO t (k, i) OVERRIDING USER VALUE VALUES (2, 1), (14, 900) ON CONFLICT (k) DO UPDATE SET a = excluded.i RETURNING k, i, a$$);
SELECT pair.same($$MERGE INTO t USING (VALUES (98, 1)) s (k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v
	WHEN NOT MATCHED THEN INSERT (k, a, v) VALUES (s.k, 'merged', s.v)$$);
SELECT pair.same($$MERGE INTO t USING (VALUES (99, 2)) s (k, v) ON t.k = s.k WHEN MATCHED AND t.c > 0 THEN UPDATE SET n = s.v, a = DEFAULT
	WHEN NOT MATCHED THEN INSERT (k, i, s) OVERRIDING SYSTEM VALUE VALUES (s.k, 5, 0)$$);
-- statements that fail take more numbers here than on a plain table
ALTER TABLE plain.t ALTER i DROP IDENTITY, ALTER i DROP NOT NULL, ALTER s DROP DEFAULT;
ALTER TABLE sharded.t ALTER i DROP IDENTITY, ALTER i DROP NOT NULL, ALTER s DROP DEFAULT;
SELECT pair.same($$INSERT INTO t (k) VALUES (15), (NULL) ON CONFLICT (k) DO UPDATE SET a = 'null'$$);
SELECT pair.same($$INSERT INTO t (k) SELECT k + 1 FROM t ON CONFLICT ON CONSTRAINT lazy DO NOTHING$$);
SELECT pair.same($$MERGE INTO t USING (VALUES (2, 1), (98, 2)) s (k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v
	WHEN NOT MATCHED THEN INSERT (k, a, v, s) VALUES (s.k, 'merged', s.v, 0)$$);
-- inside WITH
SELECT pair.same($$WITH w AS (INSERT INTO t (k, a) VALUES (2, 'x'), (9, 'nine'), (77, 'n') ON CONFLICT (k) DO UPDATE SET a = 'w' || excluded.a RETURNING *, tableoid = 0)
	SELECT * FROM w$$);
SELECT pair.same($$WITH w AS (INSERT INTO t (k, a) VALUES (2, 'x'), (78, 'n') ON CONFLICT (k) DO UPDATE SET a = 'nobody reads it') SELECT 1$$);
SELECT pair.same($$WITH w AS (INSERT INTO t (k, a) VALUES (2, 'x'), (78, 'n') ON CONFLICT (k) DO UPDATE SET a = 'nor this' RETURNING k) SELECT 1$$);
SELECT pair.same($$WITH w AS (INSERT INTO t (k) SELECT g FROM generate_series(1, 60) g ON CONFLICT (k) DO UPDATE SET a = 'all of it' RETURNING k) (SELECT 1 FROM w LIMIT 1)$$);
SELECT pair.same($$WITH w AS (INSERT INTO t (k) SELECT k + 30 FROM t ON CONFLICT (k) DO NOTHING RETURNING k, a)
	INSERT INTO o SELECT k, a FROM w RETURNING *$$);
SELECT pair.same($$WITH s AS MATERIALIZED (SELECT k, v FROM t WHERE k < 20), w AS (INSERT INTO o SELECT k, v FROM s ON CONFLICT (id) DO UPDATE SET w = 'o' RETURNING id),
	x AS (INSERT INTO t (k) SELECT id + 1000 FROM w ON CONFLICT (k) DO NOTHING RETURNING k AS y)
	SELECT id, y FROM w LEFT JOIN x ON id + 1000 = y$$);
SELECT pair.same($$WITH w AS (INSERT INTO o VALUES (1, 'a'), (2000, 'b') ON CONFLICT (id) DO UPDATE SET w = o.w || excluded.w RETURNING id, w)
	UPDATE t SET a = w.w FROM w WHERE t.k = w.id RETURNING *$$);
SELECT pair.same($$WITH w AS (INSERT INTO o VALUES (1, 'a'), (2000, 'b') ON CONFLICT (id) DO UPDATE SET w = o.w || excluded.w RETURNING id, w)
	DELETE FROM t USING w WHERE t.k = w.id RETURNING t.k, w.w$$);
SELECT pair.same($$WITH w AS (INSERT INTO o VALUES (1, 'a'), (2001, 'b') ON CONFLICT (id) DO UPDATE SET w = excluded.w RETURNING id)
	INSERT INTO t (k, a) SELECT id, 'both' FROM w ON CONFLICT (k) DO UPDATE SET a = excluded.a RETURNING k, a$$);
SELECT pair.same($$WITH w AS (INSERT INTO t (k, v) VALUES (1, 2), (1, 3) ON CONFLICT (k) DO UPDATE SET v = 1) SELECT 1$$);
SELECT pair.same($$WITH w AS (INSERT INTO t (k, v) VALUES (1, 2), (80, 3) ON CONFLICT (a) DO UPDATE SET v = 1) SELECT 1$$);
-- rows of a WITH query that one shard computes
SELECT pair.same($$WITH w AS (SELECT k, a FROM t WHERE k = 2) INSERT INTO t (k, a, s) SELECT k + 7, a || 'one', 0 FROM w ON CONFLICT (k) DO UPDATE SET a = excluded.a RETURNING k, a$$);
SELECT pair.same($$WITH w AS (DELETE FROM t WHERE k = 2 RETURNING k, a) INSERT INTO t (k, a, s) SELECT k + 7000, a || 'two', 0 FROM w ON CONFLICT (k) DO NOTHING RETURNING k, a$$);
SELECT pair.same($$WITH w AS (UPDATE t SET v = 7 WHERE k = 9 RETURNING k, v) INSERT INTO o (id, w) VALUES ((SELECT k FROM w), 'u'), (2001, 'w') ON CONFLICT (id) DO UPDATE SET w = excluded.w RETURNING *$$);
SELECT pair.same($$WITH w AS (SELECT k FROM t WHERE k = 9) MERGE INTO o USING (SELECT k + 1 AS k FROM w) s ON o.id = s.k WHEN MATCHED THEN UPDATE SET w = 'm' WHEN NOT MATCHED THEN INSERT VALUES (s.k, 'new')$$);
-- keys of other widths
SELECT pair.same($$MERGE INTO t USING (VALUES (10::bigint, 1), (908, 2)) s (k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v
	WHEN NOT MATCHED THEN INSERT (k, a, v, s) VALUES (s.k, 'merged', s.v, 0)$$);
SELECT pair.same($$MERGE INTO t USING (VALUES (11::smallint, 1), (909, 2)) s (k, v) ON s.k = t.k WHEN MATCHED THEN UPDATE SET v = s.v, k = s.k
	WHEN NOT MATCHED THEN INSERT (k, a, v, s) VALUES (s.k, 'merged', s.v, 0)$$);
SELECT pair.same($$MERGE INTO t USING (VALUES (11::bigint, 1), (5000000000, 2), (NULL, 3)) s (k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v
	WHEN NOT MATCHED AND s.k < 100000 THEN INSERT (k, s) VALUES (s.k, 0)$$);
SELECT pair.same($$MERGE INTO t USING (VALUES (12::bigint, 1), (-5000000000, 2)) s (k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v
	WHEN NOT MATCHED THEN INSERT (k, s) VALUES (s.k, 0)$$);
-- conditions that are false before anything is looked at
SELECT pair.same($$MERGE INTO t USING (VALUES (3000, 1), (3001, 2)) s (k, v) ON t.k = s.k AND 1 = 2 WHEN MATCHED THEN DELETE
	WHEN NOT MATCHED THEN INSERT (k, s) VALUES (s.k, 0)$$);

SET search_path = sharded, pair;
EXPLAIN (VERBOSE, COSTS OFF) WITH w AS (INSERT INTO t (k, s) SELECT g, 0 FROM generate_series(1, 5) g ON CONFLICT (k) DO UPDATE SET v = excluded.v RETURNING k + 1 AS more, a)
	SELECT * FROM w;
PREPARE up(int) AS WITH w AS (INSERT INTO t (k, v, s) SELECT g, $1, 0 FROM generate_series(1, 20) g ON CONFLICT (k) DO UPDATE SET v = $1 + length(t.a) - length(t.a) RETURNING v)
	SELECT sum(v) FROM w;
SET plan_cache_mode = force_generic_plan;
EXECUTE up(1);
EXECUTE up(2);
RESET plan_cache_mode;
EXECUTE up(3);
RESET search_path;
DROP SCHEMA sharded, plain, pair CASCADE;
