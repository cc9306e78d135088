-- A plain table becomes a sharded one and a plain one again: rows, columns, keys, triggers, rights and all.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA st;
SET search_path = st;
CREATE TYPE mood AS ENUM ('sad', 'happy');
DROP ROLE IF EXISTS st_owner, st_reader;
CREATE ROLE st_owner;
CREATE ROLE st_reader;
GRANT CREATE, USAGE ON SCHEMA st TO st_owner, st_reader;

CREATE TABLE t (
	id bigint GENERATED ALWAYS AS IDENTITY (START 100 INCREMENT 5),
	gone int,
	ser serial,
	name varchar(20) COLLATE "C" NOT NULL DEFAULT 'nobody',
	v numeric(10,2) CHECK (v >= 0),
	g int GENERATED ALWAYS AS (ser * 2) STORED,
	arr int[],
	m mood DEFAULT 'happy',
	body text,
	CONSTRAINT t_pkey PRIMARY KEY (id),
	CONSTRAINT "t Uq" UNIQUE (name, id) DEFERRABLE,
	CONSTRAINT t_long CHECK (length(name) < 19) NOT VALID) WITH (fillfactor = 70);
ALTER TABLE t DROP COLUMN gone;
ALTER TABLE t ADD CONSTRAINT t_nv CHECK (v < 1000000) NOT VALID;
ALTER TABLE t ALTER body SET STORAGE EXTERNAL, ALTER v SET STATISTICS 500, ALTER v SET (n_distinct = 50);
CREATE INDEX t_lower ON t (lower(name), v DESC NULLS LAST) WHERE v > 1;
CREATE UNIQUE INDEX t_inc ON t (id, ser) INCLUDE (v);
CREATE INDEX t_arr ON t USING gin (arr);
CREATE STATISTICS t_stat ON name, v FROM t;
COMMENT ON STATISTICS t_stat IS 'the statistics';
COMMENT ON TABLE t IS 'the table';
COMMENT ON COLUMN t.v IS 'the value';
COMMENT ON INDEX t_lower IS 'the index';
COMMENT ON CONSTRAINT "t Uq" ON t IS 'the constraint';
ALTER TABLE t OWNER TO st_owner;
GRANT SELECT, INSERT ON t TO st_reader;
GRANT UPDATE (v) ON t TO st_reader WITH GRANT OPTION;
INSERT INTO t (name, v, arr, body) SELECT 'n' || i, i, ARRAY[i, i + 1], repeat('x', i % 7) FROM generate_series(1, 1000) i;
INSERT INTO t (name, v, m) VALUES ('none', NULL, NULL);
CREATE FUNCTION t_trigger() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN new.name := new.name || '!'; RETURN new; END$$;
CREATE TRIGGER t_before BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION t_trigger();
CREATE TRIGGER t_off BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION t_trigger();
ALTER TABLE t DISABLE TRIGGER t_off;
CREATE POLICY t_policy ON t AS RESTRICTIVE FOR SELECT TO st_reader USING (v > 10);
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE TEMPORARY TABLE before AS SELECT * FROM t;

