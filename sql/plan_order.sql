-- ORDER BY, LIMIT and DISTINCT: what the nodes compute of them, and that the results are right.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA por;
SET search_path = por;

\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set f :srcdir '/sql/plan/walk.sql'
\i :f
\set ECHO all

CREATE FUNCTION por.same(query text) RETURNS TABLE (side text, "row" text) LANGUAGE plpgsql AS $$
DECLARE
	plain text := regexp_replace(query, '\mt\M', 'l', 'g');
BEGIN
	RETURN QUERY EXECUTE format('WITH p AS MATERIALIZED (SELECT x::text AS r FROM (%1$s) x), q AS MATERIALIZED (SELECT x::text AS r FROM (%2$s) x)
		(SELECT ''plain'', r FROM (TABLE p EXCEPT ALL TABLE q) a) UNION ALL (SELECT ''sharded'', r FROM (TABLE q EXCEPT ALL TABLE p) b) ORDER BY 1, 2', plain, query);
END $$;

-- the same rows in the same order
CREATE FUNCTION por.same_order(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	plain text[];
	sharded text[];
BEGIN
	EXECUTE format('SELECT array_agg(x::text) FROM (%s) x', regexp_replace(query, '\mt\M', 'l', 'g')) INTO plain;
	EXECUTE format('SELECT array_agg(x::text) FROM (%s) x', query) INTO sharded;
	RETURN plain IS NOT DISTINCT FROM sharded;
END $$;

CREATE TABLE l (k bigint, g int, i int, n numeric, f float8, c text COLLATE "C", s text, d date, v interval, b bool, a int[], j jsonb, ic text);
INSERT INTO l SELECT x, x % 5, (x * 37) % 101, (x % 23) * 1.10, x / 4.0, 'c' || x % 17, 's' || x % 13, date '2024-01-01' + x % 50, (x % 30) * interval '1 day', x % 2 = 0, ARRAY[x % 3, x],
	to_jsonb(x % 4), chr(65 + x % 26 + 32 * (x % 2)) FROM generate_series(1, 600) x;
INSERT INTO l (k) SELECT x FROM generate_series(601, 610) x;
INSERT INTO l SELECT x, 9, 9, 'NaN', 'Infinity', '', '' FROM generate_series(611, 613) x;
CREATE TABLE t (LIKE l);
SELECT shardfdw.shard_table('t', 'k', 4);
INSERT INTO t SELECT * FROM l;
ANALYZE t;
CREATE TABLE one (LIKE l);
SELECT shardfdw.shard_table('one', 'k', 1);
INSERT INTO one SELECT * FROM l;
CREATE TABLE none (LIKE l);
SELECT shardfdw.shard_table('none', 'k', 3);

-- sorted streams, merged
SELECT plan('SELECT k, g FROM t ORDER BY g, k DESC');
SELECT plan('SELECT k FROM t ORDER BY n DESC NULLS LAST, c, k');
SELECT plan('SELECT k + 1 AS x FROM t WHERE i > 3 ORDER BY i % 10, d, v, b, f, k + 1');
SELECT plan('SELECT k FROM t ORDER BY c COLLATE "POSIX", a');
SELECT plan('SELECT random() > 2 AS r, k FROM t ORDER BY k');
SELECT plan('SELECT k FROM one ORDER BY g, k');
-- the order here is not surely that of the nodes, or cannot be known there
SELECT plan('SELECT k FROM t ORDER BY j');
SELECT plan('SELECT k FROM t ORDER BY random()');
SELECT plan('SELECT k FROM t ORDER BY to_char(d, ''YYYY'')');
SELECT plan('SELECT k FROM t WHERE random() >= 0 ORDER BY k');
SELECT plan('SELECT generate_series(1, 2), k FROM t ORDER BY k LIMIT 3');
-- constants order nothing (an integer would be a column's position)
SELECT plan('SELECT k FROM t ORDER BY ''x''::text, k');
SELECT plan('SELECT 1 AS x, k FROM t ORDER BY x');
SELECT plan('SELECT x FROM (SELECT 1 AS x, k FROM t UNION ALL SELECT 2, k FROM t) u ORDER BY x, k');
SELECT plan('SELECT k FROM t ORDER BY now(), k LIMIT 2');

-- LIMIT is a bound for each node
SELECT plan('SELECT k FROM t LIMIT 5');
SELECT plan('SELECT k FROM t OFFSET 3 LIMIT 5');
SELECT plan('SELECT k FROM t ORDER BY k DESC LIMIT 5');
SELECT plan('SELECT k FROM t ORDER BY k OFFSET 3');
SELECT plan('SELECT k FROM t ORDER BY k LIMIT NULL');
SELECT plan('SELECT k FROM t ORDER BY k LIMIT 9223372036854775807 OFFSET 1');
SELECT plan('SELECT k FROM t ORDER BY k LIMIT (SELECT count(*) FROM l WHERE k < 4)');
SELECT plan('SELECT k FROM t ORDER BY k LIMIT (random() * 3)::int');
SELECT plan('SELECT k FROM t ORDER BY i FETCH FIRST 2 ROWS WITH TIES');
SELECT plan('SELECT k FROM t WHERE random() >= 0 LIMIT 5');
SELECT plan('SELECT k, sum(n) FROM t GROUP BY k ORDER BY sum(n) DESC, k LIMIT 3');
SELECT plan('SELECT k, sum(n) FROM t GROUP BY k HAVING sum(n) > random() - 1 ORDER BY k LIMIT 3');
SELECT plan('SELECT g, sum(i) FROM t GROUP BY g ORDER BY sum(i) DESC LIMIT 3');
SELECT plan('SELECT (SELECT t.k FROM t WHERE t.g = l.g ORDER BY t.k LIMIT 1) FROM l');
SELECT plan('SELECT * FROM (SELECT k FROM t ORDER BY k LIMIT 3) x UNION ALL (SELECT k FROM t ORDER BY k DESC LIMIT 2)');

-- DISTINCT: whole with the key, else in part
SELECT plan('SELECT DISTINCT k, g FROM t');
SELECT plan('SELECT DISTINCT k % 7 AS x, k FROM t ORDER BY x, k LIMIT 3');
SELECT bool_or(line LIKE '%GROUP BY g') AS in_part, bool_or(line !~ 'Foreign') AS rest_here FROM plan('SELECT DISTINCT g FROM t') line;
SELECT bool_or(line LIKE '%GROUP BY (i % 7)%') AS in_part FROM plan('SELECT DISTINCT i % 7, g FROM t') line;
SELECT plan('SELECT DISTINCT ON (g) g, k, n FROM t ORDER BY g, i, k');
SELECT plan('SELECT DISTINCT ON (k) k, n FROM t ORDER BY k, n DESC LIMIT 2');
SELECT plan('SELECT DISTINCT ON (c) c, k FROM one ORDER BY c, k');
SELECT plan('SELECT DISTINCT k, count(*) FROM t GROUP BY k ORDER BY 2 DESC, 1 LIMIT 3');
SELECT bool_or(line LIKE '%DISTINCT%') AS on_nodes FROM plan('SELECT DISTINCT count(*) FROM t GROUP BY g') line;
SELECT bool_or(line LIKE '%GROUP BY%') AS on_nodes FROM plan('SELECT DISTINCT random() > 2, g FROM t') line;
SELECT bool_or(line LIKE '%GROUP BY%') AS on_nodes FROM plan('SELECT DISTINCT k, g FROM t FETCH FIRST 2 ROWS ONLY') line;
SET shardfdw.enable_partial_aggregate = off;
SELECT bool_or(line LIKE '%GROUP BY%') AS on_nodes FROM plan('SELECT DISTINCT g FROM t') line;
RESET shardfdw.enable_partial_aggregate;

-- the same rows
SELECT same_order('SELECT k, g FROM t ORDER BY g, k DESC');
SELECT same_order('SELECT k FROM t ORDER BY g NULLS FIRST, k');
SELECT same_order('SELECT k FROM t ORDER BY g DESC NULLS LAST, k');
SELECT same_order('SELECT k FROM t ORDER BY g DESC, i NULLS FIRST, n DESC NULLS LAST, k');
SELECT same_order('SELECT k FROM t ORDER BY n, k');
SELECT same_order('SELECT k FROM t ORDER BY f DESC, k');
-- columns of expressions that nodes sort by do not travel, unless something else needs them
SELECT plan('SELECT k FROM t ORDER BY i % 10, k LIMIT 3');
SELECT plan('SELECT k, i % 10 + 1 AS x FROM t ORDER BY i % 10, k LIMIT 3');
SELECT plan('SELECT i % 10 AS x FROM t ORDER BY x');
SELECT same_order('SELECT k FROM t ORDER BY i % 10, k LIMIT 3');
SELECT same_order('SELECT k, i % 10 + 1 AS x FROM t ORDER BY i % 10, k LIMIT 3');
SELECT same_order('SELECT k, i, i % 10 AS x, -(i % 10) AS y FROM t ORDER BY x DESC NULLS LAST, k');
SELECT same_order('SELECT t FROM t ORDER BY i % 10, k');
SELECT same_order('SELECT t.k, row_number() OVER (ORDER BY t.i % 10, t.k) FROM t ORDER BY t.i % 10, t.k LIMIT 20');
SELECT same_order('SELECT * FROM (SELECT k, i % 10 AS x FROM t ORDER BY i % 10, k LIMIT 30) s WHERE x > 2');
SELECT same_order('SELECT k FROM t ORDER BY c, k');
SELECT same_order('SELECT k FROM t ORDER BY s, k');
SELECT same_order('SELECT k FROM t ORDER BY s DESC, c, k');
SELECT same_order('SELECT k FROM t ORDER BY d, v DESC, k');
SELECT same_order('SELECT k FROM t ORDER BY a DESC, k');
SELECT same_order('SELECT k FROM t ORDER BY b, j, k');
SELECT same_order('SELECT k FROM t ORDER BY ic, k');
SELECT same_order('SELECT k FROM t ORDER BY ic COLLATE "C", k');
SELECT same_order('SELECT g FROM t ORDER BY g');
SELECT same_order('SELECT k, n * 2 AS x FROM t ORDER BY x DESC NULLS LAST, k LIMIT 7 OFFSET 590');
SELECT same_order('SELECT k FROM t ORDER BY k LIMIT 0');
SELECT same_order('SELECT k FROM t ORDER BY k OFFSET 600');
SELECT same_order('SELECT k FROM t ORDER BY k LIMIT 5 OFFSET 611');
SELECT same_order('SELECT k FROM t ORDER BY k OFFSET 1000');
SELECT same_order('SELECT k FROM t ORDER BY k LIMIT 9223372036854775807 OFFSET 610');
SELECT same_order('SELECT k FROM t ORDER BY k LIMIT NULL OFFSET NULL');
SELECT same_order('SELECT k FROM t ORDER BY k LIMIT (SELECT count(*) FROM t WHERE k < 4)');
SELECT same_order('SELECT i FROM t ORDER BY i FETCH FIRST 3 ROWS WITH TIES');
SELECT same_order('SELECT k FROM t WHERE k = 17 ORDER BY g LIMIT 2');
SELECT same_order('SELECT k, sum(n) FROM t GROUP BY k ORDER BY sum(n) DESC, k LIMIT 3');
SELECT same_order('SELECT g, sum(i) FROM t GROUP BY g ORDER BY sum(i) DESC NULLS LAST, g LIMIT 3');
SELECT same_order('SELECT k, sum(n) FROM t GROUP BY k HAVING sum(n) > random() - 1 ORDER BY k LIMIT 3');
SELECT same_order('SELECT x.k, x.g FROM (VALUES (1), (2), (3)) v (g), LATERAL (SELECT t.k, t.g FROM t WHERE t.g = v.g ORDER BY t.k DESC LIMIT 2) x ORDER BY x.g, x.k');
SELECT same_order('SELECT DISTINCT g FROM t ORDER BY g');
SELECT same_order('SELECT DISTINCT g, i % 3 AS x FROM t ORDER BY x DESC, g LIMIT 4');
SELECT same_order('SELECT DISTINCT k % 7 AS x, k FROM t ORDER BY x, k LIMIT 3');
SELECT same_order('SELECT DISTINCT ON (g) g, k, n FROM t ORDER BY g, i, k');
SELECT same_order('SELECT DISTINCT ON (g) g, k FROM t ORDER BY g DESC, i DESC NULLS LAST, k');
SELECT same_order('SELECT DISTINCT ON (k) k, n FROM t ORDER BY k, n DESC LIMIT 2');
SELECT same_order('SELECT DISTINCT ON (g, b) g, b, k FROM t ORDER BY b, g, c, k');
SELECT same_order('SELECT DISTINCT ON (1, g) g, k FROM t ORDER BY g, k');
SELECT same_order('SELECT DISTINCT count(*) FROM t GROUP BY g ORDER BY 1');
SELECT same_order('SELECT DISTINCT count(*), min(g) FROM t GROUP BY i ORDER BY 1, 2');
SELECT same_order('SELECT DISTINCT g, count(*) FROM t GROUP BY g, b ORDER BY 1, 2');
SELECT same_order('SELECT DISTINCT k, count(*) FROM t GROUP BY k ORDER BY 2 DESC, 1 LIMIT 3');
SELECT same_order('SELECT DISTINCT ON (g) g, count(*) FROM t GROUP BY g, i ORDER BY g, count(*) DESC, i');
SELECT same_order('SELECT DISTINCT ON (count(*)) count(*), k FROM t GROUP BY k ORDER BY count(*), k');
SELECT same_order('SELECT DISTINCT count(*) + 1 AS x FROM t GROUP BY k, g ORDER BY x');
SELECT same_order('SELECT * FROM (SELECT k FROM t ORDER BY k LIMIT 3) x UNION ALL (SELECT k FROM t ORDER BY k DESC LIMIT 2)');
SELECT same_order('SELECT k FROM t WHERE g IN (SELECT g FROM t ORDER BY g DESC NULLS LAST LIMIT 4) ORDER BY k LIMIT 5');
SELECT same_order('SELECT EXISTS (SELECT FROM t WHERE i = 5 LIMIT 1), EXISTS (SELECT FROM t WHERE i = 500 LIMIT 1)');
SELECT same_order('WITH x AS (SELECT g, k FROM t ORDER BY k LIMIT 20) SELECT g, count(*) FROM x GROUP BY g ORDER BY g');
SELECT same_order('SELECT ARRAY(SELECT k FROM t ORDER BY k DESC LIMIT 3)');
SELECT * FROM same('SELECT DISTINCT g FROM t');
SELECT * FROM same('SELECT DISTINCT n FROM t');
SELECT * FROM same('SELECT DISTINCT a[1], j, b FROM t');
SELECT * FROM same('SELECT DISTINCT d, c FROM t');
SELECT * FROM same('SELECT DISTINCT ''x'' AS x FROM t');
SELECT * FROM same('SELECT DISTINCT now() > ''2000-01-01'' AS x, g FROM t');
SELECT * FROM same('SELECT DISTINCT s, ic FROM t');
SELECT * FROM same('SELECT DISTINCT g FROM t WHERE k < 0');
SELECT * FROM same('SELECT DISTINCT ON (g) g FROM t');
SELECT * FROM same('SELECT count(*) FROM (SELECT k FROM t LIMIT 7) x');
SELECT * FROM same('SELECT count(*) FROM (SELECT DISTINCT g, i FROM t LIMIT 7) x');
SELECT * FROM same('SELECT g FROM t UNION SELECT i FROM t');
SELECT * FROM same('SELECT g FROM t INTERSECT SELECT i FROM t');
SELECT * FROM same('SELECT i FROM t EXCEPT ALL SELECT g FROM t');
SELECT * FROM same('SELECT DISTINCT sum(i) OVER (PARTITION BY g) AS x FROM t');
-- none and one
SELECT k FROM none ORDER BY k LIMIT 3;
SELECT DISTINCT g FROM none ORDER BY g;
SELECT DISTINCT ON (g) g, k FROM one ORDER BY g, k DESC;
SELECT k FROM one ORDER BY n DESC NULLS LAST, k LIMIT 4;
-- prepared, with a generic plan; errors are core's
SET plan_cache_mode = force_generic_plan;
PREPARE p(int, int) AS SELECT k FROM t ORDER BY k DESC LIMIT $1 OFFSET $2;
SELECT plan('EXECUTE p(2, 1)');
EXECUTE p(2, 1);
EXECUTE p(NULL, 610);
EXECUTE p(2, NULL);
EXECUTE p(0, 0);
EXECUTE p(-1, 0);
EXECUTE p(1, -1);
PREPARE q(bigint, int) AS SELECT k FROM t WHERE g = $2 ORDER BY k LIMIT $1;
EXECUTE q(2, 3);
EXECUTE q(9223372036854775807, 9);
DEALLOCATE ALL;
RESET plan_cache_mode;
-- an order by aggregates or windows over the columns of one table is none of its scan
SET shardfdw.enable_shard_scan = off;
SET enable_nestloop = off;
SELECT max(a.g) FROM t a JOIN (SELECT DISTINCT g FROM t) b ON true ORDER BY 1;
SELECT max(a.g) OVER (), b.g FROM t a JOIN (SELECT DISTINCT g FROM t) b ON true ORDER BY 1, 2 LIMIT 1;
SELECT DISTINCT max(a.g) FROM t a JOIN (SELECT DISTINCT g FROM t) b ON true GROUP BY ();
RESET enable_nestloop;
RESET shardfdw.enable_shard_scan;
-- values are converted after LIMIT: a cast below a sort would be computed for each row
CREATE TABLE forms_l (k bigint, c char(12), p numeric(10, 2), v varchar(9), j jsonb, a point);
INSERT INTO forms_l SELECT x, 'c' || x % 7, x % 11 * 0.5, 'v' || x % 5, to_jsonb(x), point(x, 1) FROM generate_series(1, 200) x;
CREATE TABLE forms_t (LIKE forms_l);
SELECT shardfdw.shard_table('forms_t', 'k', 8);
INSERT INTO forms_t SELECT * FROM forms_l;
ANALYZE forms_t;
CREATE FUNCTION forms(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || replace(query, 'forms_?', 'forms_t') LOOP
		IF line ~ 'Remote SQL|Shards:' THEN RETURN NEXT btrim(line); END IF;
	END LOOP;
	EXECUTE format('SELECT array_agg(x::text) FROM (%s) x', replace(query, 'forms_?', 'forms_l')) INTO line;
	EXECUTE format('SELECT CASE WHEN array_agg(x::text)::text = $1 THEN ''same'' ELSE ''differs'' END FROM (%s) x',
		replace(query, 'forms_?', 'forms_t')) INTO line USING line;
	RETURN NEXT line;
END $$;
SELECT forms('SELECT k, c FROM forms_? ORDER BY k LIMIT 3');
SELECT forms('SELECT c, p, v, j FROM forms_? WHERE p > 1 ORDER BY c DESC, p, k LIMIT 5');
SELECT forms('SELECT a::text, v FROM forms_? ORDER BY v, k OFFSET 2 LIMIT 5');
SELECT forms('SELECT a FROM forms_? ORDER BY p DESC, k LIMIT 5');
SELECT forms('SELECT c || v AS x FROM forms_? ORDER BY v, k LIMIT 5');
SELECT forms('SELECT DISTINCT c, v FROM forms_? ORDER BY c, v LIMIT 5');
SELECT forms('SELECT DISTINCT ON (c) c, v FROM forms_? ORDER BY c, k LIMIT 5');
SELECT forms('SELECT x.c, y.p FROM forms_? x JOIN forms_? y USING (k) WHERE y.v = ''v2'' ORDER BY x.c, k LIMIT 5');
SELECT forms('SELECT c FROM forms_? WHERE k = 5 ORDER BY c LIMIT 1');
SET shardfdw.query_per_node = off;
SELECT forms('SELECT c, p, v, j FROM forms_? WHERE p > 1 ORDER BY c DESC, p, k LIMIT 5');
RESET shardfdw.query_per_node;
-- LIMIT, aggregates and windows above a sub-select that sorts: its order counts
SELECT same_order('SELECT * FROM (SELECT k, sum(n) AS s FROM t GROUP BY k ORDER BY sum(n) DESC, k) x LIMIT 3');
SELECT same_order('SELECT * FROM (SELECT k, sum(n) AS s FROM t GROUP BY k ORDER BY sum(n) DESC, k) x OFFSET 605');
SELECT same_order('SELECT * FROM (SELECT DISTINCT k, n FROM t ORDER BY n DESC, k) x LIMIT 3');
SELECT same_order('SELECT * FROM (SELECT k, row_number() OVER (PARTITION BY k) FROM t ORDER BY n DESC, k) x LIMIT 3');
SELECT same_order('SELECT array_agg(k) FROM (SELECT DISTINCT k, n FROM t ORDER BY n DESC, k) x');
SELECT same_order('SELECT DISTINCT ON (g) g, k FROM (SELECT DISTINCT g, k, n FROM t ORDER BY g, n DESC, k) x');
SELECT same_order('SELECT k, row_number() OVER () FROM (SELECT DISTINCT k, n FROM t ORDER BY n DESC, k) x');
SELECT same_order('SELECT y, (SELECT k FROM (SELECT k, sum(n) FROM t GROUP BY k ORDER BY sum(n) DESC, k) x LIMIT 1) FROM generate_series(1, 3) y');
SELECT same_order('SELECT * FROM (SELECT k, sum(n) AS s FROM t GROUP BY k ORDER BY sum(n) DESC, k) x JOIN (SELECT DISTINCT k, g FROM t) y USING (k) ORDER BY s, k LIMIT 3');
-- the same where something in another query level, or a program, takes the first rows
SELECT same_order('SELECT (ARRAY(SELECT k || ''!'' FROM (SELECT DISTINCT k, n FROM t ORDER BY n DESC, k) v))[1:3]');
SELECT same_order('WITH y AS MATERIALIZED (SELECT k + 1 AS k FROM (SELECT DISTINCT k, n FROM t ORDER BY n DESC, k) v) SELECT k FROM y LIMIT 1');
SELECT same_order('SELECT (array_agg(k))[1:3] FROM (SELECT k + 1 AS k, random() FROM (SELECT DISTINCT k, n FROM t ORDER BY n DESC, k) v) y');
SELECT same_order('SELECT k, row_number() OVER () FROM (SELECT k + 1 AS k FROM (SELECT DISTINCT k, n FROM t ORDER BY n DESC, k) v UNION ALL SELECT 7) y LIMIT 2');
SELECT same_order('SELECT * FROM (SELECT k + 1 AS k FROM (SELECT DISTINCT k, n FROM t ORDER BY n DESC, k) v WHERE n > 3) y');
-- cursors
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k FROM t ORDER BY k LIMIT 5;
FETCH 2 FROM c;
FETCH LAST FROM c;
FETCH PRIOR FROM c;
FETCH ABSOLUTE 1 FROM c;
DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT DISTINCT ON (g) g, k FROM t ORDER BY g, k;
COMMIT;
FETCH 2 FROM h;
FETCH BACKWARD 1 FROM h;
CLOSE h;
SET search_path = public;
DROP SCHEMA por CASCADE;
