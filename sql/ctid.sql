-- A ctid names a row of a table with several shards only together with tableoid or the shard key: other comparisons
-- are errors, since they would hit rows of other shards.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA ci;
SET search_path = ci;
CREATE TABLE b (k int PRIMARY KEY, v int);
CREATE TABLE two (a int, c int, v int, PRIMARY KEY (a, c)) PARTITION BY HASH (a, c);
CREATE TABLE one (k int PRIMARY KEY, v int);
CREATE TABLE plain (k int PRIMARY KEY, v int, t tid);
SELECT shardfdw.shard_table('b', 'k', shards => 4) \g /dev/null
SELECT shardfdw.create_shard('two', ('two_' || r)::name, format('WITH (MODULUS 3, REMAINDER %s)', r), ('node' || r + 1)::name) FROM generate_series(0, 2) r \g /dev/null
SELECT shardfdw.shard_table('one', 'k', shards => 1) \g /dev/null
INSERT INTO b SELECT i, i FROM generate_series(1, 40) i;
INSERT INTO two SELECT i, i % 3, i FROM generate_series(1, 40) i;
INSERT INTO one SELECT i, i FROM generate_series(1, 40) i;
INSERT INTO plain SELECT i, i, format('(0,%s)', i)::tid FROM generate_series(1, 40) i;
CREATE VIEW placed AS SELECT ctid::text AS c, k FROM b;

