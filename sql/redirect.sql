-- A foreign table that is to stand for another table of its node: its owner needs USAGE on the server, as for
-- CREATE FOREIGN TABLE.  A user mapping may be shared, and the role on the node may read tables of others.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE ROLE rd_owner;
CREATE SCHEMA rd AUTHORIZATION rd_owner;
DO $$BEGIN
	FOR i IN 1..4 LOOP EXECUTE format('CREATE USER MAPPING FOR rd_owner SERVER node%s OPTIONS (user %L, password_required ''false'')', i, current_user); END LOOP;
	EXECUTE format('GRANT CREATE ON DATABASE %I TO rd_owner', current_database());
END$$;
CREATE TABLE rd.salaries (k int PRIMARY KEY, s text);
SELECT shardfdw.shard_table('rd.salaries', 'k', shards => 1, nodes => '{node1}') \g /dev/null
INSERT INTO rd.salaries VALUES (1, 'a secret');
CREATE TABLE rd.lone (k int PRIMARY KEY, s text);
SELECT shardfdw.shard_table('rd.lone', 'k', shards => 1, nodes => '{node1}') \g /dev/null
ALTER TABLE rd.lone OWNER TO rd_owner;

SET ROLE rd_owner;
-- options of the foreign table
ALTER FOREIGN TABLE rd.lone_00 OPTIONS (ADD table_name 'salaries_00');
ALTER TABLE rd.lone_00 OPTIONS (ADD schema_name 'public');
SET shardfdw.enable_ddl_propagation = off;
ALTER FOREIGN TABLE rd.lone_00 OPTIONS (ADD replica_nodes '{node2}');
SELECT shardfdw_internal.set_shard_node('rd.lone_00', 'node2');
-- a new name that the table on the node does not get
CREATE SCHEMA rd_other;
ALTER FOREIGN TABLE rd.lone_00 RENAME TO other_00;
ALTER FOREIGN TABLE rd.lone_00 SET SCHEMA rd_other;
ALTER SCHEMA rd RENAME TO rd_more;
RESET shardfdw.enable_ddl_propagation;
SET shardfdw.follows_coordinator = on;
ALTER FOREIGN TABLE rd.lone_00 RENAME TO other_00;
ALTER FOREIGN TABLE rd.lone_00 SET SCHEMA rd_other;
ALTER SCHEMA rd RENAME TO rd_more;
RESET shardfdw.follows_coordinator;
-- the same table as before
ALTER FOREIGN TABLE rd.lone_00 OPTIONS (ADD fetch_size '100', ADD table_name 'lone_00');
ALTER FOREIGN TABLE rd.lone_00 OPTIONS (DROP table_name);
INSERT INTO rd.lone VALUES (1, 'own');
SELECT * FROM rd.lone;
RESET ROLE;

