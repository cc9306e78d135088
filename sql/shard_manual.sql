-- RANGE and LIST shards by create_shard, set-ups typed by hand, and where rows go at the bounds.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA sm;
SET search_path = sm;

-- RANGE with keys and an index, which every shard gets
CREATE TABLE r (at date NOT NULL, id int NOT NULL, v text DEFAULT 'v', CHECK (id > 0), PRIMARY KEY (at, id)) PARTITION BY RANGE (at);
CREATE INDEX r_v ON r (v);
CREATE UNIQUE INDEX r_uq ON ONLY r (id, at);
COMMENT ON INDEX r_uq IS 'unique';
-- further shards leave what depends on a key as it is
CREATE VIEW r_grouped AS SELECT at, id, v, count(*) FROM r GROUP BY at, id;
CREATE TEMPORARY TABLE keys_before AS SELECT indexrelid, obj_description(indexrelid, 'pg_class') FROM pg_index WHERE indrelid = 'r'::regclass;
SELECT shardfdw.create_shard('r', 'r_old', 'FROM (MINVALUE) TO (''2024-01-01'')', 'node1');
SELECT shardfdw.create_shard('r', 'r_2024', 'for values FROM (''2024-01-01'') TO (''2025-01-01'')', 'node2');
SELECT shardfdw.create_shard('r', 'r_2026', $$ FROM ('2026-01-01') TO (MAXVALUE) $$, 'node3');
SELECT shardfdw.create_shard('r', 'r_again', 'FROM (''2024-06-01'') TO (''2024-07-01'')', 'node4');
INSERT INTO r VALUES ('2023-12-31', 1), ('2024-01-01', 2), ('2024-12-31', 3), ('2026-01-01', 4), ('infinity', 5), ('-infinity', 6);
INSERT INTO r VALUES ('2025-01-01', 7);
SELECT shardfdw.shard_for('r', '2025-01-01'::date);
SELECT shardfdw.create_shard('r', 'r_default', 'DEFAULT', 'node4');
INSERT INTO r VALUES ('2025-01-01', 7), ('2025-12-31', 8);
SELECT tableoid::regclass, at, id, shardfdw.shard_for('r', at) = tableoid AS agrees FROM r ORDER BY at;
SELECT at, id FROM r WHERE at >= '2024-12-31' AND at < '2026-01-01' ORDER BY at;
SELECT at, id FROM r WHERE at = '2026-01-01' OR at = '2023-12-31' ORDER BY at;
SELECT shardfdw.shard_for('r', NULL::date);
SELECT indexrelid::regclass, indisprimary, indisunique, indisvalid, indislive FROM pg_index WHERE indrelid = 'r'::regclass ORDER BY indexrelid::regclass::text;
SELECT count(*) FROM keys_before NATURAL JOIN (SELECT indexrelid FROM pg_index) i WHERE obj_description IS NOT DISTINCT FROM obj_description(indexrelid, 'pg_class');
SELECT * FROM r_grouped ORDER BY at, id LIMIT 2;
DROP VIEW r_grouped;
SELECT DISTINCT result FROM shardfdw.run_on_shards('r', $$SELECT indisprimary, indisunique, indnatts FROM pg_index WHERE indrelid = '%s'::regclass ORDER BY 1, 2, 3$$);
INSERT INTO r VALUES ('2024-01-01', 2);
INSERT INTO r VALUES ('2024-01-01', 0);
SELECT * FROM shardfdw.tables WHERE relation = 'r'::regclass;
SELECT shard, node, bounds FROM shardfdw.shards WHERE relation = 'r'::regclass ORDER BY shard::text COLLATE "C";
SELECT shardfdw.unshard_table('r');
SELECT count(*), min(at), max(at) FROM r;
SELECT indexrelid::regclass, indisprimary, indisunique, indisvalid FROM pg_index WHERE indrelid = 'r'::regclass ORDER BY 1;

-- LIST with NULL; rows of no shard are refused
CREATE TABLE l (k text COLLATE "C", v int) PARTITION BY LIST (k);
SELECT shardfdw.create_shard('l', 'l_ab', $$IN ('a', 'b')$$, 'node1');
SELECT shardfdw.create_shard('l', 'l_null', $$IN (NULL, 'ö')$$, 'node2');
INSERT INTO l VALUES ('a', 1), ('b', 2), (NULL, 3), ('ö', 4);
INSERT INTO l VALUES ('A', 5);
SELECT tableoid::regclass, * FROM l ORDER BY v;
SELECT k, shardfdw.shard_for('l', k) FROM unnest('{a,A,ö,NULL}'::text[]) k;
SELECT v FROM l WHERE k IS NULL;
SELECT v FROM l WHERE k <> 'a' ORDER BY v;

