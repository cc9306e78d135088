-- Databases on nodes that belong to one database here, for tests and for clones made by CREATE DATABASE ... TEMPLATE.

CREATE FUNCTION shardfdw_internal.server_mark() RETURNS text
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_server_mark';
COMMENT ON FUNCTION shardfdw_internal.server_mark() IS
	'Returns a text that identifies this server among all servers, including copies of its data directory.';

CREATE FUNCTION shardfdw_internal.run_beside(server name, commands text[]) RETURNS SETOF text[]
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_coordinator_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	beside CONSTANT name := 'shardfdw_beside_' || pg_backend_pid();
	s record;
	u record;
	command text;
BEGIN
	SELECT f.srvoptions INTO s FROM pg_foreign_server f WHERE f.srvname = server;
	SELECT m.umoptions INTO u FROM pg_user_mappings m WHERE m.srvname = server AND m.usename = current_user;
	EXECUTE format('CREATE SERVER %I FOREIGN DATA WRAPPER shardfdw OPTIONS (%s)', beside,
		(SELECT string_agg(format('%I %L', o.option_name, CASE o.option_name WHEN 'dbname' THEN 'postgres' ELSE o.option_value END), ', ') FROM pg_options_to_table(s.srvoptions) o
		 WHERE o.option_name NOT IN ('default_collation', 'partial_aggregates', 'missing_partial_aggregates')));
	PERFORM shardfdw_internal.make_server(ARRAY['SELECT 1', format('CREATE USER MAPPING FOR CURRENT_USER SERVER %I%s', beside,
		(SELECT ' OPTIONS (' || string_agg(format('%I %L', o.option_name, o.option_value), ', ') || ')' FROM pg_options_to_table(u.umoptions) o))]);
	-- Each command separately: CREATE DATABASE cannot run in a multi-command string.
	FOREACH command IN ARRAY commands
	LOOP
		RETURN QUERY SELECT q.fields FROM shardfdw_internal.run_commands(ARRAY[beside], ARRAY[command], 'autocommit') q WHERE q.fields IS NOT NULL;
	END LOOP;
	EXECUTE format('DROP USER MAPPING FOR CURRENT_USER SERVER %I', beside);
	EXECUTE format('DROP SERVER %I', beside);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.run_beside(name, text[]) IS
	'Runs commands in database postgres on the server of a node, with the caller''s user mapping, each committed separately. Returns the rows of the results. Raises the first error.';

CREATE FUNCTION shardfdw_internal.make_node_database(server name, dbname name, template name) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	found_mark CONSTANT text := shardfdw_internal.database_mark(server, dbname);
	made_for CONSTANT oid := (regexp_match(found_mark, '^shardfdw: for database (\d+) of '))[1]::oid;
	here CONSTANT record := (SELECT d FROM (SELECT pg_encoding_to_char(x.encoding) AS encoding, x.datcollate, x.datctype, to_jsonb(x) AS j FROM pg_database x WHERE x.datname = current_database()) d);
BEGIN
	IF found_mark IS NOT NULL THEN
		IF found_mark = shardfdw_internal.own_mark() AND template IS NULL THEN
			RETURN;
		ELSIF found_mark = shardfdw_internal.own_mark() THEN
			RAISE NOTICE 'node "%": database "%" remains from a call that failed, and is made again', server, dbname;
		ELSIF made_for IS NULL OR NOT found_mark LIKE '% of ' || shardfdw_internal.server_mark() OR EXISTS (SELECT FROM pg_database d WHERE d.oid = made_for) THEN
			RAISE EXCEPTION USING ERRCODE = 'duplicate_database', MESSAGE = format('database "%s" exists on node "%s"', dbname, server),
				DETAIL = CASE WHEN made_for IS NULL THEN 'It was not made by add_node() for a database here.' ELSE 'It was made for another database, which is there, or of another server.' END,
				HINT = 'Drop it there, or use it as it is: leave create_database out.';
		ELSE
			RAISE NOTICE 'node "%": database "%" was made for a database that does not exist any more, and is made again', server, dbname;
		END IF;
		PERFORM shardfdw_internal.run_beside(server, ARRAY[format('DROP DATABASE %I WITH (FORCE)', dbname)]);
	END IF;
	PERFORM shardfdw_internal.run_beside(server, ARRAY[
		CASE WHEN template IS NOT NULL THEN format('CREATE DATABASE %I TEMPLATE %I', dbname, template)
			ELSE format('CREATE DATABASE %I TEMPLATE template0 ENCODING %L LC_COLLATE %L LC_CTYPE %L%s', dbname, here.encoding, here.datcollate, here.datctype,
				CASE here.j->>'datlocprovider' WHEN 'i' THEN format(' LOCALE_PROVIDER icu ICU_LOCALE %L', coalesce(here.j->>'datlocale', here.j->>'daticulocale'))
					WHEN 'b' THEN format(' LOCALE_PROVIDER builtin BUILTIN_LOCALE %L', here.j->>'datlocale') END) END,
		format('COMMENT ON DATABASE %I IS %L', dbname, shardfdw_internal.own_mark())]);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.make_node_database(name, name, name) IS
	'Creates a database on the server of a node, committed immediately, from a template or with the encoding and locale of this database. Records there for which database it was created. If such a database was created for a database of this server that no longer exists, it is dropped first. With a template, a database that an earlier call created for this one is dropped, too. Returns nothing. Raises duplicate_database for any other existing database.';

