-- Correlated sub-selects that compute aggregates over sharded tables: which become joins, and that the answers are the same.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA dc;
SET search_path = dc;

CREATE TABLE l (id int NOT NULL, a int, b bigint, t text, n numeric, d date, v varchar(20), z int);
INSERT INTO l SELECT i, i % 50, i % 7, 'k' || i % 40, i % 30, date '2024-01-01' + i % 60, 'v' || i % 20, i % 3 FROM generate_series(1, 2000) i;
INSERT INTO l (id, a) VALUES (2001, NULL), (2002, 1), (2003, 7), (2004, NULL), (2005, 60);
CREATE TABLE s (LIKE l);
SELECT shardfdw.shard_table('s', 'id', 4);
INSERT INTO s SELECT * FROM l;
CREATE TABLE o (k int, a int, b bigint, t text, n numeric, v varchar(20));
INSERT INTO o SELECT i * 3 % 20, i * 7 % 70, i % 7, 'k' || i * 5 % 60, i, 'v' || i FROM generate_series(1, 25) i;
INSERT INTO o (k, a, t) VALUES (NULL, 60, 'k1'), (5, NULL, NULL), (NULL, NULL, NULL), (-1, 60, 'none'), (5, 60, 'k1');
CREATE TABLE o2 AS SELECT * FROM o;
ANALYZE l, s, o, o2;
CREATE AGGREGATE dc.product(int) (SFUNC = int4mul, STYPE = int, INITCOND = 1);

-- How many sub-plans are left, and how many joins with a grouped sub-select there are.
CREATE FUNCTION dc.shape(query text, OUT subplans int, OUT groups int) LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	subplans := 0;
	groups := 0;
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
		IF line ~ '^ *SubPlan [0-9]+$|^ *SubPlan expr_' THEN subplans := subplans + 1; END IF;
		IF line ~ 'groups(_[0-9]+)?\.k1' AND line ~ 'Cond:' THEN groups := groups + 1; END IF;
	END LOOP;
END $$;
-- Compares a query over s with the same one over l, and with the one over s that is left as it stands.
CREATE FUNCTION dc.compare(query text, OUT subplans int, OUT groups int, OUT nrows bigint, OUT differences bigint) LANGUAGE plpgsql AS $$
DECLARE
	plain text := regexp_replace(query, '\ms (\w+)', 'l \1', 'g');
	as_is bigint;
BEGIN
	SELECT x.subplans, x.groups FROM dc.shape(query) x INTO subplans, groups;
	EXECUTE format('CREATE TEMP TABLE r1 AS SELECT q::text AS r FROM (%s) q', query);
	EXECUTE format('CREATE TEMP TABLE r2 AS SELECT q::text AS r FROM (%s) q', plain);
	SET shardfdw.enable_decorrelation = off;
	EXECUTE format('CREATE TEMP TABLE r3 AS SELECT q::text AS r FROM (%s) q', query);
	SET shardfdw.enable_decorrelation = on;
	SELECT count(*) FROM r1 INTO nrows;
	SELECT count(*) FROM ((TABLE r1 EXCEPT ALL TABLE r2) UNION ALL (TABLE r2 EXCEPT ALL TABLE r1)) d INTO differences;
	SELECT count(*) FROM ((TABLE r1 EXCEPT ALL TABLE r3) UNION ALL (TABLE r3 EXCEPT ALL TABLE r1)) d INTO as_is;
	differences := differences + as_is;
	DROP TABLE r1, r2, r3;
END $$;

