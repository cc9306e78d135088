-- xmin, xmax, cmin and cmax of rows are those of their node: versions of a row for optimistic locking.  Uses that would
-- compare the numbers of several nodes, or those of a node with the coordinator's, are errors.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA sy;
SET search_path = sy;
CREATE TABLE b (k int PRIMARY KEY, v int);
CREATE TABLE one (k int PRIMARY KEY, v int);
CREATE TABLE months (at date, k int, v int, PRIMARY KEY (at, k)) PARTITION BY RANGE (at);
CREATE TABLE m1 (at date NOT NULL, k int NOT NULL, v int);
CREATE TABLE ref (k int PRIMARY KEY, v int);
CREATE TABLE plain (k int PRIMARY KEY, v int, x xid);
SELECT shardfdw.shard_table('b', 'k', shards => 4) \g /dev/null
SELECT shardfdw.shard_table('one', 'k', shards => 1) \g /dev/null
SELECT shardfdw.shard_table('m1', 'k', shards => 2) \g /dev/null
ALTER TABLE months ATTACH PARTITION m1 FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE SCHEMA sy_ds;
CREATE TABLE sy_ds.d (k int PRIMARY KEY, v int);
SELECT shardfdw.shard_schema('sy_ds') \g /dev/null
SELECT shardfdw.create_reference_table('ref') \g /dev/null
INSERT INTO b SELECT i, i FROM generate_series(1, 20) i;
INSERT INTO one SELECT i, i FROM generate_series(1, 20) i;
INSERT INTO ref SELECT i, i FROM generate_series(1, 20) i;
INSERT INTO sy_ds.d SELECT i, i FROM generate_series(1, 20) i;
INSERT INTO months SELECT '2026-01-05', i, i FROM generate_series(1, 20) i;
CREATE VIEW versioned AS SELECT k, v, xmin::text::bigint AS version FROM b;
CREATE FUNCTION same(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
\pset format unaligned
\pset tuples_only on

-- Optimistic locking: who has read the version in between changes no row.  For each way a statement may go.
CREATE TABLE tries (read text, change text);
INSERT INTO tries VALUES
	('SELECT xmin FROM b WHERE k = 1', 'UPDATE b SET v = v + 1 WHERE k = 1 AND xmin = ''%s'''),
	('SELECT xmin FROM b WHERE k = 1', 'UPDATE b SET v = v + 1 WHERE k = 1 AND xmin = ''%s'' RETURNING xmin'),
	('SELECT xmin FROM b WHERE k = 1 FOR UPDATE', 'UPDATE b SET v = same(v) + 1 WHERE k = 1 AND xmin = ''%s'' RETURNING xmin, xmax, cmin, cmax'),
	('SELECT xmin FROM b ORDER BY k LIMIT 1', 'UPDATE b SET v = v + 1 WHERE k = 1 AND xmin::text = ''%s'''),
	('SELECT version FROM versioned WHERE k = 1', 'UPDATE versioned SET v = v + 1 WHERE k = 1 AND version = %s'),
	('SELECT xmin FROM one WHERE v = 5', 'UPDATE one SET v = 5 WHERE v = 5 AND xmin = ''%s'''),
	('SELECT xmin FROM sy_ds.d WHERE v = 5', 'UPDATE sy_ds.d SET v = 5 WHERE v = 5 AND xmin = ''%s'' RETURNING xmin'),
	('SELECT xmin FROM ref WHERE k = 5', 'UPDATE ref SET v = 5 WHERE k = 5 AND xmin = ''%s'' RETURNING xmin'),
	('SELECT xmin FROM months WHERE k = 5', 'UPDATE months SET v = 5 WHERE at = ''2026-01-05'' AND k = 5 AND xmin = ''%s'''),
	('SELECT xmin FROM m1 WHERE k = 6', 'UPDATE m1 SET v = 6 WHERE k = 6 AND xmin = ''%s'''),
	('SELECT xmin FROM b WHERE k = 2', 'UPDATE b SET v = 0 FROM (VALUES (2, ''%s''::xid), (3, ''4'')) x(k, x) WHERE b.k = x.k AND b.xmin = x.x'),
	('SELECT xmin FROM b WHERE k = 3', 'WITH x AS (SELECT k FROM b WHERE k = 3 AND xmin = ''%s'' FOR UPDATE) UPDATE b SET v = 5 FROM x WHERE b.k = x.k');
DO $$
DECLARE
	way text;
	version text;
	n int[];
	m int;
	try tries;
BEGIN
	FOR way, try.read, try.change IN SELECT w, t.* FROM tries t, unnest('{search_path,shardfdw.enable_router,shardfdw.enable_statement_push,shardfdw.enable_shard_scan}'::text[]) w LOOP
		n := '{}';
		EXECUTE try.read INTO version;
		FOR i IN 1 .. 2 LOOP
			IF way <> 'search_path' THEN PERFORM set_config(way, 'off', true); END IF;
			EXECUTE format(try.change, version);
			GET DIAGNOSTICS m = ROW_COUNT;
			n := n || m;
			-- within a transaction a row that it has changed keeps its version
			COMMIT;
		END LOOP;
		IF version = '0' OR n <> '{1,0}' THEN RAISE WARNING '%, % off: version %, rows %', try.change, way, version, n; END IF;
	END LOOP;
END $$;
PREPARE p(int, xid) AS UPDATE b SET v = v + 1 WHERE k = $1 AND xmin = $2 RETURNING v, xmin <> $2;
SET plan_cache_mode = force_generic_plan;
SELECT xmin FROM b WHERE k = 7 \gset
EXECUTE p(7, :'xmin');
EXECUTE p(7, :'xmin');
RESET plan_cache_mode;
SELECT xmin FROM b WHERE k = 7 \gset
EXECUTE p(7, :'xmin');
EXECUTE p(7, :'xmin');

-- what RETURNING says is what the row has; an upsert tells new rows by xmax
CREATE FUNCTION returned(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	result text[];
BEGIN
	FOR r IN EXECUTE statement LOOP
		result := result || concat_ws(' ', r.k, r.new, (SELECT b.xmin = r.xmin AND b.cmin = r.cmin AND b.ctid = r.ctid AND b.tableoid = r.tableoid FROM b WHERE b.k = r.k));
	END LOOP;
	RETURN (SELECT string_agg(x, ', ' ORDER BY x) FROM unnest(result) x);
END $$;
SELECT s, returned(s || ' RETURNING k, xmin, cmin, ctid, tableoid, (xmax = 0)::text AS new') FROM unnest(ARRAY[
	'INSERT INTO b VALUES (30, 1)',
	'INSERT INTO b VALUES (31, 1), (32, 1)',
	'INSERT INTO b SELECT same(k) + 1000, v FROM b WHERE k = 2',
	'UPDATE b SET v = v + 1 WHERE k IN (30, 31)',
	'UPDATE b SET v = same(v) WHERE k IN (30, 31)'
	]) s;
SELECT s, returned(s || ' RETURNING k, xmin, cmin, ctid, tableoid, CASE WHEN xmax = 0 THEN ''new'' ELSE ''old'' END AS new') FROM unnest(ARRAY[
	'INSERT INTO b VALUES (30, 1) ON CONFLICT (k) DO UPDATE SET v = 5'
	]) s;
SELECT s, returned(s || ' RETURNING k, xmin, cmin, ctid, tableoid, concat(xmax = 0, xmax::text::bigint > 0) AS new') FROM unnest(ARRAY[
	'INSERT INTO b VALUES (1, 1), (2, 1), (3, 1), (32, 1), (33, 1), (34, 1) ON CONFLICT (k) DO UPDATE SET v = 5',
	'INSERT INTO b VALUES (1, 1), (2, 1), (35, 1) ON CONFLICT (k) DO UPDATE SET v = same(5)'
	]) s;
WITH x AS (INSERT INTO b VALUES (30, 1), (31, 1), (43, 1) ON CONFLICT (k) DO UPDATE SET v = 5 RETURNING k, xmax = 0 AS new) SELECT * FROM x ORDER BY k;
INSERT INTO sy_ds.d VALUES (1, 1), (77, 1) ON CONFLICT (k) DO UPDATE SET v = 5 RETURNING k, xmax = 0;
DELETE FROM b WHERE k = 30 AND same(k) > 0 RETURNING k, xmin <> '0' AND xmax <> 0;
-- the transaction's own rows, cmin counts its statements on the node
BEGIN;
INSERT INTO b VALUES (50, 1);
SELECT cmin = cmax AND xmin <> '0' AND xmax = '0' FROM b WHERE k = 50;
SELECT x.xmin = y.xmin FROM b x JOIN b y ON x.k = y.k AND x.k = 50;
ROLLBACK;

-- Uses that are right, and those that are refused.  Rows, or the error.
CREATE FUNCTION tried(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	whole boolean;
	result text;
BEGIN
	FOREACH whole IN ARRAY '{true,false}'::boolean[] LOOP
		PERFORM set_config('shardfdw.enable_router', whole::text, true), set_config('shardfdw.enable_statement_push', whole::text, true);
		BEGIN
			EXECUTE statement;
			GET DIAGNOSTICS n = ROW_COUNT;
			RAISE EXCEPTION USING ERRCODE = 'triggered_action_exception';
		EXCEPTION
			WHEN triggered_action_exception THEN result := concat_ws(' and ', result, n);
			WHEN feature_not_supported THEN result := concat_ws(' and ', result, regexp_replace(SQLERRM, 'cannot use system column "(.*)" of sharded table .* here', 'no \1'));
		END;
	END LOOP;
	RETURN regexp_replace(result, '^(.*) and \1$', '\1');
END $$;
SELECT s, tried(s) FROM unnest(ARRAY[
	'SELECT xmin, xmax, cmin, cmax, * FROM b WHERE k < 20',
	'SELECT * FROM versioned WHERE k < 20',
	'SELECT k, xmin FROM b WHERE k < 20 AND xmin IS NOT NULL ORDER BY k',
	'SELECT k FROM b WHERE k < 5 AND xmin IS NOT NULL AND ctid IS NOT NULL ORDER BY k',
	'SELECT b.k FROM plain JOIN b USING (k) WHERE b.xmin IS NOT NULL',
	'SELECT * FROM versioned WHERE k = 1 AND version = 744',
	'SELECT * FROM one WHERE xmin = ''744''',
	'SELECT xmin, count(*) FROM one GROUP BY xmin HAVING count(*) > 10',
	'DELETE FROM b WHERE (k = 1 AND xmin = ''7'') OR (k = 2 AND xmin = ''7'')',
	'DELETE FROM b WHERE k = 1 AND xmin = ANY (''{7,8}'')',
	'DELETE FROM b WHERE k = 1 AND xmin = (SELECT xmin FROM b WHERE k = 1)',
	'WITH x AS (SELECT k, xmin FROM b WHERE k < 5) UPDATE b SET v = 0 FROM x WHERE b.k = x.k AND b.xmin = x.xmin',
	'WITH x AS (SELECT k, xmin AS x FROM b WHERE k < 5) UPDATE b SET v = 0 FROM x WHERE b.k = x.k AND b.xmin <> x.x',
	'SELECT x.k FROM b x JOIN b y USING (k) WHERE x.xmin = y.xmin AND k < 5',
	'SELECT count(*) FROM b WHERE xmax = ''0'' HAVING count(*) FILTER (WHERE xmax <> 0) = 0',
	'SELECT tableoid, xmin, count(xmin) FROM b WHERE k < 5 GROUP BY tableoid, xmin, k',
	'SELECT row_to_json(x) FROM (SELECT k, xmin FROM b WHERE k < 5) x',
	'INSERT INTO plain SELECT k, v, xmin FROM b WHERE k < 5',
	'UPDATE b SET v = xmin::text::bigint WHERE k < 5',
	'SELECT age(plain.xmin), b.xmin FROM plain RIGHT JOIN b USING (k) WHERE k < 5 ORDER BY plain.xmin::text',
	'SELECT age(ref.xmin), b.xmin FROM ref JOIN b USING (k) WHERE k = 5',
	'SELECT xmin, k FROM b WHERE k < 5 ORDER BY k LIMIT 3 FOR UPDATE SKIP LOCKED',
	'DELETE FROM b WHERE k IN (SELECT k FROM b WHERE k IN (4, 5, 6) ORDER BY k LIMIT 2 FOR UPDATE SKIP LOCKED) RETURNING xmin',
	'SELECT * FROM b WHERE k = 1 AND cmax = cmin',
	'SELECT CASE xmin WHEN ''7'' THEN 1 WHEN xmin THEN 2 END FROM b WHERE k = 1',
	'SELECT count(DISTINCT x) FROM (SELECT xmin::text x FROM one UNION ALL SELECT xmin::text FROM one) s',
	'SELECT * FROM versioned v WHERE k < 5 AND version = version',
	'SELECT * FROM b WHERE k < 5 AND xmin <> xmax',
	'INSERT INTO b AS q VALUES (2, 3) ON CONFLICT (k) DO UPDATE SET v = 5 WHERE q.xmin = ''7''',
	'MERGE INTO b USING (VALUES (1, ''7''::xid)) x(k, x) ON b.k = x.k AND b.xmin = x.x WHEN MATCHED THEN UPDATE SET v = 0'
	]) s;
SELECT s, tried(s) FROM unnest(ARRAY[
	'SELECT * FROM b WHERE xmin = ''744''',
	'UPDATE b SET v = 0 WHERE xmin = ''744''',
	'SELECT * FROM b WHERE cmin = ''0''',
	'SELECT * FROM versioned WHERE version = 744',
	'SELECT * FROM versioned ORDER BY version DESC LIMIT 3',
	'SELECT max(version) FROM versioned',
	'SELECT age(xmin) FROM b',
	'SELECT age(xmin) FROM one WHERE k = 1',
	'SELECT * FROM b WHERE k = 1 AND xmin = pg_current_xact_id()::xid',
	'SELECT * FROM one WHERE k = 1 AND xmin::text = txid_current()::text',
	'SELECT * FROM b WHERE k = 1 AND xmin::text::bigint + 0 = txid_current()',
	'SELECT * FROM b WHERE k = 1 AND nullif(xmin::text, ''0'') = txid_current()::text',
	'SELECT * FROM b WHERE k = 1 AND txid_visible_in_snapshot(xmin::text::bigint, ''10:20:'')',
	'SELECT xmin = pg_current_xact_id()::xid FROM b',
	'INSERT INTO b VALUES (50, 1) RETURNING xmin = pg_current_xact_id()::xid',
	'INSERT INTO b VALUES (50, 1) RETURNING age(xmin)',
	'UPDATE b SET v = 1 RETURNING xmin = ''744''',
	'SELECT pg_xact_commit_timestamp(xmin) FROM b WHERE k = 1',
	'SELECT xmin, count(*) FROM b GROUP BY xmin',
	'SELECT DISTINCT xmin FROM b',
	'SELECT count(DISTINCT xmin::text) FROM b',
	'SELECT xmin FROM b UNION SELECT xmin FROM b',
	'SELECT json_agg(xmin) FROM b',
	'SELECT rank() OVER (ORDER BY xmin::text) FROM b',
	'SELECT * FROM b x JOIN b y ON x.xmin = y.xmin',
	'SELECT * FROM b x JOIN b y ON x.v = y.k AND x.xmin = y.xmin',
	'SELECT * FROM b JOIN plain USING (k) WHERE b.xmin = plain.xmin',
	'SELECT * FROM b JOIN plain USING (k) WHERE b.xmin = ''744''',
	'SELECT b.xmin, count(*) FROM b JOIN plain USING (k) GROUP BY b.xmin',
	'SELECT * FROM b JOIN ref USING (k) WHERE b.xmin = ref.xmin',
	'SELECT * FROM b WHERE k = 1 AND xmin = (SELECT xmin FROM b WHERE k = 2)',
	'DELETE FROM b WHERE k = 1 AND xmin IN (SELECT xmin FROM b)',
	'DELETE FROM months WHERE k = 1 AND xmin = ''744''',
	'WITH RECURSIVE r AS (SELECT k, xmin AS x FROM b UNION ALL SELECT k + 1, x FROM r WHERE k < 20 AND x = ''744'') SELECT * FROM r',
	'SELECT k, xmin, count(*) FROM b GROUP BY GROUPING SETS ((k), (xmin))',
	'SELECT xmin, v::oid FROM b UNION SELECT xmin, v::oid FROM b',
	'SELECT count(DISTINCT x) FROM (SELECT xmin::text x FROM b WHERE k = 1 UNION ALL SELECT xmin::text FROM b) s',
	'SELECT count(DISTINCT x) FROM (SELECT ctid::text x FROM one UNION ALL SELECT xmin::text FROM b) s',
	'SELECT count(DISTINCT x) FROM (SELECT xmin::text x FROM plain UNION ALL SELECT xmin::text FROM one) s',
	'SELECT count(*) FROM (SELECT xmin x FROM one UNION ALL SELECT xmin FROM ref) s JOIN one ON one.xmin = s.x',
	'DELETE FROM b USING (SELECT xmin x FROM b WHERE k = 1 UNION ALL SELECT xmin FROM b) s WHERE k = 1 AND b.xmin = s.x',
	'WITH RECURSIVE r(x, k) AS (SELECT xmin, k FROM b WHERE k = 1 UNION ALL SELECT b.xmin, b.k FROM b JOIN r ON b.k = r.k + 1) SELECT count(DISTINCT x::text) FROM r',
	'SELECT k FROM (SELECT k, max(xmin::text::bigint) - 744 x FROM b GROUP BY k) s WHERE x = 0',
	'SELECT k FROM b GROUP BY k HAVING (array_agg(xmin))[1] = ''744''',
	'SELECT DISTINCT x FROM (SELECT coalesce(max(xmin::text), ''0'') x FROM b GROUP BY k) s',
	-- of rows that move
	'UPDATE b SET k = k + 2000 WHERE k < 9 RETURNING xmin',
	'UPDATE b SET k = k + 2000 WHERE k < 9 RETURNING ctid',
	'UPDATE months SET k = k + 2000 WHERE k < 9 RETURNING k, cmin'
	]) s;
SELECT tried('UPDATE b SET k = k + 2000 WHERE k < 9 RETURNING k, tableoid'), tried('UPDATE b SET k = k WHERE k < 9 RETURNING k, xmin, ctid');
-- functions whose body core may put in the place of the call
CREATE FUNCTION written_by(xid) RETURNS SETOF b LANGUAGE sql STABLE AS 'SELECT * FROM sy.b WHERE xmin = $1';
CREATE FUNCTION version_of(int) RETURNS xid LANGUAGE sql STABLE AS 'SELECT xmin FROM sy.b WHERE k = $1';
SELECT * FROM written_by('744');
SELECT version_of(1) = xmin FROM b WHERE k = 1;
SELECT count(*) FROM version_of(1) v JOIN plain ON plain.x = v;
\set VERBOSITY default
SELECT * FROM b WHERE xmin = '744';
DROP SCHEMA sy, sy_ds CASCADE;
