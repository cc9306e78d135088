-- What shard_table, unshard_table and create_shard refuse: before anything changes, naming what is in the way.
\set VERBOSITY terse
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA refuse;
SET search_path = refuse;

-- unique keys without the shard key
CREATE TABLE pk (id int PRIMARY KEY, k int);
SELECT shardfdw.shard_table('pk', 'k');
CREATE TABLE uq (id int PRIMARY KEY, k int, CONSTRAINT uq_k UNIQUE (k));
SELECT shardfdw.shard_table('uq');
CREATE TABLE ux (id int PRIMARY KEY, k int);
CREATE UNIQUE INDEX ux_expr ON ux ((id + 1));
SELECT shardfdw.shard_table('ux');
DROP INDEX ux_expr;
CREATE UNIQUE INDEX ux_incl ON ux (k) INCLUDE (id);
SELECT shardfdw.shard_table('ux');
CREATE TABLE ex (id int, r int4range, EXCLUDE USING gist (r WITH &&));
SELECT shardfdw.shard_table('ex', 'id');

-- foreign keys, both ways
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES pk);
SELECT shardfdw.shard_table('child');
SELECT shardfdw.shard_table('pk');

-- what depends on the table
CREATE TABLE dep (id int PRIMARY KEY, v text);
CREATE MATERIALIZED VIEW dep_view AS SELECT * FROM dep;
SELECT shardfdw.shard_table('dep');
DROP MATERIALIZED VIEW dep_view;
CREATE RULE dep_rule AS ON DELETE TO dep DO INSTEAD NOTHING;
SELECT shardfdw.shard_table('dep');
DROP RULE dep_rule ON dep;
CREATE FUNCTION dep_function() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM dep; END;
SELECT shardfdw.shard_table('dep');
DROP FUNCTION dep_function();
CREATE FUNCTION dep_argument(dep) RETURNS int LANGUAGE sql AS 'SELECT 1';
SELECT shardfdw.shard_table('dep');
DROP FUNCTION dep_argument(dep);
CREATE TABLE dep_column (d dep[]);
SELECT shardfdw.shard_table('dep');
DROP TABLE dep_column;
SET client_min_messages = error;
CREATE PUBLICATION dep_publication FOR TABLE dep;
SET client_min_messages = warning;
SELECT shardfdw.shard_table('dep');
DROP PUBLICATION dep_publication;
CREATE FUNCTION dep_trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE CONSTRAINT TRIGGER dep_constraint AFTER INSERT ON dep FOR EACH ROW EXECUTE FUNCTION dep_trigger();
SELECT shardfdw.shard_table('dep');
DROP TRIGGER dep_constraint ON dep;
CREATE TRIGGER dep_transition AFTER INSERT ON dep REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION dep_trigger();
SELECT shardfdw.shard_table('dep');
DROP TRIGGER dep_transition ON dep;
CREATE TABLE dep_child () INHERITS (dep);
SELECT shardfdw.shard_table('dep');
SELECT shardfdw.shard_table('dep_child', 'id');
DROP TABLE dep_child;

-- tables of other kinds
SELECT shardfdw.shard_table('pg_catalog.pg_class', 'oid');
CREATE TEMPORARY TABLE temporary (id int PRIMARY KEY);
SELECT shardfdw.shard_table('temporary');
CREATE VIEW view AS SELECT 1 AS id;
SELECT shardfdw.shard_table('view', 'id');
CREATE TYPE of_type AS (id int);
CREATE TABLE typed OF of_type;
SELECT shardfdw.shard_table('typed', 'id');
CREATE TABLE partitioned (id int) PARTITION BY HASH (id);
CREATE TABLE partition PARTITION OF partitioned FOR VALUES WITH (MODULUS 1, REMAINDER 0);
SELECT shardfdw.shard_table('partitioned');
SELECT shardfdw.shard_table('partition', 'id');
CREATE TABLE ranges (id int) PARTITION BY RANGE (id);
SELECT shardfdw.shard_table('ranges');
SELECT shardfdw.shard_table(NULL);

-- keys
CREATE TABLE keys (a point, b int, c int GENERATED ALWAYS AS (b * 2) STORED, d text);
SELECT shardfdw.shard_table('keys');
SELECT shardfdw.shard_table('keys', 'nix');
SELECT shardfdw.shard_table('keys', 'a');
SELECT shardfdw.shard_table('keys', 'c');
SELECT shardfdw.shard_table('keys', 'ctid');
CREATE TYPE colour AS ENUM ('red', 'green');
CREATE DOMAIN colours AS colour[];
CREATE TABLE enums (k colour PRIMARY KEY, ks colours, r int);
SELECT shardfdw.shard_table('enums');
ALTER TABLE enums DROP CONSTRAINT enums_pkey;
SELECT shardfdw.shard_table('enums', 'ks');
CREATE TABLE hashed_enum (k colour) PARTITION BY HASH (k);
SELECT shardfdw.create_shard('hashed_enum', 'he1', 'WITH (MODULUS 1, REMAINDER 0)', 'node1');
CREATE TABLE hashed (b int) PARTITION BY HASH (b);
SELECT shardfdw.shard_table('hashed', 'b');

