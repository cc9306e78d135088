-- Nodes: declaring, checking and removing them, and running commands on them.

CREATE FUNCTION shardfdw.query_nodes(nodes name[], commands text[], mode text DEFAULT 'read',
									 stop_on_error boolean DEFAULT true, labels text[] DEFAULT NULL,
									 OUT command integer, OUT node name, OUT ok boolean, OUT fields text[],
									 OUT tag text, OUT sqlstate text, OUT message text, OUT detail text)
	RETURNS SETOF record LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_query_nodes';
COMMENT ON FUNCTION shardfdw.query_nodes(name[], text[], text, boolean, text[]) IS
	'Runs commands[i] on nodes[i], on all nodes in parallel, with the caller''s user mappings. mode: one of five words. Mode write runs the commands in this transaction. Mode read runs them like queries. Mode autocommit commits each command separately. Mode "settle" is autocommit with an error if a node does not answer within 30 seconds. Mode watch raises an error if a node does not answer within shardfdw.watch_timeout or has no free connection. Returns one row per result row, or one row per command without result rows. If stop_on_error is true, raises the first error. Raises insufficient_privilege without USAGE on a server.';

CREATE FUNCTION shardfdw_internal.run_commands(nodes name[], commands text[], mode text DEFAULT 'read',
											   stop_on_error boolean DEFAULT true, labels text[] DEFAULT NULL,
											   OUT command integer, OUT node name, OUT ok boolean, OUT fields text[],
											   OUT tag text, OUT sqlstate text, OUT message text, OUT detail text)
	RETURNS SETOF record LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_run_commands';
COMMENT ON FUNCTION shardfdw_internal.run_commands(name[], text[], text, boolean, text[]) IS
	'Does what query_nodes() does, for commands of this extension. These commands leave no setting, lock or temporary object in the node''s session, so the connections are kept; query_nodes() closes the connections that it has used. The mode secret is autocommit for commands with passwords, which errors and logs do not show. Returns and raises as query_nodes() does.';

CREATE FUNCTION shardfdw_internal.read_as_owner(nodes name[], commands text[], mode text, stop_on_error boolean, labels text[], relations regclass[],
											   OUT command integer, OUT node name, OUT ok boolean, OUT fields text[],
											   OUT tag text, OUT sqlstate text, OUT message text, OUT detail text)
	RETURNS SETOF record LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_read_as_owner';
COMMENT ON FUNCTION shardfdw_internal.read_as_owner(name[], text[], text, boolean, text[], regclass[]) IS
	'Does what run_commands() does, for commands that read rows of the given relations. For a superuser, uses the user mappings of the owners of the relations, because the planner may call functions of the owners. Returns and raises as run_commands() does. Raises active_sql_transaction for a table of another owner in a transaction that has written to nodes.';

CREATE FUNCTION shardfdw_internal.read_here(relation regclass, query text) RETURNS text[]
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_read_here';
COMMENT ON FUNCTION shardfdw_internal.read_here(regclass, text) IS
	'Runs a query that reads a table here and returns one row. For a superuser, runs it with the privileges of the owner of the table, in a security-restricted operation. Returns the row. Raises as read_as_owner() does.';

CREATE FUNCTION shardfdw_internal.check_shard_owners(relation regclass, node name DEFAULT NULL) RETURNS void
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_check_shard_owners';
COMMENT ON FUNCTION shardfdw_internal.check_shard_owners(regclass, name) IS
	'Checks that the tables on nodes that a table''s shards refer to belong to the owner of the table. Checks this only if a role that is no superuser has chosen these tables and the caller is not the owner. Uses the user mapping of the owner. node: checks this node only, including stale replicas; null checks all nodes except those of stale replicas. Returns nothing. Raises insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.check_isolation(function text) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_check_isolation';
COMMENT ON FUNCTION shardfdw_internal.check_isolation(text) IS
	'Rejects a function, given by its name without parentheses, in a transaction with one snapshot for all statements (REPEATABLE READ and SERIALIZABLE). Call it before anything is locked. Returns nothing. Raises feature_not_supported.';