-- Definitions that nodes get.  Their expressions and names are the owner's, and run as the role on the node.
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SCHEMA rd_hr CREATE TABLE secret (k int)') WHERE NOT ok;
CREATE SCHEMA rd_hr AUTHORIZATION rd_owner;
CREATE TYPE rd.state AS ENUM ('a', 'b');
CREATE DOMAIN rd.positive AS int CHECK (VALUE > 0);
ALTER TYPE rd.state OWNER TO rd_owner;
ALTER DOMAIN rd.positive OWNER TO rd_owner;
ALTER TABLE rd.lone ADD COLUMN state rd.state, ADD COLUMN p rd.positive;
CREATE INDEX lone_s ON rd.lone (s);
CREATE INDEX lone_p ON rd.lone (p);
CREATE STATISTICS rd.lone_stat ON k, s FROM rd.lone;
CREATE STATISTICS rd.lone_stat_2 ON k, p FROM rd.lone;
ALTER STATISTICS rd.lone_stat OWNER TO rd_owner;
ALTER STATISTICS rd.lone_stat_2 OWNER TO rd_owner;
SET ROLE rd_owner;
-- expressions
ALTER TABLE rd.lone ADD CHECK (query_to_xml('SELECT * FROM rd.salaries_00', true, false, '')::text NOT LIKE '%secret%');
ALTER TABLE rd.lone_00 ADD CHECK (query_to_xml('SELECT * FROM rd.salaries_00', true, false, '')::text NOT LIKE '%secret%');
ALTER TABLE rd.lone ADD COLUMN g text GENERATED ALWAYS AS (lower(s)) STORED;
ALTER TABLE rd.lone ADD COLUMN d uuid DEFAULT gen_random_uuid();
ALTER TABLE rd.lone ALTER COLUMN p TYPE int USING p + 1;
CREATE INDEX ON rd.lone (lower(s)) WHERE k > 0;
CREATE INDEX CONCURRENTLY ON rd.lone (lower(s));
CREATE STATISTICS rd.more ON lower(s), k FROM rd.lone;
ALTER DOMAIN rd.positive ADD CONSTRAINT odd CHECK (VALUE % 2 = 1);
-- names
ALTER FOREIGN TABLE rd.lone_00 RENAME TO renamed_00;
ALTER FOREIGN TABLE rd.lone_00 SET SCHEMA rd_hr;
ALTER TABLE rd.lone RENAME COLUMN s TO t;
ALTER TABLE rd.lone ADD COLUMN more int;
ALTER INDEX rd.lone_s RENAME TO other;
ALTER STATISTICS rd.lone_stat RENAME TO other;
ALTER TYPE rd.state RENAME VALUE 'a' TO 'c';
ALTER TYPE rd.state RENAME TO other;
ALTER TYPE rd.state SET SCHEMA rd_hr;
ALTER SCHEMA rd RENAME TO rd_more;
GRANT CREATE ON SCHEMA rd TO PUBLIC;
COMMENT ON TABLE rd.lone IS 'x';
-- rows, and what names only the shards and what they have
UPDATE rd.lone SET s = 'changed', state = 'a', p = 1;
COPY rd.lone (k, s) FROM stdin;
2	copied
\.
SELECT * FROM rd.lone ORDER BY k;
GRANT SELECT ON rd.lone TO PUBLIC;
REVOKE SELECT ON rd.lone FROM PUBLIC;
-- who may not grant does not by way of the node's role; others than the owner need USAGE
RESET ROLE;
CREATE ROLE rd_reader;
CREATE ROLE rd_friend;
CREATE USER MAPPING FOR rd_reader SERVER node1 OPTIONS (user :'USER', password_required 'false');
GRANT USAGE ON SCHEMA rd TO rd_reader;
GRANT SELECT ON rd.lone TO rd_reader;
SET ROLE rd_reader;
GRANT ALL ON rd.lone TO rd_friend;
REVOKE TRUNCATE ON rd.lone FROM rd_owner;
GRANT USAGE ON SCHEMA rd TO rd_friend;
RESET ROLE;
GRANT SELECT ON rd.lone TO rd_reader WITH GRANT OPTION;
SET ROLE rd_reader;
GRANT SELECT ON rd.lone TO rd_friend;
REVOKE SELECT ON rd.lone FROM rd_owner;
RESET ROLE;
SELECT result FROM shardfdw.run_on_nodes($$SELECT string_agg(CASE WHEN r.grantee = c.relowner THEN 'owner' ELSE r.grantee::regrole::text END || ':' || r.privilege_type, ' ' ORDER BY r.privilege_type, r.grantee::regrole::text)
	FROM pg_class c, aclexplode(c.relacl) r WHERE c.oid = to_regclass('rd.lone_00') AND r.privilege_type <> 'MAINTAIN'$$) WHERE node = 'node1';
DROP OWNED BY rd_reader, rd_friend;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP OWNED BY rd_reader, rd_friend') WHERE NOT ok;
DROP ROLE rd_reader, rd_friend;
SET ROLE rd_owner;
BEGIN; LOCK TABLE rd.lone; COMMIT;
VACUUM rd.lone;
ANALYZE rd.lone;
REINDEX TABLE rd.lone;
DROP INDEX rd.lone_s;
DROP INDEX CONCURRENTLY rd.lone_p;
DROP STATISTICS rd.lone_stat;
TRUNCATE rd.lone;
RESET ROLE;
SELECT node, status, detail FROM shardfdw.check_cluster() WHERE check_name LIKE '%lone%' AND status <> 'ok';

