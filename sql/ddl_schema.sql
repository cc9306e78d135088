-- ALTER SCHEMA ... RENAME: shards, replicas, and what they need, lie on nodes where they lie here.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA ddl_schema;
SET search_path = ddl_schema;
SET shardfdw.default_shards = 3;
CREATE FUNCTION differences() RETURNS TABLE (node name, check_name text, detail text) LANGUAGE sql
	AS $$ SELECT node, check_name, detail FROM shardfdw.check_cluster('rows') WHERE status <> 'ok' AND check_name ~ '(live|stage|"a ""b %s"|zzzz)' $$;
-- schemas of ours on the nodes that hold something of ours
CREATE FUNCTION there() RETURNS TABLE (schema text, nodes bigint) LANGUAGE sql AS $$
	SELECT s, count(*) FROM shardfdw.run_on_nodes($q$SELECT nspname FROM pg_namespace WHERE nspname ~ '^(live|stage|tmp|left_over|a "b|zzz)'$q$) r,
		regexp_split_to_table(r.result, E'\n') s WHERE s <> '' GROUP BY s ORDER BY s $$;

CREATE SCHEMA live;
CREATE SCHEMA stage;
CREATE TYPE live.mood AS ENUM ('live', 'gone');
CREATE TYPE stage.mood AS ENUM ('stage', 'gone');
CREATE TABLE live.t (k int PRIMARY KEY, v text, m live.mood);
CREATE TABLE stage.t (k int PRIMARY KEY, v text, m stage.mood);
CREATE TABLE live.r (k int PRIMARY KEY, v text);
CREATE TABLE stage.r (k int PRIMARY KEY, v text);
CREATE TABLE uses (k int PRIMARY KEY, m live.mood);
SELECT shardfdw.shard_table(s || '.t'), shardfdw.create_reference_table((s || '.r')::regclass) FROM unnest('{live,stage}'::text[]) s;
SELECT shardfdw.shard_table('uses', shards => 1);
INSERT INTO live.t SELECT i, 'live', 'live' FROM generate_series(1, 20) i;
INSERT INTO stage.t SELECT i, 'stage', 'stage' FROM generate_series(1, 30) i;
INSERT INTO live.r SELECT i, 'live' FROM generate_series(1, 5) i;
INSERT INTO stage.r SELECT i, 'stage' FROM generate_series(1, 6) i;
INSERT INTO uses VALUES (1, 'live'), (2, 'gone');
CREATE VIEW counts AS SELECT 'live' AS made_as, t.v, r.v AS r_v, count(*) FROM live.t t JOIN live.r r USING (k) GROUP BY 2, 3
	UNION ALL SELECT 'stage', t.v, r.v, count(*) FROM stage.t t JOIN stage.r r USING (k) GROUP BY 2, 3;
PREPARE counted AS SELECT v, count(*) FROM live.t GROUP BY v;
PREPARE one(int) AS SELECT * FROM live.t WHERE k = $1 AND m <> 'gone';
EXECUTE counted;
EXECUTE one(3);
EXECUTE one(3);
EXECUTE one(3);
EXECUTE one(3);
EXECUTE one(3);
EXECUTE one(3);

-- Two schemas swap their names
BEGIN;
ALTER SCHEMA live RENAME TO tmp;
SELECT v, count(*) FROM tmp.t GROUP BY v;
ALTER SCHEMA stage RENAME TO live;
SAVEPOINT a;
ALTER SCHEMA tmp RENAME TO stage;
EXECUTE counted;
ROLLBACK TO a;
EXECUTE counted;
SELECT v, count(*) FROM tmp.t GROUP BY v;
ALTER SCHEMA tmp RENAME TO stage;
COMMIT;
EXECUTE counted;
SELECT * FROM stage.t WHERE k = 3;
SELECT * FROM counts;
SELECT * FROM uses WHERE m = 'live';
SELECT differences();
TRUNCATE live.t;
SELECT v, count(*) FROM stage.t GROUP BY v;
INSERT INTO live.t SELECT i, 'new', 'stage' FROM generate_series(1, 4) i;
INSERT INTO live.r VALUES (7, 'new');
UPDATE stage.r SET v = 'old' WHERE k = 1;
SELECT * FROM counts;
SELECT differences();