CREATE VIEW shardfdw.nodes AS
SELECT s.srvname AS node,
	(SELECT o.option_value FROM pg_catalog.pg_options_to_table(s.srvoptions) o WHERE o.option_name = 'host') AS host,
	(SELECT o.option_value FROM pg_catalog.pg_options_to_table(s.srvoptions) o WHERE o.option_name = 'port') AS port,
	(SELECT o.option_value FROM pg_catalog.pg_options_to_table(s.srvoptions) o WHERE o.option_name = 'dbname') AS dbname,
	(SELECT o.option_value FROM pg_catalog.pg_options_to_table(s.srvoptions) o WHERE o.option_name = 'cores')::integer AS cores,
	(SELECT pg_catalog.count(*) FROM pg_catalog.pg_foreign_table t WHERE t.ftserver = s.oid) AS shards
FROM pg_catalog.pg_foreign_server s
JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw
WHERE w.fdwhandler = 'shardfdw_internal.shardfdw_handler'::pg_catalog.regproc
	AND s.srvname <> 'shardfdw_cluster'
	AND NOT EXISTS (SELECT FROM pg_catalog.pg_options_to_table(s.srvoptions) o WHERE o.option_name = 'coordinator');
COMMENT ON VIEW shardfdw.nodes IS
	'Lists the nodes: the servers of the foreign-data wrapper that are not coordinators, made by add_node() or by CREATE SERVER.';
COMMENT ON COLUMN shardfdw.nodes.node IS 'Name of the node''s server.';
COMMENT ON COLUMN shardfdw.nodes.host IS 'Option host of the server, possibly a list. Null if not set: libpq''s default applies.';
COMMENT ON COLUMN shardfdw.nodes.port IS 'Option port of the server, possibly a list. Null if not set: libpq''s default applies.';
COMMENT ON COLUMN shardfdw.nodes.dbname IS 'Option dbname of the server. Null if not set: libpq''s default applies.';
COMMENT ON COLUMN shardfdw.nodes.cores IS 'Number of processor cores of the node''s machine. Null if not known.';
COMMENT ON COLUMN shardfdw.nodes.shards IS 'Number of foreign tables of the server.';
GRANT SELECT ON shardfdw.nodes TO PUBLIC;

CREATE FUNCTION shardfdw_internal.granted_nodes() RETURNS name[]
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(n.node ORDER BY n.node::text COLLATE "C"), '{}')
	FROM shardfdw.nodes n WHERE has_server_privilege(n.node, 'USAGE')
$$;
COMMENT ON FUNCTION shardfdw_internal.granted_nodes() IS
	'Lists the nodes on which the caller has USAGE. Returns them by name.';

CREATE FUNCTION shardfdw_internal.usable_nodes(wanted name[] DEFAULT NULL) RETURNS name[]
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	everywhere CONSTANT name[] := shardfdw_internal.granted_nodes();
	missing name;
BEGIN
	IF wanted IS NULL THEN
		IF everywhere = '{}' THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
				MESSAGE = 'there are no nodes',
				HINT = 'Declare one with shardfdw.add_node().';
		END IF;
		RETURN everywhere;
	END IF;

	IF cardinality(wanted) = 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'the list of nodes must not be empty';
	END IF;
	SELECT w INTO missing FROM unnest(wanted) w
	WHERE NOT EXISTS (SELECT FROM shardfdw.nodes n WHERE n.node = w) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object',
			MESSAGE = format('node "%s" does not exist', missing),
			HINT = 'The view shardfdw.nodes lists the nodes; shardfdw.add_node() adds one.';
	END IF;
	SELECT w INTO missing FROM unnest(wanted) w WHERE NOT has_server_privilege(w, 'USAGE') LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = format('permission denied for foreign server %s', missing);
	END IF;
	RETURN wanted;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.usable_nodes(name[]) IS
	'Checks a list of nodes. Null means the nodes of granted_nodes(). Returns the list. Raises undefined_object or insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.default_collation() RETURNS text
	LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'shardfdw_default_collation';
