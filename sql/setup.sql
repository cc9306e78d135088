-- The extension, and four nodes for the other tests: further databases of this very server.
--
-- Output does not depend on port, socket, version or locale of the server.
\set VERBOSITY terse
SET client_min_messages = error;
DROP DATABASE IF EXISTS shardfdw_node1;
DROP DATABASE IF EXISTS shardfdw_node2;
DROP DATABASE IF EXISTS shardfdw_node3;
DROP DATABASE IF EXISTS shardfdw_node4;
CREATE DATABASE shardfdw_node1 TEMPLATE template0;
CREATE DATABASE shardfdw_node2 TEMPLATE template0;
CREATE DATABASE shardfdw_node3 TEMPLATE template0;
CREATE DATABASE shardfdw_node4 TEMPLATE template0;
CREATE EXTENSION shardfdw;
-- Nothing of the host's locale may show in sort orders or messages of the nodes.
SELECT format('ALTER DATABASE %I SET lc_messages = ''C''', d) FROM unnest('{shardfdw_node1,shardfdw_node2,shardfdw_node3,shardfdw_node4}'::text[]) d
\gexec
-- A server without prepared transactions cannot commit on all nodes or on none.
DO $$BEGIN
	IF current_setting('max_prepared_transactions')::int = 0 THEN
		EXECUTE format('ALTER DATABASE %I SET shardfdw.commit_protocol = ''1pc''', current_database());
	END IF;
END$$;
-- Reconnecting takes up these settings, and the library that the new session finds loaded.
\c -
\set VERBOSITY terse
SET client_min_messages = error;
SELECT shardfdw.add_node('node' || i,
						 coalesce(nullif(btrim(split_part(current_setting('unix_socket_directories'), ',', 1)), ''), 'localhost'),
						 current_setting('port')::int, ('shardfdw_node' || i)::name)
FROM generate_series(1, 4) i;
SELECT node, dbname, shards FROM shardfdw.nodes ORDER BY node;
SELECT node, check_name, status FROM shardfdw.check_cluster()
WHERE check_name NOT IN ('version', 'collation', 'max_prepared_transactions') ORDER BY node, check_name;
SELECT concat_ws(',', current_setting('shared_preload_libraries'), current_setting('session_preload_libraries')) ~ '\mshardfdw\M' AS preloaded;
-- Every object of the extension tells what it is for.
SELECT pg_describe_object(d.classid, d.objid, 0) AS "without comment"
FROM pg_depend d
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'shardfdw')
	AND d.classid <> 'pg_type'::regclass
	AND NOT (d.classid = 'pg_class'::regclass AND (SELECT relkind FROM pg_class WHERE oid = d.objid) NOT IN ('r', 'v'))
	AND obj_description(d.objid, d.classid::regclass::name) IS NULL
ORDER BY 1;
-- PL/pgSQL and SQL functions do not look names up in what the caller's search_path holds.
SELECT p.oid::regprocedure AS "open search_path"
FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
WHERE pronamespace::regnamespace IN ('shardfdw', 'shardfdw_internal') AND l.lanname IN ('plpgsql', 'sql') AND p.prokind <> 'p'
	AND NOT coalesce(p.proconfig @> '{"search_path=pg_catalog, pg_temp"}', false)
ORDER BY 1;
