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
-- the same table as before: what is changed are other options, or both sides
ALTER FOREIGN TABLE rd.lone_00 OPTIONS (ADD fetch_size '100', ADD table_name 'lone_00');
ALTER FOREIGN TABLE rd.lone_00 OPTIONS (DROP table_name);
INSERT INTO rd.lone VALUES (1, 'own');
ALTER FOREIGN TABLE rd.lone_00 RENAME TO renamed_00;
ALTER FOREIGN TABLE rd.renamed_00 SET SCHEMA rd_other;
ALTER SCHEMA rd_other RENAME TO rd_more;
SELECT * FROM rd.lone;
RESET ROLE;
-- a table of which each name is an option
CREATE FOREIGN TABLE rd.hand (k int, s text) SERVER node1 OPTIONS (schema_name 'rd_more', table_name 'renamed_00');
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
RESET ROLE;

DROP SCHEMA rd, rd_more CASCADE;
DO $$BEGIN
	FOR i IN 1..4 LOOP EXECUTE format('DROP USER MAPPING FOR rd_owner SERVER node%s', i); END LOOP;
	EXECUTE format('REVOKE CREATE ON DATABASE %I FROM rd_owner', current_database());
END$$;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP OWNED BY rd_owner') WHERE NOT ok;
DROP OWNED BY rd_owner;
DROP ROLE rd_owner;