COMMENT ON FUNCTION shardfdw_internal.default_collation() IS
	'Describes the major version of this server and the default collation of this database. Returns major, provider, locales, rules, library version and encoding, separated by bars. If text was indexed with another library version, that version follows after an exclamation mark.';

CREATE FUNCTION shardfdw_internal.note_default_collation(node name, description text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT current_setting('transaction_read_only')::boolean AND EXISTS (
		SELECT FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
		WHERE s.srvname = note_default_collation.node AND w.fdwname = 'shardfdw' AND pg_has_role(s.srvowner, 'USAGE')
			AND (SELECT o.option_value FROM pg_options_to_table(s.srvoptions) o WHERE o.option_name = 'default_collation')
				IS DISTINCT FROM description) THEN
		PERFORM shardfdw_internal.set_node_option(node, 'default_collation', description);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.note_default_collation(name, text) IS
	'Records the major version and default collation of a node, as default_collation() describes them, in the options of its server. Null removes the option. Does nothing in read-only transactions, if the caller does not own the server, and for servers of an adopted wrapper, whose original options a dump has to restore. Returns nothing.';

CREATE FUNCTION shardfdw_internal.node_query() RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- A column that has different names in different major versions is read through the row as JSON.
	SELECT $query$
		SELECT current_setting('server_version_num'), current_setting('server_version'),
			current_setting('server_encoding'), current_setting('max_prepared_transactions'),
			concat_ws(' ', d.j->>'datlocprovider', d.j->>'datcollate', d.j->>'datctype',
					  coalesce(d.j->>'datlocale', d.j->>'daticulocale')),
			extract(epoch FROM clock_timestamp()),
			concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()), d.j->>'datname'),
			-- in the format of shardfdw_internal.default_collation()
			(SELECT concat_ws('|', current_setting('server_version_num')::integer / 10000, d.j->>'datlocprovider', format('%s %s', CASE WHEN v.bytes THEN 'C' ELSE d.j->>'datcollate' END,
							CASE d.j->>'datctype' WHEN 'POSIX' THEN 'C' ELSE d.j->>'datctype' END),
						coalesce(d.j->>'datlocale', d.j->>'daticulocale', ''), coalesce(d.j->>'daticurules', ''),
						CASE WHEN v.bytes THEN 'C' WHEN v.actual = v.noted THEN v.actual ELSE v.actual || '!' || v.noted END
							|| CASE WHEN d.j->>'datlocprovider' = 'b' AND d.j->>'datlocale' <> 'C' THEN '/' || current_setting('server_version_num')::integer / 10000 ELSE '' END,
						getdatabaseencoding())
				FROM (SELECT coalesce(pg_database_collation_actual_version(d.oid), ''), coalesce(d.j->>'datcollversion', ''),
							d.j->>'datlocprovider' = 'c' AND d.j->>'datcollate' IN ('C', 'POSIX')) v(actual, noted, bytes))
		FROM (SELECT x.oid, to_jsonb(x) AS j FROM pg_database x WHERE datname = current_database()) d$query$
$$;
COMMENT ON FUNCTION shardfdw_internal.node_query() IS
	'Writes the query, to be run on a node, whose answer judge_node() checks. Returns its text. The query returns version number, version, encoding, max_prepared_transactions, locale, clock (seconds since 1970), an identification of the database, and the default collation.';

