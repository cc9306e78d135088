-- Turns shards into a plain table again, and runs commands on the shards of a table.

CREATE FUNCTION shardfdw_internal.shards_of(relation regclass)
	RETURNS TABLE (shard regclass, node name, remote_name text, bounds text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT f.ftrelid::regclass, s.srvname,
		format('%I.%I',
			coalesce((SELECT o.option_value FROM pg_options_to_table(f.ftoptions) o WHERE o.option_name = 'schema_name'), n.nspname),
			coalesce((SELECT o.option_value FROM pg_options_to_table(f.ftoptions) o WHERE o.option_name = 'table_name'), c.relname)),
		pg_get_expr(c.relpartbound, 0)
	FROM pg_inherits i
	JOIN pg_foreign_table f ON f.ftrelid = i.inhrelid
	JOIN pg_foreign_server s ON s.oid = f.ftserver
	JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw AND w.fdwhandler = 'shardfdw_internal.shardfdw_handler'::regproc
	JOIN pg_class c ON c.oid = f.ftrelid
	JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE i.inhparent = relation
	ORDER BY c.relname::text COLLATE "C"
$$;
COMMENT ON FUNCTION shardfdw_internal.shards_of(regclass) IS
	'Lists the shards of a partitioned table by name. Returns each shard, its node, its qualified name there and its bounds.';

-- Properties of a table that only the nodes have. One shard represents all of them.
CREATE FUNCTION shardfdw_internal.shard_storage_options(relation regclass, shard regclass DEFAULT NULL) RETURNS text
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT shardfdw_internal.storage_options((q.fields)[1]::text[])
	FROM shardfdw_internal.shards_of(relation) WITH ORDINALITY s
	CROSS JOIN LATERAL shardfdw_internal.run_commands(ARRAY[s.node], ARRAY[shardfdw_internal.storage_options_query(s.remote_name)], 'write') q
	WHERE CASE WHEN shard_storage_options.shard IS NULL THEN s.ordinality = 1 ELSE s.shard = shard_storage_options.shard END
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_storage_options(regclass, regclass) IS
	'Queries a node for the storage parameters of a table''s shard. shard: the shard to use; null for the first. Returns them as for SET (...), null if there are none.';

CREATE FUNCTION shardfdw_internal.shard_foreign_keys(relation regclass) RETURNS TABLE (name name, definition text, referenced regclass, description text)
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT (q.fields)[1]::name, (q.fields)[2], to_regclass((q.fields)[3]), (q.fields)[4]
	FROM shardfdw_internal.shards_of(relation) WITH ORDINALITY s
	CROSS JOIN LATERAL shardfdw_internal.run_commands(ARRAY[s.node], ARRAY[format('SELECT k.conname, pg_get_constraintdef(k.oid), format(''%%I.%%I'', n.nspname, c.relname), obj_description(k.oid, ''pg_constraint'') FROM pg_constraint k '
			'JOIN pg_class c ON c.oid = k.confrelid JOIN pg_namespace n ON n.oid = c.relnamespace '
			'WHERE k.conrelid = to_regclass(%L) AND k.contype = ''f'' ORDER BY k.conname', s.remote_name)], 'write') q
	WHERE s.ordinality = 1 AND shardfdw_internal.is_reference(to_regclass((q.fields)[3]))
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_foreign_keys(regclass) IS
	'Queries a node for the foreign keys of a shard to reference tables. Returns the name, definition, referenced table and comment of each.';

CREATE FUNCTION shardfdw_internal.shard_clustered_index(relation regclass) RETURNS name
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT d.index_name
	FROM shardfdw_internal.shards_of(relation) WITH ORDINALITY s
	JOIN pg_class c ON c.oid = s.shard
	CROSS JOIN LATERAL shardfdw_internal.run_commands(ARRAY[s.node], ARRAY[format('SELECT x.relname FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid '
			'WHERE i.indrelid = to_regclass(%L) AND i.indisclustered', s.remote_name)], 'write') q
	JOIN shardfdw_internal.index_definitions(relation) d ON (q.fields)[1]::name = shardfdw_internal.shard_object_name(d.index_name, c.relname,
		ARRAY(SELECT o.relname FROM pg_inherits i JOIN pg_class o ON o.oid = i.inhrelid WHERE i.inhparent = relation))
	WHERE s.ordinality = 1
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_clustered_index(regclass) IS
	'Queries a node for the index that a shard is clustered on. Returns the name of the table''s index, null if there is none.';

CREATE FUNCTION shardfdw_internal.drop_on_nodes(nodes name[], commands text[], labels text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	detail text;
BEGIN
	PERFORM shardfdw_internal.run_commands(nodes, commands, 'write', labels => labels);
EXCEPTION WHEN dependent_objects_still_exist THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	-- the node's HINT is about DROP, which the user has not called
	RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist', MESSAGE = SQLERRM, DETAIL = detail, HINT = 'Drop these objects on the node first.';
END
$$;
COMMENT ON FUNCTION shardfdw_internal.drop_on_nodes(name[], text[], text[]) IS
	'Drops tables on nodes for unshard_table(), in this transaction. commands: a DROP for each node. labels: names for error messages. Returns nothing. Raises errors of nodes, dependent_objects_still_exist with a HINT that fits unshard_table().';

CREATE FUNCTION shardfdw_internal.unshard_block(relation regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.multi_shard_statements = allow SET shardfdw.max_rows_gathered = 0 SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	old_name name;
	new_table regclass;
	column_list text;
	index_commands text[];
	commands text[];
	command text;
	drop_nodes name[];
	drop_commands text[];
	drop_labels text[];
	table_options text;
	foreign_keys text[];
	validating text[];
	cluster_command text;
	views jsonb;
BEGIN
	PERFORM shardfdw_internal.apply_replicas();
	PERFORM shardfdw_internal.lock_with_views(relation);
	PERFORM shardfdw_internal.check_replaceable(relation, 'unshard');
	PERFORM shardfdw_internal.check_owner_code(relation, 'unshard');
	PERFORM shardfdw_internal.check_shard_owners(relation);
	PERFORM shardfdw_internal.check_owner_code_of_shards(relation, 'unshard');

	index_commands := ARRAY(SELECT * FROM shardfdw_internal.parent_index_commands(relation, false));
	commands := ARRAY(SELECT * FROM shardfdw_internal.successor_commands(relation));
	column_list := shardfdw_internal.insertable_columns(relation);
	SELECT array_agg(s.node), array_agg(format('DROP TABLE %s', s.remote_name)), array_agg(s.shard::text)
	INTO drop_nodes, drop_commands, drop_labels FROM shardfdw_internal.shards_of(relation) s;
	IF shardfdw_internal.has_replicas(relation) THEN
		PERFORM shardfdw_internal.note_left_shard(p.shard, p.node) FROM shardfdw_internal.shard_placements(relation) p WHERE p.role = 'stale';
		SELECT array_agg(p.node), array_agg(shardfdw_internal.drop_replica_command(p.schema_name, p.shard_name)), array_agg(p.shard::text)
		INTO drop_nodes, drop_commands, drop_labels FROM shardfdw_internal.shard_placements(relation) p WHERE p.role <> 'stale';
	END IF;

	table_options := shardfdw_internal.shard_storage_options(relation);
	SELECT array_agg(shardfdw_internal.checked_definition(format('ALTER TABLE %s ADD CONSTRAINT %I %s%s', relation, k.name, k.definition, CASE WHEN v.is_valid THEN ' NOT VALID' END), k.referenced)),
		array_agg(shardfdw_internal.validating_command(relation::text, k.name)) FILTER (WHERE v.is_valid)
			|| array_agg(format('COMMENT ON CONSTRAINT %I ON %s IS %L', k.name, relation, k.description)) FILTER (WHERE k.description IS NOT NULL)
	INTO foreign_keys, validating FROM shardfdw_internal.shard_foreign_keys(relation) k CROSS JOIN LATERAL (SELECT k.definition !~ ' NOT (VALID|ENFORCED)$' AS is_valid) v;
	cluster_command := (SELECT format('ALTER TABLE %s CLUSTER ON %I', relation, x.name) FROM shardfdw_internal.shard_clustered_index(relation) x(name) WHERE x.name IS NOT NULL);

	old_name := format('shardfdw_old_%s', relation::oid);
	new_table := shardfdw_internal.replace_table(relation, NULL, old_name);
	IF table_options IS NOT NULL THEN
		EXECUTE format('ALTER TABLE %s SET (%s)', new_table, table_options);
	END IF;
	EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM %s', new_table, column_list, column_list, relation);
	views := shardfdw_internal.drop_replaced_table(relation, new_table);
	PERFORM shardfdw_internal.drop_on_nodes(drop_nodes, drop_commands, drop_labels);

	FOREACH command IN ARRAY index_commands || commands || foreign_keys || validating || array_remove(ARRAY[cluster_command], NULL)
	LOOP
		EXECUTE command;
	END LOOP;
	PERFORM shardfdw_internal.fill_views(views, new_table);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.unshard_block(regclass) IS
	'Replaces a sharded table by a plain table, and drops the shards on their nodes. Returns nothing. Raises an error if something of the table cannot be kept.';

CREATE FUNCTION shardfdw.unshard_table(relation regclass, mode text DEFAULT 'auto', wait boolean DEFAULT true) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET extra_float_digits = 3 SET jit = off SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
BEGIN
	PERFORM shardfdw_internal.check_isolation('unshard_table');
	PERFORM shardfdw_internal.check_conversion_mode(relation, mode, wait);
	PERFORM shardfdw_internal.check_not_at_home(relation, 'unshard');
	IF shardfdw_internal.is_sharded(relation) THEN
		PERFORM shardfdw_internal.check_no_peers(format('table %s', relation), 'unshard');
	END IF;
	IF mode = 'auto' THEN
		mode := CASE WHEN shardfdw_internal.is_sharded(relation)
			THEN shardfdw_internal.choose_conversion_mode(relation, NULL, format('SELECT shardfdw_internal.check_unsharding(%L)', relation::oid)) ELSE 'block' END;
	END IF;
	IF mode = 'online' THEN
		RETURN shardfdw_internal.unshard_online(relation, wait);
	END IF;
	IF shardfdw_internal.is_reference(relation) THEN
		PERFORM shardfdw_internal.unshard_reference(relation);
		RETURN NULL;
	END IF;
	IF NOT shardfdw_internal.is_sharded(relation) THEN
		PERFORM shardfdw_internal.raise_other_kind(relation, 'sharded table');
	END IF;
	PERFORM shardfdw_internal.unshard_block(relation);
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION shardfdw.unshard_table(regclass, text, boolean) IS
	'Turns a sharded table or a reference table into a plain table. A sharded table keeps its rows, keys and indexes, and its shards are dropped on their nodes. The replicas of a reference table are dropped. mode: block runs in this transaction and locks the table; online runs in a background process while other sessions read and write the table. Mode auto is online for a table of 64 MB or more if that is possible and the call is the whole statement and transaction. Otherwise it is block. wait: for online, true returns when the table is plain, false returns immediately. Returns the number of the job, null for block. Raises an error before anything changes if something of the table cannot be kept.';

CREATE FUNCTION shardfdw.run_on_shards(relation regclass, command text, in_transaction boolean DEFAULT true)
	RETURNS TABLE (node name, shard regclass, ok boolean, result text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	shards regclass[];
	nodes name[];
	commands text[];
BEGIN
	IF relation IS NULL THEN
		PERFORM shardfdw_internal.raise_other_kind(relation, 'sharded table');
	END IF;
	PERFORM shardfdw_internal.check_shard_owners(relation);
	-- pass the name as often as the command may contain a placeholder
	SELECT array_agg(s.shard), array_agg(s.node),
		array_agg(format(run_on_shards.command, VARIADIC array_fill(s.remote_name, ARRAY[32])))
	INTO shards, nodes, commands FROM shardfdw_internal.shards_of(relation) s;
	IF shards IS NULL THEN
		PERFORM shardfdw_internal.raise_other_kind(relation, 'sharded table');
	END IF;

	RETURN QUERY
	SELECT q.node, shards[q.command], bool_and(q.ok),
		coalesce(string_agg(array_to_string(q.fields, E'\t', ''), E'\n' ORDER BY q.ordinality),
				 max(q.message), max(q.tag))
	FROM shardfdw.query_nodes(nodes, commands, CASE WHEN in_transaction THEN 'write' ELSE 'autocommit' END, false,
							  shards::text[]) WITH ORDINALITY q
	GROUP BY q.command, q.node
	ORDER BY q.command;
END
$$;
COMMENT ON FUNCTION shardfdw.run_on_shards(regclass, text, boolean) IS
	'Runs a command for every shard of a table on the shard''s node, on all nodes in parallel. In the command, %s stands for the qualified name of the shard, %L for the same name as a literal, and %% for a percent sign. in_transaction: true runs the command in this transaction; false commits it separately for each shard. Returns one row per shard: whether the command succeeded, and its rows, its command tag or its error message.';
REVOKE ALL ON FUNCTION shardfdw.run_on_shards(regclass, text, boolean) FROM PUBLIC;
