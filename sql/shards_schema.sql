-- Shards in a schema of their own: the usual life of a table, beside a plain one.
CREATE SCHEMA ss;
CREATE SCHEMA ss_other;
SET search_path = ss;
SET client_min_messages = warning;
\set VERBOSITY default
\set SHOW_CONTEXT never
CREATE TABLE plain (id int PRIMARY KEY, company int, note text);
CREATE TABLE company (id int PRIMARY KEY, name text);
CREATE TABLE t (id int PRIMARY KEY, company int, note text);
CREATE INDEX t_note ON t (note);
INSERT INTO t SELECT g, g % 10, 'n' || g FROM generate_series(1, 100) g;
INSERT INTO plain TABLE t;
INSERT INTO company SELECT g, 'c' || g FROM generate_series(1, 10) g;
-- Where the shards of a table are: here, and on how many nodes with all that belongs to them.
CREATE FUNCTION places(relation regclass) RETURNS TABLE (here text, there text, shards bigint) LANGUAGE sql AS $$
	SELECT c.relnamespace::regnamespace::text, r.result, count(*) FROM shardfdw.run_on_shards(relation, $q$SELECT format('%%s %%s', c.relnamespace::regnamespace,
		(SELECT count(*) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = c.oid AND x.relnamespace = c.relnamespace)) FROM pg_class c WHERE c.oid = %L::regclass$q$) r
	JOIN pg_class c ON c.oid = r.shard GROUP BY 1, 2 ORDER BY 1, 2
$$;
CREATE FUNCTION same() RETURNS boolean LANGUAGE sql AS $$
	SELECT NOT EXISTS (TABLE ss.t EXCEPT TABLE ss.plain) AND NOT EXISTS (TABLE ss.plain EXCEPT TABLE ss.t) AND (SELECT count(*) FROM ss.t) = (SELECT count(*) FROM ss.plain)
$$;
SELECT shardfdw.shard_table('t', shards => 3, mode => 'online', shards_in => 'ss_shards');
SELECT shardfdw.shard_table('t', shards => 3, shards_in => 'ss_shards') \g /dev/null
SELECT * FROM places('t');
SELECT same();
SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'ss'::regnamespace AND c.relkind IN ('r', 'p', 'f') ORDER BY c.relname COLLATE "C";

-- COPY, DML, definitions
COPY t (id, company, note) FROM stdin;
101	1	a
102	2	b
\.
INSERT INTO plain VALUES (101, 1, 'a'), (102, 2, 'b');
INSERT INTO t VALUES (103, 3, 'c'), (1, 1, 'again') ON CONFLICT (id) DO UPDATE SET note = excluded.note;
INSERT INTO plain VALUES (103, 3, 'c'), (1, 1, 'again') ON CONFLICT (id) DO UPDATE SET note = excluded.note;
UPDATE t SET note = note || 'x' WHERE company = 4;
UPDATE plain SET note = note || 'x' WHERE company = 4;
DELETE FROM t WHERE id = 50;
DELETE FROM plain WHERE id = 50;
UPDATE t SET id = 1000 WHERE id = 60;
UPDATE plain SET id = 1000 WHERE id = 60;
ALTER TABLE t ADD COLUMN more int DEFAULT 7, ADD CHECK (company < 100);
ALTER TABLE plain ADD COLUMN more int DEFAULT 7;
CREATE INDEX ON t (company);
ALTER INDEX t_note RENAME TO t_note_2;
SELECT same();
SELECT * FROM places('t');
COPY (SELECT count(*) FROM t) TO STDOUT;

-- colocated tables, foreign keys, tables of the same name elsewhere
SELECT shardfdw.shard_table('company', colocate_with => 't', shards_in => 'ss_shards') \g /dev/null
SELECT * FROM places('company');
SELECT count(*) FROM t JOIN company c ON c.id = t.id;
CREATE TABLE ss_other.t (id int PRIMARY KEY);
SELECT shardfdw.shard_table('ss_other.t', shards => 2, shards_in => 'ss_shards');
SELECT shardfdw.shard_table('ss_other.t', shards => 2, shards_in => 'ss_other_shards') \g /dev/null
SELECT shardfdw.set_shards_schema('ss_other.t', 'ss_shards');
SELECT shardfdw.set_shards_schema('ss_other.t', 'ss_other') \g /dev/null
SELECT * FROM places('ss_other.t');
SELECT shardfdw.set_shards_schema('plain', 'ss_shards');
SELECT shardfdw.set_shards_schema('t', NULL);
-- a table that is renamed leaves its shards their names, which another one of its name does not get
ALTER TABLE company RENAME TO firm;
CREATE TABLE company (id int PRIMARY KEY);
SELECT shardfdw.shard_table('company', shards => 3, shards_in => 'ss_shards') \g /dev/null
SELECT * FROM places('company');
DROP TABLE company;
ALTER TABLE firm RENAME TO company;