CREATE FUNCTION shardfdw_internal.judge_node(node name, answer text[], answered_at timestamptz)
	RETURNS TABLE (check_name text, status text, detail text, hint text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	-- The newest minor version of each major version when this version of the extension was made.
	newest_minors CONSTANT integer[] := ARRAY[150020, 160016, 170012, 180006];
	here_locale CONSTANT text := (SELECT concat_ws(' ', d.j->>'datlocprovider', d.j->>'datcollate', d.j->>'datctype',
			coalesce(d.j->>'datlocale', d.j->>'daticulocale'))
		FROM (SELECT to_jsonb(x) AS j FROM pg_database x WHERE datname = current_database()) d);
	here_prepared CONSTANT boolean := current_setting('shardfdw.commit_protocol', true) IS DISTINCT FROM '1pc';
	version CONSTANT integer := answer[1]::integer;
	newest CONSTANT integer := (SELECT max(m) FROM unnest(newest_minors) m WHERE m / 10000 = version / 10000);
	skew_s CONSTANT numeric := round(abs(extract(epoch FROM answered_at) - answer[6]::numeric), 1);
BEGIN
	IF answer[7] = concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()), current_database()) THEN
		-- A shard there would have the same name as its foreign table here.
		RETURN QUERY VALUES ('connect', 'error', 'this is the database of the coordinator itself', 'Use another database as the node.');
		RETURN;
	END IF;
	RETURN QUERY VALUES ('connect', 'ok', 'reachable', NULL);

	RETURN QUERY SELECT 'version', v.status, format('PostgreSQL %s', answer[2]),
		CASE v.status WHEN 'error' THEN 'Nodes must run PostgreSQL 15 to 19.'
			WHEN 'warning' THEN format('Update it to %s.%s or later.', newest / 10000, newest % 10000) END
	FROM (SELECT CASE WHEN version / 10000 NOT BETWEEN 15 AND 19 THEN 'error' WHEN version < newest THEN 'warning' ELSE 'ok' END) v(status);

	IF answer[3] = current_setting('server_encoding') THEN
		RETURN QUERY VALUES ('encoding', 'ok', answer[3], NULL);
	ELSE
		RETURN QUERY VALUES ('encoding', 'error', format('%s, but %s here', answer[3], current_setting('server_encoding')),
							 'Create the database on the node with the encoding of this one.');
	END IF;

	IF answer[5] <> here_locale THEN
		RETURN QUERY VALUES ('collation', 'warning', format('%s, but %s here', answer[5], here_locale),
							 'Text is compared and sorted here, not by nodes. Create the database on the node with the locale of this one.');
	ELSIF substring(answer[8] FROM '[|].*') <> substring(shardfdw_internal.default_collation() FROM '[|].*') THEN
		RETURN QUERY VALUES ('collation', 'warning', format('%s in version %s, but in version %s here', answer[5], split_part(answer[8], '|', 6),
								split_part(shardfdw_internal.default_collation(), '|', 6)),
							 'Text is compared and sorted here, not by nodes.');
	ELSE
		RETURN QUERY VALUES ('collation', 'ok', answer[5], NULL);
	END IF;
	PERFORM shardfdw_internal.note_default_collation(node, answer[8]);

	IF answer[4]::integer = 0 AND here_prepared THEN
		RETURN QUERY VALUES ('max_prepared_transactions', 'warning', answer[4],
							 'Transactions that write to several nodes will fail. Set it to at least max_connections on the node and restart it, or set shardfdw.commit_protocol to 1pc here.');
	ELSE
		RETURN QUERY VALUES ('max_prepared_transactions', 'ok', answer[4], NULL);
	END IF;
	RETURN QUERY SELECT 'clock', CASE WHEN skew_s > 2 THEN 'warning' ELSE 'ok' END, format('%s s apart', skew_s),
		CASE WHEN skew_s > 2 THEN 'Synchronize the clocks of the machines.' END;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.judge_node(name, text[], timestamptz) IS
	'Checks a node''s answer to node_query() against the time of this server''s clock, and records the node''s default collation. Returns one row per check with status ok, warning or error.';