-- HASH, shard by shard, with other moduli
CREATE TABLE h (k int, v text) PARTITION BY HASH (k);
SELECT shardfdw.create_shard('h', 'h_half', 'WITH (MODULUS 2, REMAINDER 0)', 'node1');
SELECT shardfdw.create_shard('h', 'h_quarter', 'WITH (MODULUS 4, REMAINDER 1)', 'node2');
SELECT shardfdw.create_shard('h', 'h_last', 'WITH (MODULUS 4, REMAINDER 3)', 'node1');
INSERT INTO h SELECT i, 'x' FROM generate_series(1, 200) i;
SELECT count(*) FILTER (WHERE tableoid = shardfdw.shard_for('h', k)) AS placed, count(*), count(DISTINCT tableoid) AS shards FROM h;
CREATE TABLE h2 (k int);
SELECT shardfdw.shard_table('h2', 'k', colocate_with => 'h');

-- By hand: other names on the node, and another order of columns.
SELECT node, ok FROM shardfdw.run_on_nodes('CREATE SCHEMA "Sm x"; CREATE TABLE "Sm x"."T 1" ("the v" text, extra int, k int); CREATE TABLE "Sm x".m2 (k int, v text)');
SELECT node, dbname FROM shardfdw.nodes WHERE node IN ('node3', 'node4') ORDER BY 1;
SELECT split_part(current_setting('unix_socket_directories'), ',', 1) AS host, current_setting('port') AS port \gset
CREATE SERVER "by hand" FOREIGN DATA WRAPPER shardfdw OPTIONS (host :'host', port :'port', dbname 'shardfdw_node3');
CREATE USER MAPPING FOR CURRENT_USER SERVER "by hand" OPTIONS (user :'USER');
CREATE TABLE m (k int, v text) PARTITION BY RANGE (k);
CREATE FOREIGN TABLE m1 PARTITION OF m FOR VALUES FROM (0) TO (100) SERVER "by hand" OPTIONS (schema_name 'Sm x', table_name 'T 1');
ALTER FOREIGN TABLE m1 ALTER v OPTIONS (column_name 'the v');
CREATE FOREIGN TABLE m2 (v text, gone int, k int) SERVER node4 OPTIONS (schema_name 'Sm x');
ALTER FOREIGN TABLE m2 DROP COLUMN gone;
ALTER TABLE m ATTACH PARTITION m2 FOR VALUES FROM (100) TO (200);
INSERT INTO m VALUES (1, 'one'), (150, 'many');
SELECT * FROM m ORDER BY k;
SELECT tableoid::regclass, * FROM m WHERE v > 'a' ORDER BY k;
SELECT v, count(*) FROM m GROUP BY v ORDER BY v;
SELECT * FROM m WHERE k = 1;
SELECT node, result FROM shardfdw.run_on_shards('m', 'SELECT * FROM %s');
SELECT relation, key, strategy, shards, nodes FROM shardfdw.tables WHERE relation = 'm'::regclass;

-- Foreign partitions typed by hand may join a table with unique keys, too; not one with partitions here, whose keys are real.
CREATE TABLE u (k int PRIMARY KEY, v text, UNIQUE (k, v)) PARTITION BY RANGE (k);
CREATE FOREIGN TABLE u1 PARTITION OF u FOR VALUES FROM (0) TO (100) SERVER node1;
CREATE FOREIGN TABLE u2 (k int NOT NULL, v text) SERVER node2;
ALTER TABLE u ATTACH PARTITION u2 FOR VALUES FROM (100) TO (200);
SELECT conname, contype, indisvalid, indislive FROM pg_constraint JOIN pg_index ON indexrelid = conindid WHERE conrelid = 'u'::regclass AND contype IN ('p', 'u') ORDER BY 1;
BEGIN;
SAVEPOINT s;
CREATE FOREIGN TABLE u3 PARTITION OF u FOR VALUES FROM (150) TO (300) SERVER node1;
ROLLBACK TO s;
CREATE FOREIGN TABLE u3 PARTITION OF u FOR VALUES FROM (200) TO (300) SERVER node1;
SELECT count(*) FROM pg_index WHERE indrelid = 'u'::regclass AND indislive;
ROLLBACK;
DROP TABLE u;
CREATE TABLE u (k int PRIMARY KEY) PARTITION BY RANGE (k);
CREATE TABLE u1 PARTITION OF u FOR VALUES FROM (0) TO (100);
-- a foreign key needs the key's index, and the key cannot become one that only the shards have
CREATE TABLE refers (k int REFERENCES u);
CREATE FOREIGN TABLE u2 PARTITION OF u FOR VALUES FROM (100) TO (200) SERVER node1;
DROP TABLE refers;
CREATE FOREIGN TABLE u2 PARTITION OF u FOR VALUES FROM (100) TO (200) SERVER node1;
DROP TABLE u;

