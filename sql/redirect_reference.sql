-- A reference table stands for the tables of its name on all nodes: who declares or renames one needs USAGE on their servers.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE ROLE rr_owner;
CREATE ROLE rr_trigger;
CREATE SCHEMA rr AUTHORIZATION rr_owner;
CREATE SCHEMA rr_more AUTHORIZATION rr_owner;
DO $$BEGIN
	FOR i IN 1..4 LOOP EXECUTE format('CREATE USER MAPPING FOR rr_owner SERVER node%s OPTIONS (user %L, password_required ''false'')', i, current_user); END LOOP;
	EXECUTE format('GRANT CREATE ON DATABASE %I TO rr_owner', current_database());
END$$;

-- a table that its owner makes a reference table without create_reference_table()
CREATE TABLE rr.on_nodes (k int PRIMARY KEY, s text);
SELECT shardfdw.create_reference_table('rr.on_nodes');
INSERT INTO rr.on_nodes VALUES (1, 'a secret');
SET shardfdw.enable_ddl_propagation = off;
DROP TABLE rr.on_nodes;
RESET shardfdw.enable_ddl_propagation;
CREATE TABLE rr.joined (k int PRIMARY KEY);
SELECT shardfdw.shard_table('rr.joined', 'k', shards => 1) \g /dev/null
INSERT INTO rr.joined VALUES (1);
GRANT SELECT ON rr.joined TO rr_owner;
SET ROLE rr_owner;
CREATE TABLE rr.on_nodes (k int PRIMARY KEY, s text);
CREATE TRIGGER "00_shardfdw_insert" AFTER INSERT ON rr.on_nodes REFERENCING NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION shardfdw_internal.send_reference_write();
CREATE TRIGGER "00_shardfdw_update" AFTER UPDATE ON rr.on_nodes REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION shardfdw_internal.send_reference_write();
CREATE TRIGGER "00_shardfdw_delete" AFTER DELETE ON rr.on_nodes REFERENCING OLD TABLE AS old_rows
	FOR EACH STATEMENT EXECUTE FUNCTION shardfdw_internal.send_reference_write();
CREATE TRIGGER "00_shardfdw_truncate" AFTER TRUNCATE ON rr.on_nodes
	FOR EACH STATEMENT EXECUTE FUNCTION shardfdw_internal.send_reference_write();
CREATE TRIGGER "00_shardfdw_insert_row" AFTER INSERT ON rr.on_nodes
	FOR EACH ROW EXECUTE FUNCTION shardfdw_internal.send_reference_write();
INSERT INTO rr.on_nodes VALUES (2, 'own');
SELECT j.k, o.s FROM rr.joined j LEFT JOIN rr.on_nodes o USING (k);
TRUNCATE rr.on_nodes;
SELECT shardfdw_internal.copy_reference_rows('rr.on_nodes', '{node1}');
RESET ROLE;
SELECT DISTINCT result FROM shardfdw.run_on_nodes('SELECT k, s FROM rr.on_nodes') ORDER BY 1;

-- a reference table of a role that has no USAGE, or no longer
CREATE TABLE rr.ref (k int PRIMARY KEY, s text);
SELECT shardfdw.create_reference_table('rr.ref');
ALTER TABLE rr.ref OWNER TO rr_owner;
SET ROLE rr_owner;
INSERT INTO rr.ref VALUES (1, 'own');
SET shardfdw.enable_ddl_propagation = off;
ALTER TABLE rr.ref RENAME TO ref2;
ALTER TABLE rr.ref SET SCHEMA rr_more;
ALTER TABLE rr.ref DISABLE TRIGGER USER;
ALTER TABLE rr.ref RENAME TO ref2;
ALTER TABLE rr.ref ENABLE ALWAYS TRIGGER "00_shardfdw_insert";
CREATE SCHEMA rr_ref;
RESET shardfdw.enable_ddl_propagation;
SET shardfdw.follows_coordinator = on;
ALTER TABLE rr.ref RENAME TO ref2;
RESET shardfdw.follows_coordinator;
-- while triggers are disabled nodes do not follow
ALTER TABLE rr.ref RENAME TO ref2;
ALTER TABLE rr.ref ENABLE TRIGGER USER;
-- nor is it renamed on both sides
ALTER TABLE rr.ref RENAME TO ref2;
ALTER TABLE rr.ref SET SCHEMA rr_ref;
RESET ROLE;
ALTER TABLE rr.ref RENAME TO ref2;
ALTER TABLE rr.ref2 SET SCHEMA rr_ref;
SET ROLE rr_owner;
ALTER SCHEMA rr_ref RENAME TO rr_ref2;
RESET ROLE;
ALTER SCHEMA rr_ref RENAME TO rr_ref2;
SET ROLE rr_owner;
INSERT INTO rr_ref2.ref2 VALUES (2, 'own');
-- the owner alone says what a table is, not a role that may make other triggers
GRANT TRIGGER ON rr_ref2.ref2 TO rr_trigger;
RESET ROLE;
GRANT USAGE ON SCHEMA rr_ref2 TO rr_trigger;
GRANT USAGE ON FOREIGN SERVER node1, node2, node3, node4 TO rr_trigger;
SET ROLE rr_trigger;
CREATE TRIGGER shardfdw_import BEFORE INSERT ON rr_ref2.ref2
	FOR EACH STATEMENT EXECUTE FUNCTION shardfdw_internal.refuse_write_of_import(1, '0', 'copying');
