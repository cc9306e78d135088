-- Parameters in every clause of remote queries: rows of prepared statements with generic plans, on sharded tables and
-- on plain ones, in the same order.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA dp;
CREATE SCHEMA dp_plain;
SET search_path = dp;
\pset format unaligned
\pset tuples_only on

CREATE FUNCTION dp.rows_of(query text, schema text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	r record;
	result text[] = '{}';
BEGIN
	PERFORM set_config('search_path', schema, true);
	FOR r IN EXECUTE query LOOP
		result := result || r::text;
	END LOOP;
	RETURN result;
EXCEPTION WHEN data_exception OR invalid_parameter_value OR syntax_error_or_access_rule_violation THEN
	RETURN ARRAY[sqlstate];
END $$;
-- Are the rows the same, how many (or which error); and the clauses that nodes have of the query, as far as asked for.
CREATE FUNCTION dp.test(query text, clauses text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found text = '';
	clause text;
	here text[];
	there text[];
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP
		CONTINUE WHEN line NOT LIKE '%Remote SQL%';
		FOREACH clause IN ARRAY string_to_array(clauses, ',') LOOP
			found := found || CASE WHEN line LIKE '%' || clause || '%' THEN ', ' || clause ELSE '' END;
		END LOOP;
	END LOOP;
	here := dp.rows_of(query, 'dp');
	there := dp.rows_of(query, 'dp_plain');
	PERFORM set_config('search_path', 'dp', true);
	RETURN CASE WHEN here = there THEN 'same: ' ELSE 'DIFFERENT: ' || here::text || ' ' || there::text || ' ' END ||
		COALESCE(CASE WHEN here[1] ~ '^[0-9A-Z]{5}$' THEN 'error ' || here[1] END, cardinality(here) || ' rows') || found;
END $$;

CREATE TABLE a (k int, v text, n numeric(10,2), d timestamptz, arr int[]);
CREATE TABLE b (bk int, k int, w text, x bigint);
CREATE TABLE c (k int, z text COLLATE "C");
INSERT INTO a SELECT i, CASE WHEN i % 7 = 0 THEN NULL ELSE 'v' || i % 5 END, i * 1.25,
	timestamptz '2024-01-01 UTC' + i * interval '7 hours', ARRAY[i, i + 1] FROM generate_series(1, 60) i;
INSERT INTO b SELECT i, CASE WHEN i % 9 = 0 THEN NULL ELSE i % 45 END, CASE WHEN i % 4 = 0 THEN NULL ELSE 'w' || i % 6 END,
	i % 10 FROM generate_series(1, 120) i;
INSERT INTO c SELECT i * 2, 'z' || i % 3 FROM generate_series(1, 40) i;
CREATE TABLE dp_plain.a AS TABLE a;
CREATE TABLE dp_plain.b AS TABLE b;
CREATE TABLE dp_plain.c AS TABLE c;
SELECT shardfdw.shard_table('a', 'k', 6);
SELECT shardfdw.shard_table(t, 'k', colocate_with => 'a') FROM unnest('{b,c}'::regclass[]) t;
SET plan_cache_mode = force_generic_plan;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_nestloop = off;
SET shardfdw.enable_key_join = off;

-- CASE and COALESCE: what is not to be evaluated is not.
PREPARE q1(int, int) AS
SELECT a.k, CASE WHEN b.x > $1 THEN b.w ELSE 'p' || $2::text END, CASE WHEN $1 = 0 THEN 1 ELSE a.k / $1 END
FROM a LEFT JOIN b ON a.k = b.k AND CASE WHEN $1 > 0 THEN b.x % $1 = 0 ELSE b.x > $2 END
WHERE coalesce(a.n, $2) > $1 ORDER BY a.k, b.bk LIMIT $2;
SELECT dp.test('EXECUTE q1(3, 5)', 'LEFT JOIN,CASE,COALESCE,ORDER BY,LIMIT');
SELECT dp.test('EXECUTE q1(0, 2)', '');
SELECT dp.test('EXECUTE q1(0, NULL)', '');
SELECT dp.test('EXECUTE q1(1, -1)', '');

-- The same expression with a parameter, grouped by, returned, tested and ordered by.
PREPARE q2(int, numeric) AS
SELECT a.k, a.k % $1 AS m, count(*) FILTER (WHERE a.n > $2), sum(a.k % $1 + $2) FROM a JOIN c USING (k)
GROUP BY a.k, a.k % $1 HAVING max(a.k % $1) >= $2 ORDER BY a.k % $1 DESC, a.k LIMIT coalesce($1, 3) OFFSET $1 - 4;
SELECT dp.test('EXECUTE q2(5, 1.5)', 'GROUP BY,FILTER,HAVING,ORDER BY,LIMIT');
SELECT dp.test('EXECUTE q2(7, 0)', '');
SELECT dp.test('EXECUTE q2(0, 0)', '');

-- Windows.
PREPARE q3(int, bigint) AS
SELECT k, bk, sum(x) OVER (PARTITION BY k, bk % $1 ORDER BY bk + $1 ROWS $2 PRECEDING),
	lag(w, $1, $1::text) OVER (PARTITION BY k ORDER BY bk),
	count(*) OVER (PARTITION BY k ORDER BY x RANGE BETWEEN $2 PRECEDING AND $2 + 1 FOLLOWING EXCLUDE TIES)
FROM b ORDER BY 1, 2 LIMIT 20;
SELECT dp.test('EXECUTE q3(3, 1)', 'OVER,PRECEDING,EXCLUDE TIES');
SELECT dp.test('EXECUTE q3(2, 0)', '');
SELECT dp.test('EXECUTE q3(2, -1)', '');
PREPARE q4(int, bigint) AS
SELECT * FROM (SELECT k, bk, w, rank() OVER (PARTITION BY k ORDER BY bk DESC) AS r FROM b) s WHERE r <= $2 AND k > $1 ORDER BY 1, 2;
SELECT dp.test('EXECUTE q4(3, 2)', 'OVER,WHERE');

-- DISTINCT.
PREPARE q5(int) AS SELECT DISTINCT ON (k, bk % $1) k, bk % $1 AS k2, x FROM b ORDER BY k, bk % $1 DESC, x, bk;
SELECT dp.test('EXECUTE q5(2)', 'DISTINCT ON,ORDER BY');
PREPARE q6(int) AS SELECT DISTINCT a.k, $1 + 1, 'x', a.k % $1 FROM a JOIN c USING (k) WHERE a.k < 12 ORDER BY 1;
SELECT dp.test('EXECUTE q6(3)', 'GROUP BY');
PREPARE q7(int) AS SELECT DISTINCT a.k, count(*) + $1, max(a.k + $1) FROM a JOIN b USING (k) GROUP BY a.k, b.x % $1 ORDER BY 1, 2;
SELECT dp.test('EXECUTE q7(3)', 'GROUP BY');

-- Arrays, rows, sub-selects, collations, times.
PREPARE q8(int, int[]) AS
SELECT a.k, b.bk FROM a JOIN b ON a.k = b.k
WHERE a.arr = ARRAY[$1, $1 + 1] OR $1 = ANY (a.arr) OR a.arr && $2 OR a.k = ANY ($2) OR (a.k, b.bk) = ($1, $1) ORDER BY 1, 2;
SELECT dp.test('EXECUTE q8(7, ''{11,12}'')', 'JOIN,ANY');
SELECT dp.test('EXECUTE q8(NULL, ''{3,NULL}'')', '');
PREPARE q9(numeric) AS
SELECT a.k, count(*) FROM a LEFT JOIN b ON a.k = b.k AND b.x > (SELECT avg(x) FROM b) WHERE a.n > (SELECT avg(n) + $1 FROM a)
GROUP BY 1 HAVING sum(b.x) > (SELECT min(x) FROM b) ORDER BY 1;
SELECT dp.test('EXECUTE q9(1.5)', 'LEFT JOIN,HAVING');
PREPARE q10(text) AS
SELECT a.k, b.w FROM a JOIN b ON a.k = b.k WHERE b.w = $1 COLLATE "C" OR b.w > $1 OR a.v LIKE $1 || '%' OR length($1) > 5 ORDER BY 1, b.bk;
SELECT dp.test('EXECUTE q10(''w3'')', 'COLLATE,~~,ORDER BY');
SELECT dp.test('EXECUTE q10($q$it''s "r1" $1 -- \$q$)', '');
SET timezone = 'Asia/Tokyo';
SET datestyle = 'SQL, DMY';
PREPARE q11(timestamptz, interval) AS
SELECT a.k, a.d::date FROM a JOIN c USING (k) WHERE a.d + $2 > $1 AND a.d < now() AND date_trunc('day', a.d) <> $1 ORDER BY 1;
SELECT dp.test('EXECUTE q11(''2024-01-05 03:00+02'', ''1 day 2 hours'')', 'date_trunc,JOIN,ORDER BY');
PREPARE q12(int) AS
SELECT a.k, (SELECT count(*) FROM b WHERE b.k = a.k AND b.x > $1) FROM a
WHERE a.k IN (SELECT c.k FROM c JOIN b USING (k) WHERE b.x > $1 AND c.k <> $1 + 1) ORDER BY 1;
SELECT dp.test('EXECUTE q12(3)', 'EXISTS');

-- Nothing but parameters.
PREPARE q13(int) AS SELECT $1 AS g, count(*) FROM a JOIN c USING (k) GROUP BY 1;
SELECT dp.test('EXECUTE q13(3)', 'GROUP BY');
PREPARE q14(int) AS SELECT a.k, $1 AS o FROM a JOIN c USING (k) ORDER BY $1, a.k LIMIT 3;
SELECT dp.test('EXECUTE q14(3)', 'ORDER BY,LIMIT');
DEALLOCATE ALL;
DROP SCHEMA dp_plain CASCADE;
DROP SCHEMA dp CASCADE;