-- Foreign tables with names of their own stand for what they stood for
CREATE FOREIGN TABLE by_hand (k int, v text) SERVER node1 OPTIONS (schema_name 'live', table_name 't_00');
CREATE FOREIGN TABLE live.named (k int) SERVER node1 OPTIONS (table_name 't_00');
CREATE FOREIGN TABLE other (k int) SERVER node1 OPTIONS (schema_name 'stage', table_name 't_00');
CREATE SCHEMA lonely;
CREATE FOREIGN TABLE lonely.nothing (k int) SERVER node1;
ALTER SCHEMA live RENAME TO "a ""b %s";
ALTER SCHEMA lonely RENAME TO lonelier;
SELECT ftrelid::regclass, ftoptions FROM pg_foreign_table WHERE ftrelid IN ('by_hand'::regclass, '"a ""b %s".named'::regclass, 'other'::regclass, 'lonelier.nothing'::regclass) ORDER BY 1;
SELECT (SELECT count(*) FROM by_hand) = (SELECT count(*) FROM "a ""b %s".t_00), (SELECT count(*) FROM "a ""b %s".named) = (SELECT count(*) FROM "a ""b %s".t_00);
DROP SCHEMA lonelier CASCADE;
ALTER SCHEMA "a ""b %s" RENAME TO zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz;
SELECT v, count(*) FROM zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz.t GROUP BY v;
SELECT differences();
DROP FOREIGN TABLE by_hand, other, zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz.named;
ALTER SCHEMA zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz RENAME TO live;
SELECT * FROM there();

-- What is left on nodes of a schema that was dropped here is in the way when there is something in it
CREATE SCHEMA left_over;
CREATE TABLE left_over.t (k int PRIMARY KEY);
SELECT shardfdw.shard_table('left_over.t');
DROP SCHEMA left_over CASCADE;
SELECT * FROM there();
ALTER SCHEMA live RENAME TO left_over;
ALTER SCHEMA left_over RENAME TO live;
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SCHEMA left_over; CREATE TABLE left_over.mine ()') r WHERE r.ok;
ALTER SCHEMA live RENAME TO left_over;
SELECT v, count(*) FROM live.t GROUP BY v;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA left_over CASCADE') r WHERE r.ok;
-- and one that we have not made always is
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SCHEMA left_over') r WHERE r.ok;
ALTER SCHEMA live RENAME TO left_over;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA left_over') r WHERE r.ok;
-- or not there at all
SELECT ok, result FROM shardfdw.run_on_nodes('ALTER SCHEMA live RENAME TO astray') r WHERE node = 'node2';
ALTER SCHEMA live RENAME TO left_over;
SELECT ok, result FROM shardfdw.run_on_nodes('ALTER SCHEMA astray RENAME TO live') r WHERE node = 'node2';
SELECT differences();

-- Under a cursor; what core refuses
BEGIN;
DECLARE c CURSOR FOR SELECT k FROM uses;
FETCH c;
-- whose type is in it
ALTER SCHEMA stage RENAME TO left_over;
ROLLBACK;
ALTER SCHEMA live RENAME TO stage;
ALTER SCHEMA live RENAME TO pg_live;
ALTER SCHEMA nothing RENAME TO something;

-- Done by hand on one side, it is seen
BEGIN;
SET LOCAL shardfdw.enable_ddl_propagation = off;
ALTER SCHEMA live RENAME TO tmp;
ALTER SCHEMA stage RENAME TO live;
ALTER SCHEMA tmp RENAME TO stage;
SELECT count(*) > 0 AS seen FROM differences();
ROLLBACK;

