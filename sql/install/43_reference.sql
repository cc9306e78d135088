-- Reference tables: a local table with a replica on every node.

CREATE FUNCTION shardfdw_internal.send_reference_write() RETURNS trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'shardfdw_send_reference_write';
COMMENT ON FUNCTION shardfdw_internal.send_reference_write() IS
	'Sends the changes of a statement in a reference table to its replicas on all nodes. Only the triggers of create_reference_table() call it. Raises errors of nodes, and object_not_in_prerequisite_state for a replica that lacks a row.';

CREATE FUNCTION shardfdw_internal.is_reference(relation regclass) RETURNS boolean
	LANGUAGE c STABLE STRICT AS 'MODULE_PATHNAME', 'shardfdw_is_reference';
COMMENT ON FUNCTION shardfdw_internal.is_reference(regclass) IS
	'Tells whether a table is a reference table: a plain table without children whose triggers send every write to the nodes. Returns false for any other table.';

CREATE FUNCTION shardfdw_internal.copy_reference_rows(relation regclass, nodes name[]) RETURNS bigint
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_copy_reference_rows';
COMMENT ON FUNCTION shardfdw_internal.copy_reference_rows(regclass, name[]) IS
	'Copies all rows of a table to the tables of the same name on some nodes in this transaction, and blocks writers until it ends. Returns the number of rows. Raises insufficient_privilege if the caller does not own the table, or lacks USAGE on one of the servers.';

CREATE FUNCTION shardfdw_internal.lock_node_list(relation regclass DEFAULT NULL) RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shardfdw_lock_node_list';
COMMENT ON FUNCTION shardfdw_internal.lock_node_list(regclass) IS
	'Prevents other sessions from adding a node or creating a reference table until this transaction ends, so that no replica is missed. relation: the table that becomes a reference table, or no longer is one; null in functions of administrators. Returns nothing. Raises insufficient_privilege if the caller does not own the table or may not use all nodes, or may call none of these functions.';

