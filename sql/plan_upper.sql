-- Windows, aggregates with DISTINCT, groupings over joins and with many groups: what the nodes compute of
-- them, and that the results are right.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA pup;
SET search_path = pup;
SET shardfdw.query_per_node = off;

\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set f :srcdir '/sql/plan/walk.sql'
\i :f
\set ECHO all

CREATE FUNCTION pup.same(query text) RETURNS TABLE (side text, "row" text) LANGUAGE plpgsql AS $$
DECLARE
	plain text := regexp_replace(regexp_replace(query, '\mt\M', 'l', 'g'), '\mp\M', 'o', 'g');
BEGIN
	RETURN QUERY EXECUTE format('WITH here AS MATERIALIZED (SELECT x::text AS r FROM (%1$s) x), there AS MATERIALIZED (SELECT x::text AS r FROM (%2$s) x)
		(SELECT ''plain'', r FROM (TABLE here EXCEPT ALL TABLE there) a) UNION ALL (SELECT ''sharded'', r FROM (TABLE there EXCEPT ALL TABLE here) b) ORDER BY 1, 2', plain, query);
END $$;

CREATE TABLE l (k bigint, g int, x int, y int, n numeric, f float8, s text, c text COLLATE "C", a int[]);
INSERT INTO l SELECT i, i % 5, (i * 37) % 101, i % 7, (i % 23) * 1.10, (i % 9) / 4.0, 's' || i % 13, 'c' || i % 17, ARRAY[i % 3, NULL] FROM generate_series(1, 600) i;
INSERT INTO l SELECT * FROM l WHERE k % 3 = 0;
INSERT INTO l (k) SELECT i FROM generate_series(601, 610) i;
CREATE TABLE t (LIKE l);
SELECT shardfdw.shard_table('t', 'k', 4);
INSERT INTO t SELECT * FROM l;
ANALYZE t;
CREATE TABLE o (k bigint, z int);
INSERT INTO o SELECT i, i % 11 FROM generate_series(1, 300) i;
CREATE TABLE p (LIKE o);
SELECT shardfdw.shard_table('p', 'k', colocate_with => 't');
INSERT INTO p SELECT * FROM o;
ANALYZE p;

-- windows: all of them partitioned by the key, or none goes
SELECT plan('SELECT k, g, sum(n) OVER (PARTITION BY k ORDER BY x, y) FROM t');
SELECT plan('SELECT k, max(g) OVER w + 1 AS r, sum(n) OVER (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM t WHERE x > 3 WINDOW w AS (PARTITION BY g, k ORDER BY c DESC NULLS LAST)');
SELECT plan('SELECT k, lag(n, 2, 0.5) OVER (PARTITION BY k ORDER BY x), count(*) FILTER (WHERE y > 2) OVER (PARTITION BY k) FROM t ORDER BY 2 NULLS FIRST, 3, 1 LIMIT 3');
SELECT plan('SELECT k, g, sum(sum(n)) OVER (PARTITION BY k ORDER BY g) FROM t GROUP BY k, g');
-- core moves the condition into the window
SELECT bool_or(line LIKE '%Foreign Scan Select filter%OVER (%') AS on_nodes, bool_or(line LIKE '%r <= 1%') AS test_there FROM plan('SELECT * FROM (SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x) AS r FROM t) q WHERE r <= 1 AND x > 50') line;
SELECT plan('SELECT t.k, p.z, max(z) OVER (PARTITION BY t.k) FROM t LEFT JOIN p ON p.k = t.k');
SELECT bool_or(line LIKE '%OVER (%') AS on_nodes FROM plan('SELECT k, sum(n) OVER (PARTITION BY g) FROM t') line;
SELECT bool_or(line LIKE '%OVER (%') AS on_nodes FROM plan('SELECT k, sum(n) OVER () FROM t') line;
SELECT bool_or(line LIKE '%OVER (%') AS on_nodes FROM plan('SELECT sum(n) OVER (PARTITION BY k), sum(n) OVER (ORDER BY k) FROM t') line;
SELECT bool_or(line LIKE '%OVER (%') AS on_nodes FROM plan('SELECT sum(n + random()::numeric) OVER (PARTITION BY k) FROM t') line;
SELECT bool_or(line LIKE '%OVER (%') AS on_nodes FROM plan('SELECT p.k, sum(n) OVER (PARTITION BY p.k) FROM t LEFT JOIN p ON p.k = t.k') line;
SELECT bool_or(line LIKE '%OVER (%') AS on_nodes FROM plan('SELECT k, sum(sum(n)) OVER (PARTITION BY k) FROM t GROUP BY k, g HAVING sum(n) > random() - 1') line;

-- aggregates with DISTINCT take distinct rows (what is above the scan differs from major to major)
SELECT btrim(line) AS line FROM plan('SELECT count(DISTINCT x) FROM t') line WHERE line ~ 'Foreign';
SELECT btrim(line) AS line FROM plan('SELECT g, sum(DISTINCT n), count(DISTINCT n) FILTER (WHERE y > 3), max(n), min(g) FROM t GROUP BY g HAVING count(DISTINCT c) > 2') line WHERE line ~ 'Foreign';
SELECT btrim(line) AS line FROM plan('SELECT string_agg(DISTINCT c, '','' ORDER BY c) FROM t') line WHERE line ~ 'Foreign';
SELECT bool_or(line LIKE '%GROUP BY%') AS on_nodes FROM plan('SELECT count(*), count(DISTINCT x) FROM t') line;
SELECT bool_or(line LIKE '%GROUP BY%') AS on_nodes FROM plan('SELECT max(y), count(DISTINCT x) FROM t') line;
SELECT bool_or(line LIKE '%GROUP BY%') AS on_nodes FROM plan('SELECT count(DISTINCT x + random()) FROM t') line;
SELECT bool_or(line LIKE '%GROUP BY%') AS on_nodes FROM plan('SELECT array_agg(x ORDER BY x) FROM t') line;
-- what cannot be aggregated in part needs the columns it uses, no others
SELECT plan('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x), mode() WITHIN GROUP (ORDER BY s) FROM t WHERE y = 2');

-- conditions without columns are tested by nodes, too
SET plan_cache_mode = force_generic_plan;
PREPARE gated(int) AS SELECT g, count(*) FROM t WHERE $1 > 0 GROUP BY g ORDER BY g LIMIT 3;
PREPARE gated_all(int) AS SELECT count(*), sum(x) FROM t WHERE $1 > 0 AND y > 2;
PREPARE gated_join(int) AS SELECT count(*) FROM t LEFT JOIN p ON p.k = t.k AND $1 > 0 WHERE t.y > 2 AND p.z IS NULL;
SELECT bool_or(line LIKE '%GROUP BY g') AS on_nodes FROM plan('EXECUTE gated(1)') line;
SELECT bool_or(line LIKE '%count(*)%') AS on_nodes FROM plan('EXECUTE gated_all(1)') line;
EXECUTE gated(1);
EXECUTE gated(0);
EXECUTE gated_all(1);
EXECUTE gated_all(0);
EXECUTE gated_join(1);
EXECUTE gated_join(0);
SELECT count(*) FROM l LEFT JOIN o ON o.k = l.k WHERE l.y > 2 AND o.z IS NULL;
RESET plan_cache_mode;
SELECT bool_or(line LIKE '%count(*)%') AS on_nodes FROM plan('SELECT count(*) FROM t WHERE (SELECT max(z) FROM o) > 3') line;
SELECT same('SELECT count(*), sum(x) FROM t WHERE (SELECT max(z) FROM o) > 3');
SELECT same('SELECT count(*), sum(x) FROM t WHERE (SELECT max(z) FROM o) > 300');
SELECT bool_or(line LIKE '%count(*)%') AS on_nodes FROM plan('SELECT count(*) FROM t WHERE now() > ''2020-01-01''') line;
SELECT same('SELECT count(*), sum(x) FROM t WHERE now() > ''2020-01-01''');
SELECT same('SELECT count(*) FROM t JOIN p USING (k) WHERE now() > ''2020-01-01'' AND p.z > 2');

-- grouping sets: what tells them apart travels
SELECT plan('SELECT g, x % 3 AS m, count(*), sum(y), GROUPING(g), GROUPING(x % 3, g) FROM t GROUP BY ROLLUP (g, x % 3) HAVING count(*) > 3');
SELECT plan('SELECT k, sum(x) FROM t WHERE y > 2 GROUP BY CUBE (k) ORDER BY 1');
SELECT bool_or(line LIKE '%GROUPING SETS%') AS on_nodes FROM plan('SELECT sum(x) FROM t GROUP BY GROUPING SETS ((g), (g))') line;
SELECT bool_or(line LIKE '%GROUPING SETS%') AS on_nodes FROM plan('SELECT sum(x) FROM t GROUP BY ROLLUP (g, ''x''::text)') line;
SELECT bool_or(line LIKE '%GROUPING SETS%') AS on_nodes FROM plan('SELECT count(DISTINCT x) FROM t GROUP BY ROLLUP (g, y)') line;

-- groupings over joins
SELECT plan('SELECT t.k, sum(n), max(z) FROM t JOIN p ON p.k = t.k GROUP BY t.k ORDER BY 2 DESC, 1 LIMIT 2');
SELECT plan('SELECT p.k, count(*) FROM t LEFT JOIN p ON p.k = t.k GROUP BY p.k');
SELECT plan('SELECT z, count(x) FROM t FULL JOIN p ON p.k = t.k GROUP BY z');
SELECT plan('SELECT t.k, count(*) FROM t WHERE EXISTS (SELECT FROM p WHERE p.k = t.k AND z > 3) GROUP BY t.k HAVING count(*) > 1');

-- many groups: a query for each node
RESET shardfdw.query_per_node;
CREATE TABLE many (k int, g int, h int, n numeric);
SELECT shardfdw.shard_table('many', 'k', 16);
INSERT INTO many SELECT i, i % 2000, i % 4, i FROM generate_series(1, 20000) i;
ANALYZE many;
SELECT plan('SELECT g, sum(k), count(*) FILTER (WHERE h > 1) FROM many GROUP BY g');
SELECT plan('SELECT DISTINCT g % 1500, h FROM many');
SELECT btrim(line) AS line FROM plan('SELECT count(DISTINCT g) FROM many') line WHERE line ~ 'Foreign';
SELECT plan('SELECT h, sum(k) FROM many GROUP BY h');
SELECT plan('SELECT k, sum(g) FROM many GROUP BY k');
SELECT count(*), sum(s), sum(c) FROM (SELECT g, sum(k) AS s, count(*) FILTER (WHERE h > 1) AS c FROM many GROUP BY g) x;
SELECT count(*) FROM (SELECT DISTINCT g % 1500, h FROM many) x;
SELECT count(DISTINCT g), count(DISTINCT (g, h)) FROM many;
SELECT count(DISTINCT g) FROM many WHERE k < 0;

-- the same rows
SELECT * FROM same('SELECT k, g, row_number() OVER (PARTITION BY k ORDER BY x, y) FROM t');
SELECT * FROM same('SELECT k, rank() OVER w + 1 AS r, sum(n) OVER (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM t WHERE x > 3 WINDOW w AS (PARTITION BY g, k ORDER BY c DESC NULLS LAST)');
SELECT * FROM same('SELECT k, ntile(2) OVER (PARTITION BY k ORDER BY x), first_value(s) OVER (PARTITION BY k), nth_value(c, 2) OVER (PARTITION BY k), cume_dist() OVER (PARTITION BY k ORDER BY y) FROM t');
SELECT * FROM same('SELECT k, sum(x) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN 2.5 PRECEDING AND 1 FOLLOWING), count(*) OVER (PARTITION BY k ORDER BY g GROUPS 1 PRECEDING) FROM t');
SELECT * FROM same('SELECT k, g, sum(sum(n)) OVER (PARTITION BY k ORDER BY g), count(*) FROM t GROUP BY k, g');
SELECT * FROM same('SELECT k, g, sum(sum(n)) OVER (PARTITION BY k) FROM t GROUP BY k, g HAVING sum(n) > 3');
SELECT * FROM same('SELECT * FROM (SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x) AS r FROM t) q WHERE r <= 1 AND x > 50');
SELECT * FROM same('SELECT * FROM (SELECT k, x, row_number() OVER (PARTITION BY k) AS r, count(*) OVER (PARTITION BY k) AS c FROM t) q WHERE r <= 2 AND c < 2');
SELECT * FROM same('SELECT k, sum(n) OVER (PARTITION BY g), avg(x) OVER (PARTITION BY k) FROM t');
SELECT * FROM same('SELECT p.k, z, sum(n) OVER (PARTITION BY p.k) FROM t LEFT JOIN p ON p.k = t.k');
SELECT * FROM same('SELECT t.k, z, max(z) OVER (PARTITION BY t.k) FROM t LEFT JOIN p ON p.k = t.k');
SELECT * FROM same('SELECT DISTINCT k, max(n) OVER (PARTITION BY k) FROM t');
SELECT * FROM same('SELECT count(DISTINCT x), sum(DISTINCT n), array_agg(DISTINCT g) FROM t');
SELECT * FROM same('SELECT g, sum(DISTINCT n), count(DISTINCT n) FILTER (WHERE y > 3), max(n), min(g) FROM t GROUP BY g HAVING count(DISTINCT c) > 2');
SELECT * FROM same('SELECT string_agg(DISTINCT c, '','' ORDER BY c DESC), string_agg(DISTINCT s, s), count(DISTINCT (x > 50)) FROM t');
SELECT * FROM same('SELECT g, count(DISTINCT a), array_agg(DISTINCT f) FROM t GROUP BY g');
SELECT * FROM same('SELECT count(*), count(DISTINCT x), max(y) FROM t');
SELECT * FROM same('SELECT 1 AS one, count(DISTINCT x) FROM t GROUP BY 1');
SELECT * FROM same('SELECT count(DISTINCT x) FROM t WHERE k < 0');
SELECT * FROM same('SELECT g, count(DISTINCT x) FROM t WHERE k < 0 GROUP BY g');
SELECT * FROM same('SELECT g, y, count(DISTINCT x % 10), bool_or(g > 2), min(x % 10) FROM t GROUP BY GROUPING SETS ((g), (y))');
SELECT * FROM same('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x), mode() WITHIN GROUP (ORDER BY s) FROM t WHERE y = 2');
SELECT * FROM same('SELECT g, array_agg(x ORDER BY x, k), string_agg(s, ''-'' ORDER BY c, s) FROM t GROUP BY g');
SELECT * FROM same('SELECT min(a), max(a) FROM t');
SELECT * FROM same('SELECT g, min(a), max(a) FROM t GROUP BY g');
SELECT * FROM same('SELECT p.k, count(*) FROM t LEFT JOIN p ON p.k = t.k GROUP BY p.k');
SELECT * FROM same('SELECT z, count(x), count(DISTINCT t.k) FROM t FULL JOIN p ON p.k = t.k GROUP BY z');
SELECT * FROM same('SELECT COALESCE(t.k, p.k) AS k, count(*) FROM t FULL JOIN p USING (k) GROUP BY 1');
SELECT * FROM same('SELECT t.k, count(*) FROM t WHERE EXISTS (SELECT FROM p WHERE p.k = t.k AND z > 3) GROUP BY t.k HAVING count(*) > 1');
SELECT * FROM same('SELECT g, count(*) FROM t WHERE k IN (SELECT k FROM p) GROUP BY g');
SELECT * FROM same('SELECT g, sum(c) FROM (SELECT g, k, count(*) AS c FROM t GROUP BY g, k) x GROUP BY g');
SELECT * FROM same('SELECT count(*) FROM (SELECT k FROM t WHERE true OR k IN (SELECT k FROM p) GROUP BY k) x');
SELECT * FROM same('SELECT (SELECT count(DISTINCT x) FROM t WHERE t.g = p.z) FROM p WHERE p.k < 12');
SELECT * FROM same('SELECT g, x % 3 AS m, count(*), sum(n), GROUPING(g), GROUPING(x % 3, g) FROM t GROUP BY ROLLUP (g, x % 3) HAVING count(*) > 3');
SELECT * FROM same('SELECT g, y, s, avg(n), max(a), COALESCE(g, -1) + GROUPING(s) AS z FROM t GROUP BY CUBE (g, y, s)');
SELECT * FROM same('SELECT g, y, count(*) FROM t WHERE g = 3 GROUP BY GROUPING SETS ((g, y), (y), ())');
SELECT * FROM same('SELECT g, y, count(*) FROM t GROUP BY GROUPING SETS ((g), (y), (g))');
SELECT * FROM same('SELECT g, y, count(*) FROM t GROUP BY DISTINCT ROLLUP (g, y), ROLLUP (g)');
SELECT * FROM same('SELECT k, g, sum(x) FROM t GROUP BY ROLLUP (k, g)');
SELECT * FROM same('SELECT count(*), sum(n) FROM t WHERE k < 0 GROUP BY ROLLUP (g)');
SELECT * FROM same('SELECT count(*), sum(n) FROM t WHERE k < 0 GROUP BY GROUPING SETS ((g), (y))');
SELECT * FROM same('SELECT count(*), sum(n) FROM t GROUP BY ()');
SELECT * FROM same('SELECT g, count(*) FROM t WHERE k = 7 GROUP BY ROLLUP (g)');
SELECT * FROM same('SELECT g, count(*) FROM t WHERE k = 7 AND k = 8 GROUP BY ROLLUP (g)');
SELECT * FROM same('SELECT z, g, count(*), sum(n), GROUPING(z) FROM t JOIN p ON p.k = t.k GROUP BY CUBE (z, g)');
SELECT * FROM same('SELECT z, g, count(*), sum(n), GROUPING(z) FROM t LEFT JOIN p ON p.k = t.k GROUP BY ROLLUP (z, g) HAVING GROUPING(z) = 0 OR count(*) > 10');
SELECT * FROM same('SELECT g, sum(n), rank() OVER (PARTITION BY GROUPING(g) ORDER BY sum(n), g) FROM t GROUP BY ROLLUP (g)');
SELECT * FROM same('SELECT DISTINCT count(*) > 5 FROM t GROUP BY CUBE (g, y)');
SELECT * FROM same('SELECT q.g, q.c FROM (SELECT g, y, count(*) AS c FROM t GROUP BY ROLLUP (g, y)) q WHERE q.g = 2');
SELECT * FROM same('SELECT l2.g, x.c FROM (VALUES (1), (2)) l2 (g), LATERAL (SELECT y, count(*) AS c FROM t WHERE t.g = l2.g GROUP BY ROLLUP (y)) x');
-- prepared, with generic plans
SET plan_cache_mode = force_generic_plan;
PREPARE w(int, bigint) AS SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x) + $1 AS r, lag(x, $1) OVER (PARTITION BY k ORDER BY x) FROM t WHERE k BETWEEN $2 AND $2 + 2 ORDER BY k, x LIMIT $2;
EXECUTE w(1, 3);
EXECUTE w(2, 30);
PREPARE d(int) AS SELECT count(DISTINCT x % $1), sum(DISTINCT x) FILTER (WHERE y > $1) FROM t WHERE g <> $1;
EXECUTE d(3);
EXECUTE d(4);
PREPARE g(bigint) AS SELECT g, count(*), sum(n) FROM t WHERE k = $1 GROUP BY ROLLUP (g) ORDER BY 1;
EXECUTE g(3);
EXECUTE g(-3);
DEALLOCATE ALL;
RESET plan_cache_mode;
SET search_path = public;
DROP SCHEMA pup CASCADE;
