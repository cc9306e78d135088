-- TABLESAMPLE over a sharded table: each shard gives a sample of its rows.
\set VERBOSITY default
SET client_min_messages = warning;
CREATE SCHEMA ts;
SET search_path = ts;
RESET client_min_messages;
CREATE TABLE t (k int PRIMARY KEY, g int, s text);
SELECT shardfdw.shard_table('t', 'k', shards => 4) \g /dev/null
INSERT INTO t SELECT i, i % 10, 's' || i FROM generate_series(1, 4000) i;
CREATE TABLE h (at date, k int) PARTITION BY RANGE (at);
CREATE TABLE h1 PARTITION OF h FOR VALUES FROM ('2026-01-01') TO ('2026-02-01') PARTITION BY HASH (k);
SELECT count(shardfdw.create_shard('h1', 'h1_' || i, format('WITH (MODULUS 2, REMAINDER %s)', i), 'node' || 1 + i)) FROM generate_series(0, 1) i;
CREATE TABLE h2 PARTITION OF h FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
INSERT INTO h SELECT '2026-01-01'::date + i % 50, i FROM generate_series(1, 1000) i;

-- None and all.
SELECT count(*) FROM t TABLESAMPLE SYSTEM (0);
SELECT count(*) FROM t TABLESAMPLE BERNOULLI (0);
SELECT count(*), sum(k) FROM t TABLESAMPLE BERNOULLI (100);
SELECT count(*) FROM t TABLESAMPLE SYSTEM (100) WHERE k = 7;
SELECT count(*) FROM t TABLESAMPLE SYSTEM (0) WHERE k = 7;
SELECT count(*) FROM h TABLESAMPLE BERNOULLI (0);
SELECT count(*) FROM h TABLESAMPLE BERNOULLI (100);
SELECT g, count(*) FROM t TABLESAMPLE BERNOULLI (0) GROUP BY g;
SELECT DISTINCT g FROM t TABLESAMPLE BERNOULLI (100) ORDER BY g LIMIT 2;
COPY (SELECT k FROM t TABLESAMPLE BERNOULLI (0)) TO STDOUT;
COPY (SELECT k FROM t TABLESAMPLE BERNOULLI (100) WHERE k < 3 ORDER BY k) TO STDOUT;
-- A part: of 4000 rows some, and not all.
SELECT count(*) BETWEEN 200 AND 800 AS "about a tenth", count(*) = count(DISTINCT k) AS once FROM t TABLESAMPLE BERNOULLI (10);
SELECT count(*) BETWEEN 200 AND 800 AS "about a tenth" FROM t TABLESAMPLE BERNOULLI (10) WHERE length(s) > random();
-- The same once more, and another one.
CREATE FUNCTION sample(seed float8) RETURNS int[] LANGUAGE sql AS 'SELECT array_agg(k ORDER BY k) FROM ts.t TABLESAMPLE BERNOULLI (10) REPEATABLE (seed)';
SELECT sample(5) = sample(5) AS repeated, sample(5) <> sample(6) AS another;
-- Joined, each table is read once.
SELECT count(*) FROM t a TABLESAMPLE BERNOULLI (0) JOIN t b USING (k);
SELECT count(*) FROM t a TABLESAMPLE BERNOULLI (100) JOIN t b USING (k);
SELECT count(*) FROM t a LEFT JOIN t b TABLESAMPLE BERNOULLI (0) USING (k) WHERE b.k IS NULL;
SELECT count(*) FROM t a JOIN t b TABLESAMPLE BERNOULLI (0) ON a.g = b.k;
SELECT count(*) FROM t WHERE EXISTS (SELECT FROM t b TABLESAMPLE BERNOULLI (0) WHERE b.k = t.k);
SELECT count(*) FROM t WHERE k IN (SELECT b.g FROM t b TABLESAMPLE BERNOULLI (100));
BEGIN;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM generate_series(1, 3) i JOIN t b TABLESAMPLE BERNOULLI (50) ON true WHERE b.k < 100;
SELECT count(*) % 3 AS "each of three finds the same" FROM generate_series(1, 3) i JOIN t b TABLESAMPLE BERNOULLI (50) ON true WHERE b.k < 100;
ROLLBACK;
-- Arguments.
PREPARE part (float4) AS SELECT count(*) FROM t TABLESAMPLE SYSTEM ($1);
SET plan_cache_mode = force_generic_plan;
EXECUTE part (0);
EXECUTE part (100);
RESET plan_cache_mode;
EXECUTE part (0);
SELECT count(*) FROM t TABLESAMPLE BERNOULLI ((SELECT 100));
SELECT p, (SELECT count(*) FROM t TABLESAMPLE BERNOULLI (p)) FROM (VALUES (0), (100)) v (p) ORDER BY p;
SELECT p, n FROM (VALUES (0), (100)) v (p), LATERAL (SELECT count(*) AS n FROM t TABLESAMPLE BERNOULLI (p)) x ORDER BY p;
\set VERBOSITY sqlstate
SELECT count(*) FROM t TABLESAMPLE BERNOULLI (101);
SELECT count(*) FROM t TABLESAMPLE BERNOULLI (NULL);
\set VERBOSITY default
SELECT count(*) FROM t TABLESAMPLE BERNOULLI (random() * 100);
SELECT count(*) FROM t TABLESAMPLE nowhere (1);
-- Sources of other statements.
CREATE TABLE into_t AS SELECT * FROM t TABLESAMPLE BERNOULLI (100);
SELECT count(*) FROM into_t;
BEGIN;
INSERT INTO t SELECT k + 10000, g, s FROM t TABLESAMPLE BERNOULLI (0);
UPDATE t SET g = 77 FROM t b TABLESAMPLE BERNOULLI (0) WHERE b.k = t.k;
DELETE FROM t USING t b TABLESAMPLE BERNOULLI (0) WHERE b.k = t.k;
DELETE FROM t WHERE k IN (SELECT k FROM t TABLESAMPLE BERNOULLI (0));
SELECT count(*), count(*) FILTER (WHERE g = 77) FROM t;
ROLLBACK;
SELECT k FROM t TABLESAMPLE BERNOULLI (0) FOR UPDATE;
SELECT k FROM t TABLESAMPLE BERNOULLI (100) WHERE k < 3 ORDER BY k FOR UPDATE;
EXPLAIN (VERBOSE, COSTS OFF) SELECT k FROM t TABLESAMPLE SYSTEM (50) REPEATABLE (1) WHERE k = 5;
SET client_min_messages = warning;
DROP SCHEMA ts CASCADE;
