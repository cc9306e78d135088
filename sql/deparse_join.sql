-- SQL of remote joins: what is sent to nodes, and that it gives the rows of plain tables. Names, literals and
-- columns are as odd as they can be.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA dj;
CREATE SCHEMA dj_plain;
SET search_path = dj;
SET shardfdw.query_per_node = off;
\pset format unaligned
\pset tuples_only on

-- What a query in the schema dj sends, and which joins are left to the coordinator; then whether its rows are those
-- of the tables in dj_plain, and how many.
CREATE FUNCTION dj.walk(plan json) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	child json;
BEGIN
	IF plan ->> 'Remote SQL' IS NOT NULL THEN
		RETURN NEXT plan ->> 'Remote SQL';
	ELSIF plan ->> 'Node Type' LIKE '%Join%' OR plan ->> 'Node Type' LIKE '%Loop%' THEN
		RETURN NEXT plan ->> 'Node Type';
	END IF;
	FOR child IN SELECT * FROM json_array_elements(COALESCE(plan -> 'Plans', '[]')) LOOP
		RETURN QUERY SELECT * FROM dj.walk(child);
	END LOOP;
END $$;
CREATE FUNCTION dj.rows_of(query text, schema text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('search_path', schema, true);
	RETURN QUERY EXECUTE 'SELECT q::text FROM (' || query || ') q';
END $$;
CREATE FUNCTION dj.remote(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) ' || query INTO plan;
	RETURN QUERY SELECT * FROM dj.walk(plan -> 0 -> 'Plan');
END $$;
CREATE FUNCTION dj.test(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	here text[];
	there text[];
BEGIN
	RETURN QUERY SELECT * FROM dj.remote(query);
	SELECT array_agg(r ORDER BY r COLLATE "C") INTO here FROM dj.rows_of(query, 'dj') r;
	SELECT array_agg(r ORDER BY r COLLATE "C") INTO there FROM dj.rows_of(query, 'dj_plain') r;
	RETURN NEXT CASE WHEN here IS NOT DISTINCT FROM there THEN 'same: ' ELSE 'DIFFERENT: ' END ||
		COALESCE(array_length(here, 1), 0) || ' rows';
	PERFORM set_config('search_path', 'dj', true);
END $$;

CREATE TABLE a (gone1 int, k int, v text, gone2 int, n numeric(10,2), d timestamptz, arr int[]);
ALTER TABLE a DROP COLUMN gone1, DROP COLUMN gone2;
CREATE TABLE b (bk int, k int, w text, x bigint);
CREATE TABLE c (k int, z text COLLATE "C");
CREATE TABLE "Odd ""r1"" -- $1" (k int, "select" text, "a""b" text, "r1" int, "c1" int, "$1" int);
CREATE TABLE r (id int PRIMARY KEY, name text, region text);
INSERT INTO a SELECT i, CASE WHEN i % 7 = 0 THEN NULL ELSE 'v' || i % 5 END, i * 1.25,
	timestamptz '2024-01-01 UTC' + i * interval '7 hours', ARRAY[i, i + 1] FROM generate_series(1, 60) i;
INSERT INTO b SELECT i, CASE WHEN i % 9 = 0 THEN NULL ELSE i % 45 END, CASE WHEN i % 4 = 0 THEN NULL ELSE 'w' || i % 6 END,
	i % 10 FROM generate_series(1, 120) i;
INSERT INTO c SELECT i * 2, 'z' || i % 3 FROM generate_series(1, 40) i;
INSERT INTO "Odd ""r1"" -- $1" SELECT i, CASE WHEN i % 3 = 0 THEN NULL ELSE 'it''s $1 -- "r1" \ ' || i % 4 END,
	'q"' || i, i % 5, i % 3, i % 2 FROM generate_series(1, 50) i;
INSERT INTO r SELECT i, 'name' || i, CASE WHEN i % 3 = 0 THEN NULL ELSE 'reg' || i % 2 END FROM generate_series(0, 9) i;
SELECT format('CREATE TABLE dj_plain.%1$I AS TABLE dj.%1$I', relname) FROM pg_class
WHERE relnamespace = 'dj'::regnamespace AND relkind = 'r' ORDER BY relname
\gexec
SELECT shardfdw.shard_table('a', 'k', 6);
SELECT shardfdw.shard_table(t, 'k', colocate_with => 'a') FROM unnest(ARRAY['b', 'c', '"Odd ""r1"" -- $1"']::regclass[]) t;
SELECT shardfdw.create_reference_table('r');

-- Joins are the nodes' wherever they can be.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_nestloop = off;
SET shardfdw.enable_key_join = off;

-- Conditions: WHERE, ON, or a sub-select below a full join.
SELECT dj.test($$SELECT a.k, a.v, b.bk, b.w FROM a JOIN b ON a.k = b.k WHERE a.v = 'v1' AND b.x > 3 AND a.n > b.x$$);
SELECT dj.test($$SELECT a.k, b.bk FROM a LEFT JOIN b ON a.k = b.k AND b.w = 'w1' AND a.n > 2 WHERE a.v IS NOT NULL$$);
SELECT dj.test($$SELECT a.k, b.bk, c.z FROM a LEFT JOIN (b JOIN c ON b.k = c.k) ON a.k = b.k AND b.x < 5$$);
SELECT dj.test($$SELECT a.k, b.bk, c.z FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON c.k = b.k WHERE b.w IS NULL$$);
SELECT dj.test($$SELECT a.k, b.bk FROM a RIGHT JOIN b ON a.k = b.k AND a.v = 'v2' WHERE b.x = 5$$);
SELECT dj.test($$SELECT a.k, b.bk FROM a FULL JOIN b ON a.k = b.k$$);
SELECT dj.test($$SELECT a.k, b.bk, b.w FROM (SELECT * FROM a WHERE v = 'v1') a FULL JOIN (SELECT * FROM b WHERE x > 4) b ON a.k = b.k$$);
SELECT dj.test($$SELECT a.k, b.bk, c.z FROM (SELECT * FROM a WHERE v = 'v1') a FULL JOIN (SELECT * FROM b WHERE x > 4) b ON a.k = b.k
	FULL JOIN (SELECT * FROM c WHERE z = 'z1') c ON c.k = a.k$$);
SELECT dj.test($$SELECT k, a1.v, a2.n FROM a a1 FULL JOIN a a2 USING (k) FULL JOIN c USING (k)$$);
SELECT dj.test($$SELECT k, v, z FROM a NATURAL JOIN c$$);

-- EXISTS.
SELECT dj.test($$SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.x > 8 AND b.w > a.v)$$);
SELECT dj.test($$SELECT a.k FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.x > 8)$$);
SELECT dj.test($$SELECT a.k FROM a WHERE a.k IN (SELECT b.k FROM b JOIN c ON b.k = c.k WHERE b.x > 2)$$);
SELECT dj.test($$SELECT a.k, b.bk FROM a LEFT JOIN (SELECT * FROM b WHERE EXISTS (SELECT 1 FROM c WHERE c.k = b.k AND c.z = 'z1')) b ON b.k = a.k$$);
SELECT dj.test($$SELECT a.k, b.bk FROM a FULL JOIN (SELECT * FROM b WHERE EXISTS (SELECT 1 FROM c WHERE c.k = b.k AND c.z = 'z1')) b ON b.k = a.k$$);
SELECT dj.test($$SELECT a.k, b.bk FROM a LEFT JOIN b ON a.k = b.k AND NOT EXISTS (SELECT 1 FROM c WHERE c.k = b.k AND c.z = b.w COLLATE "C")$$);
SELECT dj.test($$SELECT a.k, b.* FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL$$);
SELECT dj.test($$SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM a a2 WHERE a2.k = a.k AND NOT EXISTS (SELECT 1 FROM a a3 WHERE a3.k = a2.k AND a3.n > 9))$$);

