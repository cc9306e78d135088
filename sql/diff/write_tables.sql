-- write_tables.sql - the tables that the write scripts change, in one schema
--
-- Included with :schema and :shards as tables.sql is; needs types.sql and the
-- tables of diff_plain.

CREATE SCHEMA :schema;
SET search_path = :schema, diff;
SELECT :shards > 0 AS sharded \gset
\if :sharded
SELECT * FROM shardfdw.run_on_nodes('CREATE SCHEMA IF NOT EXISTS ' || :'schema') WHERE NOT ok;
SELECT min(srvname) AS node_a, max(srvname) AS node_b
  FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = srvfdw
 WHERE fdwname = 'shardfdw' AND srvname <> 'shardfdw_cluster' \gset
\endif

CREATE TABLE acc (
	gone int, id bigint PRIMARY KEY, v int CHECK (v >= 0), t text DEFAULT 'none', n numeric(10,2) NOT NULL DEFAULT 1.5, at timestamptz DEFAULT '2024-01-01 00:00+00'
);
ALTER TABLE acc DROP COLUMN gone;
CREATE TABLE auto (
	id bigserial, v int, twice int GENERATED ALWAYS AS (v * 2) STORED, ident int GENERATED ALWAYS AS IDENTITY, made text DEFAULT upper('made')
);
CREATE TABLE trig (id int, v int, note text);
CREATE TABLE trace (what text, id int, v int);	-- plain in every schema
CREATE TABLE wide (id int, small int2, big int8, n numeric, f4 float4, f8 float8, t text, c char(4), bt bytea, b bool, d date, ts timestamp, tz timestamptz,
	iv interval, u uuid, j jsonb, a text[], e diff.mood, dom diff.posint, cmp diff.pair, r int4range);
CREATE TABLE copy_types (LIKE diff_plain.types);
CREATE TABLE src (id int, v int, t text);	-- plain in every schema
INSERT INTO src SELECT g, g * 10, 'src ' || g FROM generate_series(1, 20) g;
\if :sharded
CREATE TABLE parts (d date NOT NULL, v int, t text) PARTITION BY RANGE (d);
SELECT shardfdw.shard_table('acc', 'id', shards => :shards);
SELECT shardfdw.shard_table('auto', 'id', shards => :shards);
SELECT shardfdw.shard_table('trig', 'id', shards => :shards);
SELECT shardfdw.shard_table('wide', 'id', shards => :shards);
SELECT shardfdw.shard_table('copy_types', 'id', shards => :shards);
SELECT shardfdw.create_shard('parts', 'parts_1', 'FROM (''2024-01-01'') TO (''2024-02-01'')', :'node_a');
SELECT shardfdw.create_shard('parts', 'parts_2', 'FROM (''2024-02-01'') TO (''2024-03-01'')', :'node_b');
\else
CREATE TABLE parts (d date NOT NULL, v int, t text) PARTITION BY RANGE (d);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
\endif

CREATE FUNCTION trig_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO trace VALUES (TG_WHEN || ' ' || TG_OP, COALESCE(NEW.id, OLD.id), COALESCE(NEW.v, OLD.v));
	IF TG_WHEN = 'BEFORE' AND TG_OP = 'INSERT' AND NEW.v = 13 THEN
		RETURN NULL;
	END IF;
	IF TG_WHEN = 'BEFORE' AND TG_OP IN ('INSERT', 'UPDATE') THEN
		NEW.note := COALESCE(NEW.note, '') || '+' || (SELECT count(*) FROM acc);
	END IF;
	RETURN COALESCE(NEW, OLD);
END $$;
CREATE FUNCTION trig_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO trace VALUES (TG_WHEN || ' ' || TG_OP || ' statement', (SELECT count(*) FROM trig), NULL);
	RETURN NULL;
END $$;
CREATE TRIGGER before_row BEFORE INSERT OR UPDATE OR DELETE ON trig FOR EACH ROW EXECUTE FUNCTION trig_row();
CREATE TRIGGER after_row AFTER INSERT OR UPDATE OR DELETE ON trig FOR EACH ROW EXECUTE FUNCTION trig_row();
CREATE TRIGGER before_statement BEFORE INSERT OR UPDATE OR DELETE ON trig FOR EACH STATEMENT EXECUTE FUNCTION trig_statement();
CREATE TRIGGER after_statement AFTER INSERT OR UPDATE OR DELETE ON trig FOR EACH STATEMENT EXECUTE FUNCTION trig_statement();
