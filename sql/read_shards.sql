-- Reading shards: windows of streams, rescans, early ends, partial states of sum and avg, what EXPLAIN shows.
SET client_min_messages = warning;
SET shardfdw.enable_router = off;  -- statements on one shard are planned here, too
CREATE SCHEMA read_test;
SET search_path = read_test;
SET extra_float_digits = 1;

-- many more shards than connections: every row once, however many streams are in flight
CREATE TABLE many (id int, v int);
INSERT INTO many SELECT i, i % 10 FROM generate_series(1, 2000) i;
CREATE TABLE many_plain AS TABLE many;
SELECT shardfdw.shard_table('many', 'id', 40);
CREATE TABLE modes (connections int, shard_scan bool, copy_fetch bool);
INSERT INTO modes SELECT c, s, f FROM unnest('{1,2,8}'::int[]) c, unnest('{t,f}'::bool[]) s, unnest('{t,f}'::bool[]) f;
CREATE FUNCTION in_modes(query text) RETURNS TABLE (answer text, modes bigint) LANGUAGE plpgsql AS $$
DECLARE
	m read_test.modes;
	answers text[] = '{}';
BEGIN
	FOR m IN SELECT * FROM read_test.modes LOOP
		PERFORM set_config('shardfdw.max_connections_per_node', m.connections::text, true),
			set_config('shardfdw.enable_shard_scan', m.shard_scan::text, true),
			set_config('shardfdw.enable_copy_fetch', m.copy_fetch::text, true);
		EXECUTE query INTO answer;
		answers := answers || answer;
	END LOOP;
	RETURN QUERY SELECT a, count(*) FROM unnest(answers) a GROUP BY a ORDER BY a;
END
$$;
SELECT * FROM in_modes('SELECT concat_ws('','', count(*), count(DISTINCT id), sum(id), sum(v)) FROM many');
SELECT concat_ws(',', count(*), count(DISTINCT id), sum(id), sum(v)) FROM many_plain;
SELECT * FROM in_modes('SELECT count(*) FROM (SELECT * FROM many LIMIT 7) x');
SELECT * FROM in_modes('SELECT count(*) FROM (SELECT * FROM many EXCEPT SELECT * FROM many_plain) x');

-- R1: rescans that begin before the scan before has ended, with other parameters, over asynchronous children too
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT * FROM in_modes($$
	SELECT concat_ws(',', count(*), sum(m.id), count(*) FILTER (WHERE m.id % 50 = p.id))
	FROM (SELECT id FROM many_plain WHERE id < 5) p,
		LATERAL (SELECT id FROM many WHERE id % 50 = p.id AND id < 50 LIMIT 1) m$$);
SELECT * FROM in_modes($$
	SELECT concat_ws(',', count(*), sum(m.id))
	FROM (SELECT id FROM many_plain WHERE id < 5) p,
		LATERAL (SELECT id FROM many WHERE id = p.id + 1) m$$);
-- both sides read the same nodes, the outer one stands still meanwhile
SELECT * FROM in_modes($$
	SELECT concat_ws(',', count(*), sum(b.v))
	FROM (SELECT * FROM many WHERE id % 400 = 3) a,
		LATERAL (SELECT * FROM many WHERE v = a.v AND id < 40) b$$);
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
RESET enable_memoize;

-- a hashed sub-select in the scans of all shards, of another value at each rescan; its plan is one for all of them
SELECT * FROM in_modes($$
	SELECT string_agg(v::text, ',' ORDER BY i) FROM (SELECT o.i,
		(SELECT sum(m.v) FROM many m WHERE m.v NOT IN (SELECT p.v FROM many_plain p WHERE p.id = o.i)) AS v
		FROM generate_series(1, 5) o (i)) x$$);
SELECT string_agg(v::text, ',' ORDER BY i) FROM (SELECT o.i,
	(SELECT sum(m.v) FROM many_plain m WHERE m.v NOT IN (SELECT p.v FROM many_plain p WHERE p.id = o.i)) AS v
	FROM generate_series(1, 5) o (i)) x;

-- cursors whose streams are put aside while others read
BEGIN;
SET LOCAL shardfdw.max_connections_per_node = 1;
DECLARE c CURSOR FOR SELECT id FROM many ORDER BY id;
FETCH 2 FROM c;
DECLARE d CURSOR FOR SELECT id FROM many;
MOVE 500 IN d;
SELECT count(*) FROM many;
MOVE FORWARD ALL IN d;
SAVEPOINT s;
\set VERBOSITY terse
SELECT 1 / (id - id) FROM many;
\set VERBOSITY default
ROLLBACK TO s;
FETCH 2 FROM c;
COMMIT;

