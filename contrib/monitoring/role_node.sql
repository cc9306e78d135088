-- role_node.sql - the role of monitoring on a node
--
--   psql -X -d app -f role_node.sql      the password is in the environment: SHARDFDW_PASSWORD
--
-- Run it on every node, in the database of the cluster, as a role that may create roles. It can be run again,
-- with another password too. The role needs to log in and nothing else.

\set ON_ERROR_STOP on
-- the password stays out of the list of processes
\getenv password SHARDFDW_PASSWORD
\if :{?password}
\else
\warn 'role_node.sql: set the password in the environment variable SHARDFDW_PASSWORD'
\quit
\endif

-- The owner of the database can set the search_path of this session.
SET search_path = pg_catalog;
SELECT 'CREATE ROLE shardfdw_monitor' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'shardfdw_monitor') \gexec
-- log_statement must not be ddl or all meanwhile, or the log has the password
ALTER ROLE shardfdw_monitor LOGIN PASSWORD :'password' CONNECTION LIMIT 10;
-- compiling the queries of lock_waits takes longer than running them
ALTER ROLE shardfdw_monitor SET jit = off;
SELECT format('GRANT CONNECT ON DATABASE %I TO shardfdw_monitor', current_database()) \gexec
