-- postgres_fdw: gives its wrapper the handler of this extension, and gives the original handler back.

CREATE FUNCTION shardfdw_internal.lock_wrapper(wrapper oid) RETURNS void
	LANGUAGE c STRICT VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_lock_wrapper';
COMMENT ON FUNCTION shardfdw_internal.lock_wrapper(oid) IS
	'Locks the foreign tables of a wrapper and the partitioned tables above them until the transaction ends, and makes all sessions look up their handler again. Returns nothing.';
REVOKE ALL ON FUNCTION shardfdw_internal.lock_wrapper(oid) FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.in_remote_transaction() RETURNS boolean
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_in_remote_transaction';
COMMENT ON FUNCTION shardfdw_internal.in_remote_transaction() IS
	'Tells whether the current transaction has a transaction open on a node. Returns true or false.';

CREATE FUNCTION shardfdw_internal.is_alone() RETURNS boolean
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_is_alone';
COMMENT ON FUNCTION shardfdw_internal.is_alone() IS
	'Tells whether a single call of a function of the extension is all that the transaction does. Returns true or false.';

CREATE FUNCTION shardfdw_internal.refused_options(wrapper oid, validator regproc)
	RETURNS TABLE (object text, "option" text)
	LANGUAGE plpgsql VOLATILE
	SET search_path = pg_catalog, pg_temp SET client_min_messages = error
AS $$
DECLARE
	r record;
BEGIN
	FOR r IN
		WITH servers AS (
			SELECT s.oid, s.srvname, s.srvoptions FROM pg_foreign_server s WHERE s.srvfdw = wrapper
		), tables AS (
			SELECT t.ftrelid, t.ftoptions FROM pg_foreign_table t JOIN servers s ON s.oid = t.ftserver
		), places AS (
			SELECT 'pg_foreign_data_wrapper'::regclass AS catalog, format('foreign-data wrapper "%s"', w.fdwname) AS object, w.fdwoptions AS options
			FROM pg_foreign_data_wrapper w WHERE w.oid = wrapper
			UNION ALL
			SELECT 'pg_foreign_server', format('server "%s"', s.srvname), s.srvoptions FROM servers s
			UNION ALL
			SELECT 'pg_user_mapping', format('user mapping for "%s" server "%s"', coalesce(pg_get_userbyid(nullif(m.umuser, 0)), 'public'), s.srvname), m.umoptions
			FROM pg_user_mapping m JOIN servers s ON s.oid = m.umserver
			UNION ALL
			SELECT 'pg_foreign_table', format('foreign table %s', t.ftrelid::regclass), t.ftoptions FROM tables t
			UNION ALL
			SELECT 'pg_attribute', format('column "%s" of foreign table %s', a.attname, a.attrelid::regclass), a.attfdwoptions
			FROM pg_attribute a JOIN tables t ON t.ftrelid = a.attrelid WHERE NOT a.attisdropped
		)
		SELECT p.catalog, p.object, o.option_name AS name, o.option_name || '=' || o.option_value AS setting
		FROM places p CROSS JOIN pg_options_to_table(p.options) o
		ORDER BY p.object COLLATE "C", o.option_name COLLATE "C"
	LOOP
		BEGIN
			-- the validator raises an error, or returns nothing
			EXECUTE format('SELECT %s($1, $2)', validator) USING ARRAY[r.setting], r.catalog::oid;
		EXCEPTION WHEN OTHERS THEN
			object := r.object;
			"option" := r.name;
			RETURN NEXT;
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.refused_options(oid, regproc) IS
	'Checks the options of a wrapper''s servers, user mappings, foreign tables and columns with a validator. Returns one row per option that it rejects.';
