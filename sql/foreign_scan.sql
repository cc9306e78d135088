-- Foreign tables by themselves: orders, joins by keys, extensions, estimates of the node, import, temporary ones.
CREATE SCHEMA foreign_scan;
SET search_path = foreign_scan, public;
\set VERBOSITY terse
SELECT count(*) FROM shardfdw.run_on_nodes($$CREATE SCHEMA foreign_scan$$);
SELECT node, ok FROM shardfdw.run_on_nodes($$
	CREATE TABLE foreign_scan.big (id int PRIMARY KEY, "Name" text, v numeric);
	INSERT INTO foreign_scan.big SELECT i, 'n' || i % 10, i / 4.0 FROM generate_series(1, 5000) i;
	CREATE TABLE foreign_scan.other (id int, big_id int, d date);
	INSERT INTO foreign_scan.other SELECT i, i * 3, date '2020-01-01' + i FROM generate_series(1, 300) i;
	ANALYZE foreign_scan.big, foreign_scan.other$$) ORDER BY node;
CREATE FOREIGN TABLE big (id int, name text OPTIONS (column_name 'Name'), v numeric) SERVER node1;
CREATE FOREIGN TABLE other (id int, big_id int, d date) SERVER node1;
CREATE FOREIGN TABLE other2 (id int, big_id int, d date) SERVER node2 OPTIONS (table_name 'other');
CREATE TABLE here (id int, name text);
INSERT INTO here SELECT i * 50, 'h' || i FROM generate_series(1, 12) i;
ANALYZE here, big, other, other2;

