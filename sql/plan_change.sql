-- Plans that were made before the shards, their options or the columns changed are made anew.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA plan_change;
SET search_path = plan_change;
SET plan_cache_mode = force_generic_plan;
-- either side is changed by itself
SET shardfdw.enable_ddl_propagation = off;
SELECT ok FROM shardfdw.run_on_nodes('CREATE SCHEMA IF NOT EXISTS plan_change');
CREATE TABLE t (id int, v int) PARTITION BY RANGE (id);
SELECT shardfdw.create_shard('t', 't_1', 'FROM (0) TO (10)', 'node1');
INSERT INTO t SELECT g, g FROM generate_series(0, 9) g;

PREPARE n AS SELECT count(*), sum(v) FROM t;
PREPARE g AS SELECT v % 2 AS odd, count(*) FROM t GROUP BY 1 ORDER BY 1;
PREPARE one(int) AS SELECT * FROM t WHERE id = $1;
PREPARE upd(int) AS UPDATE t SET v = v + 100 WHERE id = $1;
CREATE FUNCTION total() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT sum(v) FROM t); END';
EXECUTE n;
EXECUTE g;
EXECUTE one(5);
EXECUTE one(15);
EXECUTE upd(5);
SELECT total();

-- Another shard
SELECT shardfdw.create_shard('t', 't_2', 'FROM (10) TO (20)', 'node2');
INSERT INTO t SELECT g, g FROM generate_series(10, 19) g;
EXECUTE n;
EXECUTE g;
EXECUTE one(15);
EXECUTE upd(15);
EXECUTE one(15);
SELECT total();

-- A shard that is another table now
SELECT ok FROM shardfdw.run_on_nodes('CREATE TABLE plan_change.other (id int, v int)');
SELECT ok FROM shardfdw.run_on_nodes('INSERT INTO plan_change.other VALUES (15, -1)');
ALTER FOREIGN TABLE t_2 OPTIONS (ADD table_name 'other');
EXECUTE n;
EXECUTE one(15);
EXECUTE upd(15);
EXECUTE one(15);
SELECT total();
ALTER FOREIGN TABLE t_2 OPTIONS (DROP table_name);
EXECUTE n;
EXECUTE one(15);

-- A local partition: core plans the parts
CREATE TABLE t_local PARTITION OF t FOR VALUES FROM (20) TO (30);
INSERT INTO t VALUES (25, 25);
EXECUTE n;
EXECUTE g;
EXECUTE one(25);
EXECUTE upd(25);
EXECUTE one(25);
ALTER TABLE t DETACH PARTITION t_local;
EXECUTE n;
EXECUTE one(25);

-- A shard goes
ALTER TABLE t DETACH PARTITION t_2;
EXECUTE n;
EXECUTE one(15);
SELECT total();
SELECT count(*) FROM t_2;
ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES FROM (100) TO (200);
EXECUTE one(115);
ALTER TABLE t DETACH PARTITION t_2;
ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES FROM (10) TO (20);
EXECUTE n;

-- Columns
PREPARE everything AS SELECT * FROM t ORDER BY id LIMIT 2;
EXECUTE everything;
SELECT ok FROM shardfdw.run_on_shards('t', 'ALTER TABLE %s ADD COLUMN w text DEFAULT ''new''');
ALTER TABLE t ADD COLUMN w text DEFAULT 'new';
EXECUTE everything;
EXECUTE n;
SELECT * FROM t ORDER BY id LIMIT 2;
INSERT INTO t (id, w) VALUES (3, 'x');
SELECT ok FROM shardfdw.run_on_shards('t', 'ALTER TABLE %s DROP COLUMN v');
ALTER TABLE t DROP COLUMN v;
EXECUTE n;
SELECT w, count(*) FROM t GROUP BY w ORDER BY w;
SELECT * FROM t WHERE id = 3 ORDER BY w;
SELECT ok FROM shardfdw.run_on_shards('t', 'ALTER TABLE %s RENAME COLUMN w TO x');
ALTER TABLE t RENAME COLUMN w TO x;
SELECT x, count(*) FROM t GROUP BY x ORDER BY x;

