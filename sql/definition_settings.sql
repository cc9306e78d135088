-- Literals of definitions arrive on nodes unchanged, whatever the settings of the session are
\set VERBOSITY terse
SET client_min_messages = error;
CREATE SCHEMA definition_settings;
SET search_path = definition_settings;

-- All literals of the definitions of a table here, or of its shards. The names of tables and indexes are left out.
CREATE FUNCTION question(tables text[]) RETURNS text LANGUAGE sql AS $$
	SELECT format($q$SELECT DISTINCT concat_ws(' ', d.kind, d.text)
		FROM pg_catalog.unnest(%L::text[]) x(name) CROSS JOIN LATERAL (SELECT pg_catalog.to_regclass(x.name)) t(id) CROSS JOIN LATERAL (
			SELECT 'constraint ' || k.conname, pg_get_constraintdef(k.oid) FROM pg_constraint k WHERE k.conrelid = t.id
			UNION ALL SELECT 'generated ' || a.attname, pg_get_expr(e.adbin, e.adrelid) FROM pg_attrdef e JOIN pg_attribute a ON a.attrelid = e.adrelid AND a.attnum = e.adnum
				WHERE e.adrelid = t.id AND a.attgenerated <> ''
			UNION ALL SELECT 'predicate', pg_get_expr(i.indpred, i.indrelid) FROM pg_index i WHERE i.indrelid = t.id AND i.indpred IS NOT NULL
			UNION ALL SELECT 'expressions', pg_get_expr(i.indexprs, i.indrelid) FROM pg_index i WHERE i.indrelid = t.id AND i.indexprs IS NOT NULL
			UNION ALL SELECT 'statistics', pg_get_expr(s.stxexprs, s.stxrelid) FROM pg_statistic_ext s WHERE s.stxrelid = t.id
			UNION ALL SELECT 'domain ' || k.conname, pg_get_constraintdef(k.oid) FROM pg_constraint k WHERE k.contypid IN (SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = t.id)
		) d(kind, text)$q$, tables)
$$;
-- Differences between the plain table p and the tables of nodes; settings are those of the caller.
CREATE FUNCTION differences(sharded text) RETURNS TABLE (side text, definition text) LANGUAGE plpgsql AS $$
DECLARE
	here text[];
	there text[];
	is_reference CONSTANT boolean := NOT EXISTS (SELECT FROM shardfdw.shards s WHERE s.relation = sharded::regclass);
BEGIN
	EXECUTE format('SELECT array_agg(q.text) FROM (%s) q(text)', question(ARRAY['definition_settings.p'])) INTO here;
	SELECT array_agg(DISTINCT (q.fields)[1]) INTO there FROM shardfdw.nodes n
	CROSS JOIN LATERAL shardfdw.query_nodes(ARRAY[n.node], ARRAY[question(CASE WHEN is_reference THEN ARRAY['definition_settings.' || sharded]
		ELSE ARRAY(SELECT 'definition_settings.' || s.shard::text FROM shardfdw.shards s WHERE s.node = n.node AND s.relation = sharded::regclass) END)]) q
	WHERE (is_reference OR EXISTS (SELECT FROM shardfdw.shards s WHERE s.node = n.node AND s.relation = sharded::regclass)) AND q.fields IS NOT NULL;
	RETURN QUERY SELECT 'only here', h FROM unnest(here) h WHERE h <> ALL (there) UNION ALL SELECT 'only there', t FROM unnest(there) t WHERE t <> ALL (here);
	IF cardinality(there) < 5 OR there IS NULL THEN
		RETURN NEXT;
	END IF;
END
$$;

CREATE TABLE p (k int, d date, tz timestamptz, i interval, f float8, g float4);
CREATE TABLE t (LIKE p);
CREATE TABLE r (LIKE p);
SELECT shardfdw.shard_table('t', 'k', shards => 2) \g /dev/null
SELECT shardfdw.create_reference_table('r') \g /dev/null
INSERT INTO t VALUES (1); INSERT INTO r VALUES (1); INSERT INTO p VALUES (1);

\set others 'SET DateStyle = ''SQL, DMY''; SET IntervalStyle = ''sql_standard''; SET TimeZone = ''Asia/Kolkata''; SET extra_float_digits = -5'
\set fixed 'SET DateStyle = ''ISO, YMD''; SET IntervalStyle = ''postgres''; SET TimeZone = ''UTC''; SET extra_float_digits = 3'
\set condition 'd <= ''03/04/2026'' AND tz <= ''03/04/2026 05:06:07'' AND i <= ''-1 2:03:04'' AND f <= ''0.30000000000000004'' AND g <= ''0.12345678''::float4'
:others;