-- Partial states from counts and sums: the same digits as of a plain table.
CREATE TABLE sums (id int, k int, b bigint, n numeric, i interval);
INSERT INTO sums
SELECT g, g % 9, CASE WHEN g % 9 = 8 THEN NULL ELSE (g * 7919 % 1000 - 500) * 9223372036854775::bigint END,
	CASE g % 9 WHEN 0 THEN round(g * 1.37, g % 5) WHEN 1 THEN -g * 1e30 WHEN 2 THEN g * 1e-20 WHEN 3 THEN 0.000
		WHEN 4 THEN CASE WHEN g % 7 = 0 THEN 'NaN'::numeric ELSE g END WHEN 5 THEN CASE WHEN g % 7 = 0 THEN 'Infinity'::numeric ELSE g END
		WHEN 6 THEN CASE WHEN g % 7 = 0 THEN '-Infinity'::numeric WHEN g % 11 = 0 THEN 'Infinity' ELSE g END
		WHEN 7 THEN CASE WHEN g % 2 = 0 THEN NULL ELSE 10000::numeric END END,
	CASE WHEN g % 5 > 0 THEN make_interval(months => g % 13 - 6, days => -g, secs => g * 1.1) END
FROM generate_series(1, 900) g;
INSERT INTO sums VALUES (901, 10, 9223372036854775807, 1e1000), (902, 10, 9223372036854775807, 1e-1000), (903, 10, 9223372036854775807, NULL),
	(904, 11, -9223372036854775808, -0.0), (905, 11, -9223372036854775808, 0.00000);
CREATE TABLE sums_plain AS TABLE sums;
SELECT shardfdw.shard_table('sums', 'id', 5);
EXPLAIN (COSTS OFF) SELECT k, sum(n), avg(b) FROM sums GROUP BY k;
-- numeric values that are equal may print differently, so their text is compared
SELECT k, a, p FROM (SELECT k, concat_ws(' ', sum(n), avg(n), sum(b), avg(b), sum(i), avg(i)) a FROM sums GROUP BY k) s
	FULL JOIN (SELECT k, concat_ws(' ', sum(n), avg(n), sum(b), avg(b), sum(i), avg(i)) p FROM sums_plain GROUP BY k) q USING (k)
WHERE a IS DISTINCT FROM p;
SELECT k, sum(n), sum(b) FROM sums WHERE k IN (3, 4, 5, 6, 8, 11) GROUP BY k ORDER BY k;
SELECT sum(n), avg(b), sum(i) FROM sums WHERE id < 0;

-- EXPLAIN: every property in every format, nothing remote without ANALYZE
EXPLAIN (COSTS OFF) SELECT * FROM sums WHERE id = 5;
CREATE FUNCTION explained(query text, options text) RETURNS TABLE (property text, value text) LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE format('EXPLAIN (COSTS OFF, FORMAT JSON%s) %s', options, query) INTO plan;
	RETURN QUERY
	SELECT e.key, CASE WHEN e.key = 'Bytes Received' THEN (e.value::text::int > 0)::text ELSE e.value::text END
	FROM jsonb_path_query(plan, 'strict $.** ? (@."Remote SQL" starts with "")') scan, jsonb_each(scan) e
	WHERE e.key IN ('Relations', 'Shards', 'Shards Total', 'Node', 'Nodes', 'Remote SQL', 'Rows Received', 'Bytes Received', 'Connections')
	ORDER BY scan->'Relation Name', e.key;
END
$$;
SELECT * FROM explained('SELECT count(*) FROM sums', '');
SELECT * FROM explained('SELECT count(*) FROM sums', ', ANALYZE');
SELECT * FROM explained('SELECT id FROM sums WHERE id IN (5, 6, 7)', ', ANALYZE');
SELECT * FROM explained('SELECT id FROM sums WHERE id = 5 FOR UPDATE', '');
PREPARE by_id(int) AS SELECT k FROM sums WHERE id = $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_id(5);
EXECUTE by_id(5);
EXECUTE by_id(NULL);
RESET plan_cache_mode;

-- system columns of a shard
SELECT ctid IS NOT NULL AS ctid, tableoid::regclass::text LIKE 'sums%' AS tableoid, xmin <> '0' AS xmin FROM sums WHERE id = 5;
-- a column that has another type on the node, as long in bytes, is converted, not misread
CREATE FOREIGN TABLE misfit (id bigint) SERVER node1 OPTIONS (schema_name 'public', table_name 'misfit');
SELECT bool_and(ok) AS ok FROM shardfdw.run_on_nodes('CREATE TABLE public.misfit AS SELECT 1::float8 AS id');
SELECT id FROM misfit;
DROP FOREIGN TABLE misfit;
SELECT bool_and(ok) AS ok FROM shardfdw.run_on_nodes('DROP TABLE public.misfit');

