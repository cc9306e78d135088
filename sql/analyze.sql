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
DROP SCHEMA analyze_test CASCADE;