-- check_cluster() sees a column that is missing, one of another type, one too many, and a table that is gone
SELECT node, check_name, status, detail FROM shardfdw.check_cluster() WHERE check_name LIKE 'shard %' AND node IN ('by hand', 'node4');
SELECT ok, tag FROM shardfdw.query_nodes('{node4}', ARRAY['ALTER TABLE "Sm x".m2 ALTER k TYPE text'], 'write');
ALTER FOREIGN TABLE m1 ALTER v OPTIONS (SET column_name 'nix');
SELECT node, check_name, status, detail FROM shardfdw.check_cluster() WHERE check_name LIKE 'shard %' AND node IN ('by hand', 'node4');
SELECT * FROM m WHERE k = 1;
\set VERBOSITY terse
SELECT * FROM m WHERE k = 150;
\set VERBOSITY default
ALTER FOREIGN TABLE m1 OPTIONS (SET table_name 'nix');
SELECT node, check_name, status, detail FROM shardfdw.check_cluster() WHERE check_name LIKE 'shard%' AND node = 'by hand';
SELECT * FROM m1;
ALTER SERVER "by hand" OPTIONS (SET dbname 'shardfdw_nowhere', ADD connect_timeout '3');
SELECT node, check_name, status FROM shardfdw.check_cluster() WHERE node = 'by hand';
SELECT shardfdw.remove_node('by hand');
SELECT shardfdw.remove_node('nowhere');
SELECT shardfdw.remove_node('shardfdw_cluster');
DROP TABLE m;
SELECT shardfdw.remove_node('by hand');
SELECT count(*) FROM pg_user_mappings WHERE srvname = 'by hand';

-- nodes that cannot be added leave nothing behind
\set VERBOSITY terse
SELECT shardfdw.add_node('bad', :'host', :port, 'shardfdw_nowhere');
\set VERBOSITY default
SELECT shardfdw.add_node('bad', :'host', :port, 'shardfdw_node1', options => '{"hots": "x"}');
SELECT shardfdw.add_node('bad', :'host', :port, 'shardfdw_node1', options => '[]');
SELECT shardfdw.add_node('node1', :'host', :port, 'shardfdw_node1');
SELECT node, shards FROM shardfdw.nodes WHERE node = 'bad';
SET client_min_messages = error;
SELECT shardfdw.add_node('n"5 ö', :'host', :port, 'shardfdw_node1', options => '{"cores": "3", "fetch_size": "77", "password_required": "false"}');
SELECT node, dbname, cores FROM shardfdw.nodes WHERE node LIKE 'n"%';
SELECT umoptions @> '{password_required=false}' AS on_mapping FROM pg_user_mappings WHERE srvname LIKE 'n"%';
SELECT shardfdw.remove_node('n"5 ö');

-- commands: rows, tags, errors; part of the transaction, or not
SELECT node, ok, result FROM shardfdw.run_on_nodes('SELECT 1, NULL, ''x'' UNION ALL SELECT 2, ''y'', ''z'' ORDER BY 1') LIMIT 1;
SELECT node, ok, result FROM shardfdw.run_on_nodes('SELECT 1/0');
SELECT node, ok, result FROM shardfdw.run_on_nodes('VACUUM sm.h_half') LIMIT 1;
SELECT node, ok, result FROM shardfdw.run_on_nodes('VACUUM pg_class', false) LIMIT 1;
BEGIN;
SELECT DISTINCT ok, result FROM shardfdw.run_on_nodes('CREATE TABLE public.undone (a int)');
ROLLBACK;
SELECT DISTINCT ok, result FROM shardfdw.run_on_nodes('SELECT to_regclass(''public.undone'')');
SELECT shard, ok, result FROM shardfdw.run_on_shards('h', 'SELECT count(*) > 0, ''100%%'', %L FROM %s') ORDER BY shard::text;
SELECT shard, ok, result FROM shardfdw.run_on_shards('h2', 'SELECT 1');

-- columns of other types than the node's: converted in every statement that returns them, and by ANALYZE
SELECT ok FROM shardfdw.run_on_nodes('CREATE TABLE sm.other_types (k bigint PRIMARY KEY, f float8, at timestamp, v text)') WHERE node = 'node1';
CREATE FOREIGN TABLE other_types (k int, f numeric, at date, v varchar(10)) SERVER node1;
INSERT INTO other_types VALUES (1, 1.5, '2024-02-29', 'one') RETURNING *;
INSERT INTO other_types VALUES (1, 0, NULL, '') ON CONFLICT DO NOTHING RETURNING *;
UPDATE other_types SET f = f + 1 WHERE k = 1 RETURNING *;
UPDATE other_types SET v = v || g FROM generate_series(1, 1) g WHERE g = k RETURNING k, f, at, v;
ANALYZE other_types;
SELECT attname, most_common_vals, histogram_bounds, null_frac FROM pg_stats WHERE tablename = 'other_types' ORDER BY attname;
DELETE FROM other_types USING generate_series(1, 1) g WHERE g = k RETURNING k, f, at, v;
DROP FOREIGN TABLE other_types;

