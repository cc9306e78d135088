-- DROP SCHEMA ... CASCADE and DROP OWNED that drop shards without their parents drop these shards on nodes, with their rows, as
-- PostgreSQL drops partitions.  DROP FOREIGN TABLE of a shard leaves its table on the node.
CREATE SCHEMA dss;
SET search_path = dss;
SET client_min_messages = warning;
CREATE FUNCTION on_nodes(name text) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(r.result, ' ' ORDER BY r.result) FILTER (WHERE r.result <> ''), '')
	FROM shardfdw.run_on_nodes(format($q$SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relkind = 'r' AND relname ~ %L$q$, name)) r
$$;
CREATE TABLE apart (id int PRIMARY KEY, v int);
INSERT INTO apart SELECT g, g FROM generate_series(1, 20) g;
SELECT shardfdw.shard_table('apart', shards => 2, shards_in => 'dss_apart') \g /dev/null
SELECT on_nodes('^apart_'), (SELECT count(*) FROM apart);
BEGIN;
DROP SCHEMA dss_apart CASCADE;
SELECT on_nodes('^apart_'), (SELECT count(*) FROM apart);
ROLLBACK;
SELECT on_nodes('^apart_'), (SELECT count(*) FROM apart);
DROP SCHEMA dss_apart CASCADE;
SELECT on_nodes('^apart_'), (SELECT count(*) FROM apart);
INSERT INTO apart VALUES (1, 1);

-- the parent has left its shards' schema
CREATE SCHEMA dss_first;
CREATE SCHEMA dss_second;
CREATE TABLE dss_first.gone (id int PRIMARY KEY, v int);
SELECT shardfdw.shard_table('dss_first.gone', shards => 2) \g /dev/null
INSERT INTO dss_first.gone SELECT g, g FROM generate_series(1, 20) g;
ALTER TABLE dss_first.gone SET SCHEMA dss_second;
DROP SCHEMA dss_first CASCADE;
SELECT on_nodes('^gone_'), (SELECT count(*) FROM dss_second.gone);

-- replicas
CREATE TABLE twice (id int PRIMARY KEY, v int);
SELECT shardfdw.shard_table('twice', shards => 2, replication_factor => 2, shards_in => 'dss_twice') \g /dev/null
INSERT INTO twice SELECT g, g FROM generate_series(1, 20) g;
SELECT on_nodes('^twice_');
DROP SCHEMA dss_twice CASCADE;
SELECT on_nodes('^twice_'), on_nodes('^shardfdw_.*twice'), (SELECT count(*) FROM twice);

-- all that a role has
CREATE ROLE dss_role;
CREATE TABLE lent (id int PRIMARY KEY, v int);
SELECT shardfdw.shard_table('lent', shards => 2) \g /dev/null
ALTER FOREIGN TABLE lent_00 OWNER TO dss_role;
DROP OWNED BY dss_role;
SELECT on_nodes('^lent_'), (SELECT count(*) FROM lent);
DROP ROLE dss_role;

-- a shard that is named leaves its table
CREATE TABLE named (id int PRIMARY KEY, v int);
SELECT shardfdw.shard_table('named', shards => 2) \g /dev/null
DROP FOREIGN TABLE named_00;
SELECT on_nodes('^named_');
SELECT count(*) FROM shardfdw.run_on_nodes('DROP TABLE IF EXISTS dss.named_00');
DROP SCHEMA dss, dss_second CASCADE;
SELECT node, check_name, detail FROM shardfdw.check_cluster() WHERE status <> 'ok' AND concat(check_name, detail) LIKE '%dss%';