-- become joins
SELECT q, r.* FROM unnest(ARRAY[
	'SELECT o.*, (SELECT sum(i.n) FROM s i WHERE i.a = o.a) FROM o',
	'SELECT o.*, (SELECT count(*) FROM s i WHERE i.a = o.a) FROM o',
	'SELECT o.*, (SELECT count(i.n) + count(*) FROM s i WHERE i.a = o.a AND i.z = 1) FROM o',
	'SELECT o.*, (SELECT regr_count(i.n, i.z) FROM s i WHERE i.a = o.a) FROM o',
	'SELECT o.*, (SELECT COALESCE(sum(i.n), -1) FROM s i WHERE i.a = o.a) FROM o',
	'SELECT o.*, (SELECT sum(i.n) IS NULL FROM s i WHERE i.a = o.a) FROM o',
	'SELECT o.*, (SELECT count(*) FILTER (WHERE i.n > 20) FROM s i WHERE i.a = o.a) FROM o',
	'SELECT o.*, (SELECT 0.2 * avg(i.n) FROM s i WHERE o.a = i.a AND i.b = o.b) FROM o',
	'SELECT o.*, (SELECT max(i.n) + o.n FROM s i WHERE i.id = o.a) FROM o',
	'SELECT o.*, (SELECT string_agg(i.id::text, '','' ORDER BY i.id) FROM s i WHERE i.a = o.a) FROM o',
	'SELECT o.*, (SELECT array_agg(i.id ORDER BY i.id) FROM s i WHERE i.a = o.a) FROM o',
	'SELECT o.*, (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY i.z) FROM s i WHERE i.a = o.a) FROM o',
	'SELECT o.*, (SELECT count(DISTINCT i.b) FROM s i WHERE i.a = o.a) FROM o',
	'SELECT o.* FROM o WHERE o.n < (SELECT 0.5 * avg(i.n) FROM s i WHERE i.a = o.a)',
	'SELECT o.* FROM o WHERE o.k > 3 AND (SELECT count(*) FROM s i WHERE i.a = o.a) = 0',
	'SELECT o.* FROM o WHERE o.k > 3 OR (SELECT count(*) FROM s i WHERE i.a = o.a) = 0',
	'SELECT o.* FROM o WHERE (SELECT sum(i.n) FROM s i WHERE i.a = o.a) IS NOT NULL',
	'SELECT CASE WHEN o.k > 3 THEN (SELECT sum(i.n) FROM s i WHERE i.a = o.a AND i.z < 2) END FROM o',
	'SELECT o.k, count(*) FROM o WHERE o.b <= (SELECT max(i.b) FROM s i WHERE i.t = o.t) GROUP BY o.k',
	'SELECT o.k, (SELECT count(*) FROM s i WHERE i.v = o.v), (SELECT count(*) FROM s i WHERE i.a = o.b) FROM o',
	'SELECT o.k, (SELECT count(*) FROM s i WHERE i.a + 1 = o.k * 2) FROM o',
	'SELECT o.k, p.k FROM o LEFT JOIN o2 p ON p.k = o.a WHERE COALESCE((SELECT sum(i.n) FROM s i WHERE i.a = p.k), 0) >= 0',
	'SELECT o.k, p.k FROM o JOIN o2 p USING (k) WHERE o.n > (SELECT min(i.n) FROM s i WHERE i.a = k)',
	'SELECT o.k, (SELECT sum(i.n) FROM s i JOIN o2 p ON p.k = i.z WHERE i.a = o.a) FROM o',
	'SELECT o.k, (SELECT sum(i.n) FROM s i LEFT JOIN s j ON j.id = i.id + 1 WHERE i.a = o.a AND j.id IS NOT NULL) FROM o',
	'SELECT o.k, (SELECT sum(i.n) FROM (SELECT * FROM s x WHERE x.z > 0) i WHERE i.a = o.a) FROM o',
	'SELECT o.k, (SELECT sum(i.n) FROM s i WHERE i.a = o.a AND i.b IN (SELECT b FROM o2 p)) FROM o',
	'SELECT * FROM o WHERE o.a IN (SELECT p.a FROM o2 p WHERE p.n > (SELECT 0.1 * sum(i.n) FROM s i WHERE i.a = p.a))',
	'SELECT (SELECT count(*) FROM o2 p WHERE p.n < (SELECT avg(i.n) FROM s i WHERE i.a = p.a) AND p.k = o.k) FROM o',
	'WITH q AS (SELECT o.k, (SELECT max(i.n) FROM s i WHERE i.a = o.a) AS m FROM o) SELECT q.m, count(*) FROM q GROUP BY q.m',
	'WITH q AS (SELECT * FROM s x WHERE x.z = 1) SELECT o.k, (SELECT count(*) FROM q i WHERE i.a = o.a) FROM o, (SELECT count(*) FROM q) r',
	'SELECT o.k, sum(o.n) OVER (PARTITION BY o.b) + (SELECT count(*) FROM s i WHERE i.a = o.a) FROM o',
	'SELECT DISTINCT (SELECT count(*) FROM s i WHERE i.a = o.a) FROM o ORDER BY 1 LIMIT 5',
	'SELECT o.k, sum((SELECT count(*) FROM s i WHERE i.a = o.a)) FROM o GROUP BY o.k',
	'SELECT o.k, max((SELECT sum(i.n) FROM s i WHERE i.a = o.a)) FILTER (WHERE o.n > 2) FROM o GROUP BY ROLLUP (o.k) HAVING sum((SELECT count(*) FROM s i WHERE i.a = o.a AND i.b = o.b)) >= 0',
	'SELECT i.id, i.n FROM s i WHERE i.id < 300 AND i.n > (SELECT 1.5 * avg(j.n) FROM s j WHERE j.a = i.a)',
	'SELECT i.id, (SELECT count(*) FROM s j WHERE j.id = i.id AND j.z = 1) FROM s i WHERE i.b = 3',
	'SELECT o.k, (SELECT i.n FROM s i WHERE i.id = o.k) FROM o',
	'SELECT o.k, (SELECT i.v FROM s i WHERE i.id = o.a AND i.z > 0), (SELECT i.t || ''x'' FROM s i WHERE i.id = o.a) FROM o',
	'SELECT o.k FROM o WHERE (SELECT i.d FROM s i WHERE i.id = o.k) < ''2024-01-10'' OR (SELECT i.n FROM s i WHERE i.id = o.k) IS NULL',
	'SELECT o.k, o.n = 1 AND EXISTS (SELECT 1 FROM s i WHERE i.a = o.a AND i.b = 2), EXISTS (SELECT * FROM s i WHERE i.a = o.k) FROM o',
	'SELECT o.k FROM o WHERE o.n < 3 OR EXISTS (SELECT 1 FROM s i WHERE i.a = o.a AND i.b = o.b)',
	'SELECT o.k FROM o WHERE o.n < 3 OR NOT EXISTS (SELECT 1 FROM s i WHERE i.a = o.a AND i.b = o.b)',
	'SELECT o.k, (SELECT sum(i.n) FROM s i WHERE i.a = o.a WINDOW w AS (ORDER BY sum(i.n))) FROM o',
	'SELECT o.k FROM o WHERE o.k > 1 UNION ALL SELECT (SELECT count(*) FROM s i WHERE i.a = o.a)::int FROM o'
]) WITH ORDINALITY AS queries(q, n), compare(q) r ORDER BY queries.n;