-- numbers and nodes
SELECT shardfdw.shard_table('keys', 'b', shards => 0);
SELECT shardfdw.shard_table('keys', 'b', nodes => '{}');
SELECT shardfdw.shard_table('keys', 'b', nodes => '{node1,nowhere}');
SELECT shardfdw.shard_table('keys', 'b', nodes => '{shardfdw_cluster}');

-- colocation
SELECT shardfdw.shard_table('keys', 'b', colocate_with => 'pk');
SELECT shardfdw.shard_table('hashed', shards => 3, nodes => '{node2,node1}');
SELECT shardfdw.shard_table('keys', 'd', colocate_with => 'hashed');
SELECT shardfdw.shard_table('keys', 'b', shards => 3, colocate_with => 'hashed');
SELECT shardfdw.shard_table('hashed');

-- rights
DROP ROLE IF EXISTS refuse_role;
CREATE ROLE refuse_role;
GRANT USAGE ON SCHEMA refuse TO refuse_role;
GRANT ALL ON keys TO refuse_role;
SET ROLE refuse_role;
SELECT shardfdw.shard_table('keys', 'b');
SELECT shardfdw.unshard_table('hashed');
SELECT shardfdw.create_shard('ranges', 'r1', 'FROM (1) TO (2)', 'node1');
CREATE TEMPORARY TABLE mine (id int);
SELECT * FROM shardfdw.run_on_nodes('SELECT 1');
SELECT * FROM shardfdw.run_on_shards('hashed', 'SELECT 1');
SELECT shardfdw.add_node('mine', 'localhost');
SELECT shardfdw.remove_node('node1');
SELECT * FROM shardfdw.query_nodes('{node1}', '{SELECT 1}');
SELECT count(*) FROM shardfdw.check_cluster();
RESET ROLE;
DROP OWNED BY refuse_role;
SELECT shardfdw.run_on_nodes('DROP OWNED BY refuse_role') \g /dev/null
DROP ROLE refuse_role;

-- a table of the shard's name on the node
SELECT * FROM shardfdw.run_on_nodes('CREATE SCHEMA IF NOT EXISTS refuse') ORDER BY 1;
SELECT * FROM shardfdw.run_on_nodes('CREATE TABLE refuse.keys_01 (a int)') ORDER BY 1;
\set VERBOSITY default
SELECT shardfdw.shard_table('keys', 'b', shards => 2);
\set VERBOSITY terse

-- unshard_table, create_shard
SELECT shardfdw.unshard_table('keys');
SELECT shardfdw.unshard_table('partitioned');
CREATE MATERIALIZED VIEW hashed_view AS SELECT * FROM hashed;
SELECT shardfdw.unshard_table('hashed');
SELECT shardfdw.create_shard('keys', 'k1', 'FROM (1) TO (2)', 'node1');
SELECT shardfdw.create_shard('ranges', 'r1', 'FROM (1) TO (2)', 'nowhere');
SELECT shardfdw.create_shard('ranges', NULL, 'FROM (1) TO (2)', 'node1');
SELECT shardfdw.create_shard('ranges', 'r1', 'FROM (2) TO (1)', 'node1');
SELECT shardfdw.create_shard('ranges', 'r1', 'IN (1)', 'node1');

-- All of them are as they were, here and there.
SELECT c.relname, c.relkind, count(i.inhrelid) AS partitions
FROM pg_class c LEFT JOIN pg_inherits i ON i.inhparent = c.oid
WHERE c.relnamespace = 'refuse'::regnamespace AND c.relkind IN ('r', 'p', 'f')
GROUP BY 1, 2 ORDER BY c.relname::text COLLATE "C";
-- no relation at all
\set VERBOSITY sqlstate
SELECT shardfdw.shard_for(1::regclass, 1);
SELECT shardfdw.shard_table(1::regclass);
SELECT shardfdw.unshard_table(1::regclass);
SELECT shardfdw.create_reference_table(1::regclass);
SELECT shardfdw.unshard_table(1::regclass);
SELECT shardfdw.create_shard(1::regclass, 'x', 'IN (1)', 'node1');
SELECT shardfdw.run_on_shards(1::regclass, 'SELECT 1');
SELECT shardfdw_internal.shard_sizes(1::regclass);
\set VERBOSITY terse

-- publications of all tables and of a schema go on without the table: a warning
CREATE TABLE published (k int PRIMARY KEY);
SET client_min_messages = error;
CREATE PUBLICATION refuse_all FOR ALL TABLES;
CREATE PUBLICATION "refuse schema" FOR TABLES IN SCHEMA refuse;
SET client_min_messages = warning;
BEGIN;
\set VERBOSITY default
SELECT shardfdw.shard_table('published', shards => 1) \g /dev/null
\set VERBOSITY terse
ROLLBACK;
DROP PUBLICATION refuse_all, "refuse schema";
DROP TABLE published;

SELECT node, result FROM shardfdw.run_on_nodes($$SELECT relname FROM pg_class WHERE relnamespace = 'refuse'::regnamespace AND relkind = 'r' ORDER BY 1$$)
ORDER BY 1;

SELECT shardfdw.run_on_nodes('DROP SCHEMA refuse CASCADE');
DROP SCHEMA refuse CASCADE;