CREATE FUNCTION shardfdw_internal.inspect_nodes(nodes name[])
	RETURNS TABLE (node name, check_name text, status text, detail text, hint text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	r record;
BEGIN
	FOR r IN
		SELECT q.node, q.ok, q.fields, concat_ws(': ', q.message, q.detail) AS message, clock_timestamp() AS at
		FROM shardfdw_internal.run_commands(inspect_nodes.nodes,
			array_fill(shardfdw_internal.node_query(), ARRAY[cardinality(inspect_nodes.nodes)]), 'autocommit', false) q
	LOOP
		IF r.ok THEN
			RETURN QUERY SELECT r.node, j.check_name, j.status, j.detail, j.hint FROM shardfdw_internal.judge_node(r.node, r.fields, r.at) j;
		ELSE
			RETURN QUERY VALUES (r.node, 'connect', 'error', r.message,
								 'Check that the server runs, and the host, port, database, user and password given.');
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.inspect_nodes(name[]) IS
	'Queries nodes for version, encoding, locale, max_prepared_transactions and clock, and records their default collations. Returns one row per node and check with status ok, warning or error. Raises no error for a node that does not answer.';

CREATE FUNCTION shardfdw_internal.check_new_node(name name, is_new boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	r record;
BEGIN
	FOR r IN SELECT i.check_name, i.status, i.detail, i.hint FROM shardfdw_internal.inspect_nodes(ARRAY[name]) i
	LOOP
		IF r.status = 'error' THEN
			RAISE EXCEPTION USING
				ERRCODE = CASE r.check_name WHEN 'connect' THEN 'system_error'
							ELSE 'object_not_in_prerequisite_state' END,
				MESSAGE = format('could not %s node "%s"', CASE WHEN is_new THEN 'add' ELSE 'enable' END, name),
				DETAIL = format('%s: %s', r.check_name, r.detail),
				HINT = r.hint;
		ELSIF is_new AND r.status = 'warning' THEN
			RAISE WARNING USING MESSAGE = format('node "%s": %s: %s', name, r.check_name, r.detail),
				HINT = r.hint;
		ELSIF is_new THEN
			RAISE NOTICE 'node "%": %: %', name, r.check_name, r.detail;
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_new_node(name, boolean) IS
	'Checks with inspect_nodes() that a node can be used. For a new node, reports all findings as WARNINGs and NOTICEs. Returns nothing. Raises the first error.';

CREATE FUNCTION shardfdw_internal.note_cores(name name) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	cores integer;
BEGIN
	-- Only some roles may read the file, and only Linux has it. Without an answer the option is not set.
	SELECT (q.fields)[1]::integer INTO cores
	FROM shardfdw_internal.run_commands(ARRAY[name], ARRAY[
		$q$SELECT count(*) FROM regexp_matches(pg_read_file('/proc/cpuinfo'), '^processor\s*:', 'gn')$q$],
		'autocommit', false) q WHERE q.ok;
	IF cores > 0 THEN
		EXECUTE format('ALTER SERVER %I OPTIONS (ADD cores %L)', name, cores);
		RAISE NOTICE 'node "%": cores: %', name, cores;
	ELSE
		RAISE NOTICE USING MESSAGE = format('node "%s": cores: not known', name),
			HINT = format('Set them with ALTER SERVER %I OPTIONS (ADD cores ''...''), so that queries can use parallel workers there.', name);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.note_cores(name) IS
	'Queries a node for the number of cores of its machine, and records it in the options of its server. A NOTICE reports the number, or that it is not known. Returns nothing.';

CREATE FUNCTION shardfdw_internal.server_commands(name name, host text, port integer, dbname name, username name, password text, options jsonb) RETURNS text[]
	LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	-- options of the user mapping, not of the server
	mapping_keys CONSTANT text[] := ARRAY['password_required', 'sslpassword', 'user', 'password'];
	server_options text;
	mapping_options text;
BEGIN
	IF jsonb_typeof(options) IS DISTINCT FROM 'object' THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'options must be a JSON object';
	END IF;
	IF name IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'the name of the server must not be null';
	END IF;
	IF username IS NULL AND options->>'user' IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'username must not be null';
	END IF;
	SELECT string_agg(format('%I %L', o.key, o.value), ', ' ORDER BY o.key COLLATE "C")
		FILTER (WHERE o.key <> ALL (mapping_keys)),
		string_agg(format('%I %L', o.key, o.value), ', ' ORDER BY o.key COLLATE "C")
		FILTER (WHERE o.key = ANY (mapping_keys))
	INTO server_options, mapping_options
	FROM jsonb_each_text(jsonb_strip_nulls(jsonb_build_object('host', host, 'port', port, 'dbname', dbname,
			'user', username, 'password', password) || options)) o;
	RETURN ARRAY[format('CREATE SERVER %I FOREIGN DATA WRAPPER shardfdw OPTIONS (%s)', name, server_options),
		format('CREATE USER MAPPING FOR CURRENT_USER SERVER %I OPTIONS (%s)', name, mapping_options)];
END
$$;
COMMENT ON FUNCTION shardfdw_internal.server_commands(name, text, integer, name, name, text, jsonb) IS
	'Writes the commands that create a server and the current user''s mapping for it. Each option is given to the object that accepts it. Returns both commands. Raises invalid_parameter_value if options is not a JSON object, and null_value_not_allowed without a name or user.';

CREATE FUNCTION shardfdw_internal.make_server(commands text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	mapping_hint text;
BEGIN
	EXECUTE commands[1];
	BEGIN
		EXECUTE commands[2];
	EXCEPTION WHEN OTHERS THEN
		-- The context of the error would show the command, and so the password.
		GET STACKED DIAGNOSTICS mapping_hint = PG_EXCEPTION_HINT;
		RAISE EXCEPTION USING ERRCODE = SQLSTATE, MESSAGE = SQLERRM,
			HINT = coalesce(nullif(mapping_hint, ''), 'The options of the user mapping are user, password, password_required and sslpassword.');
	END;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.make_server(text[]) IS
	'Runs the commands of server_commands(). Returns nothing. Raises their errors, without the password.';

CREATE FUNCTION shardfdw_internal.settle_server(name name) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_settle_server';
COMMENT ON FUNCTION shardfdw_internal.settle_server(name) IS
	'Ends what transactions of this coordinator have left prepared on a server, for example after a crash during add_node(). Commits or rolls back only transactions that have ended here. Returns nothing, even if the server does not answer. Raises undefined_object, insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.equip_node(name name, outdated regclass[], with_aggregates boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	naggregates integer;
BEGIN
	-- Committed separately, before this transaction writes to the node: it may also create the schema of the identity table.
	IF with_aggregates THEN
		naggregates := shardfdw.refresh_node(name);
		IF outdated IS NULL THEN
			RAISE NOTICE 'node "%": partial aggregates: %', name, naggregates;
		END IF;
	END IF;
	PERFORM shardfdw_internal.copy_all_references(name, outdated);
	PERFORM shardfdw_internal.add_users_to(name);
	PERFORM shardfdw_internal.store_identity();
	-- Only promote_coordinator() takes back a node that another coordinator has taken over. Recovery replaces the note of a predecessor.
	IF outdated IS NOT NULL AND EXISTS (SELECT FROM shardfdw_internal.inspect_identity(ARRAY[name])) THEN
		RETURN;
	END IF;
	IF EXISTS (SELECT FROM shardfdw_internal.note_identity(ARRAY[name]) n WHERE NOT n.ok) THEN
		RAISE NOTICE USING MESSAGE = format('node "%s": identity: not noted', name),
			HINT = 'Let its role create a schema there, so that the node can tell this coordinator from copies of it.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.equip_node(name, regclass[], boolean) IS
	'Creates on a node what it needs in addition to shards and does not have yet: partial aggregates, reference tables with their types, functions and schemas, users with their privileges, and the identity of this coordinator. outdated: the reference tables to check, which are locked; null for a new node, which gets all of them. add_node() and enable_node() call it. Partial aggregates and users are created immediately, outside of the transaction. Returns nothing. Raises errors of the node.';

CREATE FUNCTION shardfdw.add_node(node name, host text, port integer DEFAULT 5432,
								  dbname name DEFAULT pg_catalog.current_database(), username name DEFAULT CURRENT_USER,
								  password text DEFAULT NULL, options jsonb DEFAULT '{}', create_database boolean DEFAULT false)
	RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
BEGIN
	PERFORM shardfdw_internal.check_isolation('add_node');
	PERFORM shardfdw_internal.lock_node_list();
	-- left by a dropped server of the same name
	PERFORM shardfdw_internal.forget_position(node);
	PERFORM shardfdw_internal.make_server(shardfdw_internal.server_commands(node, host, port, dbname, username, password, options));
	IF create_database THEN
		PERFORM shardfdw_internal.make_node_database(node, dbname, NULL);
	END IF;
	PERFORM shardfdw_internal.settle_server(node);
	PERFORM shardfdw_internal.check_new_node(node, true);

	IF NOT options ? 'cores' THEN
		PERFORM shardfdw_internal.note_cores(node);
	END IF;
	PERFORM shardfdw_internal.equip_node(node, NULL, NOT options ? 'partial_aggregates');
	IF EXISTS (SELECT FROM shardfdw.shards) THEN
		RAISE NOTICE USING MESSAGE = format('node "%s" has no shards yet', node),
			HINT = 'New tables use it. SELECT shardfdw.rebalance() moves some of the shards that there are to it.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw.add_node(name, text, integer, name, name, text, jsonb, boolean) IS
	'Adds a node: creates a server and the caller''s user mapping, and checks that the node can be used. Each check reports a NOTICE or a WARNING. Then creates partial aggregates on the node, copies the reference tables to it, and creates the roles of add_user() there. options: further server options, as a JSON object. create_database: creates the node''s database immediately, outside of the transaction. If that database was created for a database of this server that has been dropped, it is created again. Raises an error if the node cannot be used, and creates nothing then.';
REVOKE ALL ON FUNCTION shardfdw.add_node(name, text, integer, name, name, text, jsonb, boolean) FROM PUBLIC;

-- Servers are used only if their owners may execute add_node(). A dump grants that at its end, but definitions before
-- that go to nodes. So the dump also contains rows of this table. Inserting a row grants the right.
CREATE TABLE shardfdw_internal.node_adder (grantee name);
REVOKE ALL ON shardfdw_internal.node_adder FROM PUBLIC;
-- Any role that runs pg_dump reads the table.
GRANT SELECT ON shardfdw_internal.node_adder TO PUBLIC;
COMMENT ON TABLE shardfdw_internal.node_adder IS
	'Contains rows in dumps only, so that a restored dump grants EXECUTE on add_node() before it makes indexes. pg_proc shows who has the right.';
COMMENT ON COLUMN shardfdw_internal.node_adder.grantee IS 'Name of a role that has the right. Null for PUBLIC.';
-- pg_dump appends this to its query of the table. A row that a restore without triggers has stored is not dumped again.
SELECT pg_catalog.pg_extension_config_dump('shardfdw_internal.node_adder',
	'WHERE false UNION SELECT CASE x.grantee WHEN 0 THEN NULL ELSE pg_catalog.pg_get_userbyid(x.grantee) END FROM pg_catalog.pg_proc p CROSS JOIN pg_catalog.aclexplode(p.proacl) x '
	'WHERE p.proname = ''add_node'' AND p.pronamespace = ''shardfdw''::pg_catalog.regnamespace AND x.grantee <> p.proowner');

CREATE FUNCTION shardfdw_internal.grant_restored() RETURNS trigger
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- a subscription whose publication has all tables is no restore
	IF EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = pg_backend_pid() AND a.backend_type LIKE 'logical replication%') THEN
		RETURN NULL;
	END IF;
	IF NEW.grantee IS NULL THEN
		GRANT EXECUTE ON FUNCTION shardfdw.add_node TO PUBLIC;
	ELSIF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = NEW.grantee) THEN
		EXECUTE format('GRANT EXECUTE ON FUNCTION shardfdw.add_node TO %I', NEW.grantee);
	END IF;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.grant_restored() IS
	'Grants EXECUTE on add_node() instead of storing the row, except for a subscription; trigger function of shardfdw_internal.node_adder. Returns null.';

CREATE TRIGGER grant_restored BEFORE INSERT ON shardfdw_internal.node_adder
	FOR EACH ROW EXECUTE FUNCTION shardfdw_internal.grant_restored();
ALTER TABLE shardfdw_internal.node_adder ENABLE ALWAYS TRIGGER grant_restored;
COMMENT ON TRIGGER grant_restored ON shardfdw_internal.node_adder IS
	'Grants the right instead of storing the row.';

CREATE FUNCTION shardfdw.remove_node(node name) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	held bigint;
	mapped text;
BEGIN
	SELECT n.shards INTO held FROM shardfdw.nodes n WHERE n.node = remove_node.node;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object',
			MESSAGE = format('node "%s" does not exist', remove_node.node),
			HINT = 'The view shardfdw.nodes lists the nodes.';
	END IF;
	IF held > 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist',
			MESSAGE = format('cannot remove node "%s" because it holds %s', remove_node.node,
							 CASE held WHEN 1 THEN '1 shard' ELSE format('%s shards', held) END),
			HINT = 'The view shardfdw.shards lists them.';
	END IF;
	-- including tables that are being sharded
	PERFORM shardfdw_internal.take_replicas_turn('{}');
	IF EXISTS (SELECT FROM shardfdw_internal.tables_with_replicas(remove_node.node, '{replica,stale}')) THEN
		RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist',
			MESSAGE = format('cannot remove node "%s" because it holds replicas of shards', remove_node.node),
			DETAIL = format('Of table %s.', (SELECT t FROM shardfdw_internal.tables_with_replicas(remove_node.node, '{replica,stale}') t LIMIT 1));
	END IF;

	FOR mapped IN
		SELECT CASE u.umuser WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(u.umuser)) END
		FROM pg_user_mappings u WHERE u.srvname = remove_node.node
	LOOP
		EXECUTE format('DROP USER MAPPING FOR %s SERVER %I', mapped, remove_node.node);
	END LOOP;
	-- If this transaction does not see the shards, core still reports which objects depend on the server.
	EXECUTE format('DROP SERVER %I', remove_node.node);
	PERFORM shardfdw_internal.forget_position(remove_node.node);
	-- The node may be permanently lost, so it is not contacted.
	IF EXISTS (SELECT FROM shardfdw_internal.reference_tables()) THEN
		RAISE NOTICE 'the replicas of reference tables stay on node "%"', remove_node.node;
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw.remove_node(name) IS
	'Drops a node''s server and its user mappings. Changes nothing on the node. Raises dependent_objects_still_exist if the node has shards.';
