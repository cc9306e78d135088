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
ALTER FOREIGN TABLE rd.lone_00 OPTIONS (ADD copies '{node2}');
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
BEGIN; LOCK TABLE rd.lone; COMMIT;
VACUUM rd.lone;
ANALYZE rd.lone;
REINDEX TABLE rd.lone;
DROP INDEX rd.lone_s;
DROP INDEX CONCURRENTLY rd.lone_p;
DROP STATISTICS rd.lone_stat;
TRUNCATE rd.lone;
RESET ROLE;
SELECT node, status, detail FROM shardfdw.check_cluster() WHERE object LIKE '%lone%' AND status <> 'ok';

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

DROP SCHEMA rd_more, rd_hr, rd_other CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA rd_hr CASCADE') WHERE NOT ok;
DO $$BEGIN
	FOR i IN 1..4 LOOP EXECUTE format('DROP USER MAPPING FOR rd_owner SERVER node%s', i); END LOOP;
	EXECUTE format('REVOKE CREATE ON DATABASE %I FROM rd_owner', current_database());
END$$;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP OWNED BY rd_owner') WHERE NOT ok;
DROP OWNED BY rd_owner;
DROP ROLE rd_owner;