-- stay as they are
SELECT q, r.* FROM unnest(ARRAY[
	'SELECT o.k, (SELECT sum(i.n) FROM s i WHERE i.a < o.k AND i.id < 50) FROM o',
	'SELECT o.k, (SELECT sum(i.n) FROM s i WHERE i.a = o.k OR i.b = 100) FROM o',
	'SELECT o.k, (SELECT sum(i.n + o.k) FROM s i WHERE i.a = o.k) FROM o',
	'SELECT o.k, (SELECT sum(100 / i.n) FROM s i WHERE i.a = o.k AND i.n > 0) FROM o',
	'SELECT o.k, (SELECT rank(5) WITHIN GROUP (ORDER BY i.n) FROM s i WHERE i.a = o.k) FROM o',
	'SELECT o.k, (SELECT dc.product(i.z) FROM s i WHERE i.a = o.k AND i.id < 300) FROM o',
	'SELECT o.k, (SELECT count(*) FROM s i WHERE i.a = o.k HAVING count(*) > 1) FROM o',
	'SELECT o.k, (SELECT count(*) FROM s i WHERE i.a = o.k LIMIT 1) FROM o',
	'SELECT o.k, (SELECT count(*) FROM s i WHERE i.a = o.k GROUP BY i.a) FROM o',
	'SELECT o.k, (SELECT sum(count(*)) OVER () FROM s i WHERE i.a = o.k) FROM o',
	'SELECT o.k, (SELECT rank() OVER (ORDER BY count(*)) + count(*) FROM s i WHERE i.a = o.k) FROM o',
	'SELECT o.k, (SELECT count(i.n) OVER () FROM s i WHERE i.id = o.k) FROM o',
	'SELECT o.k, (SELECT ARRAY[i.n] FROM s i WHERE i.id = o.k) FROM o',
	'SELECT o.k, (SELECT 1 FROM s i WHERE i.id = o.k) FROM o',
	'SELECT o.k, CASE WHEN o.k < 0 THEN (SELECT sum(i.n) FROM s i WHERE i.a = o.k AND 1 / (i.id - 1) >= 0) END FROM o',
	'SELECT o.k, CASE WHEN o.k <> 3 THEN (SELECT sum(i.n) FROM s i WHERE i.a = 12 / (o.k - 3)) END FROM o',
	'SELECT o.k, count((SELECT sum(i.n) FROM s i WHERE i.a = o.k AND 1 / (i.id - 1) >= 0)) FILTER (WHERE o.k < 0) OVER (ORDER BY o.k) FROM o',
	'SELECT o.k, ROW (1, (SELECT sum(i.n) FROM s i WHERE i.a = o.k AND 1 / (i.id - 1) >= 0)) < ROW (o.k - 1000, 5) FROM o',
	'SELECT o.k, (nullif(ARRAY[o.k], ARRAY[o.k]))[(SELECT count(*) FROM s i WHERE i.a = o.k AND 1 / (i.id - 1) >= 0)::int] FROM o',
	'SELECT o.k, (SELECT sum(i.n) FROM s i WHERE i.a = o.k AND 1 / (i.id - 1) >= 0) = ANY (SELECT p.k FROM o2 p WHERE p.k < -1000) FROM o',
	'SELECT o.k, (SELECT count(*) FROM s i LEFT JOIN o2 p ON p.k = o.k WHERE i.a = o.k) FROM o',
	'SELECT o.k, (SELECT count(*) FROM s i, LATERAL (SELECT o.k + i.z AS y) y WHERE i.a = o.k AND y.y > 1) FROM o',
	'SELECT o.k, (SELECT (SELECT count(*) FROM s i WHERE i.a = o.k AND i.b = p.b) FROM o2 p LIMIT 1) FROM o',
	'SELECT o.k, (SELECT count(*) FROM s i WHERE i.a::text || '''' = o.k::text) FROM o',
	'SELECT o.k, (SELECT count(*) FROM s i FULL JOIN o2 p ON i.id = p.k OR i.z > p.k WHERE i.a = o.k) FROM o',
	'SELECT o.k, (SELECT count(*) FROM (SELECT i.a FROM s i FULL JOIN o2 p ON i.id = p.k OR i.z > p.k) x WHERE x.a = o.k) FROM o',
	'SELECT o.k, (SELECT count(*) FROM s i WHERE i.a = o.k) FROM o GROUP BY o.k',
	'SELECT o.k, (SELECT count(*) FROM o2 p WHERE p.a = o.a) FROM o'
]) WITH ORDINALITY AS queries(q, n), compare(q) r ORDER BY queries.n;

-- groups that nobody asks for do not fail
SELECT count((SELECT sum(1 / i.z) FROM s i WHERE i.id = o.k)) FROM o WHERE o.k IN (1, 2, 4);
-- more than one row where one is expected: only if an outer row meets them
SELECT count((SELECT i.n FROM s i WHERE i.a = o.k)) FROM o;
SELECT count((SELECT i.n FROM s i WHERE i.a = o.k)) FROM o WHERE o.k < 0;
SELECT count(CASE WHEN o.k < 0 THEN (SELECT i.n FROM s i WHERE i.a = o.k) END) FROM o;
CREATE TABLE types AS SELECT (SELECT i.v FROM s i WHERE i.id = o.k) AS v, (SELECT i.n FROM s i WHERE i.id = o.k) AS n FROM o;
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'types'::regclass AND attnum > 0;
-- one row, one group
CREATE FUNCTION dc.shards(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
		IF line ~ 'Shards:|Remote SQL:' THEN RETURN NEXT btrim(line); END IF;
	END LOOP;
END $$;
SELECT shards('SELECT o.k, (SELECT count(*) FROM s i WHERE i.id = o.k) FROM o WHERE o.k = 7');
-- other statements
CREATE TABLE r AS SELECT o.k, (SELECT count(*) FROM s i WHERE i.a = o.a) AS c FROM o;
INSERT INTO r SELECT o.k, (SELECT count(*) FROM l i WHERE i.a = o.a) FROM o;
SELECT count(*) FROM (SELECT k, c FROM r GROUP BY k, c HAVING count(*) % 2 = 1) x;
UPDATE r SET c = (SELECT count(*) FROM s i WHERE i.a = r.k) WHERE k = 5;
DELETE FROM r WHERE c < (SELECT count(*) FROM s i WHERE i.a = r.k);
SELECT count(*), sum(c) FROM r;
BEGIN;
SELECT count(*) FROM (SELECT k FROM o WHERE n > (SELECT avg(i.n) FROM s i WHERE i.a = o.a) FOR UPDATE) x;
ROLLBACK;
PREPARE p(int) AS SELECT o.k, (SELECT sum(i.n) FROM s i WHERE i.a = o.a AND i.z = $1) FROM o WHERE o.b = $1 ORDER BY 1, 2;
SET plan_cache_mode = force_generic_plan;
EXECUTE p(1);
EXECUTE p(2);
RESET plan_cache_mode;
CREATE VIEW w AS SELECT o.k, (SELECT sum(i.n) FROM s i WHERE i.a = o.a) AS m FROM o;
SELECT count(m), sum(m) FROM w WHERE k > 3;
SELECT pg_get_viewdef('w') LIKE '%groups%' AS changed;
SET search_path = public;
DROP SCHEMA dc CASCADE;
