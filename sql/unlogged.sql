-- Unlogged shards: made, altered, added, split, moved, compared, and plain again. A crash empties those of
-- one node alone: t/copy_crash.pl.

SET client_min_messages = warning;
\set VERBOSITY terse
CREATE SCHEMA unlogged;
SET search_path = unlogged;
CREATE VIEW persistence AS
	SELECT c.relname AS shard, r.result AS on_node, (SELECT o.option_value FROM pg_options_to_table(f.ftoptions) o WHERE o.option_name = 'unlogged') AS option
	FROM pg_class c JOIN pg_foreign_table f ON f.ftrelid = c.oid
	CROSS JOIN LATERAL (SELECT (q.fields)[1] AS result FROM shardfdw_internal.run_commands(
		ARRAY[(SELECT s.srvname FROM pg_foreign_server s WHERE s.oid = f.ftserver)],
		ARRAY[format('SELECT relpersistence FROM pg_class WHERE oid = ''unlogged.%I''::regclass', c.relname)], 'read') q) r
	WHERE c.relnamespace = 'unlogged'::regnamespace;

-- A table with rows, a serial and an identity column: their sequences outlive a crash of the coordinator, as the rows do
CREATE UNLOGGED TABLE t (id serial PRIMARY KEY, i int GENERATED ALWAYS AS IDENTITY, v text);
INSERT INTO t (v) SELECT 'v' || g FROM generate_series(1, 100) g;
SELECT shardfdw.shard_table('t', 'id', shards => 3) \g /dev/null
SELECT * FROM persistence ORDER BY shard COLLATE "C";
SELECT relname, relpersistence FROM pg_class WHERE relnamespace = 'unlogged'::regnamespace AND relkind IN ('p', 'S') ORDER BY relname COLLATE "C";
INSERT INTO t (v) VALUES ('new') RETURNING id, i;
SELECT count(*) FROM t;

-- ALTER TABLE changes both sides
ALTER TABLE t SET LOGGED;
SELECT * FROM persistence ORDER BY shard COLLATE "C";
ALTER TABLE t SET LOGGED;
ALTER TABLE t ADD extra int, SET UNLOGGED;
SELECT * FROM persistence ORDER BY shard COLLATE "C";
ALTER TABLE t SET UNLOGGED, DROP extra;
ALTER TABLE t SET LOGGED, SET UNLOGGED;
ALTER TABLE t SET UNLOGGED;
BEGIN;
ALTER TABLE t SET LOGGED;
ROLLBACK;
SELECT * FROM persistence ORDER BY shard COLLATE "C";

-- What PostgreSQL refuses the nodes refuse: a permanent table may not refer to an unlogged one
CREATE TABLE child (id int PRIMARY KEY);
SELECT shardfdw.shard_table('child', colocate_with => 't') \g /dev/null
ALTER TABLE child ADD FOREIGN KEY (id) REFERENCES t;
ALTER TABLE child SET UNLOGGED;
ALTER TABLE child ADD CONSTRAINT child_t FOREIGN KEY (id) REFERENCES t;
ALTER TABLE child SET LOGGED;
ALTER TABLE t SET LOGGED;
SELECT * FROM persistence WHERE shard LIKE 'child%' ORDER BY shard COLLATE "C";
DROP TABLE child;

-- Shards that are not what their option says, and ALTER TABLE that makes them so
CREATE VIEW different AS SELECT check_name, status, detail FROM shardfdw.check_cluster() WHERE check_name LIKE 'shard unlogged.%' AND status <> 'ok' ORDER BY check_name COLLATE "C";
ALTER TABLE t SET UNLOGGED;
SELECT * FROM different;
SELECT count(*) FROM shardfdw.run_on_shards('t', 'ALTER TABLE %s SET LOGGED') WHERE ok;
SELECT * FROM different;
ALTER TABLE t SET LOGGED;
SELECT * FROM different;
SELECT count(*) FROM shardfdw.run_on_shards('t', 'ALTER TABLE %s SET UNLOGGED') WHERE ok;
SELECT * FROM different;
ALTER TABLE t SET UNLOGGED;
SELECT * FROM different;
ALTER FOREIGN TABLE t_01 OPTIONS (SET unlogged 'maybe');

-- Pieces of a shard are unlogged, too
SELECT shardfdw.split_shard('t_02', mode => 'block') \g /dev/null
SELECT on_node, option, count(*) FROM persistence GROUP BY 1, 2;
SELECT count(*) FROM t;

-- Plain again
SELECT shardfdw.unshard_table('t', mode => 'online');
SELECT shardfdw.unshard_table('t');
SELECT relkind, relpersistence FROM pg_class WHERE oid = 't'::regclass;
SELECT count(*) FROM t;
SELECT shardfdw.shard_table('t', 'id', mode => 'online');

-- Shards that are added, of a range and by hand
CREATE TABLE r (id int, v int) PARTITION BY RANGE (id);
SELECT shardfdw.create_shard('r', 'r_0', 'FROM (0) TO (10)', (SELECT min(node) FROM shardfdw.nodes));
ALTER TABLE r SET UNLOGGED;
SELECT shardfdw.create_shard('r', 'r_1', 'FROM (10) TO (20)', (SELECT max(node) FROM shardfdw.nodes));
SELECT * FROM persistence ORDER BY shard COLLATE "C";
INSERT INTO r SELECT g, g FROM generate_series(0, 19) g;
COPY r FROM STDIN;
3	3
13	13
\.
SELECT count(*) FROM r;

DROP SCHEMA unlogged CASCADE;