-- a table of which each name is an option
CREATE FOREIGN TABLE rd.hand (k int, s text) SERVER node1 OPTIONS (schema_name 'rd', table_name 'lone_00');
ALTER FOREIGN TABLE rd.hand OWNER TO rd_owner;
SET ROLE rd_owner;
SET shardfdw.enable_ddl_propagation = off;
ALTER FOREIGN TABLE rd.hand RENAME TO salaries_00_copy;
ALTER FOREIGN TABLE rd.salaries_00_copy OPTIONS (DROP table_name);
RESET shardfdw.enable_ddl_propagation;
SELECT * FROM rd.salaries_00_copy;
RESET ROLE;
-- with USAGE
GRANT USAGE ON FOREIGN SERVER node1 TO rd_owner;
SET ROLE rd_owner;
CREATE FOREIGN TABLE rd.new (k int) SERVER node1 OPTIONS (replica_nodes '{node2}');
CREATE FOREIGN TABLE rd.new (k int) SERVER node1 OPTIONS (stale_replica_nodes '{node2,nope}');
CREATE FOREIGN TABLE rd.new (k int) SERVER node1 OPTIONS (replica_nodes '{nope}');
ALTER FOREIGN TABLE rd.salaries_00_copy OPTIONS (SET schema_name 'rd', SET table_name 'salaries_00');
SELECT * FROM rd.salaries_00_copy;
ALTER TABLE rd.lone ADD CHECK (k > 0);
CREATE INDEX ON rd.lone (lower(s)) WHERE k > 0;
ALTER FOREIGN TABLE rd.lone_00 RENAME TO renamed_00;
ALTER SCHEMA rd RENAME TO rd_more;
RESET ROLE;
REVOKE USAGE ON FOREIGN SERVER node1 FROM rd_owner;
SET ROLE rd_owner;
DROP TABLE rd_more.lone;
RESET ROLE;
SELECT node, result FROM shardfdw.run_on_nodes('SELECT to_regclass(''rd_more.renamed_00'')');

