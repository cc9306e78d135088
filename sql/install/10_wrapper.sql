-- The schemas, the foreign-data wrapper, the server that stands for the whole cluster, and the library in every session.

-- Schema shardfdw may exist already and contain objects of other roles. No name is looked up in it.
SET LOCAL search_path = pg_catalog, pg_temp;
-- The owner of the database chooses the settings of its sessions.
SET LOCAL array_nulls = on;
SET LOCAL transform_null_equals = off;
SET LOCAL quote_all_identifiers = off;

-- Schema shardfdw has what users call and read, see docs/reference.md; shardfdw_internal has the rest. If a schema
-- exists already, its owner could replace our functions by others. A function in it could have the name of one of ours, and
-- fit better to the arguments of a call. (If schema shardfdw did not exist, CREATE EXTENSION has just created it for the current user.)
-- Its argument has exactly this type in the calls below, so no function of another role fits better.
CREATE FUNCTION shardfdw.schema_age(schema oid) RETURNS text
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_schema_age';
DO $$
DECLARE
	deadline CONSTANT timestamptz := pg_catalog.clock_timestamp() + interval '10 s';
	kind text;
	older text[];
	other record;
BEGIN
	-- Other sessions do not see a schema that this transaction has made, before the script revokes what default privileges gave.
	SELECT n.nspname, coalesce('role "' || r.rolname || '"', 'PUBLIC') AS role INTO other FROM pg_catalog.pg_namespace n
	CROSS JOIN LATERAL (SELECT n.nspowner UNION SELECT x.grantee FROM pg_catalog.aclexplode(n.nspacl) x WHERE x.privilege_type = 'CREATE') x(role)
	LEFT JOIN pg_catalog.pg_roles r ON r.oid = x.role
	WHERE n.nspname IN ('shardfdw', 'shardfdw_internal') AND r.rolsuper IS NOT TRUE AND r.rolname IS DISTINCT FROM CURRENT_USER
		AND shardfdw.schema_age(n.oid) <> 'new' LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = pg_catalog.format('%s may create functions in schema "%s"', other.role, other.nspname),
			DETAIL = 'It could replace functions of the extension.',
			HINT = 'Look at what is in the schema. Then drop it, or give it to a superuser and revoke CREATE on it.';
	END IF;
	SELECT n.nspname INTO other FROM pg_catalog.pg_namespace n WHERE n.nspname IN ('shardfdw', 'shardfdw_internal') AND shardfdw.schema_age(n.oid) = 'changed' LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = pg_catalog.format('this transaction has changed schema "%s"', other.nspname),
			DETAIL = 'Other sessions may have privileges on it until the change is committed.',
			HINT = 'Commit the change, then run CREATE EXTENSION.';
	END IF;
	-- CREATE FUNCTION takes no lock. A transaction that began before the privilege was revoked can have a function that no other session sees yet.
	IF EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname IN ('shardfdw', 'shardfdw_internal') AND shardfdw.schema_age(n.oid) <> 'new') THEN
		IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
			RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'CREATE EXTENSION with an existing schema needs transaction isolation level READ COMMITTED',
				HINT = 'BEGIN ISOLATION LEVEL READ COMMITTED';
		END IF;
		-- otherwise pg_stat_activity shows the sessions that this transaction has seen first
		PERFORM pg_catalog.pg_stat_clear_snapshot();
		-- First the sessions, then the transactions that are prepared by then: a session that prepares one no longer has it.
		FOREACH kind IN ARRAY ARRAY['session', 'prepared'] LOOP
			older := CASE kind WHEN 'session' THEN ARRAY(SELECT l.virtualxid FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
					WHERE l.locktype = 'virtualxid' AND l.mode = 'ExclusiveLock' AND a.datname = pg_catalog.current_database() AND a.backend_type <> 'autovacuum worker' AND a.pid <> pg_catalog.pg_backend_pid())
				ELSE ARRAY(SELECT p.transaction::text FROM pg_catalog.pg_prepared_xacts p WHERE p.database = pg_catalog.current_database()) END;
			WHILE EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.virtualxid = ANY (older) AND l.mode = 'ExclusiveLock')
				OR EXISTS (SELECT FROM pg_catalog.pg_prepared_xacts p WHERE p.transaction::text = ANY (older))
			LOOP
				IF pg_catalog.clock_timestamp() > deadline THEN
					RAISE EXCEPTION USING ERRCODE = 'object_in_use', MESSAGE = 'schema "shardfdw" or "shardfdw_internal" exists, and older transactions could create functions in it',
						HINT = 'Try again when all transactions of this database have ended, also prepared ones.';
				END IF;
				PERFORM pg_catalog.pg_sleep(0.01);
			END LOOP;
		END LOOP;
	END IF;
	SELECT p.oid::pg_catalog.regprocedure AS name, r.rolname INTO other FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace JOIN pg_catalog.pg_roles r ON r.oid = p.proowner
	WHERE n.nspname IN ('shardfdw', 'shardfdw_internal') AND NOT r.rolsuper AND r.rolname <> CURRENT_USER LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = pg_catalog.format('function %s belongs to role "%s"', other.name, other.rolname),
			DETAIL = 'It could replace a function of the extension.',
			HINT = 'Look at the function, then drop it or change its owner.';
	END IF;
	-- A server that has been a node has schema shardfdw_internal. Like schema shardfdw, it is not a member of the extension:
	-- otherwise the notes of coordinators that use this server as a node would keep the extension from being dropped.
	IF pg_catalog.to_regnamespace('shardfdw_internal') IS NULL THEN
		CREATE SCHEMA shardfdw_internal;
		ALTER EXTENSION shardfdw DROP SCHEMA shardfdw_internal;
	END IF;