-- statements
CREATE DOMAIN dom AS float8 CHECK (VALUE <= '0.30000000000000004');
SELECT format(s, x, :'condition') FROM unnest('{p,t,r}'::text[]) x, unnest(ARRAY[
	'ALTER TABLE %1$s ADD CONSTRAINT c1 CHECK (%2$s)', 'ALTER TABLE %1$s ADD CONSTRAINT c2 CHECK (%2$s OR k > 3) NOT VALID',
	'ALTER TABLE %1$s VALIDATE CONSTRAINT c2', 'ALTER TABLE %1$s ADD CONSTRAINT c3 CHECK (%2$s OR k > 4)', 'ALTER TABLE %1$s RENAME CONSTRAINT c3 TO c4',
	'ALTER TABLE %1$s ADD g1 interval GENERATED ALWAYS AS (i + ''-1 2:03:04'') STORED, ADD g2 float8 GENERATED ALWAYS AS (f * ''0.30000000000000004'') STORED',
	'ALTER TABLE %1$s ADD g3 date GENERATED ALWAYS AS (CASE WHEN %2$s THEN d ELSE ''03/04/2026'' END) STORED, ADD a1 date CONSTRAINT c5 CHECK (a1 > ''03/04/2026''), ADD a2 dom',
	'CREATE INDEX %1$s_1 ON %1$s (k) WHERE %2$s', 'CREATE INDEX %1$s_2 ON %1$s ((f * ''0.30000000000000004''), (i + ''-1 2:03:04''), (d <= ''03/04/2026''))',
	'CREATE INDEX %1$s_3 ON %1$s (k) WHERE %2$s AND k > 1', 'DROP INDEX %1$s_3', 'CREATE INDEX %1$s_4 ON %1$s (k) WHERE %2$s AND k > 2', 'ALTER INDEX %1$s_4 RENAME TO %1$s_5',
	'CREATE STATISTICS %1$s_s ON (f * ''0.30000000000000004''), (i + ''-1 2:03:04'') FROM %1$s']) WITH ORDINALITY s(s, n) ORDER BY n, x \gexec
ALTER DOMAIN dom ADD CONSTRAINT later CHECK (VALUE <> '0.7000000000000001');
-- values of new columns
SELECT format('ALTER TABLE %s ADD v1 date DEFAULT ''03/04/2026'', ADD v2 interval DEFAULT ''-1 2:03:04'', ADD v3 float8 DEFAULT ''0.30000000000000004'', ADD v4 timestamptz DEFAULT ''03/04/2026 05:06:07'', ADD v5 text DEFAULT ''03/04/2026''::date::text',
	x) FROM unnest('{p,t,r}'::text[]) x \gexec
-- a shard of existing definitions
CREATE TABLE made (LIKE p INCLUDING ALL) PARTITION BY RANGE (i);
SELECT shardfdw.create_shard('made', 'made_1', $$FROM ('-2 2:03:04') TO ('-1 2:03:04')$$, 'node1');
CREATE TABLE made_f (LIKE p INCLUDING ALL) PARTITION BY RANGE (tz);
SELECT shardfdw.create_shard('made_f', 'made_f_1', $$FROM ('01/04/2025') TO ('01/05/2025')$$, 'node1');
ALTER TABLE made_f DETACH PARTITION made_f_1;
ALTER TABLE made_f ATTACH PARTITION made_f_1 FOR VALUES FROM ('01/04/2025') TO ('01/05/2025');
CREATE TABLE timed (LIKE p INCLUDING ALL) PARTITION BY RANGE (d);
SELECT count(*) > 0 AS made FROM shardfdw.create_time_partitions('timed', '1 month', now() + interval '2 months', key => 'k', shards => 1);
CREATE TABLE sharded (LIKE p INCLUDING ALL);
SELECT shardfdw.shard_table('sharded', 'k', shards => 1) \g /dev/null
SELECT shardfdw.split_shard('sharded_00', 2, 'block') \g /dev/null
-- indexes that COPY drops and creates again
CREATE TABLE loaded (LIKE p INCLUDING ALL);
SELECT shardfdw.shard_table('loaded', 'k', shards => 1) \g /dev/null
COPY loaded (k, d) FROM stdin (INDEXES deferred);
1	03/04/2026
\.
-- foreign tables for the tables of a node
CREATE SCHEMA definition_settings_2;
DO $$ BEGIN EXECUTE (SELECT format('IMPORT FOREIGN SCHEMA definition_settings LIMIT TO (%s) FROM SERVER %I INTO definition_settings_2', shard, node)
	FROM shardfdw.shards WHERE relation = 'loaded'::regclass); END $$;
CREATE TABLE copied (LIKE p INCLUDING ALL);
SELECT shardfdw.create_reference_table('copied') \g /dev/null
SELECT count(*) AS problems FROM shardfdw.check_cluster() WHERE check_name ~ 'definition_settings' AND status = 'error';

:fixed;
SELECT x, d.* FROM unnest('{t,r,made,made_f,sharded,loaded,copied}'::text[]) x CROSS JOIN LATERAL differences(x) d
	WHERE x IN ('t', 'r') OR d.definition !~ '^statistics' ORDER BY 1, 2, 3;
SELECT x, d.* FROM (SELECT relid::regclass::text FROM pg_partition_tree('timed') WHERE level = 1) x(x) CROSS JOIN LATERAL differences(x) d WHERE d.definition !~ '^statistics' ORDER BY 1, 2, 3;
SELECT count(*) AS problems FROM shardfdw.check_cluster() WHERE check_name ~ 'definition_settings' AND status = 'error';
SELECT 't' AS x, v1, v2, v3, v4, v5, g1, g3 FROM t UNION ALL SELECT 'r', v1, v2, v3, v4, v5, g1, g3 FROM r UNION ALL SELECT 'p', v1, v2, v3, v4, v5, g1, g3 FROM p ORDER BY 1;

SELECT regexp_replace(pg_get_expr(adbin, adrelid), '\s+', ' ', 'g') AS imported FROM pg_attrdef WHERE adrelid = 'definition_settings_2.loaded_00'::regclass ORDER BY adnum;
SELECT k, d FROM loaded;

RESET DateStyle; RESET IntervalStyle; RESET TimeZone; RESET extra_float_digits;
DROP SCHEMA definition_settings, definition_settings_2 CASCADE;
