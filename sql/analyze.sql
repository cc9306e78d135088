-- ANALYZE of shards and of sharded tables: the node samples, the coordinator makes the statistics.
SET client_min_messages = warning;
CREATE SCHEMA analyze_test;
SET search_path = analyze_test;
CREATE TABLE events (id bigint NOT NULL, kind int, label text, tags text[], amount numeric(10,2));
INSERT INTO events
SELECT i, i % 20, CASE WHEN i % 4 = 0 THEN NULL ELSE 'label ' || i % 100 END, ARRAY['a', 'b' || i % 3], i * 0.5
FROM generate_series(1, 24000) i;
SELECT shardfdw.shard_table('events', 'id', 2);

-- small tables are read as a whole: exact
ANALYZE events;
SELECT reltuples FROM pg_class WHERE oid = 'events'::regclass;
SELECT sum(reltuples), bool_and(relpages > 0) AS pages FROM pg_class WHERE relnamespace = 'analyze_test'::regnamespace AND relkind = 'f';
SELECT attname, n_distinct, round(null_frac::numeric, 2) AS null_frac FROM pg_stats
WHERE schemaname = 'analyze_test' AND tablename = 'events' AND attname IN ('kind', 'label', 'tags') ORDER BY attname;

-- a shard larger than a few samples is sampled by the node: the row count is an estimate
SET default_statistics_target = 5;
CREATE FUNCTION sampled(method text) RETURNS TABLE (near bool, kinds real, nulls bool) LANGUAGE plpgsql AS $$
DECLARE
	shard text;
BEGIN
	FOR shard IN SELECT relname FROM pg_class WHERE relnamespace = 'analyze_test'::regnamespace AND relkind = 'f' LOOP
		EXECUTE format('ALTER FOREIGN TABLE analyze_test.%I OPTIONS (ADD analyze_sampling %L)', shard, method);
	END LOOP;
	ANALYZE analyze_test.events;
	FOR shard IN SELECT relname FROM pg_class WHERE relnamespace = 'analyze_test'::regnamespace AND relkind = 'f' LOOP
		EXECUTE format('ALTER FOREIGN TABLE analyze_test.%I OPTIONS (DROP analyze_sampling)', shard);
	END LOOP;
	RETURN QUERY
	SELECT c.reltuples BETWEEN 24000 * 0.8 AND 24000 * 1.2, k.n_distinct, l.null_frac BETWEEN 0.15 AND 0.35
	FROM pg_class c, pg_stats k, pg_stats l
	WHERE c.oid = 'analyze_test.events'::regclass
		AND k.schemaname = 'analyze_test' AND k.tablename = 'events' AND k.attname = 'kind'
		AND l.schemaname = 'analyze_test' AND l.tablename = 'events' AND l.attname = 'label';
END
$$;
SELECT method, s.* FROM unnest('{auto,bernoulli,random,off}'::text[]) method, sampled(method) s;
-- also when nothing is known about the table on the node: its size tells
SELECT count(*) AS nodes, bool_and(ok) AS ok
FROM shardfdw.run_on_shards('events', $$UPDATE pg_catalog.pg_class SET reltuples = -1 WHERE oid = '%s'::regclass$$);
SELECT s.* FROM sampled('auto') s;

-- a shard takes over the statistics that its node has; its values are those that the node prints
RESET default_statistics_target;
CREATE DOMAIN code AS int CHECK (VALUE >= 0);
CREATE TABLE items (id bigint NOT NULL, kind code, label text, c text COLLATE "C", d date, amount numeric(10,2), doc json, gone int, z timestamptz);
ALTER TABLE items DROP COLUMN gone;
INSERT INTO items
SELECT i, i % 20, CASE WHEN i % 4 = 0 THEN NULL ELSE 'label, "' || i % 100 END, repeat('x', i % 7), date '2024-01-01' + i % 400, i * 0.5, '{}',
	timestamptz '2024-01-01 00:00:00+00' + i * interval '1 hour'
FROM generate_series(1, 4000) i;
SELECT bool_and(ok) AS ok FROM shardfdw.run_on_nodes('CREATE SCHEMA IF NOT EXISTS analyze_test');
SELECT bool_and(ok) AS ok FROM shardfdw.run_on_nodes('CREATE DOMAIN analyze_test.code AS int CHECK (VALUE >= 0)');
SELECT shardfdw.shard_table('items', 'id', 2);
CREATE TEMP VIEW here AS
SELECT tablename, md5(string_agg(concat_ws('|', attname, null_frac, avg_width, n_distinct, most_common_vals, most_common_freqs,
	histogram_bounds, correlation), chr(10) ORDER BY attname)) AS digest
FROM pg_stats WHERE schemaname = 'analyze_test' AND tablename LIKE 'items\__%' GROUP BY tablename;
CREATE TEMP VIEW there AS
SELECT shard, result AS digest FROM shardfdw.run_on_shards('items', $$SELECT md5(string_agg(concat_ws('|', attname, null_frac, avg_width,
	n_distinct, most_common_vals, most_common_freqs, histogram_bounds, correlation), chr(10) ORDER BY attname))
	FROM pg_catalog.pg_stats WHERE format('%%I.%%I', schemaname, tablename) = '%s'$$);
ANALYZE items;
SELECT bool_and(ok) AS ok FROM shardfdw.run_on_shards('items', 'ANALYZE %s');
ANALYZE items;
ANALYZE items;
SELECT tablename, here.digest = there.digest AS same FROM here JOIN there ON there.shard::text LIKE '%' || tablename ORDER BY 1;
SELECT relname, reltuples FROM pg_class WHERE oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'items'::regclass) ORDER BY 1;
-- sampled when the user says how, and when the node's column has another type
ALTER FOREIGN TABLE items_00 OPTIONS (ADD analyze_sampling 'off');
ALTER FOREIGN TABLE items_01 OPTIONS (ADD analyze_sampling 'auto');
SELECT bool_and(ok) AS ok FROM shardfdw.run_on_nodes($$ALTER TABLE IF EXISTS analyze_test.items_01 ALTER COLUMN d TYPE timestamp$$);
SELECT bool_and(ok) AS ok FROM shardfdw.run_on_shards('items', 'ANALYZE %s');
ANALYZE items_00, items_01;
DROP VIEW here, there;

-- an empty table, a view and a missing table on the node
CREATE TABLE empty_table (id int);
SELECT shardfdw.shard_table('empty_table', 'id', 2);
ANALYZE empty_table;
SELECT reltuples <= 0 AS none FROM pg_class WHERE oid = 'empty_table'::regclass;
SELECT count(*) AS nodes, bool_and(ok) AS ok
FROM shardfdw.run_on_nodes('CREATE VIEW public.analyze_view AS SELECT g FROM pg_catalog.generate_series(1, 5000) g');
CREATE FOREIGN TABLE on_view (g int) SERVER node1 OPTIONS (schema_name 'public', table_name 'analyze_view');
ANALYZE on_view;
SELECT reltuples FROM pg_class WHERE oid = 'on_view'::regclass;
CREATE FOREIGN TABLE on_nothing (g int) SERVER node1 OPTIONS (schema_name 'public', table_name 'no_such_table');
ANALYZE on_nothing;
DROP FOREIGN TABLE on_view, on_nothing;
SELECT bool_and(ok) AS ok FROM shardfdw.run_on_nodes('DROP VIEW public.analyze_view');

SET client_min_messages = error;
SELECT shardfdw.unshard_table('events');
SELECT shardfdw.unshard_table('empty_table');
SELECT shardfdw.unshard_table('items');
DROP SCHEMA analyze_test CASCADE;