-- Reference tables.
SELECT dj.test($$SELECT a.k, r.name FROM a JOIN r ON r.id > a.k % 10 WHERE r.region = 'reg1'$$);
SELECT dj.test($$SELECT a.k, r.name FROM a LEFT JOIN r ON r.id > a.k AND r.region = 'reg1'$$);
SELECT dj.test($$SELECT a.k FROM a WHERE NOT EXISTS (SELECT FROM r WHERE r.id = a.k AND r.region IS NULL)$$);

-- Odd names and literals, one table twice, whole rows.
SELECT dj.test($$SELECT o.k, o."select", o."a""b", o."r1", o."c1", o."$1", a.k FROM a JOIN "Odd ""r1"" -- $1" o ON o.k = a.k
	WHERE o."select" = 'it''s $1 -- "r1" \ 1' OR o."$1" = 1 AND o."a""b" <> E'dj.a_00 r1 \\ ''$1'$$);
SELECT dj.test($$SELECT r1.k, r2.k, r1."select" FROM "Odd ""r1"" -- $1" r1 FULL JOIN "Odd ""r1"" -- $1" r2 ON r1.k = r2.k AND r1."c1" = r2."$1"$$);
SELECT dj.test($$SELECT a, o FROM a LEFT JOIN "Odd ""r1"" -- $1" o ON o.k = a.k AND o."select" = 'it''s $1 -- "r1" \ 1'$$);
SELECT dj.test($$SELECT a1.k, a2.v, a2.n FROM a a1 JOIN a a2 ON a1.k = a2.k AND a1.d <= a2.d$$);

