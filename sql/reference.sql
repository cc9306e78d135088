-- Reference tables: what create_reference_table makes, and what it refuses.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA reference;
SET search_path = reference;
CREATE VIEW reference_tables AS SELECT relation, key, strategy, shards, nodes FROM shardfdw.tables WHERE strategy = 'reference';
-- the nodes that there are may be more than those of setup.sql
CREATE FUNCTION copies(query text) RETURNS TABLE (node name, ok boolean, result text) LANGUAGE sql AS $$
	SELECT * FROM shardfdw.run_on_nodes(query) n WHERE n.node IN ('node1', 'node2', 'node3', 'node4') $$;

CREATE TABLE r (id serial PRIMARY KEY, name varchar(20) NOT NULL, price numeric(8,2) DEFAULT 1 CHECK (price >= 0),
	twice numeric GENERATED ALWAYS AS (price * 2) STORED, span int4range, parent int REFERENCES r, EXCLUDE USING gist (span WITH &&), UNIQUE (name) DEFERRABLE);
CREATE INDEX ON r (lower(name)) WHERE price > 1;
INSERT INTO r (name, price) SELECT 'n' || g, g FROM generate_series(1, 5) g;
SELECT shardfdw_internal.is_reference('r');
SELECT shardfdw.create_reference_table('r');
SELECT shardfdw_internal.is_reference('r');
SELECT * FROM reference_tables;
SELECT tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'r'::regclass AND NOT tgisinternal ORDER BY tgname;
-- a second time there is nothing to do
SELECT shardfdw.create_reference_table('r');
SELECT result FROM copies($$SELECT string_agg(pg_get_indexdef(indexrelid), E'\n' ORDER BY indexrelid::regclass::text COLLATE "C") FROM pg_index WHERE indrelid = 'reference.r'::regclass$$) WHERE node = 'node1';
SELECT result FROM copies($$SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'reference.r'::regclass AND contype <> 'n' ORDER BY conname$$) WHERE node = 'node1';

INSERT INTO r (name, span) VALUES ('new', '[1,5)');
UPDATE r SET price = price + 0.5, span = span + '[5,6)' WHERE id % 2 = 0;
UPDATE r SET name = CASE name WHEN 'n1' THEN 'n2' WHEN 'n2' THEN 'n1' END WHERE name IN ('n1', 'n2');
DELETE FROM r WHERE id = 3;
SELECT count(*), count(DISTINCT result), min(result) FROM copies('SELECT string_agg(r::text, E''\n'' ORDER BY id) FROM reference.r r');
SELECT string_agg(r::text, E'\n' ORDER BY id) FROM r;
INSERT INTO r (name, span) VALUES ('other', '[2,3)');
UPDATE r SET price = -1;
SELECT count(*) FROM shardfdw.check_cluster('rows') WHERE check_name LIKE 'reference%' AND status <> 'ok';

-- a child or partition would be written past the triggers
CREATE TABLE parent (LIKE r) PARTITION BY RANGE (id);
ALTER TABLE parent ATTACH PARTITION r DEFAULT;
CREATE TABLE above (id int);
ALTER TABLE r INHERIT above;
-- and rows of a child are not in the replicas
CREATE TABLE below () INHERITS (r);
SELECT shardfdw_internal.is_reference('r');
DELETE FROM r WHERE id = 1;
DROP TABLE below;
DELETE FROM r WHERE id = 1;

-- without one of its triggers a table is none
ALTER TABLE r DISABLE TRIGGER "00_shardfdw_truncate";
SELECT shardfdw_internal.is_reference('r');
ALTER TABLE r ENABLE TRIGGER "00_shardfdw_truncate";
SELECT shardfdw_internal.is_reference('r');
SELECT shardfdw_internal.send_reference_write();
CREATE TABLE misuse (id int);
CREATE TRIGGER t AFTER INSERT ON misuse FOR EACH ROW EXECUTE FUNCTION shardfdw_internal.send_reference_write();
INSERT INTO misuse VALUES (1);
CREATE TRIGGER b BEFORE INSERT ON misuse FOR EACH ROW EXECUTE FUNCTION shardfdw_internal.send_reference_write();
INSERT INTO misuse VALUES (1);

-- refused
SELECT shardfdw.create_reference_table(NULL);
SELECT shardfdw.create_reference_table('pg_class');
SELECT shardfdw.create_reference_table('reference_tables');
SELECT shardfdw.create_reference_table('parent');
CREATE TEMP TABLE temporary (id int);
SELECT shardfdw.create_reference_table('temporary');
CREATE UNLOGGED TABLE unlogged (id int);
SELECT shardfdw.create_reference_table('unlogged');
CREATE TABLE s (id int PRIMARY KEY, rid int, CONSTRAINT s_rid FOREIGN KEY (rid) REFERENCES r ON DELETE CASCADE);
SELECT shardfdw.shard_table('r');
CREATE TABLE kid () INHERITS (above);
SELECT shardfdw.create_reference_table('kid');
SELECT shardfdw.create_reference_table('above');
CREATE TABLE only_here (a int);
CREATE TABLE untyped (a only_here);
SELECT shardfdw.create_reference_table('untyped');
SELECT shardfdw_internal.is_reference('untyped'), shardfdw_internal.is_reference(0), shardfdw_internal.is_reference('r_pkey');