-- columns of a domain here, not there: the check is made here, as with postgres_fdw
SELECT DISTINCT ok FROM shardfdw.run_on_nodes('CREATE TABLE sm.ints (k int PRIMARY KEY, d int)');
CREATE DOMAIN below AS int CHECK (VALUE < 100);
CREATE TABLE d (k int, d below) PARTITION BY HASH (k);
CREATE FOREIGN TABLE d_0 PARTITION OF d FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER node1 OPTIONS (table_name 'ints');
CREATE FOREIGN TABLE d_1 PARTITION OF d FOR VALUES WITH (MODULUS 2, REMAINDER 1) SERVER node2 OPTIONS (table_name 'ints');
INSERT INTO d SELECT i, i FROM generate_series(1, 10) i;
INSERT INTO d VALUES (11, 11), (12, 120);
INSERT INTO d SELECT k + 100, d + 100 FROM d;
UPDATE d SET d = 100 WHERE k = 1;
UPDATE d SET d = d + 100;
UPDATE d SET d = d + 89 WHERE k < 11;
UPDATE d SET d = d + 100 WHERE d > 100;
INSERT INTO d VALUES (1, 1) ON CONFLICT DO NOTHING;
MERGE INTO d USING (VALUES (1)) s (k) ON d.k = s.k WHEN MATCHED THEN UPDATE SET d = 100;
UPDATE d_0 SET d = d + 100;
PREPARE below AS UPDATE d SET d = $1 WHERE k = $2;
EXECUTE below (100, 1);
EXECUTE below (50, 1);
DEALLOCATE below;
SELECT count(*), max(d) FROM d;
-- also where a column is left out, of a single foreign table, and of a domain that gets its constraint later
CREATE DOMAIN given AS int NOT NULL;
CREATE DOMAIN later AS int;
SELECT DISTINCT ok FROM shardfdw.run_on_nodes('CREATE TABLE sm.more (k int PRIMARY KEY, d int, g int, l int)');
CREATE TABLE e (k int, d below, g given, l later) PARTITION BY HASH (k);
CREATE FOREIGN TABLE e_0 PARTITION OF e FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER node1 OPTIONS (table_name 'more');
CREATE FOREIGN TABLE e_1 PARTITION OF e FOR VALUES WITH (MODULUS 2, REMAINDER 1) SERVER node2 OPTIONS (table_name 'more');
CREATE FOREIGN TABLE one (k int, d below, g given, l later) SERVER node3 OPTIONS (table_name 'more');
INSERT INTO e (k) VALUES (1);
INSERT INTO e (k) VALUES (1) ON CONFLICT (k) DO UPDATE SET d = 1;
INSERT INTO e (k) VALUES (1), (2) ON CONFLICT (k) DO UPDATE SET d = 1;
MERGE INTO e USING (VALUES (1), (2)) s (k) ON e.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k);
INSERT INTO one (k) VALUES (1) ON CONFLICT (k) DO NOTHING;
INSERT INTO e (k, g, l) VALUES (1, 1, 1), (2, 2, 2);
INSERT INTO one (k, g, l) VALUES (1, 1, 1), (2, 2, 2);
INSERT INTO one (k, g) VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET d = 5, g = excluded.g + 1;
INSERT INTO one (k, g) VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET d = 5, g = excluded.g;
INSERT INTO one (k, g) VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET d = 100;
SET plan_cache_mode = force_generic_plan;
PREPARE later_1 AS UPDATE e SET l = $1::int WHERE k = $2;
PREPARE later_2 AS UPDATE e SET l = l + $1;
PREPARE later_3 AS MERGE INTO e USING (VALUES ($1::int)) s (k) ON e.k = s.k WHEN MATCHED THEN UPDATE SET l = $2::int;
EXECUTE later_1 (100, 1);
EXECUTE later_2 (100);
EXECUTE later_3 (1, 100);
ALTER DOMAIN later ADD CHECK (VALUE < 100) NOT VALID;
EXECUTE later_1 (100, 1);
EXECUTE later_2 (100);
EXECUTE later_3 (1, 100);
DEALLOCATE ALL;
RESET plan_cache_mode;
SELECT * FROM e ORDER BY k;
SELECT * FROM one ORDER BY k;
DROP TABLE d, e;
DROP FOREIGN TABLE one;

SELECT DISTINCT ok FROM shardfdw.run_on_nodes('DROP SCHEMA IF EXISTS sm CASCADE; DROP SCHEMA "Sm x" CASCADE');
DROP SCHEMA sm CASCADE;
