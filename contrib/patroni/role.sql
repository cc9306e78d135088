-- role.sql - the role of the callback promote_coordinator
--
--   psql -X -d app -v user=shardfdw_owner -f role.sql      the password is in the environment: SHARDFDW_PASSWORD
--
-- Run it on the coordinator, in the database of the cluster, as a superuser; user and password are those by which the
-- coordinator's sessions log in to nodes, since what these have prepared, and their sessions, are that role's. Run it again
-- when a node was added, or with another password.

\set ON_ERROR_STOP on
-- the password stays out of the list of processes
\getenv password SHARDFDW_PASSWORD
\if :{?user}
\else
\warn 'role.sql: set the role on nodes with -v user=...'
\quit
\endif
\if :{?password}
\else
\warn 'role.sql: set its password in the environment variable SHARDFDW_PASSWORD'
\quit
\endif

-- The owner of the database can set the search_path of a superuser's session.
SET search_path = pg_catalog;
-- the password stays out of the log
SET log_statement = 'none';
SET log_min_error_statement = 'panic';
SET log_min_duration_statement = -1;

SELECT 'CREATE ROLE shardfdw_failover' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'shardfdw_failover') \gexec
ALTER ROLE shardfdw_failover LOGIN CONNECTION LIMIT 3;
SELECT format('GRANT CONNECT ON DATABASE %I TO shardfdw_failover', current_database()) \gexec
GRANT EXECUTE ON FUNCTION shardfdw.promote_coordinator(text, text), shardfdw_internal.replace_identity(boolean),
	shardfdw_internal.announce_identity(text) TO shardfdw_failover;

-- the nodes of the cluster
SELECT format(c.command, n.node, :'user', :'password')
FROM shardfdw.nodes n CROSS JOIN (VALUES
	(1, 'GRANT USAGE ON FOREIGN SERVER %I TO shardfdw_failover'),
	(2, 'DROP USER MAPPING IF EXISTS FOR shardfdw_failover SERVER %I'),
	(3, 'CREATE USER MAPPING FOR shardfdw_failover SERVER %I OPTIONS (user %L, password %L)')) c(step, command)
ORDER BY n.node, c.step \gexec
