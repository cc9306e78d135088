-- Aggregates with DISTINCT beside others: a grouping of groups. What the nodes compute of it, and that the results are right.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA two;
SET search_path = two;

\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set f :srcdir '/sql/plan/walk.sql'
\i :f
\set ECHO all

-- rows of the plain and the sharded table that differ
CREATE FUNCTION same(query text) RETURNS TABLE (side text, "row" text) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('WITH here AS MATERIALIZED (SELECT x::text AS r FROM (%1$s) x), there AS MATERIALIZED (SELECT x::text AS r FROM (%2$s) x)
		(SELECT ''plain'', r FROM (TABLE here EXCEPT ALL TABLE there) a) UNION ALL (SELECT ''sharded'', r FROM (TABLE there EXCEPT ALL TABLE here) b) ORDER BY 1, 2',
		regexp_replace(query, '\mt\M', 'l', 'g'), query);
END $$;
-- how many groupings nodes do, one within the other
CREATE FUNCTION groupings(query text) RETURNS bigint LANGUAGE sql AS
$$ SELECT max((SELECT count(*) FROM regexp_matches(line, 'GROUP BY', 'g'))) FROM plan(query) line WHERE line LIKE '%Foreign Scan%' $$;

CREATE TABLE l (k bigint, g int, x int, y int, n numeric, s text, c text COLLATE "C", f8 float8, f4 float4, i2 int2, i8 bigint, iv interval, b bool, a int[]);
INSERT INTO l SELECT i, i % 5, (i * 37) % 101, i % 7, (i % 23) * 1.10, 's' || i % 13, 'c' || i % 17, (i % 9) / 4.0, (i % 11) / 8.0, i % 300, i * 3, (i % 100) * interval '1 s', i % 3 = 0, ARRAY[i % 4, 1] FROM generate_series(1, 600) i;
INSERT INTO l SELECT * FROM l WHERE k % 3 = 0;
INSERT INTO l (k) SELECT i FROM generate_series(601, 610) i;
INSERT INTO l (k, g, x) SELECT i, 7, i FROM generate_series(611, 620) i;
INSERT INTO l (k, g, x, n, f8, f4) VALUES (621, 8, 1, 'NaN', 'NaN', '-Infinity'), (622, 8, 1, 'Infinity', 'Infinity', 0), (623, 8, NULL, 2.500, 1, 0);
CREATE TABLE t (LIKE l);
SELECT shardfdw.shard_table('t', 'k', 4);
INSERT INTO t SELECT * FROM l;
ANALYZE t;

-- how it is planned
SELECT groupings('SELECT g, count(*), avg(n), count(DISTINCT x) FROM t GROUP BY g') AS one;
SELECT groupings('SELECT g, sum(y), count(DISTINCT k) FROM t GROUP BY g') AS two;
SELECT groupings('SELECT count(*), count(DISTINCT k) FROM t') AS inner_one;
SELECT groupings('SELECT count(*), count(DISTINCT x) FROM (SELECT * FROM t WHERE y > 2) q') AS one;
SELECT groupings('WITH q AS (SELECT * FROM t WHERE y > 2) SELECT count(*), count(DISTINCT x) FROM q') AS one;
-- the key is grouped by: the nodes do all of it
SELECT groupings('SELECT k, count(*), count(DISTINCT x) FROM t GROUP BY k') AS one;
-- aggregates that only rows can serve
SELECT groupings('SELECT g, stddev(y), count(DISTINCT x) FROM t GROUP BY g') AS none;
SELECT groupings('SELECT g, array_agg(y ORDER BY y), count(DISTINCT x) FROM t GROUP BY g') AS none;
SELECT groupings('SELECT g, count(*), count(DISTINCT x) FROM t GROUP BY ROLLUP (g)') AS none;
SET shardfdw.enable_partial_aggregate = off;
SELECT groupings('SELECT g, count(*), count(DISTINCT x) FROM t GROUP BY g') AS none;
RESET shardfdw.enable_partial_aggregate;
-- rows that are there twice are nothing to these
SELECT groupings('SELECT g, max(x), count(DISTINCT x) FROM t GROUP BY g') AS one;