-- the table moves to another schema, and the schema of the shards gets another name
DROP TABLE ss_other.t;
ALTER TABLE t SET SCHEMA ss_other;
SELECT * FROM places('ss_other.t');
ALTER TABLE ss_other.t SET SCHEMA ss;
ALTER TABLE t RENAME TO t2;
ALTER TABLE t2 RENAME TO t;
ALTER SCHEMA ss_shards RENAME TO ss_pieces;
SELECT * FROM places('t');
SELECT same();
ALTER TABLE t ADD UNIQUE (note, id);
SELECT * FROM places('t');
ALTER TABLE t DROP CONSTRAINT t_note_id_key;

-- moves and splits
SELECT count(shardfdw.move_shard('ss_pieces.t_00', 'node4', mode => 'block'));
SELECT count(shardfdw.split_shard('ss_pieces.t_01', mode => 'block'));
SELECT * FROM places('t');
SELECT same();

-- new shards follow
CREATE TABLE r (id int, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
SELECT shardfdw.create_shard('r', 'r_1', 'FROM (0) TO (10)', 'node1');
SELECT shardfdw.set_shards_schema('r', 'ss_pieces') \g /dev/null
SELECT shardfdw.create_shard('r', 'r_2', 'FROM (10) TO (20)', 'node4');
INSERT INTO r SELECT g, g FROM generate_series(0, 19) g;
SELECT * FROM places('r');
CREATE TABLE log (at date NOT NULL, id int, PRIMARY KEY (at, id)) PARTITION BY RANGE (at);
CREATE TABLE log_1 PARTITION OF log FOR VALUES FROM ('2026-01-01') TO ('2026-02-01') PARTITION BY HASH (id);
SELECT shardfdw.shard_table('log_1', shards => 2, shards_in => 'ss_pieces') \g /dev/null
SELECT FROM shardfdw.create_time_partitions('log', '1 month', '2026-03-15') \g /dev/null
SELECT p.here, p.there, count(*), sum(p.shards) FROM pg_inherits i, places(i.inhrelid::regclass) p WHERE i.inhparent = 'log'::regclass GROUP BY 1, 2;
SELECT shardfdw.set_shards_schema('log', 'ss_log') \g /dev/null
SELECT p.here, p.there, count(*), sum(p.shards) FROM pg_inherits i, places(i.inhrelid::regclass) p WHERE i.inhparent = 'log'::regclass GROUP BY 1, 2;

-- who may use the table needs no more than that
SELECT nspname, (SELECT bool_or(x.grantee = 0) FROM aclexplode(nspacl) x) AS public FROM pg_namespace WHERE nspname IN ('ss_pieces', 'ss_log') ORDER BY nspname;
SELECT result, count(*) FROM shardfdw.run_on_nodes($$SELECT string_agg(format('%s %s', nspname, (SELECT bool_or(x.grantee = 0) FROM aclexplode(nspacl) x)), ', ' ORDER BY nspname) FROM pg_namespace WHERE nspname IN ('ss_pieces')$$) GROUP BY 1 ORDER BY 1;
SELECT node, check_name, detail FROM shardfdw.check_cluster() WHERE status <> 'ok' AND concat(check_name, detail) LIKE '%ss%';

-- and back
SELECT shardfdw.set_shards_schema('r', 'ss') \g /dev/null
SELECT * FROM places('r');
SELECT shardfdw.unshard_table('t') \g /dev/null
SELECT same();
-- with what stands above them
DROP SCHEMA ss_pieces;
DROP SCHEMA ss, ss_other CASCADE;
SELECT count(*) FROM pg_class WHERE relnamespace IN ('ss_pieces'::regnamespace, 'ss_log'::regnamespace);
SELECT sum(result::int) FROM shardfdw.run_on_nodes($$SELECT count(*) FROM pg_class WHERE relnamespace::regnamespace::text IN ('ss_pieces', 'ss_log')$$);
DROP SCHEMA ss_pieces, ss_log;