-- What others do with a table for which a role that is no superuser has chosen the table on the node: the node's table must
-- be that role's there, asked with its user mapping.  What superusers have chosen is not asked.
CREATE ROLE rd_own LOGIN;
GRANT USAGE ON FOREIGN SERVER node1, node2, node3 TO rd_own;
CREATE USER MAPPING FOR rd_own SERVER node1 OPTIONS (user 'rd_own', password_required 'false');
CREATE USER MAPPING FOR rd_own SERVER node2 OPTIONS (user 'rd_own', password_required 'false');
CREATE USER MAPPING FOR rd_own SERVER node3 OPTIONS (user 'rd_own', password_required 'false');
CREATE SCHEMA rd_s AUTHORIZATION rd_own;
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SCHEMA rd_s; GRANT ALL ON SCHEMA rd_s TO rd_own') WHERE NOT ok;
SELECT ok FROM shardfdw.query_nodes('{node1,node2}', ARRAY['CREATE TABLE rd_s.precious AS SELECT 1 AS k, ''secret'' AS s', 'CREATE TABLE rd_s.t_00 (k int)'], 'write');
SET ROLE rd_own;
CREATE TABLE rd_s.t (k int PRIMARY KEY, s text);
SELECT shardfdw.shard_table('rd_s.t', 'k', shards => 1, nodes => '{node1}') \g /dev/null
CREATE TABLE rd_s.hand (k int, s text) PARTITION BY HASH (k);
CREATE FOREIGN TABLE rd_s.precious PARTITION OF rd_s.hand FOR VALUES WITH (MODULUS 1, REMAINDER 0) SERVER node1;
INSERT INTO rd_s.t VALUES (1, 'own');
SELECT * FROM rd_s.hand;
RESET ROLE;
CREATE TABLE rd_s.super (k int PRIMARY KEY);
SELECT shardfdw.shard_table('rd_s.super', 'k', shards => 1, nodes => '{node1}') \g /dev/null
SET shardfdw.enable_ddl_propagation = off;
ALTER TABLE rd_s.super OWNER TO rd_own;
ALTER FOREIGN TABLE rd_s.super_00 OWNER TO rd_own;
RESET shardfdw.enable_ddl_propagation;
-- superusers, and the owner's own table
ALTER TABLE rd_s.super ADD COLUMN v int;
ALTER TABLE rd_s.t ADD COLUMN v int;
GRANT SELECT ON rd_s.t TO rd_owner;
SELECT shardfdw_internal.check_shard_owners(t) FROM unnest('{rd_s.super,rd_s.t}'::regclass[]) t;
-- others' tables
DROP TABLE rd_s.hand;
DROP SCHEMA rd_s CASCADE;
ALTER SCHEMA rd_s RENAME TO rd_t;
DROP OWNED BY rd_own CASCADE;
ALTER TABLE rd_s.hand ADD COLUMN v int;
GRANT SELECT ON rd_s.hand TO rd_owner;
CREATE INDEX ON rd_s.hand (k);
CREATE INDEX CONCURRENTLY ON rd_s.hand (k);
SELECT shardfdw.unshard_table('rd_s.hand');
SELECT shardfdw.move_shard('rd_s.precious', 'node2', mode => 'block');
SELECT count(*) FROM shardfdw.run_on_shards('rd_s.hand', 'DROP TABLE %s');
SELECT shardfdw_internal.grant_on_nodes('{rd_s.hand}');
SELECT result FROM shardfdw.run_on_nodes('SELECT s FROM rd_s.precious') WHERE node = 'node1';
SET ROLE rd_own;
DROP TABLE rd_s.hand;
-- each way by which the table on the node is chosen
SET shardfdw.enable_ddl_propagation = off;
DROP TABLE rd_s.hand;
ALTER FOREIGN TABLE rd_s.super_00 OPTIONS (ADD table_name 'precious');
RESET ROLE;
SELECT shardfdw_internal.check_shard_owners('rd_s.super');
ALTER FOREIGN TABLE rd_s.super_00 OPTIONS (DROP table_name);
SELECT shardfdw_internal.check_shard_owners('rd_s.super');
SET ROLE rd_own;
ALTER FOREIGN TABLE rd_s.super_00 RENAME TO precious;
RESET ROLE;
SELECT shardfdw_internal.check_shard_owners('rd_s.super');
ALTER FOREIGN TABLE rd_s.precious RENAME TO super_00;
SET ROLE rd_own;
ALTER FOREIGN TABLE rd_s.t_00 OPTIONS (ADD replica_nodes '{node2}');
RESET ROLE;
SELECT shardfdw_internal.check_shard_owners('rd_s.t');
ALTER FOREIGN TABLE rd_s.t_00 OPTIONS (DROP replica_nodes);
ALTER FOREIGN TABLE rd_s.t_00 OPTIONS (ADD stale_replica_nodes '{node4}');
SELECT shardfdw_internal.check_shard_owners('rd_s.t');
ALTER FOREIGN TABLE rd_s.t_00 OPTIONS (DROP stale_replica_nodes);
SET ROLE rd_own;
SELECT shardfdw_internal.set_shard_node('rd_s.t_00', 'node2') \g /dev/null
RESET ROLE;
RESET shardfdw.enable_ddl_propagation;
SELECT shardfdw_internal.check_shard_owners('rd_s.t');
SET ROLE rd_own;
SELECT shardfdw_internal.set_shard_node('rd_s.t_00', 'node1') \g /dev/null
RESET ROLE;
-- replicas that a superuser makes belong to the owner of the primary
SET ROLE rd_own;
CREATE TABLE rd_s.c (k int PRIMARY KEY);
SELECT shardfdw.shard_table('rd_s.c', 'k', shards => 1, replication_factor => 2, nodes => '{node1,node2}') \g /dev/null
RESET ROLE;
SELECT shardfdw.move_replica('rd_s.c_00', 'node2', 'node3') \g /dev/null
SELECT shardfdw_internal.check_shard_owners('rd_s.c');
SELECT node, result FROM shardfdw.run_on_nodes($$SELECT pg_get_userbyid(relowner), relname FROM pg_class WHERE relname IN ('c_00', 'shardfdw_notes_' || md5('c_00')) ORDER BY relname$$) WHERE node IN ('node1', 'node3');
ALTER TABLE rd_s.c ADD COLUMN v int;
-- replicas on nodes where others have a table of that name
SELECT ok FROM shardfdw.query_nodes('{node2,node3}', array_fill('CREATE TABLE rd_s.d_00 AS SELECT 1 AS k'::text, '{2}'), 'write');
SET ROLE rd_own;
CREATE TABLE rd_s.d (k int PRIMARY KEY);
SELECT shardfdw.shard_table('rd_s.d', 'k', shards => 1, nodes => '{node1}') \g /dev/null
SET shardfdw.enable_ddl_propagation = off;
ALTER FOREIGN TABLE rd_s.d_00 OPTIONS (ADD replica_nodes '{node2}', ADD stale_replica_nodes '{node3}');
RESET shardfdw.enable_ddl_propagation;
RESET ROLE;
SELECT shardfdw.move_replica('rd_s.d_00', 'node2', 'node4');
SELECT shardfdw.move_replica('rd_s.d_00', 'node1', 'node4');
SELECT shardfdw.enable_node('node3');
-- which keeps no other table from having its replicas
CREATE TABLE rd_s.e (k int PRIMARY KEY);
SELECT shardfdw.shard_table('rd_s.e', 'k', shards => 1, replication_factor => 2, nodes => '{node1,node3}') \g /dev/null
INSERT INTO rd_s.e VALUES (1);
SET shardfdw.enable_ddl_propagation = off;
ALTER FOREIGN TABLE rd_s.e_00 OPTIONS (DROP replica_nodes, ADD stale_replica_nodes '{node3}');
RESET shardfdw.enable_ddl_propagation;
INSERT INTO rd_s.e VALUES (2);
SELECT shardfdw.enable_node('node3');
SELECT node, role, row_count, is_equal FROM shardfdw.compare_replicas('rd_s.e');
DROP TABLE rd_s.e;
SELECT shardfdw_internal.check_shard_owners('rd_s.d', 'node3');
SELECT shardfdw_internal.check_shard_owners('rd_s.d', 'node1');
SELECT node, result FROM shardfdw.run_on_nodes('SELECT k FROM rd_s.d_00') WHERE node IN ('node2', 'node3');
SET shardfdw.enable_ddl_propagation = off;
ALTER FOREIGN TABLE rd_s.d_00 OPTIONS (DROP replica_nodes, DROP stale_replica_nodes);
RESET shardfdw.enable_ddl_propagation;
-- a role without rights on the table does not use the owner's mapping
GRANT USAGE ON SCHEMA rd_s TO rd_owner;
SET ROLE rd_owner;
SELECT shardfdw_internal.check_shard_owners('rd_s.t');
RESET ROLE;
DROP OWNED BY rd_own CASCADE;
SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('rd_s');
SELECT count(*) FROM shardfdw.run_on_nodes('DROP OWNED BY rd_own CASCADE') WHERE NOT ok;
DROP ROLE rd_own;

DROP SCHEMA rd_more, rd_hr, rd_other CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA IF EXISTS rd, rd_more, rd_hr, rd_other, rd_s CASCADE') WHERE NOT ok;
DO $$BEGIN
	FOR i IN 1..4 LOOP EXECUTE format('DROP USER MAPPING FOR rd_owner SERVER node%s', i); END LOOP;
	EXECUTE format('REVOKE CREATE ON DATABASE %I FROM rd_owner', current_database());
END$$;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP OWNED BY rd_owner') WHERE NOT ok;
DROP OWNED BY rd_owner;
DROP ROLE rd_owner;
