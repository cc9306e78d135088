-- check_cluster() compares definitions: of shards with their table here, of replicas with their reference table.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA cd;
SET search_path = cd;
CREATE VIEW found AS
SELECT node, check_name, status, detail FROM shardfdw.check_cluster()
WHERE (check_name ~ '^(shard|reference table|object) ' OR check_name IN ('shards', 'reference tables')) AND node IN ('node1', 'node2');
CREATE VIEW different AS SELECT node, check_name, status, detail FROM found WHERE status <> 'ok' ORDER BY node, check_name COLLATE "C";

CREATE TABLE ref (k int PRIMARY KEY, v text UNIQUE DEFERRABLE, w int CHECK (w > 0), EXCLUDE (w WITH =));
SELECT shardfdw.create_reference_table('ref');
CREATE TABLE t (id int PRIMARY KEY, a text COLLATE "C" NOT NULL, b varchar(10) CHECK (length(b) < 5), g int GENERATED ALWAYS AS (id * 2) STORED,
	"odd ""col" int, r int REFERENCES ref, UNIQUE (a, id), CONSTRAINT later CHECK (g > 0) NOT VALID);
CREATE INDEX ON t (lower(a) DESC) INCLUDE (b) WHERE id > 3;
CREATE UNIQUE INDEX ON t (id, "odd ""col") NULLS NOT DISTINCT;
SELECT shardfdw.shard_table('t', shards => 4, nodes => '{node1,node2}');
SELECT * FROM different;

-- what a shard lacks is an error, what it has in addition a warning
SELECT count(*) FROM shardfdw.run_on_shards('t', 'ALTER TABLE %s ALTER a DROP NOT NULL, DROP CONSTRAINT t_b_check') WHERE ok;
SELECT ok, tag FROM shardfdw.query_nodes('{node1,node1,node2}', ARRAY[
	'ALTER TABLE cd.t_00 ADD x int, VALIDATE CONSTRAINT later',
	'DO $d$DECLARE i regclass; BEGIN FOR i IN SELECT indexrelid FROM pg_index WHERE indrelid = ''cd.t_02''::regclass AND indpred IS NOT NULL LOOP EXECUTE ''DROP INDEX '' || i; END LOOP; END$d$',
	'ALTER TABLE cd.t_01 ADD CONSTRAINT other CHECK (id < 9999), ALTER b SET NOT NULL, ALTER a TYPE text COLLATE "POSIX", DROP CONSTRAINT t_r_fkey; CREATE INDEX ON cd.t_01 (b)'], 'write');
SELECT ok, tag FROM shardfdw.query_nodes('{node2}', ARRAY['ALTER TABLE cd.t_03 DROP g, ADD g int; ALTER TABLE cd.t_03 SET UNLOGGED; CREATE ROLE cd_owner; GRANT USAGE, CREATE ON SCHEMA cd TO cd_owner; ALTER TABLE cd.t_03 OWNER TO cd_owner'], 'write');
SELECT * FROM different;

-- foreign keys from shard to shard
CREATE TABLE mum (id int PRIMARY KEY);
CREATE TABLE kid (id int PRIMARY KEY, x int);
SELECT shardfdw.shard_table('mum', shards => 4, nodes => '{node1,node2}'), shardfdw.shard_table('kid', colocate_with => 'mum');
SELECT count(*) FROM shardfdw.query_nodes('{node1,node2,node1,node2}', ARRAY(SELECT format('ALTER TABLE cd.kid_0%1$s ADD CONSTRAINT kid_fkey FOREIGN KEY (id) REFERENCES cd.mum_0%1$s', i) FROM generate_series(0, 3) i), 'write');
SELECT * FROM different WHERE check_name LIKE '%kid%';
SELECT count(*) FROM shardfdw.query_nodes('{node1,node1}', ARRAY['ALTER TABLE cd.kid_00 DROP CONSTRAINT kid_fkey', 'ALTER TABLE cd.kid_00 ADD CONSTRAINT kid_fkey FOREIGN KEY (id) REFERENCES cd.mum_02'], 'write');
SELECT * FROM different WHERE check_name LIKE '%kid%';
SELECT count(*) FROM shardfdw.query_nodes('{node1}', ARRAY['ALTER TABLE cd.kid_00 DROP CONSTRAINT kid_fkey'], 'write');
SELECT * FROM different WHERE check_name LIKE '%kid%';

-- an index whose CREATE INDEX CONCURRENTLY failed
CREATE TABLE dup (k int, v int);
SELECT shardfdw.shard_table('dup', 'k', shards => 2, nodes => '{node1,node2}');
INSERT INTO dup VALUES (1, 1), (1, 1);
SELECT DISTINCT ok FROM shardfdw.query_nodes('{node1,node1,node2,node2}', ARRAY['CREATE UNIQUE INDEX CONCURRENTLY dup_00_u ON cd.dup_00 (k)', 'SELECT 1',
	'CREATE UNIQUE INDEX CONCURRENTLY dup_01_u ON cd.dup_01 (k)', 'SELECT 1'], 'autocommit', false) ORDER BY 1;
SELECT count(*) FROM different WHERE status = 'error' AND detail ~ 'indexes not valid there: dup_0[01]_u';
SELECT shardfdw.unshard_table('dup');
DROP TABLE dup;

-- replicas
SELECT ok, tag FROM shardfdw.query_nodes('{node1,node2}', ARRAY['ALTER TABLE cd.ref ALTER w SET NOT NULL, DROP CONSTRAINT ref_w_check', 'ALTER TABLE cd.ref ADD UNIQUE (w)'], 'write');
SELECT * FROM different WHERE check_name LIKE '%ref';
SELECT ok, tag FROM shardfdw.query_nodes('{node2}', ARRAY['DROP OWNED BY cd_owner; DROP ROLE cd_owner'], 'write');

-- a table that is moved without its shards, next to which others are made, and one whose schema a node has lost
CREATE SCHEMA cd_moved;
CREATE TABLE moved (k int, v text) PARTITION BY LIST (k);
SELECT shardfdw.create_shard('moved', 'moved_1', 'IN (1)', 'node1');
ALTER TABLE moved SET SCHEMA cd_moved;
SELECT node, check_name, status, detail FROM shardfdw.check_cluster() WHERE check_name ~ 'moved';
SELECT shardfdw.create_shard('cd_moved.moved', 'moved_2', 'IN (2)', 'node2');
CREATE TABLE cd_moved.other (k int, v text) PARTITION BY LIST (k);
SELECT shardfdw.create_shard('cd_moved.other', 'other_2', 'IN (2)', 'node2');
SELECT ok FROM shardfdw.query_nodes('{node2}', ARRAY['DROP SCHEMA cd_moved CASCADE']);
SELECT node, check_name, status, detail FROM shardfdw.check_cluster() WHERE check_name ~ 'moved' ORDER BY check_name COLLATE "C";
DROP SCHEMA cd_moved CASCADE;

SELECT DISTINCT ok FROM shardfdw.run_on_nodes('DROP SCHEMA IF EXISTS cd CASCADE');
DROP SCHEMA cd CASCADE;
