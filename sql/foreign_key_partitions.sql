-- Foreign keys with actions between partitions that are separate sharded tables are refused: a node would run the
-- action before a statement has reached all partitions, and PostgreSQL runs it at the end.
SET client_min_messages = warning;
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
CREATE SCHEMA fk_parts;
SET search_path = fk_parts;
SELECT format('CREATE TABLE %s (m int NOT NULL, k int NOT NULL, id int NOT NULL, up int, PRIMARY KEY (k, id))', t)
	FROM unnest('{m1,m2,m3,far,further,child}'::text[]) t \gexec
CREATE TABLE top (LIKE m1) PARTITION BY RANGE (m);
CREATE TABLE year (LIKE m1) PARTITION BY RANGE (m);
SELECT shardfdw.shard_table('m1', 'k', shards => 2) \g /dev/null
SELECT shardfdw.shard_table(t::regclass, 'k', colocate_with => 'm1') FROM unnest('{m2,m3,far,further,child}'::text[]) t \g /dev/null

-- the key first, then ATTACH PARTITION
ALTER TABLE m2 ADD CONSTRAINT up FOREIGN KEY (k, up) REFERENCES m1 ON DELETE SET NULL (up);
ALTER TABLE top ATTACH PARTITION m1 FOR VALUES FROM (1) TO (2);
\set VERBOSITY default
ALTER TABLE top ATTACH PARTITION m2 FOR VALUES FROM (2) TO (3);
\set VERBOSITY terse
ALTER TABLE m2 DROP CONSTRAINT up, ADD CONSTRAINT up FOREIGN KEY (k, up) REFERENCES m1;
ALTER TABLE top ATTACH PARTITION m2 FOR VALUES FROM (2) TO (3);
-- ATTACH PARTITION first
ALTER TABLE m2 DROP CONSTRAINT up, ADD CONSTRAINT up FOREIGN KEY (k, up) REFERENCES m1 ON UPDATE CASCADE;
ALTER TABLE m1 ADD FOREIGN KEY (k, up) REFERENCES m2 ON DELETE CASCADE;
CREATE TABLE m4 PARTITION OF top (PRIMARY KEY (k, id), FOREIGN KEY (k, up) REFERENCES m1 ON DELETE CASCADE) FOR VALUES FROM (4) TO (5);
-- below a middle level
ALTER TABLE m3 ADD CONSTRAINT up FOREIGN KEY (k, up) REFERENCES m1 ON DELETE CASCADE;
ALTER TABLE year ATTACH PARTITION m3 FOR VALUES FROM (1) TO (2);
ALTER TABLE year DETACH PARTITION m3;
ALTER TABLE year ATTACH PARTITION m3 FOR VALUES FROM (3) TO (4);
ALTER TABLE m3 DROP CONSTRAINT up;
ALTER TABLE year ATTACH PARTITION m3 FOR VALUES FROM (3) TO (4);
ALTER TABLE top ATTACH PARTITION year FOR VALUES FROM (3) TO (9);
ALTER TABLE m1 ADD FOREIGN KEY (k, up) REFERENCES m3 ON DELETE CASCADE;
-- through tables that are no partitions
ALTER TABLE far ADD FOREIGN KEY (k, up) REFERENCES m1 ON DELETE CASCADE;
ALTER TABLE m3 ADD CONSTRAINT up FOREIGN KEY (k, up) REFERENCES further ON DELETE SET NULL (up);
ALTER TABLE further ADD FOREIGN KEY (k, up) REFERENCES far ON DELETE CASCADE;
ALTER TABLE further ADD FOREIGN KEY (k, up) REFERENCES far ON DELETE RESTRICT;
-- a key within one partition
ALTER TABLE m1 ADD FOREIGN KEY (k, up) REFERENCES m1 ON DELETE CASCADE ON UPDATE CASCADE;