CREATE TRIGGER more AFTER TRUNCATE ON rr_ref2.ref2 FOR EACH STATEMENT EXECUTE FUNCTION shardfdw_internal.send_reference_write();
RESET ROLE;
SELECT DISTINCT result FROM shardfdw.run_on_nodes('SELECT count(*) FROM rr_ref2.ref2') ORDER BY 1;
SELECT count(*) FROM rr_ref2.ref2;
-- with USAGE on all nodes
GRANT USAGE ON FOREIGN SERVER node1, node2, node3, node4 TO rr_owner;
SET ROLE rr_owner;
SET shardfdw.enable_ddl_propagation = off;
ALTER TABLE rr_ref2.ref2 RENAME TO ref3;
ALTER TABLE rr_ref2.ref3 RENAME TO ref2;
CREATE TABLE rr.own (k int);
CREATE TRIGGER more AFTER TRUNCATE ON rr.own FOR EACH STATEMENT EXECUTE FUNCTION shardfdw_internal.send_reference_write();
RESET shardfdw.enable_ddl_propagation;
RESET ROLE;

-- with USAGE and a role of its own on the nodes: not for a table of others there
CREATE ROLE rr_own LOGIN;
GRANT USAGE ON FOREIGN SERVER node1, node2, node3, node4 TO rr_own;
DO $$BEGIN
	FOR i IN 1..4 LOOP EXECUTE format('CREATE USER MAPPING FOR rr_own SERVER node%s OPTIONS (user ''rr_own'', password_required ''false'')', i); END LOOP;
	EXECUTE format('GRANT CREATE ON DATABASE %I TO rr_own', current_database());
END$$;
SELECT count(*) FROM shardfdw.run_on_nodes('CREATE SCHEMA rr_hr CREATE TABLE secret (k int PRIMARY KEY); CREATE SCHEMA rr_mine AUTHORIZATION rr_own; GRANT ALL ON SCHEMA rr_hr TO rr_own') WHERE NOT ok;
SET ROLE rr_own;
CREATE SCHEMA rr_hr;
CREATE SCHEMA rr_mine;
CREATE TABLE rr_hr.secret (k int PRIMARY KEY);
CREATE TRIGGER "00_shardfdw_truncate" AFTER TRUNCATE ON rr_hr.secret FOR EACH STATEMENT EXECUTE FUNCTION shardfdw_internal.send_reference_write();
DROP TABLE rr_hr.secret;
CREATE TABLE rr_mine.secret (k int PRIMARY KEY);
SELECT shardfdw.create_reference_table('rr_mine.secret');
CREATE TRIGGER more AFTER TRUNCATE ON rr_mine.secret FOR EACH STATEMENT EXECUTE FUNCTION shardfdw_internal.send_reference_write();
DROP TRIGGER more ON rr_mine.secret;
SET shardfdw.enable_ddl_propagation = off;
ALTER TABLE rr_mine.secret SET SCHEMA rr_hr;
ALTER SCHEMA rr_hr RENAME TO rr_hr2;
ALTER SCHEMA rr_mine RENAME TO rr_hr;
CREATE TABLE rr_hr2.mine (k int PRIMARY KEY);
ALTER SCHEMA rr_hr2 RENAME TO rr_hr;
SELECT shardfdw.create_reference_table('rr_hr.mine');
ALTER TABLE rr_hr.mine RENAME TO secret;
RESET shardfdw.enable_ddl_propagation;
SET shardfdw.follows_coordinator = on;
ALTER TABLE rr_hr.mine RENAME TO secret;
RESET shardfdw.follows_coordinator;
ALTER TABLE rr_hr.mine RENAME TO mine2;
ALTER TABLE rr_hr.mine2 RENAME TO secret;
INSERT INTO rr_hr.mine2 VALUES (1);
RESET ROLE;
SELECT DISTINCT result FROM shardfdw.run_on_nodes('SELECT (SELECT count(*) FROM rr_hr.mine2), (SELECT count(*) FROM rr_hr.secret)') ORDER BY 1;
DROP SCHEMA rr_hr, rr_mine CASCADE;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP SCHEMA rr_hr, rr_mine CASCADE') WHERE NOT ok;
DROP OWNED BY rr_own;
DROP ROLE rr_own;

SELECT count(*) FROM shardfdw.run_on_nodes('DROP TABLE rr.on_nodes') WHERE NOT ok;
DROP SCHEMA rr, rr_more, rr_ref2 CASCADE;
DO $$BEGIN
	FOR i IN 1..4 LOOP EXECUTE format('DROP USER MAPPING FOR rr_owner SERVER node%s', i); END LOOP;
	EXECUTE format('REVOKE CREATE ON DATABASE %I FROM rr_owner', current_database());
END$$;
SELECT count(*) FROM shardfdw.run_on_nodes('DROP OWNED BY rr_owner, rr_trigger') WHERE NOT ok;
DROP OWNED BY rr_owner, rr_trigger;
DROP ROLE rr_owner, rr_trigger;