-- that it is right
SELECT same('SELECT g, count(*), count(y), count(DISTINCT x) FROM t GROUP BY g');
SELECT same('SELECT count(*), count(y), sum(y), count(DISTINCT x) FROM t');
SELECT same('SELECT count(*), count(y), sum(y), avg(y), avg(f8), count(DISTINCT x) FROM t WHERE k < 0');
SELECT same('SELECT g, count(*), count(DISTINCT x) FROM t WHERE k < 0 GROUP BY g');
SELECT same('SELECT g, sum(y), sum(i2), sum(i8), sum(n), sum(f8), sum(f4), sum(iv), sum(i8::int::money), count(DISTINCT x) FROM t GROUP BY g');
SELECT same('SELECT g, avg(y), avg(i2), avg(i8), avg(n), avg(f8), avg(f4), count(DISTINCT x) FROM t GROUP BY g');
SELECT same('SELECT g, min(s), max(c), min(a), max(iv), bool_and(b), bool_or(b), bit_and(y), bit_or(i8), bit_xor(i2), count(*), count(DISTINCT x) FROM t GROUP BY g');
SELECT same('SELECT g, count(*), sum(DISTINCT n), avg(DISTINCT y), string_agg(DISTINCT c, '','' ORDER BY c DESC), array_agg(DISTINCT s), count(DISTINCT a) FROM t GROUP BY g');
SELECT same('SELECT g, count(*) FILTER (WHERE y > 3), avg(n) FILTER (WHERE x > 50), count(DISTINCT x) FILTER (WHERE y > 2), count(DISTINCT x) FROM t GROUP BY g');
SELECT same('SELECT count(*), count(DISTINCT x) FILTER (WHERE y > 2) FROM t');
SELECT same('SELECT g % 2 AS m, y + 1 AS z, count(*) * 2 + count(DISTINCT x % 10) AS r FROM t GROUP BY 1, 2 HAVING count(*) > 10 AND count(DISTINCT x) > 3 ORDER BY 3 DESC, 1, 2 LIMIT 4');
SELECT same('SELECT g, sum(count(*)) OVER (ORDER BY g), rank() OVER (ORDER BY count(DISTINCT x), g) FROM t GROUP BY g');
SELECT same('SELECT DISTINCT count(*) > 100, count(DISTINCT g) FROM t GROUP BY y');
SELECT same('SELECT g, count(*), count(DISTINCT g), count(DISTINCT 1) FROM t GROUP BY g');
SELECT same('SELECT g, count(*), count(DISTINCT x) FROM t GROUP BY g, y');
SELECT same('SELECT t.g, count(*), count(DISTINCT u.x) FROM t LEFT JOIN t u ON u.k = t.k AND u.y > 3 GROUP BY t.g');
SELECT same('SELECT t.g, count(*), count(DISTINCT u.x), sum(u.y) FROM t JOIN t u USING (k) WHERE t.y < u.x GROUP BY t.g');
SELECT same('SELECT g, (SELECT count(DISTINCT x) + count(*) FROM t WHERE t.y = o.y) FROM l o');
SELECT same('SELECT g, (SELECT count(DISTINCT x + o.y) + sum(t.y + o.g) FROM t WHERE t.y > o.y) FROM l o WHERE k < 20');
SELECT same('SELECT * FROM (SELECT g, count(*), count(DISTINCT x) FROM t GROUP BY g) q WHERE g IN (1, 2) UNION ALL SELECT y, count(*), count(DISTINCT s) FROM t GROUP BY y');
SELECT same('WITH big AS (SELECT * FROM t WHERE y > 2) SELECT g, count(*), count(DISTINCT x) FROM big WHERE x < (SELECT avg(x) FROM big) GROUP BY g');
SELECT same('WITH big AS (SELECT 3 AS y) SELECT g, count(*) + (SELECT max(y) FROM big), count(DISTINCT x) FROM t WHERE y IN (SELECT y FROM big) GROUP BY g');
SELECT same('SELECT g, count(*), count(DISTINCT x), (SELECT max(l2.y) FROM l l2 WHERE l2.g = t.g) FROM t GROUP BY g');
SELECT same('SELECT g, count(*), count(DISTINCT (x, y)), count(DISTINCT (SELECT t.x % 3)) FROM t GROUP BY g');
PREPARE q(int) AS SELECT g + $1, count(*), count(DISTINCT x + $1) FROM t WHERE y > $1 GROUP BY g + $1 ORDER BY 1;
SET plan_cache_mode = force_generic_plan;
EXECUTE q(3);
RESET plan_cache_mode;

-- whoever may not read the table may not in this way either
CREATE ROLE two_reader;
GRANT USAGE ON SCHEMA two TO two_reader;
GRANT SELECT (k, g, x) ON t TO two_reader;
SET ROLE two_reader;
SELECT g, count(*), count(DISTINCT y) FROM t GROUP BY g;
RESET ROLE;
DROP SCHEMA two CASCADE;
DROP OWNED BY two_reader;
SELECT shardfdw.run_on_nodes('DROP OWNED BY two_reader') \g /dev/null
DROP ROLE two_reader;