END
$$;
DROP FUNCTION shardfdw.schema_age(oid);
-- Functions run with the privileges of their caller, including the functions that they call.
GRANT USAGE ON SCHEMA shardfdw, shardfdw_internal TO PUBLIC;

CREATE FUNCTION shardfdw_internal.shardfdw_handler() RETURNS fdw_handler
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION shardfdw_internal.shardfdw_handler() IS
	'Returns the callbacks of the foreign-data wrapper. Only the server calls it, because its result is a pseudo-type.';

CREATE FUNCTION shardfdw_internal.shardfdw_validator(options text[], catalog oid) RETURNS void
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION shardfdw_internal.shardfdw_validator(text[], oid) IS
	'Checks the options of a server, user mapping, foreign table or column. Returns nothing. Raises fdw_invalid_option_name or invalid_parameter_value for a wrong option.';

CREATE FUNCTION shardfdw_internal.library_version() RETURNS text
	LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'shardfdw_library_version';
COMMENT ON FUNCTION shardfdw_internal.library_version() IS
	'Returns the version of the library that this session has loaded, in the format of pg_extension.extversion.';

CREATE FOREIGN DATA WRAPPER shardfdw
	HANDLER shardfdw_internal.shardfdw_handler VALIDATOR shardfdw_internal.shardfdw_validator;
COMMENT ON FOREIGN DATA WRAPPER shardfdw IS
	'Reads and writes shards: tables on other PostgreSQL servers.';

CREATE SERVER shardfdw_cluster FOREIGN DATA WRAPPER shardfdw;
COMMENT ON SERVER shardfdw_cluster IS
	'Represents all nodes together while a query is planned. Has no connection, and must not be dropped or used for foreign tables.';

-- Sessions need the library before their first query. Otherwise they plan sharded tables shard by shard:
-- slower, but never wrong. So the database loads the library at session start, unless the server does so.
DO $$
DECLARE
	preloaded text := pg_catalog.current_setting('shared_preload_libraries');
	wanted text;
	library text;
	list text := '';
BEGIN
	SELECT pg_catalog.substr(setting, pg_catalog.length('session_preload_libraries=') + 1) INTO wanted
	FROM pg_catalog.pg_db_role_setting, pg_catalog.unnest(setconfig) AS setting
	WHERE setrole OPERATOR(pg_catalog.=) 0
		AND setdatabase OPERATOR(pg_catalog.=)
			(SELECT oid FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
		AND pg_catalog.starts_with(setting, 'session_preload_libraries=');
	-- A setting of the database overrides the setting of the server, so keep the libraries of the server. This session may have its value
	-- from a setting of the database that no longer exists, for example after DROP EXTENSION. Then it is not the server's value.
	wanted := coalesce(wanted, (SELECT reset_val FROM pg_catalog.pg_settings
								WHERE name OPERATOR(pg_catalog.=) 'session_preload_libraries' AND source OPERATOR(pg_catalog.<>) 'database'), '');

	FOREACH library IN ARRAY pg_catalog.string_to_array(
		pg_catalog.concat_ws(',', nullif(preloaded, ''), nullif(wanted, '')), ',')
	LOOP
		IF pg_catalog.regexp_replace(pg_catalog.btrim(library, ' "'), '^.*/', '') OPERATOR(pg_catalog.=) 'shardfdw' THEN
			RETURN;
		END IF;
	END LOOP;

	FOREACH library IN ARRAY pg_catalog.string_to_array(wanted, ',')
	LOOP
		list := list OPERATOR(pg_catalog.||) pg_catalog.quote_literal(pg_catalog.btrim(library, ' "')) OPERATOR(pg_catalog.||) ', ';
	END LOOP;
	EXECUTE pg_catalog.format('ALTER DATABASE %I SET session_preload_libraries = %s''shardfdw''',
							  pg_catalog.current_database(), list);
END
$$;