-- a foreign key to a reference table becomes one from each shard to the replica beside it
INSERT INTO s VALUES (1, 2), (2, 4), (3, NULL);
SELECT shardfdw.shard_table('s', shards => 2, nodes => '{node1,node2}');
SELECT shardfdw.create_reference_table('s');
SELECT node, shard, result FROM shardfdw.run_on_shards('s', 'SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %L::regclass AND contype = ''f''') ORDER BY shard::text;
INSERT INTO s VALUES (4, 99);
DELETE FROM r WHERE id = 2;
SELECT * FROM s ORDER BY id;
SELECT shardfdw.unshard_table('r');
-- A table that is none is left alone, and what nodes have under its name.
SELECT shardfdw.unshard_table('misuse');
SELECT shardfdw.unshard_table(NULL);
SELECT count(*) FROM s;
SELECT shardfdw.unshard_table('s');
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 's'::regclass AND contype = 'f';

SELECT shardfdw.unshard_table('r');
SELECT shardfdw_internal.is_reference('r'), count(*) FROM pg_trigger WHERE tgrelid = 'r'::regclass AND tgfoid = 'shardfdw_internal.send_reference_write()'::regprocedure;
SELECT DISTINCT result FROM copies('SELECT to_regclass(''reference.r'') IS NULL');
SELECT * FROM r ORDER BY id;
SELECT * FROM reference_tables;

-- TRUNCATE of several tables that foreign keys tie, as test runners write it
CREATE TABLE kind (id int PRIMARY KEY);
CREATE TABLE "a kind" (id int PRIMARY KEY REFERENCES kind);
SELECT shardfdw.create_reference_table('kind'), shardfdw.create_reference_table('"a kind"');
CREATE TABLE thing (id int PRIMARY KEY, kind int);
SELECT shardfdw.shard_table('thing', 'id', shards => 4);
ALTER TABLE thing ADD FOREIGN KEY (kind) REFERENCES kind;
CREATE TABLE part (id int PRIMARY KEY);
SELECT shardfdw.shard_table('part', 'id', colocate_with => 'thing');
ALTER TABLE part ADD FOREIGN KEY (id) REFERENCES thing;
INSERT INTO kind VALUES (1), (2);
INSERT INTO "a kind" VALUES (1);
INSERT INTO thing SELECT i, 1 FROM generate_series(1, 20) i;
INSERT INTO part SELECT i FROM generate_series(1, 20) i;
CREATE VIEW counts AS SELECT (SELECT count(*) FROM kind) AS kind, (SELECT count(*) FROM "a kind") AS a_kind, (SELECT count(*) FROM thing) AS thing, (SELECT count(*) FROM part) AS part,
	(SELECT string_agg(DISTINCT r.result, ' ') FROM shardfdw.run_on_nodes('SELECT count(*) FROM reference.kind', in_transaction => true) r) AS copies;
TRUNCATE kind, "a kind";
TRUNCATE kind, "a kind", thing;
BEGIN;
ALTER TABLE thing ALTER COLUMN kind SET STATISTICS 10;
TRUNCATE kind, "a kind";
ROLLBACK;
SELECT * FROM counts;
BEGIN;
TRUNCATE kind, thing, part, "a kind";
SELECT * FROM counts;
ROLLBACK;
SELECT * FROM counts;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM counts;
TRUNCATE part, "a kind", thing, kind RESTART IDENTITY;
COMMIT;
SELECT * FROM counts;
-- tables that are empty already
TRUNCATE kind, "a kind", thing, part;
-- Triggers that are switched off, as pg_restore --disable-triggers does: those that send the rows stay as they are
CREATE TABLE restored (k int PRIMARY KEY, v int);
SELECT shardfdw.create_reference_table('restored') \g /dev/null
ALTER TABLE restored DISABLE TRIGGER ALL;
COPY restored FROM stdin;
1	1
2	2
\.
ALTER TABLE restored ENABLE TRIGGER ALL;
INSERT INTO restored VALUES (3, 3);
SET session_replication_role = replica;
INSERT INTO restored VALUES (4, 4);
RESET session_replication_role;
ALTER TABLE restored DISABLE TRIGGER USER;
INSERT INTO restored VALUES (5, 5);
SELECT DISTINCT result FROM shardfdw.run_on_nodes('SELECT count(*) FROM reference.restored');
SELECT DISTINCT tgenabled FROM pg_trigger WHERE tgrelid = 'restored'::regclass;
DROP SCHEMA reference CASCADE;
