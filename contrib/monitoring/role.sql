-- role.sql - the role of monitoring on the coordinator
--
--   psql -X -d app -f role.sql      the password is in the environment: SHARDFDW_PASSWORD
--
-- Run role_node.sql on every node before, with the same password, and then this file in the database of the
-- cluster as a superuser. Run both again when a node was added, or with another password.

\set ON_ERROR_STOP on
-- the password stays out of the list of processes
\getenv password SHARDFDW_PASSWORD
\if :{?password}
\else
\warn 'role.sql: set the password in the environment variable SHARDFDW_PASSWORD'
\quit
\endif

-- The owner of the database can set the search_path of a superuser's session.
SET search_path = pg_catalog;
-- the password stays out of the log
SET log_statement = 'none';
SET log_min_error_statement = 'panic';
SET log_min_duration_statement = -1;

SELECT 'CREATE ROLE shardfdw_monitor' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'shardfdw_monitor') \gexec
ALTER ROLE shardfdw_monitor LOGIN PASSWORD :'password' CONNECTION LIMIT 10;
SELECT format('GRANT CONNECT ON DATABASE %I TO shardfdw_monitor', current_database()) \gexec

-- what exporters measure beside shardfdw; the queries in this folder do without it
GRANT pg_monitor TO shardfdw_monitor;

-- The owner of the database cannot make the queries of exporters call other functions and operators.
ALTER ROLE shardfdw_monitor SET search_path = pg_catalog;
-- A node that hangs costs each view this time, and a scrape must end within its own. The view
-- prepared_transactions would wait for half a minute.
ALTER ROLE shardfdw_monitor SET shardfdw.watch_timeout = '1s';
ALTER ROLE shardfdw_monitor SET statement_timeout = '3s';
ALTER ROLE shardfdw_monitor SET default_transaction_read_only = on;
-- compiling the queries of lock_waits takes longer than running them
ALTER ROLE shardfdw_monitor SET jit = off;

-- the nodes of the cluster, by its own user mappings
SELECT format(c.command, n.node, :'password')
FROM shardfdw.nodes n CROSS JOIN (VALUES
	(1, 'GRANT USAGE ON FOREIGN SERVER %I TO shardfdw_monitor'),
	(2, 'DROP USER MAPPING IF EXISTS FOR shardfdw_monitor SERVER %I'),
	(3, 'CREATE USER MAPPING FOR shardfdw_monitor SERVER %I OPTIONS (user ''shardfdw_monitor'', password %L)')) c(step, command)
ORDER BY n.node, c.step \gexec