CREATE FUNCTION shardfdw_internal.database_mark(server name, dbname name) RETURNS text
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	found_mark text[];
BEGIN
	SELECT r INTO found_mark FROM shardfdw_internal.run_beside(server,
		ARRAY[format('SELECT coalesce(shobj_description(d.oid, ''pg_database''), '''') FROM pg_database d WHERE d.datname = %L', dbname)]) r;
	RETURN found_mark[1];
END
$$;
COMMENT ON FUNCTION shardfdw_internal.database_mark(name, name) IS
	'Queries the server of a node for the comment of one of its databases, which names the database here that it was created for. Returns the comment: empty if there is none, null if there is no such database.';

CREATE FUNCTION shardfdw_internal.own_mark() RETURNS text
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN format('shardfdw: for database %s of %s', (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()), shardfdw_internal.server_mark());
END
$$;
COMMENT ON FUNCTION shardfdw_internal.own_mark() IS 'Returns the comment that marks a node database as created for this database.';

CREATE FUNCTION shardfdw_internal.cloned_name(mark text, dbname name) RETURNS name
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	-- the database it was created for
	original CONSTANT text := (SELECT d.datname FROM pg_database d WHERE d.oid = (regexp_match(mark, '^shardfdw: for database (\d+) of '))[1]::oid);
BEGIN
	RETURN (current_database() || CASE WHEN starts_with(dbname, original) THEN substr(dbname, length(original) + 1) ELSE '' END)::name;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.cloned_name(text, name) IS
	'Returns the name for the clone of a node database with this mark: the name of this database, followed by the part of the original name after the name of the database that the original was created for.';

CREATE FUNCTION shardfdw.clone_node_databases() RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
	n record;
	mark text;
	new_name name;
	nodes name[];
BEGIN
	PERFORM shardfdw_internal.check_isolation('clone_node_databases');
	IF EXISTS (SELECT FROM shardfdw.coordinators) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'databases of nodes cannot be cloned because there are several coordinators';
	END IF;
	PERFORM shardfdw_internal.lock_node_list();
	PERFORM shardfdw_internal.usable_nodes();
	FOR n IN SELECT x.node, x.dbname::name FROM shardfdw.nodes x ORDER BY x.node::text COLLATE "C"
	LOOP
		mark := shardfdw_internal.database_mark(n.node, n.dbname);
		IF mark IS NULL OR mark = shardfdw_internal.own_mark() THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('database "%s" of node "%s" cannot be cloned', n.dbname, n.node),
				DETAIL = CASE WHEN mark IS NULL THEN 'It does not exist.' ELSE 'It was made for this database.' END,
				HINT = 'Call this in a database that was made by CREATE DATABASE ... TEMPLATE, and has the servers of the other one.';
		END IF;
		new_name := shardfdw_internal.cloned_name(mark, n.dbname);
		PERFORM shardfdw_internal.make_node_database(n.node, new_name, n.dbname);
		EXECUTE format('ALTER SERVER %I OPTIONS (SET dbname %L)', n.node, new_name);
		-- The WAL position of the template's node does not apply to the clone.
		PERFORM shardfdw.confirm_node(n.node);
	END LOOP;
	PERFORM shardfdw_internal.store_identity();
	nodes := ARRAY(SELECT x.node FROM shardfdw.nodes x);
	PERFORM shardfdw_internal.note_identity(nodes);
	-- The cloned functions that note changes name the template's coordinator, and enable_node() would not drop what is left of them.
	PERFORM shardfdw_internal.run_commands(nodes, array_fill(format('DO %L', format(
		'DECLARE f pg_catalog.text; BEGIN FOR f IN SELECT pg_catalog.format(''%%I.%%I'', n.nspname, p.proname) FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace '
		'WHERE p.pronargs = 0 AND pg_catalog.obj_description(p.oid, ''pg_proc'') LIKE %L AND pg_catalog.pg_has_role(p.proowner, ''USAGE'') LOOP '
		'EXECUTE pg_catalog.format(''COMMENT ON FUNCTION %%s() IS %%L'', f, %L); END LOOP; END',
		shardfdw_internal.replica_mark('%'), shardfdw_internal.replica_mark((shardfdw_internal.decided_identities())[1]))), ARRAY[cardinality(nodes)]), 'autocommit');
END
$$;
COMMENT ON FUNCTION shardfdw.clone_node_databases() IS
	'Clones the node databases for a database that was created by CREATE DATABASE ... TEMPLATE. Each node database of the template is cloned with its rows, and the servers here then point to the clones. In the name of a clone, the name of this database replaces the name of the template. No session may be connected to the node databases that are cloned. Clones are created immediately, outside of the transaction. If a call fails, the next call makes them again. Call drop_node_databases() before you drop this database. Returns nothing. Raises object_not_in_prerequisite_state, duplicate_database, and errors of nodes.';
REVOKE ALL ON FUNCTION shardfdw.clone_node_databases() FROM PUBLIC;

CREATE FUNCTION shardfdw.drop_node_databases() RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
	n record;
	mark text;
BEGIN
	PERFORM shardfdw_internal.check_isolation('drop_node_databases');
	PERFORM shardfdw_internal.lock_node_list();
	FOR n IN SELECT x.node, coalesce(x.dbname, current_database()) AS dbname FROM shardfdw.nodes x ORDER BY x.node::text COLLATE "C"
	LOOP
		mark := shardfdw_internal.database_mark(n.node, n.dbname);
		CONTINUE WHEN mark IS NULL;
		IF mark <> shardfdw_internal.own_mark() THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('database "%s" on node "%s" was not made for this one', n.dbname, n.node),
				HINT = 'remove_all_nodes(drop_tables => true) drops the tables there.';
		END IF;
		PERFORM shardfdw_internal.run_beside(n.node, ARRAY[format('DROP DATABASE %I WITH (FORCE)', n.dbname)]);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw.drop_node_databases() IS
	'Drops the databases on nodes that add_node(create_database => true) or clone_node_databases() created for this database. Call it before you drop this database. Databases are dropped immediately, and remain dropped if the transaction is rolled back. Returns nothing. Raises object_not_in_prerequisite_state for a database that was created in another way; databases before that one are dropped already.';
REVOKE ALL ON FUNCTION shardfdw.drop_node_databases() FROM PUBLIC;

CREATE FUNCTION shardfdw.remove_all_nodes(drop_tables boolean DEFAULT false) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off SET shardfdw.enable_ddl_propagation = on
AS $$
#variable_conflict use_variable
DECLARE
	tables text;
	n name;
BEGIN
	PERFORM shardfdw_internal.check_isolation('remove_all_nodes');
	PERFORM shardfdw_internal.lock_node_list();
	IF drop_tables THEN
		-- of partition trees only the root
		SELECT string_agg(t::text, ', ' ORDER BY t::oid) INTO tables FROM unnest(shardfdw_internal.tables_on_nodes()) t
		WHERE NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = t);
		IF tables IS NOT NULL THEN
			EXECUTE format('DROP TABLE %s CASCADE', tables);
		END IF;
		SELECT string_agg(f.ftrelid::regclass::text, ', ') INTO tables FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN shardfdw.nodes x ON x.node = s.srvname;
		IF tables IS NOT NULL THEN
			EXECUTE format('DROP FOREIGN TABLE %s CASCADE', tables);
		END IF;
	END IF;
	FOR n IN SELECT x.node FROM shardfdw.nodes x ORDER BY x.node::text COLLATE "C"
	LOOP
		PERFORM shardfdw.remove_node(n);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw.remove_all_nodes(boolean) IS
	'Removes all nodes, as remove_node() does, in this transaction. drop_tables: first drops all sharded and reference tables with CASCADE, and their shards and replicas on the nodes. For a foreign table that is not part of a sharded table, only the table here is dropped. Returns nothing. Raises dependent_objects_still_exist if a node has shards, and the errors of DROP TABLE.';
REVOKE ALL ON FUNCTION shardfdw.remove_all_nodes(boolean) FROM PUBLIC;