-- Another node's table through the same server
PREPARE m AS SELECT count(*) FROM t;
EXECUTE m;
SELECT dbname AS node1_db FROM shardfdw.nodes WHERE node = 'node1' \gset
SELECT dbname AS node3_db FROM shardfdw.nodes WHERE node = 'node3' \gset
SELECT ok FROM shardfdw.run_on_nodes('CREATE TABLE IF NOT EXISTS plan_change.t_1 (id int, x text)');
ALTER SERVER node1 OPTIONS (SET dbname :'node3_db');
-- the tests before have changed reference tables on node1
SELECT shardfdw.confirm_node('node1') \g /dev/null
EXECUTE m;
ALTER SERVER node1 OPTIONS (SET dbname :'node1_db');
SELECT shardfdw.confirm_node('node1') \g /dev/null
EXECUTE m;

-- A node that has prepared the UPDATE or INSERT of a row keeps the types of its parameters. The column gets another type:
-- by ALTER TABLE, or since another table has the name.
SET shardfdw.enable_ddl_propagation = on;
CREATE FUNCTION by_row(anyelement) RETURNS anyelement LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TABLE retyped (k int PRIMARY KEY, x date);
SELECT shardfdw.shard_table('retyped', 'k', shards => 2);
INSERT INTO retyped SELECT i, '2024-01-01' FROM generate_series(1, 6) i;
UPDATE retyped SET x = by_row(x);
UPDATE retyped SET x = by_row(x);
ALTER TABLE retyped ALTER x TYPE timestamp;
UPDATE retyped SET x = by_row(x + interval '1 hour');
SELECT DISTINCT x FROM retyped;
DROP TABLE retyped;
CREATE TABLE retyped (k int PRIMARY KEY, x int);
SELECT shardfdw.shard_table('retyped', 'k', shards => 2);
CREATE TRIGGER nothing BEFORE INSERT OR UPDATE ON retyped FOR EACH ROW EXECUTE FUNCTION nothing();
INSERT INTO retyped SELECT i, i FROM generate_series(1, 6) i ON CONFLICT (k) DO UPDATE SET x = by_row(excluded.x);
INSERT INTO retyped SELECT i, i FROM generate_series(1, 12) i ON CONFLICT (k) DO UPDATE SET x = by_row(excluded.x);
ALTER TABLE retyped ALTER x TYPE bigint;
INSERT INTO retyped SELECT i, i + 5000000000 FROM generate_series(1, 20) i ON CONFLICT (k) DO UPDATE SET x = by_row(excluded.x);
SELECT count(*), min(x), max(x) FROM retyped;

-- The same for statements on one shard: parameters of the types of users have no cast
CREATE DOMAIN tenths AS numeric(6,1);
CREATE DOMAIN thousandths AS numeric(6,3);
CREATE DOMAIN whole AS int;
CREATE DOMAIN words AS text;
CREATE TYPE pair AS (a numeric(6,1), b int);
CREATE TYPE other_pair AS (a numeric(6,3), b text);
CREATE TABLE own_types (k int PRIMARY KEY, v tenths, i whole, p pair);
SELECT shardfdw.shard_table('own_types', 'k', shards => 2) \g /dev/null
CREATE FUNCTION write_own_types(p text) RETURNS void LANGUAGE plpgsql SET plan_cache_mode = auto AS $$BEGIN
	FOR i IN 1..5 LOOP
		DELETE FROM own_types WHERE k IN (1, 2, 3);
		EXECUTE format('INSERT INTO own_types VALUES (1, 1.2345, ''007'', %L)', p);
		EXECUTE format('INSERT INTO own_types VALUES (2, 1.2345, ''007'', %L) ON CONFLICT (k) DO UPDATE SET v = excluded.v', p);
		EXECUTE format('INSERT INTO own_types VALUES (2, 1.2345, ''007'', %L) ON CONFLICT (k) DO UPDATE SET v = 2.3456, i = ''008''', p);
		EXECUTE format('INSERT INTO own_types VALUES (3, 1.2345, ''007'', %L)', p);
		EXECUTE format('UPDATE own_types SET v = 3.4567, i = ''009'', p = %L WHERE k = 3', p);
	END LOOP;
END$$;
SELECT write_own_types('(1.2345,7)');
SELECT * FROM own_types ORDER BY k;
DELETE FROM own_types;
ALTER TABLE own_types ALTER v TYPE thousandths, ALTER i TYPE words;
ALTER TABLE own_types DROP p;
ALTER TABLE own_types ADD p other_pair;
SELECT write_own_types('(1.2345,seven)');
SELECT * FROM own_types ORDER BY k;

DROP SCHEMA plan_change CASCADE;
SELECT ok FROM shardfdw.run_on_nodes('DROP SCHEMA plan_change CASCADE');
