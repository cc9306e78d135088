-- Reference tables, and statements other than ALTER TABLE: on both sides, or on the side where they belong.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA ddl_objects;
SET search_path = ddl_objects;
SET shardfdw.default_shards = 3;
CREATE FUNCTION differences() RETURNS TABLE (node name, check_name text, detail text) LANGUAGE sql
	AS $$ SELECT node, check_name, detail FROM shardfdw.check_cluster('rows') WHERE status <> 'ok' AND check_name ~ '^(shard ddl_objects|reference table)' $$;
-- What the nodes' tables and indexes are like.
CREATE FUNCTION on_nodes(pattern text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT * FROM (SELECT DISTINCT regexp_split_to_table(result, E'\n') AS line FROM shardfdw.run_on_nodes(format($q$
		SELECT string_agg(line, E'\n') FROM (
			SELECT concat_ws(' ', n.nspname || '.' || c.relname, c.relkind, CASE WHEN c.relowner = 10 THEN NULL ELSE pg_get_userbyid(c.relowner) END,
				(SELECT string_agg(concat_ws(':', r.rolname, x.privilege_type, CASE WHEN x.is_grantable THEN '*' END), ',' ORDER BY x.privilege_type COLLATE "C")
				 FROM aclexplode(c.relacl) x JOIN pg_roles r ON r.oid = x.grantee WHERE x.grantee <> c.relowner),
				c.reloptions::text, quote_literal(obj_description(c.oid, 'pg_class'))) AS line
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname ~ '^ddl_objects' AND c.relname ~ %L
			UNION ALL SELECT concat_ws(' ', 's', stxname, nullif(to_jsonb(s)->>'stxstattarget', '-1')) FROM pg_statistic_ext s WHERE stxname ~ %L) x $q$, pattern, pattern))) y WHERE line <> '' ORDER BY line COLLATE "C" $$;
CREATE ROLE ddl_objects_both;
CREATE TABLE t (id bigint PRIMARY KEY, v text, n int);
CREATE TABLE r (id int PRIMARY KEY, v text);
SELECT shardfdw.shard_table('t', 'id');
SELECT shardfdw.create_reference_table('r');
INSERT INTO t SELECT i, 'v' || i, i FROM generate_series(1, 30) i;
INSERT INTO r SELECT i, 'r' || i FROM generate_series(1, 40) i;

-- Rights and owners
GRANT SELECT, UPDATE (v) ON t TO ddl_objects_both, PUBLIC;
GRANT ALL ON ALL TABLES IN SCHEMA ddl_objects TO ddl_objects_both WITH GRANT OPTION;
REVOKE TRUNCATE, REFERENCES, TRIGGER ON t, r FROM ddl_objects_both;
REVOKE GRANT OPTION FOR ALL ON t FROM ddl_objects_both CASCADE;
SELECT regexp_replace(line, 'ddl_objects_both:MAINTAIN[:*]*,', '') FROM on_nodes('^(t_00|r)$') line;
REVOKE ALL ON t, r FROM ddl_objects_both, PUBLIC;
ALTER TABLE t OWNER TO ddl_objects_both;
ALTER TABLE r OWNER TO ddl_objects_both;
SELECT on_nodes('^(t_00|r)$');
SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 'ddl_objects'::regnamespace;
ALTER TABLE t OWNER TO CURRENT_USER;
ALTER TABLE r OWNER TO CURRENT_USER;
COMMENT ON TABLE t IS 'sharded';
COMMENT ON TABLE r IS 'reference';
COMMENT ON COLUMN r.v IS 'value';
COMMENT ON INDEX r_pkey IS 'key';
SELECT on_nodes('^(t_00|r|r_pkey)$');

-- Reference tables
ALTER TABLE r ADD x int DEFAULT 5, ADD UNIQUE (x, id), ADD y timestamptz DEFAULT now(), ADD CONSTRAINT later UNIQUE (id, v) DEFERRABLE,
	ADD EXCLUDE USING btree (id WITH =), ADD g int GENERATED ALWAYS AS (id + 1) STORED, SET (fillfactor = 90);
ALTER TABLE r ALTER v TYPE varchar(30) USING v || '?', ALTER x DROP DEFAULT, ALTER x SET NOT NULL, ADD CONSTRAINT small CHECK (id < 1000);
UPDATE r SET v = v || '!' WHERE id < 5;
ALTER TABLE r ADD z serial;
ALTER TABLE r SET UNLOGGED;
CREATE INDEX r_v ON r (v);
CREATE INDEX CONCURRENTLY r_x ON r (x);
ALTER TABLE r RENAME v TO w;
ALTER TABLE r RENAME CONSTRAINT small TO tiny;
ALTER INDEX r_v RENAME TO r_w;
ALTER TABLE r DROP CONSTRAINT later, DROP x;
ALTER TABLE r RENAME TO r2;
CREATE SCHEMA ddl_objects2;
ALTER TABLE r2 SET SCHEMA ddl_objects2;
SELECT id, w, y IS NOT NULL AS y, g FROM ddl_objects2.r2 ORDER BY id LIMIT 2;
SELECT on_nodes('^r');
SELECT * FROM differences();
ALTER TABLE ddl_objects2.r2 SET SCHEMA ddl_objects;
ALTER TABLE r2 RENAME TO r;
-- A parent is renamed and moved alone
ALTER TABLE t RENAME TO t2;
ALTER TABLE t2 SET SCHEMA ddl_objects2;
SELECT c.oid::regclass FROM pg_class c WHERE relname ~ '^t2?(_0.)?$' AND relnamespace::regnamespace::text ~ '^ddl_objects' ORDER BY relname::text COLLATE "C";
SELECT on_nodes('^t');
ALTER TABLE ddl_objects2.t2 SET SCHEMA ddl_objects;
ALTER TABLE t2 RENAME TO t;
SELECT count(*) FROM t JOIN r USING (id);
SELECT * FROM differences();

-- Foreign keys of shards
ALTER TABLE t ADD FOREIGN KEY (n) REFERENCES r ON DELETE CASCADE NOT VALID;
ALTER TABLE t VALIDATE CONSTRAINT t_n_fkey;
DELETE FROM r WHERE id = 30;
SELECT count(*) FROM t;
INSERT INTO t VALUES (31, 'x', 1000);
ALTER TABLE t RENAME CONSTRAINT t_n_fkey TO fk;
-- the key exists
ALTER TABLE t ADD FOREIGN KEY (n) REFERENCES r NOT VALID;
CREATE TABLE child (id bigint, n int);
SELECT shardfdw.shard_table('child', 'id', colocate_with => 't');
ALTER TABLE child ADD CONSTRAINT parent FOREIGN KEY (id) REFERENCES t (id), ADD note text;
INSERT INTO child VALUES (1, 1), (1, 2), (29, 3);
INSERT INTO child VALUES (30, 1);
DELETE FROM t WHERE id = 1;
ALTER TABLE child ADD FOREIGN KEY (n) REFERENCES t (id);
ALTER TABLE child ADD FOREIGN KEY (id) REFERENCES t ON DELETE CASCADE;
DROP TABLE t;
ALTER TABLE child DROP CONSTRAINT parent;
SELECT * FROM differences();
ALTER TABLE t DROP CONSTRAINT fk;
ALTER TABLE t DROP CONSTRAINT fk;
DROP TABLE child;

-- Statistics
CREATE STATISTICS st ON v, n FROM t;
CREATE STATISTICS str ON w, (id + 1) FROM r;
ALTER STATISTICS st SET STATISTICS 50;
ALTER STATISTICS st RENAME TO st2;
SELECT on_nodes('^st');
DROP STATISTICS st2, str;
SELECT on_nodes('^st');
-- those that a table has before it is sharded
CREATE TABLE eb (id bigint, v int, n int);
CREATE STATISTICS eb_st (ndistinct) ON v, n, (v + n) FROM eb;
ALTER STATISTICS eb_st SET STATISTICS 40;
CREATE TABLE eo (id bigint PRIMARY KEY, v int, n int);
CREATE STATISTICS eo_st ON v, n FROM eo;
CREATE TABLE er (id bigint PRIMARY KEY, v int, n int);
CREATE STATISTICS er_st ON v, n FROM er;
ALTER STATISTICS er_st SET STATISTICS 30;
CREATE TABLE el (id bigint, v int, n int) PARTITION BY LIST (v);
CREATE STATISTICS el_st ON v, n FROM el;
SELECT shardfdw.shard_table('eb', 'id', shards => 2);
SELECT shardfdw.shard_table('eo', 'id', shards => 2, mode => 'online') > 0;
SELECT shardfdw.create_reference_table('er');
SELECT shardfdw.create_shard('el', 'el_1', 'IN (1)', 'node1');
SELECT on_nodes('^e[bolr]_st');
ALTER STATISTICS eb_st RENAME TO es_st;
DROP STATISTICS eo_st, er_st, el_st;
SELECT on_nodes('^e[bolrs]_st');
DROP TABLE eb, eo, er, el;

-- Locks
BEGIN;
LOCK TABLE t, r IN SHARE ROW EXCLUSIVE MODE;
SELECT DISTINCT result FROM shardfdw.run_on_nodes($$SELECT string_agg(DISTINCT mode, ',') FROM pg_locks l, pg_class c WHERE l.relation = c.oid AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND c.relname ~ '^(t_0.|r)$'$$);
ROLLBACK;

-- Outside of transactions
CREATE INDEX CONCURRENTLY by_n ON t (n);
CREATE INDEX CONCURRENTLY IF NOT EXISTS by_n ON t (n);
CREATE UNIQUE INDEX CONCURRENTLY ON t (n, id);
UPDATE t SET n = 1 WHERE n < 4;
CREATE UNIQUE INDEX CONCURRENTLY failing ON t ((1 / (n - 1)), id);
\set VERBOSITY sqlstate
CREATE UNIQUE INDEX CONCURRENTLY ON t (n); -- 19 says it in other words
\set VERBOSITY terse
SELECT on_nodes('^(by_n|failing|t_n_)');
VACUUM (ANALYZE, INDEX_CLEANUP ON, PARALLEL 0) t, r;
VACUUM FULL FREEZE t;
VACUUM (ANALYZE) t (id);
SELECT reltuples, relname FROM pg_class WHERE relname = 't';
REINDEX TABLE t;
REINDEX (VERBOSE OFF) INDEX by_n;
REINDEX TABLE CONCURRENTLY t;
REINDEX TABLE r;
REINDEX INDEX r_w;
REINDEX TABLE CONCURRENTLY r;
CLUSTER t USING by_n;
CLUSTER t;
CLUSTER r USING r_pkey;
CLUSTER t USING nothing;
ALTER TABLE t SET WITHOUT CLUSTER;
CLUSTER t;
BEGIN;
VACUUM t;
ROLLBACK;
BEGIN;
REINDEX TABLE t;
ROLLBACK;
BEGIN;
REINDEX TABLE r;
COMMIT;
DROP INDEX CONCURRENTLY by_n;
DROP INDEX CONCURRENTLY IF EXISTS by_n;
DROP INDEX CONCURRENTLY t_pkey;
SELECT on_nodes('^(by_n|failing|t_n_|t_00_pkey)');
SELECT * FROM differences();

-- An index that the coordinator alone has leaves an equal one alone
CREATE INDEX equal_1 ON t (n);
CREATE INDEX equal_2 ON ONLY t (n);
ALTER INDEX equal_2 RENAME TO equal_3;
DROP INDEX equal_2;
SELECT on_nodes('^(equal|t_00_n)');
ALTER INDEX equal_1 RENAME TO equal_4;
SELECT on_nodes('^(equal|t_00_n)');
DROP INDEX equal_4;
SELECT on_nodes('^(equal|t_00_n)');
SELECT * FROM differences();

-- What comes in a transaction that has failed is core's: no catalog can be read there.
BEGIN;
CREATE SERVER ddl_objects_nowhere FOREIGN DATA WRAPPER shardfdw OPTIONS (host 'nowhere');
SELECT 1 / 0;
CREATE INDEX ON t (n);
ROLLBACK;

-- Gone, here and there
DROP TABLE r;
SELECT on_nodes('^r');
DROP OWNED BY ddl_objects_both;
DROP SCHEMA ddl_objects, ddl_objects2 CASCADE;
SELECT sum(result::int) FROM shardfdw.run_on_nodes($$SELECT count(*) FROM pg_class WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^ddl_objects') AND relkind = 'r'$$);
SELECT count(*) FILTER (WHERE ok) > 0 FROM shardfdw.run_on_nodes('DROP SCHEMA ddl_objects, ddl_objects2 CASCADE');
DROP ROLE ddl_objects_both;