-- Two parts of WITH, of which one changes partitions: an action that leads to the other part's table is found.
ALTER TABLE child ADD CONSTRAINT up FOREIGN KEY (k, up) REFERENCES m2 ON DELETE CASCADE;
INSERT INTO m2 SELECT 2, k, id FROM generate_series(1, 4) k, generate_series(1, 2) id;
INSERT INTO child SELECT 0, k, id, id FROM m2;
WITH d AS (DELETE FROM top WHERE m = 2 RETURNING *) DELETE FROM child USING d WHERE child.k = d.k AND child.id = d.id;
WITH d AS (DELETE FROM top RETURNING *) DELETE FROM child USING d WHERE child.k = d.k AND child.id = d.id;
WITH d AS (DELETE FROM m2 RETURNING *) DELETE FROM child USING d WHERE child.k = d.k AND child.id = d.id;
WITH d AS (DELETE FROM child RETURNING *) DELETE FROM top USING d WHERE top.k = d.k AND top.id = d.id;
ALTER TABLE child DROP CONSTRAINT up;
WITH d AS (DELETE FROM top WHERE m = 2 RETURNING *) DELETE FROM child USING d WHERE child.k = d.k AND child.id = d.id;
\echo :ROW_COUNT

-- partitions of two tables, which nodes use together: only those with equal bounds
SELECT format('CREATE TABLE %s (m int NOT NULL, k int NOT NULL, id int NOT NULL, up int, PRIMARY KEY (k, id))', t)
	FROM unnest('{p1,p2,q1,q2,away}'::text[]) t \gexec
SELECT shardfdw.shard_table(t::regclass, 'k', colocate_with => 'm1') FROM unnest('{p1,p2,q1,q2,away}'::text[]) t \g /dev/null
CREATE TABLE p (LIKE m1) PARTITION BY RANGE (m);
CREATE TABLE q (LIKE m1) PARTITION BY RANGE (m);
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (1) TO (2);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (2) TO (3);
ALTER TABLE q ATTACH PARTITION q1 FOR VALUES FROM (1) TO (2);
ALTER TABLE q2 ADD CONSTRAINT up FOREIGN KEY (k, up) REFERENCES p1 ON DELETE CASCADE;
ALTER TABLE q ATTACH PARTITION q2 FOR VALUES FROM (2) TO (3);
ALTER TABLE q2 DROP CONSTRAINT up;
ALTER TABLE q ATTACH PARTITION q2 FOR VALUES FROM (2) TO (3);
ALTER TABLE q2 ADD CONSTRAINT up FOREIGN KEY (k, up) REFERENCES p1 ON DELETE CASCADE;
ALTER TABLE q1 ADD CONSTRAINT up FOREIGN KEY (k, up) REFERENCES p1 ON DELETE CASCADE;
INSERT INTO p SELECT m, k, k FROM generate_series(1, 2) m, generate_series(1, 12) k;
INSERT INTO q SELECT m, k, k, k FROM p;
DELETE FROM p WHERE EXISTS (SELECT FROM q WHERE q.m = p.m AND q.k = p.k AND q.id = p.id);
\echo :ROW_COUNT

-- shards with other names on their nodes
DELETE FROM q;
ALTER TABLE q1 DROP CONSTRAINT up;
ALTER TABLE q DETACH PARTITION q2;
ALTER TABLE q2 ADD CONSTRAINT up FOREIGN KEY (k, up) REFERENCES away ON DELETE CASCADE;
SELECT shardfdw.run_on_nodes($x$DO $d$ DECLARE r text; BEGIN
	FOR r IN SELECT relname FROM pg_class WHERE relnamespace = 'fk_parts'::regnamespace AND relname ~ '^q2_\d+$' LOOP
		EXECUTE format('ALTER TABLE fk_parts.%I RENAME TO %I', r, 'other_' || r);
	END LOOP; END $d$$x$) \g /dev/null
SELECT format('ALTER FOREIGN TABLE %s OPTIONS (ADD table_name %L)', shard, 'other_' || shard) FROM shardfdw.shards WHERE relation = 'q2'::regclass ORDER BY shard::text \gexec
ALTER TABLE q ATTACH PARTITION q2 FOR VALUES FROM (2) TO (3);
ALTER TABLE away ADD FOREIGN KEY (k, up) REFERENCES p1 ON DELETE CASCADE;
ALTER TABLE away ADD FOREIGN KEY (k, up) REFERENCES q1 ON DELETE CASCADE;
ALTER TABLE q DETACH PARTITION q2;
ALTER TABLE away ADD FOREIGN KEY (k, up) REFERENCES q1 ON DELETE CASCADE;
ALTER TABLE q ATTACH PARTITION q2 FOR VALUES FROM (2) TO (3);

DROP SCHEMA fk_parts CASCADE;
SELECT shardfdw.run_on_nodes('DROP SCHEMA IF EXISTS fk_parts CASCADE') \g /dev/null