-- floating-point numbers in values that travel as text: what extra_float_digits rounds is print
CREATE TYPE measure AS (a float8, b float4[]);
CREATE TYPE span AS RANGE (subtype = float8);
CREATE TABLE measured (id int PRIMARY KEY, m measure, s span, n int);
SELECT shardfdw.shard_table('measured', 'id', shards => 2) \g /dev/null
INSERT INTO measured SELECT g, ROW(1 / 3.0, ARRAY[1 / 3.0])::measure, span(1 / 3.0, 2 / 3.0) FROM generate_series(1, 6) g;
CREATE TEMP TABLE exact AS SELECT ROW(1 / 3.0, ARRAY[1 / 3.0])::measure AS em, span(1 / 3.0, 2 / 3.0) AS es;
SET extra_float_digits = -10;
SELECT count(*), bool_and(m = em AND s = es) AS exact, min((m).a::text) AS printed FROM measured, exact;
SELECT m = em AND s = es AS exact, (m).a FROM measured, exact WHERE id = 1;
UPDATE measured SET m = x.m, s = x.s FROM (SELECT * FROM measured WHERE random() < 2 OFFSET 0) x WHERE x.id = measured.id;
UPDATE measured SET n = 1 WHERE id = 2 RETURNING m = (SELECT em FROM exact) AS exact, m;
DELETE FROM measured WHERE id > 5 RETURNING s = (SELECT es FROM exact) AS exact, s;
WITH i AS (INSERT INTO measured (id) VALUES (3), (7) ON CONFLICT (id) DO UPDATE SET n = 2 RETURNING id, m)
SELECT id, m = em AS exact FROM i, exact ORDER BY id;
INSERT INTO measured (id) VALUES (4) ON CONFLICT (id) DO UPDATE SET n = (random() * 0)::int RETURNING m = (SELECT em FROM exact) AS exact;
SELECT id, (1 / 3.0::float8)::text FROM measured WHERE (id / 3.0)::float8::text = '0.33333';
SET extra_float_digits = 1;
SELECT DISTINCT m, s FROM measured WHERE id < 6;

-- rows that could not be put aside are lost, and said to be so, when the error is caught and the query reads on
CREATE TABLE aside (k int, pad text);
SELECT shardfdw.shard_table('aside', 'k', shards => 4) \g /dev/null
INSERT INTO aside SELECT i, repeat('x', 1000) FROM generate_series(1, 12000) i;
SET shardfdw.max_connections_per_node = 1;
SET work_mem = '64kB';
SET temp_file_limit = '1MB';
SELECT shardfdw.disconnect() \g /dev/null
DO $$
DECLARE
	r record;
	n int := 0;
	failed int := 0;
BEGIN
	FOR r IN SELECT k, pad FROM read_test.aside LOOP
		n := n + 1;
		IF n = 2000 THEN
			BEGIN
				PERFORM count(*) FROM read_test.aside WHERE k < 100;
			EXCEPTION WHEN configuration_limit_exceeded THEN
				SET temp_file_limit = -1;
				failed := failed + 1;
			END;
		END IF;
	END LOOP;
	RAISE WARNING '% rows, % failures', n, failed;
END$$;
-- nor when only the last of them could not, as the file is about to be read
CREATE TABLE aside_one (k int, pad text);
SELECT shardfdw.shard_table('aside_one', 'k', shards => 1) \g /dev/null
INSERT INTO aside_one SELECT i, repeat('x', 1000) FROM generate_series(1, 1300) i;
SET temp_file_limit = '1288kB';  -- 161 blocks of the 1297 rows' 1320346 bytes
SELECT shardfdw.disconnect() \g /dev/null
BEGIN;
DECLARE c CURSOR FOR SELECT k, pad FROM aside_one;
FETCH 3 FROM c \g /dev/null
SAVEPOINT s;
\set VERBOSITY sqlstate
SELECT count(*) FROM aside_one WHERE k < 100;
\set VERBOSITY default
ROLLBACK TO s;
SET temp_file_limit = -1;
MOVE FORWARD ALL FROM c;
COMMIT;
RESET shardfdw.max_connections_per_node;
RESET work_mem;
RESET temp_file_limit;

SET client_min_messages = error;
SELECT shardfdw.unshard_table('aside');
SELECT shardfdw.unshard_table('aside_one');
SELECT shardfdw.unshard_table('many');
SELECT shardfdw.unshard_table('sums');
SELECT shardfdw.unshard_table('measured');
DROP SCHEMA read_test CASCADE;
