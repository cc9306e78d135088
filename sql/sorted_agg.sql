-- Aggregates with ORDER BY: rows come in the order of the groups, from 16 on of the aggregates.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA sa;
SET search_path = sa;
SET enable_hashagg = off;

\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set f :srcdir '/sql/plan/walk.sql'
\i :f
\set ECHO all

CREATE TABLE l (k bigint, g int, x int, y int, n numeric, s text, a int[], e text COLLATE "POSIX");
INSERT INTO l SELECT i, i % 5, (i * 37) % 101, i % 7, (i % 23) * 1.10, 's' || i % 13, ARRAY[i % 4, 1], 'e' || i % 3 FROM generate_series(1, 900) i;
INSERT INTO l (k, x) SELECT i, nullif(i % 4, 0) FROM generate_series(901, 950) i;
CREATE TABLE t (LIKE l);
SELECT shardfdw.shard_table('t', 'k', 4);
INSERT INTO t SELECT * FROM l;
ANALYZE t;

CREATE FUNCTION sorted(query text) RETURNS boolean LANGUAGE sql AS
$$ SELECT bool_or(line LIKE '%Foreign Scan%ORDER BY%') FROM plan(query) line $$;
CREATE FUNCTION same(query text) RETURNS TABLE (side text, "row" text) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('WITH here AS MATERIALIZED (SELECT x::text AS r FROM (%1$s) x), there AS MATERIALIZED (SELECT x::text AS r FROM (%2$s) x)
		(SELECT ''plain'', r FROM (TABLE here EXCEPT ALL TABLE there) a) UNION ALL (SELECT ''sharded'', r FROM (TABLE there EXCEPT ALL TABLE here) b) ORDER BY 1, 2',
		regexp_replace(query, '\mt\M', 'l', 'g'), query);
END $$;

SELECT sorted('SELECT g, array_agg(y ORDER BY x, k) FROM t GROUP BY g');
SELECT sorted('SELECT array_agg(y ORDER BY x, k) FROM t') = (current_setting('server_version_num')::int >= 160000) AS sorted;
SELECT sorted('SELECT g, count(*), string_agg(s, '','' ORDER BY s DESC) FROM t WHERE y > 2 GROUP BY g HAVING count(*) > 3');
-- nothing to sort for, all of it on nodes, an order of one's own
SELECT sorted('SELECT g, json_agg(y) FROM t GROUP BY g');
SELECT sorted('SELECT k, array_agg(y) FROM t GROUP BY k');
SELECT sorted('SELECT g + random()::int, array_agg(y ORDER BY x, k) FROM t GROUP BY 1');

SELECT same('SELECT g, array_agg(y ORDER BY x, k), array_agg(x ORDER BY k DESC) FROM t GROUP BY g');
SELECT same('SELECT array_agg(y ORDER BY x DESC NULLS LAST, k), count(*) FROM t');
SELECT same('SELECT g, y, string_agg(s, '','' ORDER BY s DESC, n), json_agg(a ORDER BY k) FROM t GROUP BY g, y');
SELECT same('SELECT g % 2, string_agg(e, n::text ORDER BY e COLLATE "C", n) FROM t GROUP BY g % 2');
SELECT same('SELECT g, array_agg(x + y ORDER BY x + y) FILTER (WHERE y > 3), sum(n) FROM t WHERE x > 10 GROUP BY g HAVING count(*) > 10 ORDER BY 3 DESC');
SELECT same('SELECT t.g, array_agg(u.y ORDER BY u.x, u.k) FROM t JOIN t u ON u.k = t.k WHERE t.y > 2 GROUP BY t.g');
SELECT same('SELECT u.g, array_agg(t.k ORDER BY u.k, t.k) FROM t LEFT JOIN t u ON u.k = t.k AND u.y > 2 GROUP BY u.g');
SELECT same('SELECT g, percentile_disc(0.5) WITHIN GROUP (ORDER BY x), array_agg(k ORDER BY k) FROM t GROUP BY g');
SELECT same('SELECT g, array_agg(DISTINCT y ORDER BY y DESC), stddev(x) FROM t GROUP BY g');
SELECT same('SELECT g, rank() OVER (ORDER BY g), array_agg(k ORDER BY k) FROM t GROUP BY g');
SELECT same('SELECT g, array_agg(k ORDER BY k) FROM t WHERE k < 0 GROUP BY g');
SELECT same('SELECT g, array_agg(q.k ORDER BY q.k) FROM (SELECT g, k, 1 + y AS z FROM t WHERE g IS NOT NULL) q GROUP BY g');
-- A column that EXISTS compares is in the same class as the one that is grouped by, but the query returns no such column.
CREATE TABLE o (id int, g int, x int);
INSERT INTO o SELECT i, i % 7, i % 40 FROM generate_series(1, 60) i;
SELECT shardfdw.create_reference_table('o');
ANALYZE o;
SELECT sorted('SELECT g, array_agg(x ORDER BY x) FROM t WHERE EXISTS (SELECT FROM o WHERE o.g = t.g) GROUP BY g');
SELECT sorted('SELECT g, array_agg(x ORDER BY x) FROM t WHERE EXISTS (SELECT FROM t i WHERE i.k = t.k AND i.g = t.g) GROUP BY g');
SELECT same('SELECT g, array_agg(x ORDER BY x) FROM t WHERE EXISTS (SELECT FROM o WHERE o.g = t.g) GROUP BY g');
SELECT same('SELECT g, array_agg(x ORDER BY x) FROM t WHERE EXISTS (SELECT FROM o WHERE t.g = o.g) GROUP BY g');
SELECT same('SELECT x, array_agg(g ORDER BY g, k) FROM t WHERE x IN (SELECT x FROM o) GROUP BY x');
SELECT same('SELECT array_agg(x ORDER BY x, k) FROM t WHERE EXISTS (SELECT FROM o WHERE o.x = t.x AND o.g = t.g)');
SELECT same('SELECT g, array_agg(x ORDER BY x, k) FROM t WHERE EXISTS (SELECT FROM t i WHERE i.k = t.k AND i.g = t.g AND i.x = t.x) GROUP BY g');
SELECT same('SELECT g, array_agg(x ORDER BY x) FROM t WHERE NOT EXISTS (SELECT FROM o WHERE o.g = t.g AND o.x = t.x) GROUP BY g');
SELECT same('SELECT t.g, array_agg(u.x ORDER BY u.x) FROM t JOIN t u ON u.k = t.k AND u.g = t.g WHERE EXISTS (SELECT FROM o WHERE o.g = u.g AND EXISTS (SELECT FROM o i WHERE i.g = o.g AND i.x = o.x)) GROUP BY t.g');
SELECT same('SELECT u.g, array_agg(t.k ORDER BY t.k) FROM t LEFT JOIN (SELECT * FROM t i WHERE EXISTS (SELECT FROM o WHERE o.g = i.g)) u ON u.k = t.k AND u.y > 2 GROUP BY u.g');
SELECT same('SELECT g, array_agg(DISTINCT x) FROM t WHERE g IN (SELECT g FROM o WHERE o.x IN (SELECT x FROM o i WHERE i.g = 3)) GROUP BY g');
SELECT shardfdw.unshard_table('o');
DROP SCHEMA sa CASCADE;