-- one of several under Append: each in order, merged here
EXPLAIN (COSTS OFF) SELECT id FROM big UNION ALL SELECT id FROM here ORDER BY id LIMIT 4;
SELECT id FROM big UNION ALL SELECT id FROM here ORDER BY id DESC LIMIT 4;
SELECT id, name COLLATE "C" AS name FROM big UNION ALL SELECT id, name FROM here WHERE id < 200 ORDER BY name DESC, id LIMIT 4;
-- a condition that is checked here
CREATE FUNCTION is_odd(i int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN i % 2 = 1; END';
EXPLAIN (COSTS OFF) SELECT id FROM big WHERE is_odd(id) ORDER BY id DESC LIMIT 3;
SELECT id FROM big WHERE is_odd(id) ORDER BY id DESC LIMIT 3;
SELECT id, ctid IS NOT NULL AS placed FROM big WHERE is_odd(id) ORDER BY v LIMIT 3;
-- the order of one that is locked is made here
SELECT id FROM big WHERE is_odd(id) ORDER BY id LIMIT 2 FOR UPDATE;

-- keys of a small side are sent
EXPLAIN (COSTS OFF) SELECT big.id, here.name FROM here JOIN big USING (id) WHERE here.id < 300;
SELECT big.id, here.name, v FROM here JOIN big USING (id) WHERE here.id < 300 ORDER BY 1;
SELECT here.id FROM here LEFT JOIN big ON big.id = here.id AND big.name = 'n5' WHERE big.id IS NULL ORDER BY 1 LIMIT 3;
SELECT here.id, big.ctid IS NOT NULL FROM here JOIN big USING (id) ORDER BY 1 LIMIT 2;
SELECT here.id, big.tableoid::regclass FROM here JOIN big USING (id) ORDER BY 1 LIMIT 2;
SELECT count(*) FROM here WHERE EXISTS (SELECT FROM big JOIN other ON other.big_id = big.id WHERE big.id = here.id);
-- tables of two servers
SELECT count(*), sum(o.id) FROM other o JOIN other2 p USING (id) WHERE p.d < '2020-02-01';

-- objects of listed extensions
CREATE FUNCTION thrice(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN i * 3; END';
SELECT count(*) FROM shardfdw.run_on_nodes($$CREATE FUNCTION foreign_scan.thrice(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN i * 3; END'$$);
ALTER EXTENSION plpgsql ADD FUNCTION thrice(int);
EXPLAIN (COSTS OFF) SELECT id FROM big WHERE thrice(id) = 300;
ALTER SERVER node1 OPTIONS (ADD extensions 'plpgsql');
EXPLAIN (COSTS OFF) SELECT id FROM big WHERE thrice(id) = 300;
SELECT id FROM big WHERE thrice(id) = 300;
EXPLAIN (COSTS OFF) SELECT thrice(id) % 7, count(*) FROM big GROUP BY 1;
SELECT thrice(id) % 7, count(*) FROM big GROUP BY 1 ORDER BY 1;
-- not where a table of another server takes part that does not list it
EXPLAIN (COSTS OFF) SELECT FROM other o JOIN other2 p USING (id) WHERE thrice(p.id) = 3 AND thrice(o.id) = 3;
SELECT count(*) FROM other o JOIN other2 p USING (id) WHERE thrice(p.id) = 3 AND thrice(o.id) = 3;
ALTER EXTENSION plpgsql DROP FUNCTION thrice(int);
EXPLAIN (COSTS OFF) SELECT id FROM big WHERE thrice(id) = 300;
ALTER SERVER node1 OPTIONS (DROP extensions);

-- estimates of the node's planner
CREATE FUNCTION estimate(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan->0->'Plan'->>'Plan Rows';
END$$;
SELECT count(*) FROM shardfdw.run_on_nodes($$INSERT INTO foreign_scan.other SELECT 777, i, NULL FROM generate_series(1, 900) i; ANALYZE foreign_scan.other$$);
SELECT estimate('SELECT FROM other WHERE id = 777') < 500 AS old;
ALTER FOREIGN TABLE other OPTIONS (ADD use_remote_estimate 'true');
SELECT estimate('SELECT FROM other WHERE id = 777') BETWEEN 800 AND 1000 AS new;
ALTER FOREIGN TABLE big OPTIONS (ADD use_remote_estimate 'true');
SELECT estimate('SELECT other.id, big.v FROM other JOIN big ON big_id = big.id WHERE other.id = 777') BETWEEN 800 AND 1000 AS joined;
SET plan_cache_mode = force_generic_plan;
PREPARE by_id (int) AS SELECT count(*) FROM other WHERE id = $1;
EXECUTE by_id (777);
EXECUTE by_id (7);
DEALLOCATE by_id;
RESET plan_cache_mode;
SELECT count(*), sum(v) FROM other JOIN big ON big_id = big.id WHERE other.id = 777;
SELECT count(*) FROM shardfdw.run_on_nodes('ALTER TABLE foreign_scan.other RENAME TO gone');
SELECT FROM other WHERE id = 777;
SELECT count(*) FROM shardfdw.run_on_nodes('ALTER TABLE foreign_scan.gone RENAME TO other');

-- temporary foreign tables
CREATE TEMP TABLE first AS SELECT 1;
CREATE FOREIGN TABLE pg_temp.short (id int, v numeric) SERVER node1 OPTIONS (schema_name 'foreign_scan', table_name 'big');
SELECT sum(v), count(*) FROM short WHERE id < 50;
UPDATE short SET v = v WHERE id = 1 RETURNING id, v;
DROP FOREIGN TABLE short;

-- IMPORT FOREIGN SCHEMA
SELECT count(*) FROM shardfdw.run_on_nodes($$
	CREATE SCHEMA "Odd ""schema";
	CREATE TYPE foreign_scan.color AS ENUM ('red');
	CREATE TABLE "Odd ""schema".plain (a int NOT NULL, b varchar(10) COLLATE "C" DEFAULT 'x''y', "select" int GENERATED ALWAYS AS (a * 2) STORED, "quo""te" text[]);
	CREATE TABLE "Odd ""schema"."with 'quotes'" ();
	CREATE VIEW "Odd ""schema".seen AS SELECT a, "select" FROM "Odd ""schema".plain;
	CREATE TABLE "Odd ""schema".parent (k int, c foreign_scan.color) PARTITION BY LIST (k);
	CREATE TABLE "Odd ""schema".parent_1 PARTITION OF "Odd ""schema".parent FOR VALUES IN (1);
	INSERT INTO "Odd ""schema".plain VALUES (5)$$);
CREATE SCHEMA imported;
IMPORT FOREIGN SCHEMA "Odd ""schema" FROM SERVER node1 INTO imported;
CREATE TYPE color AS ENUM ('red');
IMPORT FOREIGN SCHEMA "Odd ""schema" FROM SERVER node1 INTO imported;
\d imported.*
SELECT * FROM imported.plain;
INSERT INTO imported.plain (a, b) VALUES (6, 'z') RETURNING *;
SELECT * FROM imported.seen ORDER BY a;
CREATE SCHEMA imported2;
IMPORT FOREIGN SCHEMA "Odd ""schema" LIMIT TO (plain, parent_1) FROM SERVER node1 INTO imported2
	OPTIONS (import_default 'true', import_collate 'false', import_generated 'false', import_not_null 'false');
\d imported2.*
IMPORT FOREIGN SCHEMA "Odd ""schema" EXCEPT (plain, parent, seen) FROM SERVER node1 INTO imported2;
SELECT relname FROM pg_class WHERE relnamespace = 'imported2'::regnamespace ORDER BY relname COLLATE "C";
IMPORT FOREIGN SCHEMA nonesuch FROM SERVER node1 INTO imported2;
IMPORT FOREIGN SCHEMA "Odd ""schema" FROM SERVER node1 INTO imported2 OPTIONS (import_all 'true');

-- the name of the session on the node
SET application_name = 'coordinator';
SET postgres_fdw.application_name = '%a of the set-up, 100%%%';
CREATE SERVER named FOREIGN DATA WRAPPER shardfdw OPTIONS (application_name 'server %u');
DO $$BEGIN
	EXECUTE (SELECT 'ALTER SERVER named OPTIONS (' || string_agg(format('ADD %I %L', option_name, option_value), ', ') || ')'
		FROM pg_foreign_server, pg_options_to_table(srvoptions) WHERE srvname = 'node1' AND option_name IN ('host', 'port', 'dbname'));
	EXECUTE (SELECT format('CREATE USER MAPPING FOR CURRENT_USER SERVER named OPTIONS (user %L)', current_user));
END$$;
CREATE FOREIGN TABLE activity (pid int, application_name text) SERVER named OPTIONS (schema_name 'pg_catalog', table_name 'pg_stat_activity');
SELECT DISTINCT application_name FROM activity WHERE application_name LIKE '%set-up%';
RESET postgres_fdw.application_name;
DROP SERVER named CASCADE;

-- text here, other types there: their text, in rows, whole rows, COPY and RETURNING
SELECT bool_and(ok) FROM shardfdw.run_on_nodes($$
	CREATE TABLE foreign_scan.typed (id int, a jsonb, b bytea, c uuid, d numeric, e date, f boolean, g text[], h name, i char(5), j varchar(9), k "char", l timestamptz, m inet, n regclass);
	INSERT INTO foreign_scan.typed VALUES (1, '{"a": 1}', '\x0102', '00000000-0000-0000-0000-000000000001', 1.50, '2024-01-02', true, '{x,NULL}', 'nm', 'ch', 'vc', 'z', '2024-01-02 03:04:05+00', '1.2.3.4', 'pg_class')$$);
CREATE FOREIGN TABLE typed (id int, a text, b text, c text, d text, e text, f text, g text, h text, i text, j text, k text, l text, m text, n text) SERVER node1;
CREATE FOREIGN TABLE typed2 (id int, a varchar, b varchar(20), h name, i bpchar, j char(9)) SERVER node1 OPTIONS (table_name 'typed');
SET TimeZone = 'UTC';
SELECT * FROM typed;
SELECT typed FROM typed;
SELECT * FROM typed WHERE id = 1 AND length(a || b) = 14 + (random() * 0)::int;
SELECT a.c, b.b, a.d || b.l FROM typed a JOIN typed b USING (id);
SELECT DISTINCT c, i FROM typed ORDER BY 2, 1;
COPY (SELECT a, b, c, e FROM typed) TO STDOUT;
UPDATE typed SET id = 2 RETURNING b, d, i || '.';
UPDATE typed SET id = id + 1 WHERE random() < 2 RETURNING *;
SELECT *, octet_length(i) FROM typed2;
SELECT max(id), count(DISTINCT b) FROM typed;
DELETE FROM typed RETURNING c;

SET client_min_messages = warning;
DROP SCHEMA foreign_scan, imported, imported2 CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA foreign_scan, "Odd ""schema" CASCADE');