-- What \d+ shows of the table, in a form that is the same in all versions.
CREATE VIEW described AS
SELECT a.attnum, 'column' AS what, concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attcollation::regcollation,
		CASE WHEN a.attnotnull THEN 'not null' END, 'identity=' || a.attidentity::text, 'generated=' || a.attgenerated::text, 'storage=' || a.attstorage::text,
		'default=' || pg_get_expr(d.adbin, d.adrelid), 'target=' || nullif(to_jsonb(a)->>'attstattarget', '-1'),
		(SELECT string_agg(o::text, ',') FROM unnest(a.attoptions) o WHERE o NOT LIKE 'pg\_%'), col_description(a.attrelid, a.attnum), a.attacl::text) AS definition
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass('st.t') AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 100, 'constraint', concat_ws(' ', conname, pg_get_constraintdef(oid), obj_description(oid, 'pg_constraint'))
FROM pg_constraint WHERE conrelid = to_regclass('st.t') AND contype <> 'n'
UNION ALL
SELECT 101, 'index', concat_ws(' ', replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON '), obj_description(indexrelid, 'pg_class'))
FROM pg_index WHERE indrelid = to_regclass('st.t')
UNION ALL
SELECT 102, 'trigger', concat_ws(' ', pg_get_triggerdef(oid), tgenabled) FROM pg_trigger WHERE tgrelid = to_regclass('st.t') AND NOT tgisinternal
UNION ALL
SELECT 103, 'policy', concat_ws(' ', polname, polpermissive, polcmd, polroles::regrole[], pg_get_expr(polqual, polrelid)) FROM pg_policy WHERE polrelid = to_regclass('st.t')
UNION ALL
SELECT 104, 'statistics', concat_ws(' ', pg_get_statisticsobjdef(oid), obj_description(oid, 'pg_statistic_ext')) FROM pg_statistic_ext WHERE stxrelid = to_regclass('st.t')
UNION ALL
SELECT 105, 'table', concat_ws(' ', relname, relowner::regrole, relrowsecurity, (SELECT array_agg(replace(replace(x::text, 'arwdDxtm', 'arwdDxt'), current_user, 'superuser') ORDER BY x::text COLLATE "C") FROM unnest(relacl) x), obj_description(oid, 'pg_class'))
FROM pg_class WHERE oid = to_regclass('st.t')
UNION ALL
SELECT 106, 'sequence', concat_ws(' ', s.relname, s.relowner::regrole, q.seqstart, q.seqincrement, a.attname, d.deptype)
FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S' JOIN pg_sequence q ON q.seqrelid = s.oid
JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
WHERE d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_class'::regclass AND d.refobjid = to_regclass('st.t');
CREATE TEMPORARY TABLE described_before AS SELECT what, definition FROM described;

-- A type of that name is on a node, but not the same; on the others it is made.
SELECT ok, tag FROM shardfdw.query_nodes('{node2}', ARRAY[$$CREATE SCHEMA st; CREATE TYPE st.mood AS ENUM ('happy', 'sad')$$], 'write');
SELECT shardfdw.shard_table('t', shards => 3);
SELECT ok, tag FROM shardfdw.query_nodes('{node2}', ARRAY['DROP TYPE st.mood'], 'write');
SELECT shardfdw.shard_table('t', shards => 3);

SELECT what, definition FROM described ORDER BY attnum, what, definition COLLATE "C";
SELECT relation, key, strategy, shards, nodes, colocated_with FROM shardfdw.tables WHERE relation = 't'::regclass;
SELECT s.shard, s.node, bounds, size_bytes > 0 AS has_size, estimated_rows FROM shardfdw.shards s JOIN shardfdw_internal.shard_sizes('t') z ON z.shard = s.shard WHERE relation = 't'::regclass ORDER BY s.shard::text COLLATE "C";
SELECT shard, node, size_bytes > 0 AS has_size FROM shardfdw_internal.shard_sizes('t_01');
SELECT FROM shardfdw_internal.shard_sizes('pg_class');
SELECT relname, relkind, relowner::regrole FROM pg_class WHERE relnamespace = 'st'::regnamespace AND relname LIKE 't\_0%' ORDER BY 1;
-- Views compare with names as they are typed; a name that is quoted, or that the search path does not find, is written as usual.
CREATE TABLE "A name" (id int PRIMARY KEY);
SELECT shardfdw.shard_table('"A name"', shards => 2) \g /dev/null
SELECT (SELECT count(*) FROM shardfdw.shards WHERE relation = '"A name"'::regclass) AS shards, (SELECT count(*) FROM shardfdw.tables WHERE relation::text LIKE '%A name%') AS tables,
	(SELECT count(*) FROM shardfdw.stat_shards WHERE shard = '"A name_00"'::regclass) AS shard;
SET search_path = pg_catalog;
SELECT count(*), count(shardfdw.unshard_table(relation)) FROM shardfdw.tables WHERE relation = 'st."A name"'::regclass;
SET search_path = st;
DROP TABLE "A name";
SELECT indexrelid::regclass, indisprimary, indisunique FROM pg_index WHERE indrelid = 't'::regclass ORDER BY indexrelid::regclass::text COLLATE "C";
-- the rows, each in the shard of its key
SELECT count(*) FROM (SELECT * FROM t EXCEPT ALL SELECT * FROM before) x;
SELECT count(*) FROM (SELECT * FROM before EXCEPT ALL SELECT * FROM t) x;
SELECT count(*), sum(id), min(name), max(g) FROM t;
SELECT shard, result::int > 250 AS filled FROM shardfdw.run_on_shards('t', 'SELECT count(*) FROM %s');
SELECT count(*) FILTER (WHERE tableoid = shardfdw.shard_for('t', id)) AS placed, count(*) FROM t;
-- the shards on the nodes
SELECT node, result FROM shardfdw.run_on_shards('t', $$SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attcollation::regcollation, a.attnotnull, a.attgenerated, a.attstorage, atthasdef
FROM pg_attribute a WHERE attrelid = '%s'::regclass AND attnum > 0 ORDER BY attnum$$) LIMIT 1;
SELECT node, result FROM shardfdw.run_on_shards('t', $$SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = '%s'::regclass ORDER BY 1$$);
SELECT result FROM shardfdw.run_on_shards('t', $$SELECT conname, contype, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = '%s'::regclass AND contype <> 'n' ORDER BY conname COLLATE "C"$$) LIMIT 1;
SELECT result FROM shardfdw.run_on_shards('t', $$SELECT reloptions FROM pg_class WHERE oid = '%s'::regclass$$) LIMIT 1;
SELECT node, check_name, status, detail = format('%s as expected', (SELECT count(*) FROM shardfdw.shards s WHERE s.node = c.node)) AS all_shards
FROM shardfdw.check_cluster() c WHERE check_name LIKE 'shard%' AND node IN ('node1', 'node2', 'node3') ORDER BY 1;

-- identity, serial, defaults and triggers go on where they were
INSERT INTO t (v) VALUES (1.5) RETURNING id, ser, name, v, g, m;
INSERT INTO t (id, v) VALUES (1, 2);
INSERT INTO t (name, v) VALUES ('negative', -1);
SET ROLE st_reader;
SELECT count(*) FROM t;
RESET ROLE;
DELETE FROM t WHERE name = 'nobody!';

-- and back
SELECT shardfdw.unshard_table('t');
SELECT what, definition FROM described EXCEPT SELECT * FROM described_before;
SELECT * FROM described_before EXCEPT SELECT what, definition FROM described;
SELECT count(*) FROM (SELECT * FROM t EXCEPT ALL SELECT * FROM before) x;
SELECT count(*) FROM (SELECT * FROM before EXCEPT ALL SELECT * FROM t) x;
INSERT INTO t (v) VALUES (1.5) RETURNING id, ser, name;
SELECT node, result FROM shardfdw.run_on_nodes($$SELECT count(*) FROM pg_class WHERE relnamespace = 'st'::regnamespace AND relkind = 'r'$$);

-- a savepoint takes all of it back, on the nodes too
BEGIN;
SAVEPOINT s;
SELECT shardfdw.shard_table('t', shards => 2, nodes => '{node4}');
SELECT count(*) FROM t;
ROLLBACK TO s;
SELECT count(*), sum(id) FROM t;
COMMIT;
SELECT relkind FROM pg_class WHERE oid = 't'::regclass;
SELECT node, result FROM shardfdw.run_on_nodes($$SELECT count(*) FROM pg_class WHERE relnamespace = 'st'::regnamespace AND relkind = 'r'$$);

-- a constraint that old rows break, and were allowed to
CREATE TABLE nv (k int, v int);
INSERT INTO nv VALUES (1, -1), (2, 2);
ALTER TABLE nv ADD CONSTRAINT nv_check CHECK (v > 0) NOT VALID;
SELECT shardfdw.shard_table('nv', 'k', shards => 2);
SELECT * FROM nv ORDER BY k;
INSERT INTO nv VALUES (1, -3);
SELECT shardfdw.unshard_table('nv');
SELECT * FROM nv ORDER BY k;
INSERT INTO nv VALUES (1, -3);

-- commands for shards: one that fails does not take the others back
CREATE TABLE dup (k int, v int);
INSERT INTO dup VALUES (1, 1), (1, 1), (2, 2);
SELECT shardfdw.shard_table('dup', 'k', shards => 2);
SELECT ok, result FROM shardfdw.run_on_shards('dup', 'CREATE UNIQUE INDEX ON %s (k)') ORDER BY ok, result;
SELECT count(*) FROM dup;

-- colocated, a key of several columns, long names, odd names
CREATE TABLE dup_too (v text, k int PRIMARY KEY);
SELECT shardfdw.shard_table('dup_too', colocate_with => 'dup');
SELECT relation, colocated_with FROM shardfdw.tables WHERE relation::text LIKE 'dup%' ORDER BY relation::text COLLATE "C";
-- one statement has looked up the name of the first table before it is another one
CREATE TABLE one_a (k int PRIMARY KEY);
CREATE TABLE one_b (k int PRIMARY KEY);
SELECT shardfdw.shard_table('one_a', shards => 7), shardfdw.shard_table('one_b', colocate_with => 'one_a');
SELECT relation, ARRAY(SELECT c FROM unnest(colocated_with) c WHERE c::text LIKE 'one%') AS colocated_with FROM shardfdw.tables WHERE relation::text LIKE 'one%' ORDER BY relation::text COLLATE "C";
CREATE TABLE one_c (k int PRIMARY KEY);
SELECT shardfdw.shard_table('one_c', colocate_with => '4000000000');
SELECT shardfdw.unshard_table('one_a'), shardfdw.unshard_table('one_b');
DROP TABLE one_a, one_b, one_c;
CREATE TABLE multi (a int, b text COLLATE "C", c int, PRIMARY KEY (a, b)) PARTITION BY HASH (a, b);
CREATE INDEX multi_c ON multi (c);
SELECT shardfdw.shard_table('multi', shards => 5, nodes => '{node3,node1}');
SELECT shard, node, bounds FROM shardfdw.shards WHERE relation = 'multi'::regclass ORDER BY shard::text COLLATE "C";
SELECT conname, contype FROM pg_constraint WHERE conrelid = 'multi'::regclass AND contype <> 'n';
SELECT DISTINCT result FROM shardfdw.run_on_shards('multi', $$SELECT indisprimary, indnatts FROM pg_index WHERE indrelid = '%s'::regclass ORDER BY 1$$);
INSERT INTO multi SELECT i % 10, 'b' || i, i FROM generate_series(1, 100) i;
SELECT count(*) FILTER (WHERE tableoid = shardfdw.shard_for('multi', ROW(a, b))) AS placed, count(*) FROM multi;
SELECT shardfdw.shard_for('multi', 1);
SELECT shardfdw.shard_for('multi', ROW(1));
SELECT shardfdw.shard_for('dup', 'x'::text);
SELECT shardfdw.shard_for('dup', 1::bigint) = shardfdw.shard_for('dup', 1), shardfdw.shard_for('dup', NULL::int);
SELECT shardfdw.shard_for('st.described', 1);
CREATE TABLE "a ""long"" näme, with 60 characters and more than that in by…" ("odd ""col" int PRIMARY KEY, "select" text DEFAULT 'a''b\c');
SELECT shardfdw.shard_table(oid::regclass, shards => 101) FROM pg_class WHERE relname LIKE 'a "long"%' AND relkind = 'r';
INSERT INTO "a ""long"" näme, with 60 characters and more than that in by…" SELECT i FROM generate_series(1, 300) i;
SELECT count(*), min("select"), count(DISTINCT tableoid) > 80 AS spread FROM "a ""long"" näme, with 60 characters and more than that in by…";
SELECT relname, octet_length(relname::text) FROM pg_class WHERE relname LIKE 'a "long"%' AND relkind = 'f' ORDER BY 1 LIMIT 1;
SELECT shardfdw.unshard_table(oid::regclass) FROM pg_class WHERE relname LIKE 'a "long"%' AND relkind = 'p';
SELECT count(*), min("select") FROM "a ""long"" näme, with 60 characters and more than that in by…";

-- owners that are no superusers, by a password-free mapping that a superuser made for them
CREATE USER MAPPING FOR st_owner SERVER node1 OPTIONS (user :'USER', password_required 'false');
SET ROLE st_owner;
CREATE TABLE own (k int PRIMARY KEY, v text);
INSERT INTO own SELECT i, 'v' || i FROM generate_series(1, 20) i;
CREATE POLICY own_policy ON own USING (k > 10);
ALTER TABLE own ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SELECT count(*) FROM own;
SELECT shardfdw.shard_table('own', shards => 2, nodes => '{node1}');
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER node1 TO st_owner;
SET ROLE st_owner;
SELECT shardfdw.shard_table('own', shards => 2);
SELECT count(*), max(v) FROM own;
SELECT shardfdw.unshard_table('own');
SELECT count(*), max(v) FROM own;
ALTER TABLE own NO FORCE ROW LEVEL SECURITY;
SELECT count(*), min(k) FROM own;
RESET ROLE;

-- A definition comes back as it was: parameters, comments, targets.
CREATE TABLE kept (a int, b text, c int GENERATED BY DEFAULT AS IDENTITY, CONSTRAINT b_short CHECK (length(b) < 9),
	PRIMARY KEY (a) WITH (fillfactor = 70), UNIQUE (a, b) WITH (fillfactor = 60) DEFERRABLE INITIALLY DEFERRED)
	WITH (fillfactor = 80, toast.autovacuum_enabled = off);
COMMENT ON CONSTRAINT b_short ON kept IS 'not long';
CREATE STATISTICS kept_statistics ON a, b FROM kept;
ALTER STATISTICS kept_statistics SET STATISTICS 55;
CREATE POLICY p ON kept USING (a > 0);
COMMENT ON POLICY p ON kept IS 'positive';
ALTER TABLE kept REPLICA IDENTITY FULL;
CREATE INDEX kept_sum ON kept ((a + length(b)), a);
ALTER INDEX kept_sum ALTER COLUMN 1 SET STATISTICS 77;
ALTER TABLE kept CLUSTER ON kept_sum;
CREATE VIEW definition AS
SELECT 'table ' || concat_ws(' ', c.reloptions::text, (SELECT t.reloptions FROM pg_class t WHERE t.oid = c.reltoastrelid)::text, c.relreplident) AS text
FROM pg_class c WHERE c.relname = 'kept' AND c.relnamespace = current_schema::regnamespace
UNION ALL
SELECT concat_ws(' ', 'constraint', k.conname, pg_get_constraintdef(k.oid), i.reloptions::text, obj_description(k.oid, 'pg_constraint'))
FROM pg_constraint k LEFT JOIN pg_class i ON i.oid = k.conindid
WHERE k.conrelid = to_regclass('kept') AND k.contype IN ('p', 'u', 'c')
UNION ALL
SELECT concat_ws(' ', 'index', i.indexrelid::regclass, CASE WHEN c.relkind = 'r' THEN i.indisclustered END, a.attnum, a.attstattarget)
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indexrelid AND a.attstattarget >= 0 JOIN pg_class c ON c.oid = i.indrelid WHERE c.relname = 'kept'
UNION ALL
SELECT concat_ws(' ', 'policy', p.polname, obj_description(p.oid, 'pg_policy')) FROM pg_policy p WHERE p.polrelid = to_regclass('kept')
UNION ALL
SELECT concat_ws(' ', 'statistics', s.stxname, s.stxstattarget) FROM pg_statistic_ext s WHERE s.stxrelid = to_regclass('kept')
UNION ALL
SELECT concat_ws(' ', 'sequence', s.seqtypid::regtype, s.seqmax) FROM pg_sequence s WHERE s.seqrelid = to_regclass('kept_c_seq');
CREATE TEMP TABLE kept_before AS SELECT * FROM definition;
SELECT text FROM kept_before ORDER BY text COLLATE "C";
SELECT shardfdw.shard_table('kept', shards => 2);
SELECT text FROM definition ORDER BY text COLLATE "C";
SELECT DISTINCT ok, result FROM shardfdw.run_on_shards('kept', $$
	SELECT concat_ws(' ', c.reloptions::text, (SELECT t.reloptions FROM pg_class t WHERE t.oid = c.reltoastrelid)::text,
		(SELECT string_agg(i.reloptions::text, ' ' ORDER BY i.relname) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid WHERE x.indrelid = c.oid))
	FROM pg_class c WHERE c.oid = '%s'::regclass$$);
SELECT result FROM shardfdw.run_on_shards('kept', $$
	SELECT x.relname, i.indisclustered, (SELECT string_agg(a.attnum || ':' || a.attstattarget, ' ') FROM pg_attribute a WHERE a.attrelid = x.oid AND a.attstattarget >= 0)
	FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = '%s'::regclass ORDER BY x.relname$$);
SELECT shardfdw.unshard_table('kept');
SELECT text AS changed FROM ((TABLE kept_before EXCEPT TABLE definition) UNION ALL (TABLE definition EXCEPT TABLE kept_before)) x;
ALTER TABLE kept REPLICA IDENTITY USING INDEX kept_pkey;
SELECT shardfdw.shard_table('kept', shards => 2);
SELECT relreplident, (SELECT indexrelid::regclass FROM pg_index WHERE indrelid = c.oid AND indisreplident) FROM pg_class c WHERE oid = 'kept'::regclass;
SELECT result FROM shardfdw.run_on_shards('kept', $$SELECT indexrelid::regclass FROM pg_index WHERE indrelid = '%s'::regclass AND indisreplident$$);
SELECT shardfdw.unshard_table('kept');
SELECT relreplident, (SELECT indexrelid::regclass FROM pg_index WHERE indrelid = c.oid AND indisreplident) FROM pg_class c WHERE oid = 'kept'::regclass;
DROP VIEW definition;
DROP TABLE kept_before, kept;

DROP USER MAPPING FOR st_owner SERVER node1;
SELECT node, ok FROM shardfdw.run_on_nodes('DROP SCHEMA st CASCADE');
DROP SCHEMA st CASCADE;
REVOKE USAGE ON FOREIGN SERVER node1 FROM st_owner;
DROP ROLE st_owner, st_reader;