-- What a statement does, without doing it: the number of rows, or the error.
CREATE FUNCTION tried(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	m bigint := 0;
	whole boolean;
BEGIN
	FOREACH whole IN ARRAY '{true,false}'::boolean[] LOOP
		PERFORM set_config('shardfdw.enable_router', whole::text, true), set_config('shardfdw.enable_statement_push', whole::text, true);
		BEGIN
			EXECUTE statement;
			GET DIAGNOSTICS n = ROW_COUNT;
			RAISE EXCEPTION USING ERRCODE = 'triggered_action_exception';
		EXCEPTION
			WHEN triggered_action_exception THEN NULL;
			WHEN feature_not_supported THEN
				IF whole THEN CONTINUE; END IF;
				RETURN SQLERRM;
		END;
		IF NOT whole AND m <> 0 AND m <> n THEN RETURN format('%s and %s', m, n); END IF;
		m := n;
	END LOOP;
	RETURN n;
END $$;
\pset format unaligned
\pset tuples_only on

-- refused
SELECT s, tried(s) FROM unnest(ARRAY[
	'DELETE FROM b WHERE ctid = ANY (ARRAY(SELECT ctid FROM b WHERE v <= 10 ORDER BY v LIMIT 5))',
	'DELETE FROM b WHERE ctid IN (SELECT ctid FROM b WHERE v <= 10)',
	'DELETE FROM b WHERE ctid NOT IN (SELECT min(ctid) FROM b GROUP BY v)',
	'WITH x AS (SELECT ctid AS c FROM b WHERE v <= 10 FOR UPDATE) UPDATE b SET v = 0 FROM x WHERE b.ctid = x.c',
	'UPDATE b SET v = 0 WHERE ctid = ''(0,1)''',
	'UPDATE b SET v = 0 WHERE ctid::text = ''(0,1)''',
	'SELECT * FROM b WHERE ctid = ''(0,1)'' AND v = 5',
	'SELECT * FROM b WHERE ctid = ''(0,1)'' OR k = 5',
	'SELECT * FROM b WHERE ctid BETWEEN ''(0,1)'' AND ''(0,4)'' FOR UPDATE',
	'SELECT * FROM b WHERE tideq(ctid, ''(0,1)'')',
	'SELECT ctid = ''(0,1)'' FROM b',
	'SELECT CASE ctid WHEN ''(0,1)'' THEN 1 END FROM b',
	'SELECT * FROM b x JOIN b y ON x.ctid = y.ctid',
	'SELECT * FROM b x LEFT JOIN b y ON x.k = 5 AND y.ctid IS DISTINCT FROM x.ctid',
	'SELECT * FROM b x JOIN b y ON x.ctid < y.ctid AND x.v = y.v',
	'SELECT * FROM b x LEFT JOIN plain p ON x.k = p.k WHERE x.ctid = p.t',
	'SELECT * FROM b x JOIN plain p ON x.ctid = p.t',
	'SELECT * FROM b x WHERE EXISTS (SELECT 1 FROM b y WHERE y.v = x.v AND y.ctid < x.ctid)',
	'SELECT * FROM b x WHERE ctid <> (SELECT min(y.ctid) FROM b y WHERE y.k = x.k)',
	'SELECT * FROM (SELECT ctid c FROM b) x JOIN (SELECT ctid c FROM b) y USING (c)',
	'WITH x AS MATERIALIZED (SELECT ctid AS c FROM b) SELECT * FROM x, x AS y WHERE x.c = y.c',
	'SELECT ctid, count(*) FROM b GROUP BY ctid',
	'SELECT count(*) FROM b GROUP BY v HAVING min(ctid) > ''(0,1)''',
	'SELECT DISTINCT ctid FROM b',
	'SELECT count(DISTINCT ctid) FROM b',
	'SELECT row_number() OVER (PARTITION BY ctid) FROM b',
	'SELECT ctid FROM b UNION SELECT ctid FROM b',
	'SELECT ctid FROM b EXCEPT SELECT ctid FROM b WHERE v < 5',
	'DELETE FROM two WHERE a = 5 AND ctid = ''(0,1)''',
	'MERGE INTO b USING (SELECT ctid c FROM b WHERE v < 5) s ON b.ctid = s.c WHEN MATCHED THEN DELETE',
	'DELETE FROM b WHERE k = 5 OR (v = 4 AND ctid = ''(0,1)'')',
	'DELETE FROM b WHERE k IN (5, 6) AND ctid > ''(0,0)''',
	-- the other side is of several shards, or of another one
	'DELETE FROM b WHERE k = 1 AND ctid IN (SELECT ctid FROM b WHERE v = 3)',
	'SELECT * FROM b WHERE k = 1 AND ctid = (SELECT ctid FROM b WHERE k = 2)',
	'SELECT min(ctid) FROM b',
	-- a key that is another one for each row
	'SELECT * FROM b JOIN plain USING (k) WHERE b.ctid = ''(0,1)''',
	'SELECT * FROM plain p WHERE EXISTS (SELECT 1 FROM b WHERE b.k = p.k AND b.ctid = ''(0,1)'')',
	'SELECT * FROM b WHERE k = (random() * 10)::int AND ctid = ''(0,1)''',
	'SELECT DISTINCT b.ctid FROM b JOIN plain USING (k)',
	'SELECT b.ctid, count(*) FROM b JOIN plain USING (k) GROUP BY b.ctid',
	-- functions and aggregates, of which nobody knows what they compare
	'SELECT count(*) FROM b WHERE array_position(ARRAY(SELECT ctid FROM b WHERE k = 1), ctid) IS NOT NULL',
	'DELETE FROM b WHERE array_position(ARRAY(SELECT ctid FROM b ORDER BY v LIMIT 5), ctid) IS NOT NULL',
	'SELECT jsonb_object_agg(ctid::text, k) FROM b',
	'SELECT string_agg(ctid::text, '','') FROM b',
	'SELECT hashtid(ctid) FROM b',
	'SELECT left(ctid::text, 2) FROM b',
	'SELECT coalesce(ctid, ''(0,0)'') FROM b',
	'SELECT CASE WHEN k > 1 THEN ctid END FROM b',
	'SELECT * FROM b x JOIN (SELECT row(ctid) r FROM b) y ON y.r = row(x.ctid)',
	'SELECT * FROM b x, LATERAL (VALUES (x.ctid)) y(c) WHERE y.c = ''(0,1)''',
	'SELECT * FROM b x, LATERAL unnest(ARRAY[x.ctid]) c WHERE c = ''(0,1)''',
	-- by way of views, sub-selects and WITH, as another type
	'SELECT count(*) FROM placed WHERE c = ''(0,1)''',
	'SELECT count(*) FROM placed a JOIN placed b USING (c)',
	'DELETE FROM b WHERE k IN (SELECT k FROM placed WHERE c = ''(0,1)'')',
	'SELECT DISTINCT c FROM placed',
	'SELECT c FROM placed GROUP BY c',
	'SELECT c FROM placed UNION SELECT c FROM placed',
	'SELECT c FROM placed EXCEPT SELECT c FROM placed',
	'SELECT rank() OVER (PARTITION BY c) FROM placed',
	'SELECT * FROM placed x WHERE EXISTS (SELECT 1 FROM placed y WHERE x.c = y.c)',
	'SELECT DISTINCT s FROM (SELECT ctid FROM b) s',
	'SELECT DISTINCT j FROM ((SELECT ctid FROM b) x CROSS JOIN (SELECT 1) l) j',
	'SELECT * FROM (SELECT ctid c FROM b UNION ALL SELECT ctid FROM b) s WHERE c = ''(0,1)''',
	'WITH x AS (SELECT ctid::text c FROM b) SELECT * FROM x WHERE c LIKE ''(0,%''',
	'WITH d AS (DELETE FROM b RETURNING ctid c) SELECT * FROM d WHERE c = ''(0,1)''',
	'WITH RECURSIVE r AS (SELECT ctid c, 1 n FROM b UNION ALL SELECT c, n + 1 FROM r WHERE n < 3) SELECT * FROM r WHERE c = ''(0,1)''',
	'WITH RECURSIVE r AS (SELECT ctid c, 1 n FROM b UNION ALL SELECT c, n + 1 FROM r WHERE n < 3 AND c = ''(0,1)'') SELECT * FROM r',
	'WITH RECURSIVE r(c, d) AS (SELECT NULL::tid, NULL::tid UNION ALL SELECT r.d, b.ctid FROM r, b WHERE r.c IS NULL AND r.c = ''(0,1)'') SELECT * FROM r',
	-- equal ones in an order are of several shards
	'SELECT dense_rank() OVER (ORDER BY ctid) FROM b',
	'SELECT count(*) OVER (PARTITION BY v % 2 ORDER BY ctid) FROM b',
	'SELECT sum(v) OVER (ORDER BY ctid ROWS UNBOUNDED PRECEDING EXCLUDE TIES) FROM b',
	'SELECT k FROM b ORDER BY ctid FETCH FIRST 1 ROW WITH TIES',
	-- grouping sets without the key
	'SELECT ctid, count(*) FROM b GROUP BY GROUPING SETS ((k), (ctid))',
	'SELECT k, ctid, count(*) FROM b GROUP BY CUBE (k, ctid)',
	'SELECT k, max(ctid) FROM b GROUP BY ROLLUP (k)',
	-- an oid that is not the table''s
	'SELECT ctid, v::oid FROM b UNION SELECT ctid, v::oid FROM b',
	'SELECT ctid, 1::oid FROM b EXCEPT SELECT t, 1::oid FROM plain',
	'SELECT x.ctid, x.tableoid, y.ctid FROM b x, b y EXCEPT SELECT x.ctid, x.tableoid, y.ctid FROM b x, b y',
	'SELECT x.ctid, y.tableoid FROM b x, b y INTERSECT SELECT x.ctid, y.tableoid FROM b x, b y',
	-- what is computed from one
	'SELECT * FROM (SELECT k, ctid c FROM b) x NATURAL FULL JOIN (SELECT k, ctid c FROM b) y WHERE c = ''(0,1)''',
	'SELECT DISTINCT (c).f1 FROM (SELECT row(ctid, k) c FROM b) s',
	'SELECT DISTINCT c FROM (SELECT (array_agg(ctid))[1] c FROM b GROUP BY k) s',
	'SELECT DISTINCT c FROM (SELECT lower(string_agg(ctid::text, '','')) c FROM b GROUP BY k) s',
	'SELECT c FROM (SELECT CASE WHEN k > 0 THEN max(ctid) END c FROM b GROUP BY k) s GROUP BY c',
	'SELECT c FROM (SELECT json_agg(ctid) ->> 0 c FROM b GROUP BY k) s GROUP BY c'
	]) s;

-- all queries of a set operation count, not only the first one that has a ctid
SELECT s, tried(s) FROM unnest(ARRAY[
	'DELETE FROM b WHERE k = 1 AND ctid IN (SELECT ctid FROM b WHERE k = 1 AND v = 0 UNION ALL SELECT ctid FROM b WHERE k > 1)',
	'DELETE FROM b WHERE k = 1 AND ctid IN (SELECT ctid FROM b WHERE k = 1 AND v = 0 UNION ALL SELECT ctid FROM b WHERE k = 2)',
	'UPDATE b SET v = 0 WHERE k = 1 AND ctid = ANY (ARRAY(SELECT ctid FROM b WHERE k = 1 UNION ALL SELECT ctid FROM b))',
	'DELETE FROM b USING (SELECT k, ctid c FROM b WHERE k = 1 UNION ALL SELECT k, ctid FROM b WHERE k > 1) d WHERE b.ctid = d.c AND b.k = 1',
	'WITH d AS MATERIALIZED (SELECT ctid c FROM b WHERE k = 1 UNION ALL SELECT ctid FROM b) SELECT * FROM b, d, d e WHERE b.ctid = e.c AND k = 1',
	'SELECT count(DISTINCT c) FROM (SELECT ctid c FROM b WHERE k = 1 UNION ALL SELECT ctid FROM b) x',
	'SELECT count(DISTINCT c) FROM (SELECT ctid c FROM plain UNION ALL SELECT ctid FROM b) x',
	'SELECT count(DISTINCT c) FROM (SELECT ctid c FROM one UNION ALL SELECT ctid FROM b) x',
	'SELECT c FROM (SELECT ctid c FROM plain UNION ALL (SELECT NULL UNION ALL (SELECT ctid FROM b WHERE k = 1 UNION ALL SELECT ctid FROM b))) x GROUP BY c',
	'WITH RECURSIVE r(c, k) AS (SELECT ctid, k FROM b WHERE k = 1 UNION ALL SELECT b.ctid, b.k FROM b JOIN r ON b.k = r.k + 1) SELECT count(DISTINCT c) FROM r',
	'WITH RECURSIVE r(c, k) AS (SELECT ctid, k FROM plain WHERE k = 1 UNION ALL SELECT s.c, s.k + 1 FROM (SELECT c, k FROM r UNION ALL SELECT ctid, 9 FROM b) s WHERE s.c = ''(0,1)'' AND s.k < 9) SELECT * FROM r',
	-- as do all columns of a row, of an expression and of an aggregate
	'SELECT count(DISTINCT s) FROM (SELECT x.ctid c, y.ctid d FROM b x, b y WHERE x.k = 1) s',
	'SELECT count(DISTINCT j) FROM ((SELECT ctid FROM b WHERE k = 1) x CROSS JOIN (SELECT ctid c FROM b) y) j',
	'SELECT count(DISTINCT c) FROM (SELECT greatest(x.c, y.c) c FROM (SELECT max(ctid) c FROM b WHERE k = 1) x, (SELECT ctid c FROM b) y) s',
	'SELECT count(DISTINCT s::text) FROM (SELECT json_object_agg(v % 2, ctid) s FROM b GROUP BY k) x',
	'SELECT k FROM b GROUP BY k HAVING json_object_agg(1, ctid)::text = ''{ "1" : "(0,1)" }''',
	'SELECT k FROM b GROUP BY k HAVING (array_agg(ctid))[1] = ''(0,1)''',
	'SELECT k FROM b GROUP BY k HAVING nullif(max(ctid), ''(0,1)'') IS NULL',
	'SELECT * FROM b WHERE (row(k, ctid)).f2 = ''(0,1)''',
	'SELECT * FROM b WHERE to_json(row(k, ctid)) ->> ''f2'' = ''(0,1)''',
	'SELECT * FROM b WHERE row(k, ctid)::text LIKE ''%(0,1)%''',
	'SELECT CASE x.ctid WHEN y.ctid THEN 1 END FROM b x, b y WHERE x.k = 1 AND y.k = 2'
	]) s;

-- with tableoid, or the shard key
SELECT s, tried(s) FROM unnest(ARRAY[
	'DELETE FROM b WHERE (tableoid, ctid) IN (SELECT tableoid, ctid FROM b WHERE v <= 10 ORDER BY v LIMIT 5)',
	'DELETE FROM b USING (SELECT tableoid AS t, ctid AS c FROM b WHERE v <= 10) x WHERE b.tableoid = x.t AND b.ctid = x.c',
	'DELETE FROM b WHERE k = 5 AND ctid = (SELECT ctid FROM b WHERE k = 5)',
	'DELETE FROM b WHERE k = 5 AND ctid = ''(77,1)''',
	'SELECT * FROM b WHERE tableoid = ''b_00''::regclass AND ctid = ''(0,1)''',
	'SELECT * FROM b WHERE tableoid::regclass::text = ''b_00'' AND ctid = ''(0,1)''',
	'SELECT * FROM b x JOIN b y ON x.k = y.k WHERE x.ctid = y.ctid',
	'DELETE FROM b x USING b y WHERE x.k = y.k AND x.ctid < y.ctid',
	'SELECT * FROM b x WHERE EXISTS (SELECT 1 FROM b y WHERE y.k = x.k AND y.ctid = x.ctid)',
	'SELECT * FROM b x JOIN plain p ON x.k = p.k AND x.ctid = p.t WHERE false',
	'SELECT tableoid, ctid, count(*) FROM b GROUP BY tableoid, ctid',
	'SELECT DISTINCT k, ctid FROM b',
	'SELECT count(DISTINCT (tableoid, ctid)) FROM b',
	'SELECT tableoid, ctid FROM b UNION SELECT tableoid, ctid FROM b',
	'SELECT v, tableoid t, ctid c FROM b UNION SELECT k, tableoid, t FROM plain INTERSECT SELECT v, tableoid, ctid FROM b',
	'SELECT k, tableoid, ctid, count(*) FROM b GROUP BY GROUPING SETS ((k, ctid), (tableoid, ctid))',
	'SELECT k, ctid, count(*) FROM b GROUP BY ROLLUP (k, ctid)',
	'SELECT k FROM b ORDER BY tableoid, ctid FETCH FIRST 1 ROW WITH TIES',
	'SELECT rank() OVER (ORDER BY k, ctid), count(*) OVER (PARTITION BY tableoid ORDER BY ctid) FROM b',
	'DELETE FROM two WHERE a = 5 AND c = 2 AND ctid > ''(0,0)''',
	'DELETE FROM b WHERE k = 5 OR (k = 4 AND ctid > ''(0,0)'')',
	'SELECT CASE ctid WHEN ''(77,1)'' THEN 1 WHEN ''(77,2)'' THEN 2 END FROM b WHERE k = 1',
	'SELECT k FROM b WHERE k = 1 GROUP BY k HAVING min(ctid) = (array_agg(''(77,1)''::tid ORDER BY v))[1]',
	'SELECT * FROM b WHERE row(tableoid, ctid) = ANY (ARRAY[row(''b_00''::regclass::oid, ''(0,1)''::tid)])',
	'DELETE FROM b USING unnest(ARRAY[1, 2], ARRAY[''(77,1)'', ''(77,1)'']::tid[]) u(k, c) WHERE b.k = u.k AND b.ctid = u.c',
	'SELECT c FROM (SELECT ctid c FROM b WHERE k = 1 UNION ALL SELECT ctid FROM b) s WHERE c IS NOT NULL ORDER BY c',
	-- one shard, no shard, no comparison
	'DELETE FROM one WHERE ctid = ANY (ARRAY(SELECT ctid FROM one WHERE v <= 10 ORDER BY v LIMIT 5))',
	'DELETE FROM one WHERE ctid = ''(0,1)''',
	'DELETE FROM one WHERE ctid IN (SELECT ctid FROM one WHERE v = 1 UNION ALL SELECT ctid FROM one WHERE v = 2) AND EXISTS (SELECT ctid FROM b)',
	'DELETE FROM plain WHERE ctid = ''(0,1)'' AND k IN (SELECT k FROM b)',
	'SELECT b.ctid FROM plain JOIN b USING (k) WHERE plain.ctid = ''(0,1)''',
	'SELECT k, ctid FROM b WHERE ctid IS NOT NULL ORDER BY ctid, k LIMIT 5',
	'SELECT count(ctid) FROM b HAVING count(ctid) > 5',
	'SELECT row_number() OVER w, lag(k) OVER w, sum(v) OVER (w ROWS UNBOUNDED PRECEDING) FROM b WINDOW w AS (PARTITION BY v % 2 ORDER BY ctid)',
	'SELECT DISTINCT a FROM (SELECT array_agg(k ORDER BY ctid) a, count(ctid) FROM b GROUP BY k) s',
	'WITH RECURSIVE r AS (SELECT ctid c, k FROM b WHERE k < 3 UNION ALL SELECT c, k + 2 FROM r WHERE k < 5) SELECT * FROM r',
	-- the same by way of views and sub-selects
	'SELECT c, k FROM placed WHERE c IS NOT NULL ORDER BY c',
	'SELECT k, c, count(*) FROM placed GROUP BY k, c',
	'SELECT * FROM placed WHERE k = 5 AND c > ''(0''',
	'SELECT * FROM placed x JOIN placed y USING (k) WHERE x.c = y.c',
	'SELECT * FROM placed x JOIN placed y USING (k, c)',
	'SELECT row(tableoid, ctid), to_json(ctid), (SELECT ctid FROM b WHERE k = 1), ARRAY(SELECT ctid FROM b) FROM b',
	'DELETE FROM b x USING (SELECT k, min(ctid) m FROM b GROUP BY k) y WHERE x.k = y.k AND x.ctid <> y.m',
	'DELETE FROM b WHERE (tableoid, ctid) IN (SELECT tableoid, ctid FROM (SELECT tableoid, ctid, row_number() OVER (PARTITION BY v % 20 ORDER BY ctid) n FROM b) s WHERE n > 1)',
	'WITH x AS (SELECT k, ctid c FROM b ORDER BY k LIMIT 4) DELETE FROM b USING x WHERE b.k = x.k AND b.ctid = x.c',
	'WITH d AS (DELETE FROM b WHERE v < 5 RETURNING tableoid, ctid, k) SELECT k, ctid FROM d'
	]) s;

-- WITH that is named twice at each of many levels
SELECT tried((SELECT 'WITH c0 AS (SELECT ctid c, k FROM b)' || string_agg(format(', c%s AS (SELECT c, k FROM c%2$s UNION ALL SELECT c, k FROM c%2$s WHERE false)', i, i - 1), '' ORDER BY i) || ' SELECT * FROM c30 WHERE k = 1' FROM generate_series(1, 30) i));

-- functions whose body core may put in the place of the call
CREATE FUNCTION at_ctid(tid) RETURNS SETOF b LANGUAGE sql STABLE AS 'SELECT * FROM ci.b WHERE ctid = $1';
CREATE FUNCTION at_key(int, tid) RETURNS SETOF b LANGUAGE sql STABLE AS 'SELECT * FROM ci.b WHERE k = $1 AND ctid = $2';
CREATE FUNCTION all_ctids() RETURNS TABLE (k int, c tid) LANGUAGE sql STABLE AS 'SELECT k, ctid FROM ci.b';
CREATE FUNCTION is_first(tid) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 = ''(0,1)''';
SELECT s, tried(s) FROM unnest(ARRAY[
	'SELECT * FROM at_ctid(''(0,1)'')',
	'SELECT * FROM b, at_ctid(''(0,1)'') x WHERE b.k = x.k',
	'SELECT * FROM b WHERE is_first(ctid)',
	'SELECT count(DISTINCT c), (SELECT count(ctid) FROM b) FROM all_ctids()',
	'SELECT * FROM all_ctids() x JOIN all_ctids() y USING (c) WHERE EXISTS (SELECT ctid FROM b)',
	'SELECT b.ctid, c FROM all_ctids() JOIN b USING (k) WHERE b.ctid = c',
	'SELECT * FROM at_key(5, ''(77,1)'')'
	]) s;


-- a tid that a function returns is of an unknown table
CREATE FUNCTION ctid_of(int) RETURNS tid LANGUAGE sql STABLE AS 'SELECT ctid FROM ci.b WHERE k = $1';
CREATE FUNCTION ctids_of(int) RETURNS TABLE (c tid) LANGUAGE plpgsql AS 'BEGIN RETURN QUERY SELECT ctid FROM ci.b WHERE k = $1; END';
SELECT s, tried(s) FROM unnest(ARRAY[
	'DELETE FROM b WHERE k = 1 AND ctid = ANY (ARRAY[ctid_of(2), ''(77,1)''])',
	'DELETE FROM b WHERE k = 1 AND ctid = (SELECT ctid_of(2))',
	'DELETE FROM b WHERE k = 1 AND ctid::text = ctid_of(2)::text',
	'DELETE FROM b USING ctid_of(2) c WHERE k = 1 AND ctid = c',
	'DELETE FROM b USING ctids_of(2) WHERE k = 1 AND ctid = c',
	'DELETE FROM b USING (VALUES (ctid_of(2))) x(c) WHERE k = 1 AND ctid = c',
	'WITH x AS (SELECT ctid_of(2) c UNION ALL SELECT NULL) DELETE FROM b USING x WHERE k = 1 AND ctid = c',
	'SELECT k, ctid_of(k), ctid FROM b WHERE ctid_of(k) IS NOT NULL'
	]) s;
DELETE FROM b WHERE k = 1 AND ctid = ctid_of(2);
-- PL/pgSQL variables are parameters
DO $$
DECLARE
	c tid := (SELECT ctid FROM ci.b WHERE k = 1);
BEGIN
	UPDATE ci.b SET v = v WHERE k = 1 AND ctid = c;
	IF NOT FOUND THEN RAISE 'no row'; END IF;
END $$;
-- a statement on one shard
UPDATE b SET v = v WHERE k = 1 AND ctid IN (SELECT ctid FROM b WHERE k = 1 AND v = 0 UNION ALL SELECT ctid FROM b WHERE k = 1) RETURNING k;

-- parameters, cursors, months of shards
PREPARE p(int, tid) AS DELETE FROM b WHERE k = $1 AND ctid = $2;
EXECUTE p(1, '(50,1)');
PREPARE q(tid) AS DELETE FROM b WHERE ctid = $1;
CREATE TABLE months (at date, k int, v int) PARTITION BY RANGE (at);
CREATE TABLE m1 (at date, k int, v int);
SELECT shardfdw.shard_table('m1', 'k', shards => 2) \g /dev/null
ALTER TABLE months ATTACH PARTITION m1 FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
INSERT INTO months SELECT '2026-01-05', i, i FROM generate_series(1, 10) i;
SELECT s, tried(s) FROM unnest(ARRAY[
	'DELETE FROM months WHERE ctid > ''(0,0)''',
	'DELETE FROM months WHERE k = 5 AND ctid > ''(0,0)''',
	'DELETE FROM months WHERE k = 5 AND at = ''2026-01-05'' AND ctid > ''(0,0)''',
	'DELETE FROM m1 WHERE k = 5 AND ctid > ''(0,0)''',
	'DELETE FROM months WHERE tableoid = ''m1_00''::regclass AND ctid > ''(0,0)'' AND v < 0'
	]) s;
DROP SCHEMA ci CASCADE;
