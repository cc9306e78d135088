-- types.sql - what the tables of the differential tests need, on the coordinator and on the nodes

CREATE SCHEMA IF NOT EXISTS diff;
CREATE TYPE diff.mood AS ENUM ('sad', 'o''k', 'happy');
CREATE DOMAIN diff.posint AS int CHECK (VALUE > 0);
CREATE TYPE diff.pair AS (a int, b text);
CREATE SEQUENCE diff.seq;
SELECT * FROM shardfdw.run_on_nodes('CREATE SCHEMA diff') WHERE NOT ok;
-- Another type first, so that the types' OIDs differ from the coordinator's.
SELECT * FROM shardfdw.run_on_nodes('CREATE TYPE diff.other AS ENUM (''x'', ''y'')') WHERE NOT ok;
SELECT * FROM shardfdw.run_on_nodes('CREATE TYPE diff.mood AS ENUM (''sad'', ''o''''k'', ''happy'')') WHERE NOT ok;
SELECT * FROM shardfdw.run_on_nodes('CREATE DOMAIN diff.posint AS int CHECK (VALUE > 0)') WHERE NOT ok;
SELECT * FROM shardfdw.run_on_nodes('CREATE TYPE diff.pair AS (a int, b text)') WHERE NOT ok;

-- Owner of views: no superuser, connects to the nodes as the one who runs the tests.
DO $$
DECLARE
	node name;
BEGIN
	IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'regress_diff_owner') THEN
		CREATE ROLE regress_diff_owner;
	END IF;
	GRANT USAGE ON SCHEMA diff TO regress_diff_owner;
	FOR node IN SELECT srvname FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = srvfdw
				 WHERE fdwname = 'shardfdw' AND srvname <> 'shardfdw_cluster' LOOP
		EXECUTE format('CREATE USER MAPPING FOR regress_diff_owner SERVER %I OPTIONS (user %L, password_required ''false'')', node, current_user);
	END LOOP;
END $$;
