-- ADD COLUMN with a default that gives each row a value of its own: nodes compute what they can, the coordinator the rest.
CREATE SCHEMA ddl_fill;
SET search_path = ddl_fill;
CREATE TABLE t (id int PRIMARY KEY, v text);
SELECT shardfdw.shard_table('t', shards => 3) \g /dev/null
INSERT INTO t SELECT g, 'x' FROM generate_series(1, 500) g;
-- an UPDATE of the rows would fire this
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'updated'; END$$;
CREATE TRIGGER refuse BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION refuse();
\set SHOW_CONTEXT never

-- functions that nodes have
ALTER TABLE t ADD COLUMN u uuid NOT NULL DEFAULT gen_random_uuid();
SELECT count(*), count(DISTINCT u) FROM t;
ALTER TABLE t ADD COLUMN r float DEFAULT 10 + random(), ADD COLUMN c text DEFAULT upper('y' || (random() * 0)::int::text), ADD COLUMN k int DEFAULT 7;
SELECT count(*), count(DISTINCT r) > 490 AS of_their_own, min(r) >= 10 AND max(r) < 11 AS within, min(c), max(c), min(k) FROM t;
-- what is the same for all rows is computed once, here
ALTER TABLE t ADD COLUMN d bool DEFAULT (clock_timestamp() >= now() AND current_setting('search_path') = 'ddl_fill');
SELECT d, count(*) FROM t GROUP BY d;
-- at REPEATABLE READ as well, and rows of the transaction itself
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO t (id) VALUES (0);
ALTER TABLE t ADD COLUMN u2 uuid DEFAULT gen_random_uuid();
SELECT count(*), count(DISTINCT u2) FROM t;
ROLLBACK;

-- values of sequences: each once, and none left out
ALTER TABLE t ADD COLUMN s bigserial;
SELECT count(DISTINCT s), min(s), max(s) FROM t;
ALTER TABLE t ADD COLUMN s2 smallserial UNIQUE;
ALTER TABLE t ADD COLUMN s2 smallserial;
SELECT count(DISTINCT s2), min(s2), max(s2) FROM t;
-- shards without rows take none
CREATE TABLE empty (id int PRIMARY KEY);
SELECT shardfdw.shard_table('empty', shards => 3) \g /dev/null
CREATE SEQUENCE untouched;
ALTER TABLE empty ADD COLUMN a int DEFAULT nextval('untouched'), ADD COLUMN b serial;
SELECT u.is_called, b.is_called FROM untouched u, empty_b_seq b;
INSERT INTO empty SELECT 1;
ALTER TABLE empty ADD COLUMN c bigserial, ADD COLUMN d int DEFAULT -nextval('untouched');
SELECT * FROM empty;
INSERT INTO empty SELECT 2;
SELECT * FROM empty ORDER BY id;
DROP TABLE empty;
CREATE SEQUENCE down INCREMENT -3 START 20 MINVALUE -5000 MAXVALUE 100 CACHE 7;
ALTER TABLE t ADD COLUMN down int DEFAULT 2 * nextval('down') + 1;
SELECT count(DISTINCT down), min(down), max(down) FROM t;
SELECT nextval('down');
INSERT INTO t (id) VALUES (501) RETURNING s, s2, down;
-- one that does not have enough, one that begins anew
CREATE SEQUENCE few MAXVALUE 10;
ALTER TABLE t ADD COLUMN few int DEFAULT nextval('few');
CREATE TABLE p AS SELECT id FROM t;
ALTER TABLE p ADD COLUMN few int DEFAULT nextval('few');
DROP TRIGGER refuse ON t;
CREATE SEQUENCE again MAXVALUE 10 CYCLE;
ALTER TABLE t ADD COLUMN again int DEFAULT nextval('again');
SELECT count(DISTINCT again), min(again), max(again), min(n) >= 50 AS evenly FROM (SELECT again, count(*) OVER (PARTITION BY again) AS n FROM t) x;
-- one for two columns, one whose name is taken on a node
CREATE SEQUENCE two;
ALTER TABLE t ADD COLUMN two_a int DEFAULT nextval('two'), ADD COLUMN two_b int DEFAULT nextval('two');
SELECT count(DISTINCT v), min(v), max(v) FROM (SELECT two_a AS v FROM t UNION ALL SELECT two_b FROM t) x;
CREATE SEQUENCE taken;
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SEQUENCE ddl_fill.taken START 77') WHERE ok AND node = 'node1';
ALTER TABLE t ADD COLUMN taken int DEFAULT nextval('taken');
SELECT count(DISTINCT taken), min(taken), max(taken) FROM t;
SELECT DISTINCT result FROM shardfdw.run_on_nodes('SELECT last_value FROM ddl_fill.taken') WHERE ok AND node = 'node1';
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SEQUENCE ddl_fill.taken') WHERE ok;

-- shards with one row, or none
CREATE TABLE lone (id int PRIMARY KEY);
SELECT shardfdw.shard_table('lone', shards => 3) \g /dev/null
CREATE SEQUENCE fall INCREMENT -1;
ALTER TABLE lone ADD COLUMN a bigserial, ADD COLUMN d int DEFAULT nextval('fall');
INSERT INTO lone SELECT min(id) FROM (SELECT g AS id, shardfdw.shard_for('lone', g) AS shard FROM generate_series(1, 20) g) x WHERE shard IS DISTINCT FROM 'lone_02'::regclass GROUP BY shard;
ALTER TABLE lone ADD COLUMN b bigserial, ADD COLUMN e int DEFAULT nextval('fall');
SELECT count(*), count(DISTINCT a), count(DISTINCT b), count(DISTINCT e), max(e) < 0 AS down FROM lone;

-- functions of users are the coordinator's
CREATE SEQUENCE counted;
CREATE FUNCTION own() RETURNS text LANGUAGE sql VOLATILE AS $$SELECT 'own ' || nextval('ddl_fill.counted')$$;
ALTER TABLE t ADD COLUMN o text DEFAULT own();
SELECT count(DISTINCT o) FROM t;

-- what was needed on nodes is gone; shards have no defaults; a failed statement leaves nothing
ALTER TABLE t ADD COLUMN bad int DEFAULT 1 / (random() * 0)::int;
ALTER TABLE t ADD COLUMN bad bigserial CHECK (bad < 100);
SELECT result, count(*) FROM shardfdw.run_on_nodes('SELECT count(*) FROM pg_class WHERE relkind = ''S'' AND relnamespace = ''ddl_fill''::regnamespace') GROUP BY 1;
SELECT DISTINCT result FROM shardfdw.run_on_shards('t', 'SELECT count(*) FROM pg_attrdef WHERE adrelid = %L::regclass');
SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'bad';
SELECT node, status FROM shardfdw.check_cluster() WHERE check_name LIKE 'table ddl_fill%' AND status <> 'ok';

SET client_min_messages = warning;
DROP SCHEMA ddl_fill CASCADE;