REVOKE ALL ON FUNCTION shardfdw.remove_node(name) FROM PUBLIC;

CREATE FUNCTION shardfdw.run_on_nodes(command text, in_transaction boolean DEFAULT true)
	RETURNS TABLE (node name, ok boolean, result text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	nodes name[] := shardfdw_internal.usable_nodes();
BEGIN
	RETURN QUERY
	SELECT q.node, bool_and(q.ok),
		coalesce(string_agg(array_to_string(q.fields, E'\t', ''), E'\n' ORDER BY q.ordinality),
				 max(q.message), max(q.tag))
	FROM shardfdw.query_nodes(nodes, array_fill(run_on_nodes.command, ARRAY[cardinality(nodes)]),
			CASE WHEN in_transaction THEN 'write' ELSE 'autocommit' END, false) WITH ORDINALITY q
	GROUP BY q.command, q.node
	ORDER BY q.command;
END
$$;
COMMENT ON FUNCTION shardfdw.run_on_nodes(text, boolean) IS
	'Runs a command on all nodes in parallel. in_transaction: true runs the command in this transaction; false commits it separately on each node, as VACUUM and CREATE DATABASE need. Returns one row per node: whether the command succeeded, and its rows (columns separated by tabs), its command tag or its error message.';
REVOKE ALL ON FUNCTION shardfdw.run_on_nodes(text, boolean) FROM PUBLIC;