-- Expressions.
SELECT dj.test($$SELECT a.k, b.bk FROM a LEFT JOIN b ON a.k = b.k AND b.bk = ANY (ARRAY[1, 2, a.k]) AND (a.arr)[1] < b.x
	AND CASE b.x WHEN 1 THEN true WHEN 2 THEN a.n > 3 ELSE coalesce(b.w, a.v) = 'w1' END$$);
SELECT dj.test($$SELECT a.k FROM a JOIN b ON a.k = b.k AND extract(day FROM a.d AT TIME ZONE 'UTC') > b.x AND a.d::date > '2024-01-02'
	AND to_tsvector('english', a.v) @@ to_tsquery('simple', 'v1 | v2') AND (a.k, b.x) > (3, 2) AND b.w IS DISTINCT FROM a.v$$);
SELECT dj.test($$SELECT a.k, c.z FROM a JOIN c ON a.k = c.k AND c.z > a.v COLLATE "C"$$);

-- Groups, order and bounds over joins.
SELECT dj.test($$SELECT o."c1", count(*), sum(a.k), min(o."select") FROM a JOIN "Odd ""r1"" -- $1" o USING (k) GROUP BY 1$$);
SELECT dj.test($$SELECT a.k, count(b.bk), sum(a.n) FROM a LEFT JOIN b USING (k) GROUP BY 1 HAVING count(b.bk) > 1$$);
SELECT dj.test($$SELECT a.k, (a.n)::text n FROM a JOIN c USING (k) ORDER BY a.n DESC, a.k LIMIT 7$$);
SELECT dj.test($$SELECT o."r1" AS k, o.k AS "r1" FROM a JOIN "Odd ""r1"" -- $1" o USING (k) ORDER BY o."r1", o.k DESC NULLS LAST LIMIT 3$$);

-- Parameters in every place.
SET plan_cache_mode = force_generic_plan;
PREPARE p(text, int, numeric, text[], bigint) AS
SELECT a.k, b.bk, count(*) FILTER (WHERE a.v = $1), sum(a.n + $3) FROM a LEFT JOIN b ON a.k = b.k AND b.w <> $1 AND b.w <> ALL ($4)
WHERE a.k > $2 AND EXISTS (SELECT 1 FROM c WHERE c.k = a.k AND c.z <> $1 COLLATE "C" AND c.k <> $2 + 1)
GROUP BY a.k, b.bk HAVING count(*) > $2 - 3 AND sum(a.n + $3) > $3 ORDER BY a.k + $2 DESC, b.bk LIMIT $5;
SELECT dj.remote($$EXECUTE p('v1', 3, 1.5, '{w2}', 4)$$);
EXECUTE p('v1', 3, 1.5, '{w2}', 4);
SET search_path = dj_plain;
EXECUTE p('v1', 3, 1.5, '{w2}', 4);
SET search_path = dj;
DEALLOCATE p;
DROP SCHEMA dj_plain CASCADE;
DROP SCHEMA dj CASCADE;