CREATE FUNCTION shardfdw_internal.reference_index_commands(relation regclass)
	RETURNS TABLE (prefix text, suffix text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- The table here decides: replicas do not check deferrable and exclusion constraints again.
	SELECT CASE WHEN i.kept IS NOT NULL THEN 'ALTER TABLE '
			ELSE format('CREATE %sINDEX %I ON ', CASE WHEN i.is_unique AND i.constraint_def IS NULL THEN 'UNIQUE ' ELSE '' END, i.index_name) END,
		CASE WHEN i.kept IS NOT NULL THEN format(' ADD CONSTRAINT %I %s', i.index_name, i.kept)
			ELSE ' USING ' || i.using_clause END
	FROM (SELECT d.*, CASE WHEN d.constraint_def !~ '^EXCLUDE | DEFERRABLE( INITIALLY DEFERRED)?$' THEN d.constraint_def END AS kept
		  FROM shardfdw_internal.index_definitions(relation) d) i
	UNION ALL
	SELECT 'ALTER TABLE ', format(' ADD CONSTRAINT %I %s', k.constraint_name, k.definition)
	FROM shardfdw_internal.check_constraint_definitions(relation) k WHERE k.definition LIKE '% NOT VALID'
	UNION ALL
	SELECT format('CREATE STATISTICS IF NOT EXISTS %I.%I%s FROM ', n.nspname, s.object_name, s.body),
		CASE WHEN s.target >= 0 THEN format('; ALTER STATISTICS %I.%I SET STATISTICS %s', n.nspname, s.object_name, s.target) ELSE '' END
	FROM shardfdw_internal.statistics_definitions(relation) s, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation
$$;
COMMENT ON FUNCTION shardfdw_internal.reference_index_commands(regclass) IS
	'Writes the commands that create a reference table''s keys, indexes, NOT VALID CHECK constraints and extended statistics on a replica. Returns the text before and after the name of the table.';

CREATE FUNCTION shardfdw_internal.make_reference_replicas(relation regclass, nodes name[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	schema_name name;
	table_names name[];
	table_options text[];
	prefixes text[];
	suffixes text[];
	is_indexed boolean;
BEGIN
	PERFORM shardfdw_internal.check_isolation('make_reference_replicas');
	SELECT n.nspname, array_fill(c.relname, ARRAY[cardinality(nodes)]) INTO schema_name, table_names
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
	EXECUTE shardfdw_internal.storage_options_query(relation::text) INTO table_options;

	PERFORM shardfdw_internal.prepare_nodes(relation, 'replicate', nodes);
	PERFORM shardfdw_internal.make_schema_on_nodes(relation, schema_name, nodes);
	PERFORM shardfdw_internal.check_owner_code(relation, 'replicate');
	PERFORM shardfdw_internal.make_tables_on_nodes(relation, schema_name, table_names, nodes, table_options);
	SELECT array_agg(c.prefix), array_agg(c.suffix) INTO prefixes, suffixes
	FROM shardfdw_internal.reference_index_commands(relation) c;
	is_indexed := shardfdw_internal.index_before_rows(relation);
	IF is_indexed THEN
		PERFORM shardfdw_internal.run_on_new_shards(schema_name, table_names, nodes, prefixes, suffixes);
	END IF;
	PERFORM shardfdw_internal.check_owner_code_on_nodes(relation, 'replicate', schema_name, table_names, nodes);
	PERFORM shardfdw_internal.copy_reference_rows(relation, nodes);
	IF NOT is_indexed THEN
		-- Indexes are built after the rows are loaded, which is faster.
		PERFORM shardfdw_internal.run_on_new_shards(schema_name, table_names, nodes, prefixes, suffixes);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.make_reference_replicas(regclass, name[]) IS
	'Creates replicas of a table on nodes: columns, CHECK constraints, rows, keys and indexes. Defaults, foreign keys and triggers are omitted, because every value comes from the coordinator. Returns nothing. Raises errors of nodes.';

CREATE FUNCTION shardfdw_internal.reference_triggers(relation regclass) RETURNS SETOF name
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT t.tgname FROM pg_trigger t
	WHERE t.tgrelid = relation AND t.tgfoid = 'shardfdw_internal.send_reference_write()'::regprocedure
	ORDER BY t.tgname::text COLLATE "C"
$$;
COMMENT ON FUNCTION shardfdw_internal.reference_triggers(regclass) IS
	'Lists the triggers of a table that send its writes to the nodes. Returns their names.';

CREATE FUNCTION shardfdw_internal.check_replicable(relation regclass) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c record;
	refusal CONSTANT text := format('cannot replicate table "%s"', (SELECT relname FROM pg_class WHERE oid = relation));
BEGIN
	SELECT t.*, n.nspname INTO c FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace WHERE t.oid = relation;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_table', MESSAGE = format('relation with OID %s does not exist', relation::oid);
	END IF;
	IF c.oid < 16384 OR c.nspname IN ('pg_catalog', 'information_schema', 'pg_toast', 'shardfdw', 'shardfdw_internal') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('%s because it is a system table', refusal);
	END IF;
	IF NOT pg_has_role(c.relowner, 'USAGE') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('must be owner of table %s', c.relname);
	END IF;
	IF c.relkind NOT IN ('r', 'p') THEN
		RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('"%s" is not a table', c.relname);
	END IF;
	IF shardfdw_internal.is_sharded(relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('%s because it is sharded', refusal),
			HINT = format('Make it a plain table first: SELECT shardfdw.unshard_table(%L).', relation);
	END IF;
	IF c.relkind = 'p' THEN
		RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('%s because it is partitioned', refusal);
	END IF;
	IF c.relpersistence <> 'p' THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('%s because it is %s', refusal, CASE c.relpersistence WHEN 't' THEN 'temporary' ELSE 'unlogged' END),
			HINT = CASE c.relpersistence WHEN 'u' THEN format('Make it permanent first: ALTER TABLE %s SET LOGGED.', relation)
				ELSE 'Replicate a permanent table.' END;
	END IF;
	IF EXISTS (SELECT FROM pg_inherits i WHERE relation IN (i.inhrelid, i.inhparent)) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('%s because it %s', refusal, CASE
				WHEN c.relispartition THEN 'is a partition'
				WHEN EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = relation) THEN 'inherits from another table'
				ELSE 'has child tables' END),
			HINT = CASE WHEN c.relispartition THEN 'Detach it first.' ELSE 'End the inheritance first, with ALTER TABLE ... NO INHERIT.' END;
	END IF;
	PERFORM shardfdw_internal.raise_obstacle(o.condition, o.message, o.detail, o.hint) FROM shardfdw_internal.not_null_obstacles(relation, refusal) o;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_replicable(regclass) IS
	'Checks that a table can be a reference table. Returns nothing. Raises wrong_object_type, feature_not_supported or insufficient_privilege with the reason.';

CREATE FUNCTION shardfdw.create_reference_table(relation regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET extra_float_digits = 3 SET jit = off SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	nodes name[];
	missing name;
	event record;
	trigger_name name;
BEGIN
	PERFORM shardfdw_internal.check_isolation('create_reference_table');
	IF relation IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'relation must not be null';
	END IF;
	PERFORM shardfdw_internal.check_replicable(relation);
	PERFORM shardfdw_internal.lock_node_list(relation);
	PERFORM shardfdw_internal.lock_schemas(relation);
	PERFORM shardfdw_internal.lock_table(relation, 'SHARE ROW EXCLUSIVE');
	PERFORM shardfdw_internal.check_replicable(relation);
	PERFORM shardfdw_internal.check_owner_code(relation, 'replicate');

	nodes := ARRAY(SELECT n.node FROM shardfdw.nodes n ORDER BY n.node::text COLLATE "C");
	-- the list must not be empty, and all its members must be allowed
	PERFORM shardfdw_internal.usable_nodes(nullif(nodes, '{}'));
	IF shardfdw_internal.is_reference(relation) THEN
		nodes := shardfdw_internal.nodes_without_replica(relation, nodes);
		IF nodes <> '{}' THEN
			PERFORM shardfdw_internal.make_reference_replicas(relation, nodes);
			PERFORM shardfdw_internal.note_copied_table(relation);
		END IF;
		RETURN;
	END IF;
	PERFORM shardfdw_internal.check_empty_on_peers(relation, 'replicate');
	PERFORM shardfdw_internal.make_reference_replicas(relation, nodes);
	PERFORM shardfdw_internal.note_copied_table(relation);
	IF shardfdw_internal.peers() <> '{}' THEN
		PERFORM shardfdw_internal.copy_reference_rows(relation, shardfdw_internal.peers());
	END IF;

	FOR trigger_name IN SELECT * FROM shardfdw_internal.reference_triggers(relation)
	LOOP
		EXECUTE format('DROP TRIGGER %I ON %s', trigger_name, relation);
	END LOOP;
	FOR event IN
		SELECT * FROM (VALUES
			('insert', 'REFERENCING NEW TABLE AS new_rows'),
			('update', 'REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows'),
			('delete', 'REFERENCING OLD TABLE AS old_rows'),
			('truncate', '')) e(name, rows)
	LOOP
		-- The names make these triggers run before others, see reference/reference_trigger.c.
		EXECUTE format('CREATE TRIGGER %I AFTER %s ON %s %s FOR EACH STATEMENT EXECUTE FUNCTION shardfdw_internal.send_reference_write()',
					   '00_shardfdw_' || event.name, event.name, relation, event.rows);
		IF event.name <> 'truncate' THEN
			EXECUTE format('CREATE TRIGGER %I AFTER %s ON %s %s FOR EACH ROW EXECUTE FUNCTION shardfdw_internal.send_reference_write()',
						   '00_shardfdw_' || event.name || '_row', event.name, relation, event.rows);
		END IF;
	END LOOP;
	FOR trigger_name IN SELECT * FROM shardfdw_internal.reference_triggers(relation)
	LOOP
		-- changes that replication applies must reach the nodes, too
		EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', relation, trigger_name);
	END LOOP;
	PERFORM shardfdw_internal.set_turns(relation);
	PERFORM shardfdw_internal.grant_on_nodes(ARRAY[relation]);
END
$$;
COMMENT ON FUNCTION shardfdw.create_reference_table(regclass) IS
	'Turns a table into a reference table: creates replicas with rows and indexes on all nodes, and triggers that send every write to the replicas in the same transaction. For an existing reference table, creates missing replicas. Runs in this transaction. Returns nothing. Raises an error before anything changes if the table cannot be a reference table.';

CREATE FUNCTION shardfdw_internal.reference_tables() RETURNS SETOF regclass
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT x.relation FROM (SELECT DISTINCT t.tgrelid::regclass AS relation FROM pg_trigger t
		WHERE t.tgfoid = 'shardfdw_internal.send_reference_write()'::regprocedure) x
	WHERE shardfdw_internal.is_reference(x.relation)
	ORDER BY x.relation::text COLLATE "C"
$$;
COMMENT ON FUNCTION shardfdw_internal.reference_tables() IS
	'Lists the reference tables by name. Returns their OIDs.';

CREATE FUNCTION shardfdw_internal.copy_all_references(node name, outdated regclass[] DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	is_new CONSTANT boolean := outdated IS NULL;
	r record;
	commands text[];
BEGIN
	PERFORM shardfdw_internal.check_isolation('copy_all_references');
	IF is_new THEN
		-- ALTER SCHEMA ... RENAME locks the schema first, and then the tables.
		PERFORM shardfdw_internal.lock_schemas(t) FROM shardfdw_internal.reference_tables() t;
		PERFORM shardfdw_internal.lock_table(t, 'SHARE ROW EXCLUSIVE') FROM shardfdw_internal.reference_tables() t;
	END IF;
	-- Other sessions may have written before the lock; now they wait.
	FOR r IN SELECT * FROM shardfdw_internal.outdated_references(node, coalesce(outdated, ARRAY(SELECT t FROM shardfdw_internal.reference_tables() t)), NOT is_new)
	LOOP
		IF is_new AND r.is_there THEN
			RAISE EXCEPTION USING ERRCODE = 'duplicate_table',
				MESSAGE = format('could not add node "%s"', node),
				DETAIL = format('Every node gets a replica of reference table %s, but has a table of that name already.', r.relation),
				HINT = 'Drop the table on the node first.';
		END IF;
		BEGIN
			PERFORM shardfdw_internal.check_owner_code(r.relation, 'replicate');
		EXCEPTION WHEN insufficient_privilege THEN
			IF NOT is_new THEN
				RAISE EXCEPTION USING ERRCODE = SQLSTATE, MESSAGE = format('could not enable node "%s" because reference table %s has no replica there', node, r.relation),
					DETAIL = SQLERRM,
					HINT = format('As the owner of the table, with a user mapping for the node: SELECT shardfdw.create_reference_table(%L). Then: SELECT shardfdw.enable_node(%L).', r.relation, node);
			END IF;
			RAISE WARNING USING MESSAGE = format('node "%s": reference table %s has no replica there, so no session can write to it', node, r.relation),
				DETAIL = SQLERRM,
				HINT = format('As the owner of the table, with a user mapping for the node: SELECT shardfdw.create_reference_table(%L).', r.relation);
			CONTINUE;
		END;
		commands := '{}';
		IF r.is_there THEN
			commands := shardfdw_internal.drop_reference_replica(r.relation, node);
		END IF;
		PERFORM shardfdw_internal.make_reference_replicas(r.relation, ARRAY[node]);
		IF NOT is_new THEN
			PERFORM shardfdw_internal.note_copied_table(r.relation);
			-- the role whose user mapping reads the replica in comparisons
			commands := commands || ARRAY(SELECT shardfdw_internal.give_command(format('%I.%I', n.nspname, c.relname), shardfdw_internal.role_on_node(c.relowner, node))
				FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles o ON o.oid = c.relowner
				WHERE c.oid = r.relation AND NOT o.rolsuper AND o.rolname <> current_user AND shardfdw_internal.role_on_node(o.oid, node) IS NOT NULL);
		END IF;
		PERFORM shardfdw_internal.run_commands(array_fill(node, ARRAY[cardinality(commands)]), commands, 'write');
		IF is_new THEN
			RAISE NOTICE 'node "%": copied reference table %', node, r.relation;
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.copy_all_references(name, regclass[]) IS
	'Creates replicas of reference tables on a node in this transaction. For a new node, creates replicas of all reference tables. For given tables, which are locked, creates a replica if the node has none or a different one. If functions of the owner of a table would run with the caller''s privileges, the owner has to create the replica: for a new node, a WARNING reports such tables. Returns nothing. Raises duplicate_table if a new node has a table of such a name, and the errors of drop_reference_replica().';

CREATE FUNCTION shardfdw_internal.unshard_reference(relation regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	nodes name[] := ARRAY(SELECT n.node FROM shardfdw.nodes n ORDER BY n.node::text COLLATE "C");
	remote_name text;
	trigger_name name;
BEGIN
	PERFORM shardfdw_internal.check_replicable(relation);
	PERFORM shardfdw_internal.lock_node_list(relation);
	PERFORM shardfdw_internal.lock_table(relation, 'ACCESS EXCLUSIVE');
	SELECT format('%I.%I', n.nspname, c.relname) INTO remote_name
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
	FOR trigger_name IN SELECT * FROM shardfdw_internal.reference_triggers(relation)
	LOOP
		EXECUTE format('DROP TRIGGER %I ON %s', trigger_name, relation);
	END LOOP;
	PERFORM shardfdw_internal.set_turns(relation);
	PERFORM shardfdw_internal.note_dropped_reference();
	-- a node without the replica needs no drop
	SELECT coalesce(array_agg(n), '{}') INTO nodes FROM unnest(nodes) n
	WHERE n <> ALL (shardfdw_internal.nodes_without_replica(relation, nodes));
	PERFORM shardfdw_internal.drop_on_nodes(nodes, array_fill(format('DROP TABLE %s', remote_name), ARRAY[cardinality(nodes)]), array_fill(remote_name, ARRAY[cardinality(nodes)]));
END
$$;
COMMENT ON FUNCTION shardfdw_internal.unshard_reference(regclass) IS
	'Turns a reference table into a plain table: drops its triggers, and its replicas on all nodes. Returns nothing. Raises errors of nodes, for example dependent_objects_still_exist.';

CREATE FUNCTION shardfdw_internal.reference_key_commands(relation regclass)
	RETURNS TABLE (prefix text, suffix text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT c.prefix, c.suffix
	FROM pg_constraint k
	CROSS JOIN LATERAL (VALUES ('ALTER TABLE ', format(' ADD CONSTRAINT %I %s', k.conname, pg_get_constraintdef(k.oid))),
		(format('COMMENT ON CONSTRAINT %I ON ', k.conname), ' IS ' || quote_literal(obj_description(k.oid, 'pg_constraint')))) c(prefix, suffix)
	WHERE k.conrelid = relation AND k.contype = 'f' AND shardfdw_internal.is_reference(k.confrelid) AND c.suffix IS NOT NULL
	ORDER BY k.conname::text COLLATE "C", c.prefix COLLATE "C"
$$;
COMMENT ON FUNCTION shardfdw_internal.reference_key_commands(regclass) IS
	'Writes the commands that create a table''s foreign keys to reference tables on its shards, where they refer to the replicas, and give them their comments. Returns the text before and after the name of the shard.';

CREATE FUNCTION shardfdw_internal.stored_rows(table_name text) RETURNS text
	LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
	-- The owner of the table may replace it at any time by a view that calls functions of the owner. The parser
	-- accepts TABLESAMPLE only for tables, and locks the relation that it has checked.
	SELECT format('ONLY %s TABLESAMPLE system (100)', table_name)
$$;
COMMENT ON FUNCTION shardfdw_internal.stored_rows(text) IS
	'Writes the FROM item that reads all rows of a table, and that fails if the name is not a table. table_name: qualified and quoted, optionally with an alias. Returns its text.';

CREATE FUNCTION shardfdw_internal.checksum_query(relation regclass, schema_name name, table_name name, compare_rows boolean) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- A sum, because rows have no order. An anonymous row has no casts of users, unlike the row type. Superusers own output functions.
	SELECT format('SELECT count(*), %s FROM %s', CASE WHEN compare_rows THEN
			(SELECT format('coalesce(sum(hashtextextended((ROW(%s)::text) COLLATE "C", 0)), 0)', string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum))
			 FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped)
			ELSE '0' END, shardfdw_internal.stored_rows(format('%I.%I', schema_name, table_name)))
$$;
COMMENT ON FUNCTION shardfdw_internal.checksum_query(regclass, name, name, boolean) IS
	'Writes the query, to be run by read_as_owner() here and on nodes, that compares replicas of a table. schema_name, table_name: of the replica. Returns its text. The query returns the number of rows and, with compare_rows, a sum of hashes of the rows, or else 0.';

CREATE FUNCTION shardfdw_internal.different_replicas(relation regclass, nodes name[], compare_rows boolean)
	RETURNS TABLE (node name, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	question CONSTANT text := (SELECT shardfdw_internal.checksum_query(c.oid, n.nspname, c.relname, compare_rows) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation);
	nrows bigint;
	checksum numeric;
BEGIN
	IF question IS NULL THEN
		RETURN;
	END IF;
	SELECT r[1], r[2] INTO nrows, checksum FROM shardfdw_internal.read_here(relation, question) r;
	RETURN QUERY
	SELECT q.node, CASE WHEN NOT q.ok THEN q.message
			WHEN q.fields[1]::bigint <> nrows THEN format('%s rows, but %s here', q.fields[1], nrows)
			ELSE 'rows differ' END
	FROM shardfdw_internal.read_as_owner(nodes, array_fill(question, ARRAY[cardinality(nodes)]), 'read', false, NULL, array_fill(relation, ARRAY[cardinality(nodes)])) q
	WHERE NOT q.ok OR q.fields[1]::bigint <> nrows OR q.fields[2]::numeric <> checksum
	ORDER BY q.node::text COLLATE "C";
END
$$;
COMMENT ON FUNCTION shardfdw_internal.different_replicas(regclass, name[], boolean) IS
	'Compares a reference table with its replicas by read_as_owner(): by the number of rows, and with compare_rows also by a checksum. Returns the nodes whose replicas differ or cannot be read, and the difference.';

CREATE FUNCTION shardfdw_internal.expected_replica(definition jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- as reference_index_commands() creates them
	SELECT (definition - 'owner') || jsonb_build_object('foreign_keys', '[]'::jsonb, 'indexes', (
		SELECT coalesce(jsonb_agg(CASE WHEN i->>'kind' = 'EXCLUDE' OR i->>'deferral' IS NOT NULL
			THEN i || '{"kind": "INDEX", "deferral": null}' ELSE i END), '[]') FROM jsonb_array_elements(definition->'indexes') i))
$$;
COMMENT ON FUNCTION shardfdw_internal.expected_replica(jsonb) IS
	'Builds the expected definition of a replica from the definition of the reference table. Input and result have the format of describe_query().';

CREATE FUNCTION shardfdw_internal.compare_reference_definitions(relation regclass, nodes name[])
	RETURNS TABLE (node name, ok boolean, message text, found boolean, differences text, has_error boolean, other_columns boolean)
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT q.node, q.ok, q.message, (q.fields)[3] IS NOT NULL, d.*
	FROM (SELECT shardfdw_internal.expected_replica(t.definition) AS definition FROM shardfdw_internal.describe_tables(ARRAY[relation]) t) expected
	CROSS JOIN LATERAL shardfdw_internal.run_commands(nodes, array_fill(shardfdw_internal.describe_query(ARRAY[relation::text]), ARRAY[cardinality(nodes)]), 'read', false) q
	LEFT JOIN LATERAL (
		SELECT string_agg(c.difference, '; '), bool_or(c.status = 'error'), bool_or(c.difference LIKE 'columns only %')
		FROM shardfdw_internal.compare_definitions(expected.definition, (q.fields)[3]::jsonb,
			(q.fields)[2]::integer = current_setting('server_version_num')::integer / 10000) c) d(differences, has_error, other_columns) ON (q.fields)[3] IS NOT NULL
	ORDER BY q.node::text COLLATE "C"
$$;
COMMENT ON FUNCTION shardfdw_internal.compare_reference_definitions(regclass, name[]) IS
	'Compares the definitions of a reference table''s replicas on nodes with the definition here. Returns for each node whether it answered, its error, whether there is a replica, and the differences, null if there are none.';

CREATE FUNCTION shardfdw_internal.inspect_references(nodes name[], compare_rows boolean)
	RETURNS TABLE (node name, relation regclass, status text, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off SET row_security = off
AS $$
#variable_conflict use_column
DECLARE
	checked regclass;
	comparable name[];
	differ record;
	a record;
	differences jsonb;
BEGIN
	IF compare_rows THEN
		-- The tables that inspect_replicas() compares later are included: locks in another order than that of a writer would deadlock.
		PERFORM shardfdw_internal.lock_all_replicas(ARRAY(SELECT t FROM (SELECT r FROM shardfdw_internal.reference_tables() r UNION SELECT c FROM shardfdw_internal.replicated_tables() c) x(t)
			JOIN pg_class c ON c.oid = x.t WHERE pg_has_role(c.relowner, 'USAGE')));
	END IF;
	FOR checked IN SELECT * FROM shardfdw_internal.reference_tables()
	LOOP
		CONTINUE WHEN nodes = '{}';
		relation := checked;
		comparable := '{}';
		differences := '{}';
		FOR a IN SELECT * FROM shardfdw_internal.compare_reference_definitions(checked, nodes)
		LOOP
			CONTINUE WHEN shardfdw_internal.is_gone(checked);
			node := a.node;
			IF NOT a.ok OR NOT a.found OR a.other_columns THEN
				status := 'error';
				detail := CASE WHEN NOT a.ok THEN a.message WHEN NOT a.found THEN 'there is no replica' ELSE a.differences END;
				RETURN NEXT;
			ELSE
				comparable := comparable || node;
				IF a.differences IS NOT NULL THEN
					differences := differences || jsonb_build_object(node, jsonb_build_array(CASE WHEN a.has_error THEN 'error' ELSE 'warning' END, a.differences));
				END IF;
			END IF;
		END LOOP;
		CONTINUE WHEN comparable = '{}';

		BEGIN
			IF compare_rows OR EXISTS (SELECT FROM shardfdw_internal.different_replicas(checked, comparable, false)) THEN
				-- Other sessions may have written before the lock; now they wait.
				PERFORM shardfdw_internal.lock_table(checked, 'SHARE');
			END IF;
			FOR differ IN
				SELECT c.node, d.detail FROM unnest(comparable) c(node)
				LEFT JOIN shardfdw_internal.different_replicas(checked, comparable, compare_rows) d USING (node)
				ORDER BY c.node::text COLLATE "C"
			LOOP
				node := differ.node;
				status := CASE WHEN differ.detail IS NULL THEN coalesce(differences->node->>0, 'ok') ELSE 'error' END;
				detail := coalesce(nullif(concat_ws('; ', differences->node->>1, differ.detail), ''), 'as expected');
				RETURN NEXT;
			END LOOP;
		EXCEPTION WHEN insufficient_privilege OR undefined_object OR active_sql_transaction OR undefined_table THEN
			CONTINUE WHEN shardfdw_internal.is_gone(checked);
			FOREACH node IN ARRAY comparable
			LOOP
				status := 'warning';
				detail := format('not compared: %s', SQLERRM);
				RETURN NEXT;
			END LOOP;
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.inspect_references(name[], boolean) IS
	'Compares the replicas of all reference tables with the tables here: definitions, number of rows, and with compare_rows a checksum of the rows. Takes a SHARE lock on a table whose rows seem to differ, or whose rows are compared. With compare_rows, also locks all tables with replicas of shards. Returns one row per replica with status ok, warning (not comparable) or error.';

CREATE FUNCTION shardfdw_internal.outdated_references(node name, relations regclass[], compares boolean) RETURNS TABLE (relation regclass, is_there boolean)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off SET row_security = off
AS $$
#variable_conflict use_variable
DECLARE
	checked regclass;
	a record;
BEGIN
	FOREACH checked IN ARRAY relations
	LOOP
		SELECT * INTO a FROM shardfdw_internal.compare_reference_definitions(checked, ARRAY[node]);
		CONTINUE WHEN shardfdw_internal.is_gone(checked);
		IF NOT a.ok THEN
			RAISE EXCEPTION USING ERRCODE = 'system_error', MESSAGE = format('reference table %s cannot be compared with its replica on node "%s"', checked, node), DETAIL = a.message;
		END IF;
		BEGIN
			IF NOT a.found OR NOT compares OR a.has_error OR a.other_columns OR EXISTS (SELECT FROM shardfdw_internal.different_replicas(checked, ARRAY[node], true)) THEN
				RETURN QUERY VALUES (checked, a.found);
			END IF;
		EXCEPTION WHEN insufficient_privilege OR undefined_object OR active_sql_transaction OR undefined_table THEN
			CONTINUE WHEN shardfdw_internal.is_gone(checked);
			RAISE WARNING USING MESSAGE = format('reference table %s is not compared with its replica on node "%s"', checked, node), DETAIL = SQLERRM;
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.outdated_references(name, regclass[], boolean) IS
	'Finds among given reference tables those whose replica on a node has to be created. compares: true returns tables without a replica there, and tables whose replica has another definition or other rows; false returns all given tables. Returns them, and whether the node has a table of that name. Raises errors of the node.';

CREATE FUNCTION shardfdw_internal.drop_reference_replica(relation regclass, node name) RETURNS text[]
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	here CONSTANT record := (SELECT x FROM (SELECT c.relowner, format('%I.%I', n.nspname, c.relname) AS name, r.rolsuper OR r.rolname = current_user AS is_trusted
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles r ON r.oid = c.relowner WHERE c.oid = relation) x);
	-- the role of the owner on the node
	owner CONSTANT text := shardfdw_internal.role_on_node(here.relowner, node);
	foreign_keys text[];
BEGIN
	SELECT coalesce(array_agg(c.command ORDER BY c.is_check), '{}') INTO foreign_keys
	FROM shardfdw_internal.run_commands(ARRAY[node], ARRAY[format(
		'SELECT n.nspname, c.relname, k.conname, pg_catalog.pg_get_constraintdef(k.oid), k.convalidated FROM pg_catalog.pg_constraint k '
		'JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace '
		'WHERE k.confrelid = %1$L::pg_catalog.regclass AND k.conrelid <> k.confrelid AND k.contype = ''f''', here.name)], 'write') q
	CROSS JOIN LATERAL (SELECT format('%I.%I', (q.fields)[1], (q.fields)[2]) AS name, (q.fields)[5]::boolean AS is_valid) k
	CROSS JOIN LATERAL (SELECT false AS is_check, shardfdw_internal.checked_definition(format('ALTER TABLE %s ADD CONSTRAINT %I %s%s', k.name, (q.fields)[3], (q.fields)[4],
			CASE WHEN k.is_valid THEN ' NOT VALID' END), relation) AS command
		UNION ALL SELECT true, shardfdw_internal.validating_command(k.name, (q.fields)[3]) WHERE k.is_valid) c
	WHERE q.fields IS NOT NULL;
	-- The owner may have given the table the name of a table of another role there.
	PERFORM shardfdw_internal.run_commands(ARRAY[node], ARRAY[format('DO %L', format(
		'DECLARE k record; owner name; BEGIN LOCK TABLE %1$s IN ACCESS EXCLUSIVE MODE; '
		'SELECT pg_catalog.pg_get_userbyid(c.relowner) INTO owner FROM pg_catalog.pg_class c WHERE c.oid = %2$L::pg_catalog.regclass; '
		'IF NOT %3$L::pg_catalog.bool AND owner IS DISTINCT FROM %4$L THEN RAISE EXCEPTION USING ERRCODE = ''insufficient_privilege'', '
		'MESSAGE = pg_catalog.format(''table %%s differs from the reference table and does not belong to its owner'', %2$L), HINT = pg_catalog.format(''If nobody needs it, on the node: DROP TABLE %%s'', %2$L); END IF; '
		'FOR k IN SELECT c.conrelid::pg_catalog.regclass AS relation, c.conname FROM pg_catalog.pg_constraint c WHERE c.confrelid = %2$L::pg_catalog.regclass AND c.conrelid <> c.confrelid AND c.contype = ''f'' '
		'LOOP EXECUTE pg_catalog.format(''ALTER TABLE %%s DROP CONSTRAINT %%I'', k.relation, k.conname); END LOOP; DROP TABLE %1$s; END',
		here.name, here.name, here.is_trusted, owner))], 'write');
	RETURN foreign_keys;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.drop_reference_replica(regclass, name) IS
	'Drops the replica of a reference table on a node in this transaction, and the foreign keys that refer to it there. Returns the commands that create these keys again. Raises insufficient_privilege if the table on the node does not belong to the remote user of the owner''s user mapping, unless the owner is a superuser or the caller.';

CREATE FUNCTION shardfdw_internal.nodes_without_replica(relation regclass, nodes name[]) RETURNS name[]
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(q.node ORDER BY q.node::text COLLATE "C"), '{}')
	FROM pg_class c
	JOIN pg_namespace n ON n.oid = c.relnamespace
	CROSS JOIN LATERAL shardfdw_internal.run_commands(nodes, array_fill(
		format('SELECT to_regclass(%L) IS NULL', format('%I.%I', n.nspname, c.relname)), ARRAY[cardinality(nodes)]), 'write') q
	WHERE c.oid = relation AND (q.fields)[1] = 't'
$$;
COMMENT ON FUNCTION shardfdw_internal.nodes_without_replica(regclass, name[]) IS
	'Finds the nodes that have no table of that name in this transaction. Returns them. Raises errors of nodes.';