REVOKE ALL ON FUNCTION shardfdw_internal.refused_options(oid, regproc) FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.switch_postgres_fdw(adopt boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = error
AS $$
DECLARE
	wrapper CONSTANT oid := (SELECT w.oid FROM pg_foreign_data_wrapper w WHERE w.fdwname = 'postgres_fdw');
	-- the functions of extension postgres_fdw, in any schema
	handler regproc;
	validator regproc;
	current_handler regproc;
	refused text;
BEGIN
	SELECT max(p.oid) FILTER (WHERE p.prosrc = 'postgres_fdw_handler'), max(p.oid) FILTER (WHERE p.prosrc = 'postgres_fdw_validator')
		INTO handler, validator
	FROM pg_extension e
	JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
		AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
	JOIN pg_proc p ON p.oid = d.objid
	WHERE e.extname = 'postgres_fdw';
	IF wrapper IS NULL OR handler IS NULL OR validator IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object',
			MESSAGE = 'extension "postgres_fdw" is not installed in this database, or its foreign-data wrapper has another name';
	END IF;

	SELECT w.fdwhandler INTO current_handler FROM pg_foreign_data_wrapper w WHERE w.oid = wrapper;
	IF current_handler = (CASE WHEN adopt THEN 'shardfdw_internal.shardfdw_handler'::regproc ELSE handler END) THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('foreign-data wrapper "postgres_fdw" is %s', CASE WHEN adopt THEN 'adopted already' ELSE 'not adopted' END);
	END IF;
	-- A handler of a third party stays unchanged.
	IF current_handler <> (CASE WHEN adopt THEN handler ELSE 'shardfdw_internal.shardfdw_handler'::regproc END) THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('foreign-data wrapper "postgres_fdw" has another handler: %s', current_handler);
	END IF;

	PERFORM shardfdw_internal.lock_wrapper(wrapper);
	SELECT string_agg(format('%s of %s', r."option", r.object), ', ') INTO refused
	FROM shardfdw_internal.refused_options(wrapper, CASE WHEN adopt THEN 'shardfdw_internal.shardfdw_validator'::regproc ELSE validator END) r;
	IF refused IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'fdw_invalid_option_name',
			MESSAGE = format('%s does not know all options that are set', CASE WHEN adopt THEN 'shardfdw' ELSE 'postgres_fdw' END),
			DETAIL = format('Refused: %s.', refused),
			HINT = 'Drop them by ALTER ... OPTIONS (DROP ...).';
	END IF;

	IF adopt THEN
		handler := 'shardfdw_internal.shardfdw_handler'::regproc;
		validator := 'shardfdw_internal.shardfdw_validator'::regproc;
	END IF;
	-- suppresses the expected warnings that behaviour may change
	EXECUTE format('ALTER FOREIGN DATA WRAPPER postgres_fdw HANDLER %s VALIDATOR %s', handler, validator);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.switch_postgres_fdw(boolean) IS
	'Gives the foreign-data wrapper postgres_fdw the handler and validator of shardfdw (true) or its original ones (false). Returns nothing. Raises undefined_object, object_not_in_prerequisite_state for a handler of a third party, and fdw_invalid_option_name for options that the other side does not support.';
REVOKE ALL ON FUNCTION shardfdw_internal.switch_postgres_fdw(boolean) FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.check_postgres_fdw_switch(busy boolean) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = 'permission denied to alter foreign-data wrapper "postgres_fdw"',
			HINT = 'Must be superuser to alter a foreign-data wrapper.';
	END IF;
	IF busy THEN
		RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction',
			MESSAGE = 'the handler of foreign-data wrapper "postgres_fdw" cannot be changed in a transaction that has used foreign tables',
			DETAIL = 'Its part on their servers would be out of reach for the rest of the transaction.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_postgres_fdw_switch(boolean) IS
	'Checks that the caller may change the wrapper postgres_fdw: a superuser, in a transaction that does not use foreign tables. Returns nothing. Raises insufficient_privilege or active_sql_transaction.';

CREATE FUNCTION shardfdw.adopt_postgres_fdw() RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET client_min_messages = error
AS $$
DECLARE
	fdw_schema CONSTANT name := (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'postgres_fdw');
	busy boolean := false;
BEGIN
	PERFORM shardfdw_internal.check_isolation('adopt_postgres_fdw');
	PERFORM shardfdw_internal.check_postgres_fdw_switch(false);
	-- Idle connections of this session are no longer useful; the others belong to the transaction. Version 1.0 of postgres_fdw cannot tell.
	IF to_regprocedure(format('%I.postgres_fdw_disconnect_all()', fdw_schema)) IS NOT NULL THEN
		EXECUTE format('SELECT %I.postgres_fdw_disconnect_all()', fdw_schema);
		EXECUTE format('SELECT EXISTS (SELECT FROM %I.postgres_fdw_get_connections())', fdw_schema) INTO busy;
	END IF;
	PERFORM shardfdw_internal.check_postgres_fdw_switch(busy);
	PERFORM shardfdw_internal.switch_postgres_fdw(true);
END
$$;
COMMENT ON FUNCTION shardfdw.adopt_postgres_fdw() IS
	'Lets shardfdw read and write the foreign tables of extension postgres_fdw, in all sessions, as soon as the transaction commits. Waits for transactions that use these tables. Returns nothing. Raises insufficient_privilege, active_sql_transaction, undefined_object, object_not_in_prerequisite_state if the tables are adopted already, and fdw_invalid_option_name.';
REVOKE ALL ON FUNCTION shardfdw.adopt_postgres_fdw() FROM PUBLIC;

CREATE FUNCTION shardfdw.release_postgres_fdw() RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.check_isolation('release_postgres_fdw');
	PERFORM shardfdw_internal.check_postgres_fdw_switch(shardfdw_internal.in_remote_transaction());
	PERFORM shardfdw_internal.switch_postgres_fdw(false);
END
$$;
COMMENT ON FUNCTION shardfdw.release_postgres_fdw() IS
	'Gives the foreign tables of extension postgres_fdw back to postgres_fdw; reverses adopt_postgres_fdw(). Returns nothing. Raises insufficient_privilege, active_sql_transaction, undefined_object, object_not_in_prerequisite_state if the tables are not adopted, and fdw_invalid_option_name for options that postgres_fdw does not support.';
REVOKE ALL ON FUNCTION shardfdw.release_postgres_fdw() FROM PUBLIC;

-- A dump contains CREATE EXTENSION postgres_fdw, which restores its original handler. If the wrapper is adopted, the dump
-- also contains the row of this table. Inserting the row adopts the wrapper.
CREATE TABLE shardfdw_internal.adopted_wrapper (name name NOT NULL);
REVOKE ALL ON shardfdw_internal.adopted_wrapper FROM PUBLIC;
-- Any role that runs pg_dump reads the table.
GRANT SELECT ON shardfdw_internal.adopted_wrapper TO PUBLIC;
COMMENT ON TABLE shardfdw_internal.adopted_wrapper IS
	'Contains a row in dumps only, so that a restored dump adopts the wrapper postgres_fdw again. pg_foreign_data_wrapper shows whether it is adopted.';
COMMENT ON COLUMN shardfdw_internal.adopted_wrapper.name IS 'Name of the wrapper.';
INSERT INTO shardfdw_internal.adopted_wrapper VALUES ('postgres_fdw');
SELECT pg_catalog.pg_extension_config_dump('shardfdw_internal.adopted_wrapper',
	'WHERE EXISTS (SELECT FROM pg_catalog.pg_foreign_data_wrapper w WHERE w.fdwname = ''postgres_fdw'' AND w.fdwhandler = ''shardfdw_internal.shardfdw_handler''::pg_catalog.regproc)');

CREATE FUNCTION shardfdw_internal.adopt_restored() RETURNS trigger
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- a subscription whose publication has all tables is no restore
	IF EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = pg_backend_pid() AND a.backend_type LIKE 'logical replication%') THEN
		RETURN NULL;
	END IF;
	PERFORM shardfdw.adopt_postgres_fdw();
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	RAISE WARNING USING ERRCODE = SQLSTATE,
		MESSAGE = 'the foreign tables of postgres_fdw were not adopted',
		DETAIL = SQLERRM,
		HINT = 'Call shardfdw.adopt_postgres_fdw() when everything is restored.';
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.adopt_restored() IS
	'Adopts the wrapper instead of storing the row, except for a subscription; trigger function of shardfdw_internal.adopted_wrapper. Returns null. Reports failures as a WARNING.';

CREATE TRIGGER adopt BEFORE INSERT ON shardfdw_internal.adopted_wrapper
	FOR EACH ROW EXECUTE FUNCTION shardfdw_internal.adopt_restored();
ALTER TABLE shardfdw_internal.adopted_wrapper ENABLE ALWAYS TRIGGER adopt;
COMMENT ON TRIGGER adopt ON shardfdw_internal.adopted_wrapper IS
	'Adopts the wrapper instead of storing the row.';