-- A user who owns the schemas, on both sides
CREATE ROLE regress_owner LOGIN;
GRANT USAGE ON FOREIGN SERVER node1, node2, node3, node4 TO regress_owner;
DO $$BEGIN FOR i IN 1..4 LOOP EXECUTE format('CREATE USER MAPPING FOR regress_owner SERVER node%s OPTIONS (user ''regress_owner'', password_required ''false'')', i); END LOOP; END$$;
SELECT count(*) FROM shardfdw.run_on_nodes('ALTER SCHEMA stage OWNER TO regress_owner; GRANT ALL ON ALL TABLES IN SCHEMA stage TO regress_owner') r WHERE r.ok;
ALTER SCHEMA stage OWNER TO regress_owner;
SELECT format('GRANT CREATE ON DATABASE %I TO regress_owner', d) FROM unnest(ARRAY[current_database(), 'shardfdw_node1', 'shardfdw_node2', 'shardfdw_node3', 'shardfdw_node4']) d
\gexec
SET ROLE regress_owner;
ALTER SCHEMA live RENAME TO mine;
-- a table that is not his needs its type
ALTER SCHEMA stage RENAME TO mine;
RESET ROLE;
DROP TABLE uses;
SET ROLE regress_owner;
ALTER SCHEMA stage RENAME TO mine;
ALTER SCHEMA mine RENAME TO stage;
ALTER SCHEMA stage RENAME TO mine;
RESET ROLE;
SELECT v, count(*) FROM mine.t GROUP BY v;
SELECT count(*) FROM shardfdw.run_on_nodes('ALTER SCHEMA mine OWNER TO CURRENT_USER') r WHERE r.ok;
SET ROLE regress_owner;
ALTER SCHEMA mine RENAME TO stage;
RESET ROLE;
SELECT v, count(*) FROM mine.t GROUP BY v;

-- The extension's own
ALTER SCHEMA shardfdw RENAME TO other;
ALTER SCHEMA shardfdw_internal RENAME TO other;
SET shardfdw.enable_ddl_propagation = off;
ALTER SCHEMA shardfdw RENAME TO other;
RESET shardfdw.enable_ddl_propagation;

-- Elements of CREATE SCHEMA are statements of their own
CREATE TABLE granted (k int PRIMARY KEY, v text);
CREATE TABLE parts (k int NOT NULL) PARTITION BY RANGE (k);
CREATE TABLE parts_rest (LIKE parts);
INSERT INTO parts_rest VALUES (1);
SELECT shardfdw.shard_table('granted'), shardfdw.shard_table('parts_rest', 'k') \g /dev/null
ALTER TABLE parts ATTACH PARTITION parts_rest DEFAULT;
SET client_min_messages = error;
CREATE SCHEMA elements CREATE TABLE part PARTITION OF ddl_schema.parts FOR VALUES FROM (0) TO (5);
CREATE SCHEMA elements CREATE TABLE part PARTITION OF ddl_schema.parts FOR VALUES FROM (5) TO (9)
	CREATE TABLE "table" (k serial PRIMARY KEY, v int REFERENCES ddl_schema.granted) CREATE INDEX ON "table" (v) CREATE VIEW rows AS SELECT * FROM ddl_schema.granted;
CREATE SCHEMA elements CREATE TABLE part PARTITION OF ddl_schema.parts FOR VALUES FROM (5) TO (9)
	CREATE TABLE "table" (k serial PRIMARY KEY, v int) CREATE INDEX ON "table" (v) CREATE VIEW rows AS SELECT * FROM ddl_schema.granted
	GRANT SELECT (v) ON ddl_schema.granted TO regress_owner;
SET client_min_messages = warning;
SELECT has_column_privilege('regress_owner', 'granted', 'v', 'SELECT'), has_column_privilege('regress_owner', 'granted', 'k', 'SELECT');
SELECT result, sum(1) FROM shardfdw.run_on_shards('granted', 'SELECT has_column_privilege(''regress_owner'', ''%s'', ''v'', ''SELECT'')') GROUP BY 1;
INSERT INTO parts VALUES (6);
SELECT tableoid::regclass, k FROM parts ORDER BY k;
DROP SCHEMA elements CASCADE;
DROP TABLE parts;
REVOKE ALL (v) ON granted FROM regress_owner;

SELECT format('REVOKE CREATE ON DATABASE %I FROM regress_owner', d) FROM unnest(ARRAY[current_database(), 'shardfdw_node1', 'shardfdw_node2', 'shardfdw_node3', 'shardfdw_node4']) d
\gexec
DROP VIEW counts;
DROP SCHEMA live, mine CASCADE;
DROP SCHEMA ddl_schema CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA IF EXISTS live, stage, mine, left_over, zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz, lonely, ddl_schema CASCADE') r WHERE r.ok;
DO $$BEGIN FOR i IN 1..4 LOOP EXECUTE format('DROP USER MAPPING FOR regress_owner SERVER node%s', i); END LOOP; END$$;
REVOKE USAGE ON FOREIGN SERVER node1, node2, node3, node4 FROM regress_owner;
DROP ROLE regress_owner;
