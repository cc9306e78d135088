-- Options of servers, user mappings, foreign tables and columns: those of postgres_fdw and libpq, and cores.
\set VERBOSITY default
SET client_min_messages = warning;
CREATE SERVER opt FOREIGN DATA WRAPPER shardfdw OPTIONS (host 'localhost', port '1', dbname 'd', sslmode 'disable', connect_timeout '3',
	application_name 'a', cores '8', use_remote_estimate 'false', fdw_startup_cost '100.5', fdw_tuple_cost '0', fetch_size '50000',
	batch_size '10', updatable 'on', truncatable 'off', async_capable 'true', parallel_commit 'true', parallel_abort 'true',
	keep_connections 'off', analyze_sampling 'bernoulli', use_scram_passthrough 'false', import_stats 'true', extensions 'plpgsql');
CREATE USER MAPPING FOR CURRENT_USER SERVER opt OPTIONS (user 'u', password 'p', password_required 'false', sslcert '/x', sslkey '/y',
	use_scram_passthrough 'true');
CREATE FOREIGN TABLE opt_t (a int OPTIONS (column_name 'A'), b text) SERVER opt OPTIONS (schema_name 's', table_name 't',
	use_remote_estimate 'true', fetch_size '7', batch_size '1', updatable 'false', truncatable 'true', async_capable 'false',
	analyze_sampling 'off', import_stats 'false');

-- names that are no options, with the nearest one that is
ALTER SERVER opt OPTIONS (ADD hots 'x');
ALTER SERVER opt OPTIONS (ADD fetchsize '1');
ALTER SERVER opt OPTIONS (ADD something_else '1');
ALTER SERVER opt OPTIONS (ADD user 'u');
ALTER SERVER opt OPTIONS (ADD password 'p');
ALTER SERVER opt OPTIONS (ADD client_encoding 'utf8');
ALTER SERVER opt OPTIONS (ADD schema_name 'x');
ALTER USER MAPPING FOR CURRENT_USER SERVER opt OPTIONS (ADD host 'x');
ALTER USER MAPPING FOR CURRENT_USER SERVER opt OPTIONS (ADD pasword 'x');
ALTER FOREIGN TABLE opt_t OPTIONS (ADD tablename 'x');
ALTER FOREIGN TABLE opt_t ALTER a OPTIONS (ADD columnname 'x');
ALTER FOREIGN DATA WRAPPER shardfdw OPTIONS (ADD host 'x');

-- values
ALTER SERVER opt OPTIONS (SET cores '0');
ALTER SERVER opt OPTIONS (SET cores 'many');
ALTER SERVER opt OPTIONS (SET fetch_size '-1');
ALTER SERVER opt OPTIONS (SET fdw_startup_cost '-1');
ALTER SERVER opt OPTIONS (SET fdw_tuple_cost 'cheap');
ALTER SERVER opt OPTIONS (SET async_capable 'perhaps');
ALTER SERVER opt OPTIONS (SET analyze_sampling 'some');
RESET client_min_messages;
ALTER SERVER opt OPTIONS (SET extensions 'plpgsql, not_there');
ALTER SERVER opt OPTIONS (SET extensions 'plpgsql,,');

-- what only superusers may give
SET client_min_messages = warning;
DROP ROLE IF EXISTS opt_role;
CREATE ROLE opt_role;
GRANT USAGE ON FOREIGN SERVER opt TO opt_role;
GRANT USAGE ON FOREIGN DATA WRAPPER shardfdw TO opt_role;
SET ROLE opt_role;
CREATE USER MAPPING FOR opt_role SERVER opt OPTIONS (user 'u', password_required 'false');
CREATE USER MAPPING FOR opt_role SERVER opt OPTIONS (user 'u', sslcert '/etc/passwd');
CREATE USER MAPPING FOR opt_role SERVER opt OPTIONS (user 'u', sslkey '/etc/passwd');
CREATE USER MAPPING FOR opt_role SERVER opt OPTIONS (user 'u', password_required 'true');
CREATE SERVER opt_own FOREIGN DATA WRAPPER shardfdw OPTIONS (service 'x');
CREATE SERVER opt_own FOREIGN DATA WRAPPER shardfdw OPTIONS (passfile 'x');
RESET ROLE;

SELECT srvname, option_name, option_value FROM pg_foreign_server, pg_options_to_table(srvoptions) WHERE srvname = 'opt' ORDER BY 2;
DROP FOREIGN TABLE opt_t;
DROP OWNED BY opt_role;
DROP ROLE opt_role;
DROP SERVER opt CASCADE;
