-- Turns a sharded table into a plain table while other sessions read and write it: the steps that 49_shard_online.sql does not have.
--
-- The nodes note the keys of changed rows, in the transaction of the change. Next to every shard, the node has a shard of
-- shardfdw_changed_*, a table that is sharded like the other one, and a trigger function. On the coordinator a trigger rejects TRUNCATE.

CREATE FUNCTION shardfdw_internal.check_unsharding(relation regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	refusal CONSTANT text := format('cannot unshard table "%s" online', (SELECT relname FROM pg_class WHERE oid = relation));
	other_mode CONSTANT text := 'With mode => ''block'', others wait until all rows are here.';
	r record;
BEGIN
	IF shardfdw_internal.is_reference(relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = refusal || ' because it is a reference table', DETAIL = 'Its rows are here already, so no session waits.', HINT = 'Use mode => ''block''.';
	END IF;
	IF relation IS NULL OR NOT shardfdw_internal.is_sharded(relation) THEN
		PERFORM shardfdw_internal.raise_other_kind(relation, 'sharded table');
	END IF;
	PERFORM shardfdw_internal.check_replaceable(relation, 'unshard');
	IF shardfdw_internal.has_replicas(relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = refusal || ' because its shards have replicas', HINT = other_mode;
	END IF;
	PERFORM shardfdw_internal.check_conversion_owner(relation);
	SELECT i.inhrelid::regclass AS name INTO r FROM pg_inherits i WHERE i.inhparent = relation AND i.inhrelid NOT IN (SELECT s.shard FROM shardfdw_internal.shards_of(relation) s) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('%s because its partition %s is no shard', refusal, r.name), HINT = other_mode;
	END IF;
	PERFORM shardfdw_internal.check_followable(relation, 'unshard', other_mode);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_unsharding(regclass) IS
	'Checks that a sharded table can be unsharded online. Returns nothing. Raises an error for the first obstacle.';

CREATE FUNCTION shardfdw_internal.note_function_of(notes text) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('%I.%I', x.parts[1], regexp_replace(x.parts[2], '^shardfdw_changed_', 'shardfdw_note_')) FROM parse_ident(notes) x(parts)
$$;
COMMENT ON FUNCTION shardfdw_internal.note_function_of(text) IS
	'Returns the qualified name of the function on a node that notes changes of a shard there. notes: the table for the keys.';

CREATE FUNCTION shardfdw_internal.noted_shards(relation oid)
	RETURNS TABLE (node name, shard regclass, remote_name text, notes text, note_function text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.node, s.shard, s.remote_name, n.remote_name, shardfdw_internal.note_function_of(n.remote_name)
	FROM shardfdw_internal.shards_of(relation) s
	JOIN shardfdw_internal.shards_of(to_regclass(shardfdw_internal.conversion_name(relation, 'changed'))) n USING (bounds)
$$;
COMMENT ON FUNCTION shardfdw_internal.noted_shards(oid) IS
	'Lists the shards of a table that is unsharded online. Returns for each the node, the shard, its name there, and the names of the table of its changed keys and of the function that notes them.';

CREATE FUNCTION shardfdw_internal.run_on_noted_shards(relation oid, command_format text) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT count(q) FROM (SELECT array_agg(s.node) AS nodes, array_agg(format(command_format, s.remote_name, s.notes, s.note_function)) AS commands, array_agg(s.shard::text) AS labels
		  FROM shardfdw_internal.noted_shards(relation) s) x
	CROSS JOIN LATERAL shardfdw_internal.run_commands(x.nodes, x.commands, 'write', labels => x.labels) q
$$;
COMMENT ON FUNCTION shardfdw_internal.run_on_noted_shards(oid, text) IS
	'Runs a command for every shard of a table that is unsharded online, in this transaction. The command is a format with three arguments: the names of the shard, of its table of notes, and of the function. Returns nothing. Raises errors of nodes.';

CREATE FUNCTION shardfdw_internal.key_column_definitions(relation regclass) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(concat_ws(' ', i.name, format_type(a.atttypid, a.atttypmod),
		(SELECT format('COLLATE %I.%I', n.nspname, c.collname) FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace WHERE c.oid = a.attcollation)), ', ' ORDER BY i.number)
	FROM shardfdw_internal.identity_columns(relation) WITH ORDINALITY i(name, type, equals, number)
	JOIN pg_attribute a ON a.attrelid = relation AND quote_ident(a.attname) = i.name
$$;
COMMENT ON FUNCTION shardfdw_internal.key_column_definitions(regclass) IS
	'Writes the definitions of the columns that identify rows of a table. Returns them separated by commas.';

CREATE FUNCTION shardfdw_internal.begin_unsharding(relation regclass, plan jsonb, id bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
DECLARE
	successor text;
	changed text;
	columns text;
	table_options text;
	shards record;
BEGIN
	-- Left by a job whose process died: no such job runs, because this job holds the lock of the table.
	PERFORM shardfdw_internal.undo_conversions(relation);
	-- the definition must not change until all objects are created
	PERFORM shardfdw_internal.lock_for_conversion(relation, 'ACCESS SHARE');
	PERFORM shardfdw_internal.check_unsharding(relation);
	PERFORM shardfdw_internal.check_owner_code(relation, 'unshard');
	SELECT q.node, q.fields INTO shards
	FROM (SELECT array_agg(s.node) AS nodes, array_agg(format('SELECT %1$L, pg_get_userbyid(c.relowner), current_user FROM pg_class c WHERE c.oid = to_regclass(%1$L) AND pg_get_userbyid(c.relowner) <> current_user', s.remote_name)) AS commands
		  FROM shardfdw_internal.shards_of(relation) s) x
	CROSS JOIN LATERAL shardfdw_internal.run_commands(x.nodes, x.commands, 'write') q WHERE q.fields IS NOT NULL LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('table %s on node "%s" belongs to role "%s", and not to role "%s"', shards.fields[1], shards.node, shards.fields[2], shards.fields[3]),
			DETAIL = 'A function of the second role would note its changes.', HINT = format('Use mode => ''block'', or give the table on the node to role "%s".', shards.fields[3]);
	END IF;
	successor := shardfdw_internal.conversion_name(relation, 'new');
	changed := shardfdw_internal.conversion_name(relation, 'changed');
	columns := (SELECT string_agg(i.name, ', ') FROM shardfdw_internal.identity_columns(relation) i);

	PERFORM shardfdw_internal.make_successor(relation, successor, NULL);
	EXECUTE shardfdw_internal.revoke_command(successor);
	table_options := shardfdw_internal.shard_storage_options(relation);
	IF table_options IS NOT NULL THEN
		EXECUTE format('ALTER TABLE %s SET (%s)', successor, table_options);
	END IF;

	EXECUTE format('CREATE TABLE %s (%s) PARTITION BY %s', changed, shardfdw_internal.key_column_definitions(relation), pg_get_partkeydef(relation));
	EXECUTE shardfdw_internal.revoke_command(changed);
	SELECT array_agg(s.bounds) AS bounds, array_agg(s.node) AS nodes INTO shards FROM shardfdw_internal.shards_of(relation) s;
	PERFORM shardfdw_internal.make_shards(changed::regclass, shardfdw_internal.shard_names((SELECT c.relname FROM pg_class c WHERE c.oid = changed::regclass), cardinality(shards.nodes)), shards.bounds, shards.nodes);

	-- the job looks up rows there by noted keys
	PERFORM shardfdw_internal.run_on_noted_shards(relation, format('CREATE INDEX ON %%2$s (%s)', replace(columns, '%', '%%')));
	EXECUTE shardfdw_internal.note_function_commands(shardfdw_internal.conversion_name(relation, 'note'), changed, columns, id, 'unshards');
	PERFORM count(q) FROM (SELECT array_agg(s.node) AS nodes, array_agg(s.shard::text) AS labels,
			array_agg(shardfdw_internal.note_function_commands(s.note_function, s.notes, columns, id, 'unshards')) AS commands
		  FROM shardfdw_internal.noted_shards(relation) s) x
	CROSS JOIN LATERAL shardfdw_internal.run_commands(x.nodes, x.commands, 'write', labels => x.labels) q;
	SELECT q.node, s.remote_name INTO shards
	FROM (SELECT array_agg(n.node) AS nodes, array_agg(n.remote_name) AS names, array_agg('SELECT ' || shardfdw_internal.own_name_condition(n.notes)) AS commands FROM shardfdw_internal.noted_shards(relation) n) x
	CROSS JOIN LATERAL shardfdw_internal.run_commands(x.nodes, x.commands, 'write') q CROSS JOIN LATERAL (SELECT x.names[q.command]) s(remote_name) WHERE (q.fields)[1] = 'f' LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('the schema of table %s on node "%s" belongs to another role than the table', shards.remote_name, shards.node),
			HINT = 'Use mode => ''block'', or give the schema on the node to the owner of the table.';
	END IF;
	PERFORM shardfdw_internal.mark_conversion(relation, id);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.begin_unsharding(regclass, jsonb, bigint) IS
	'First step of unshard_table() online: creates the empty plain table, and on the nodes the objects that note changed keys. id: of the job. Returns nothing. Raises an error for the first obstacle.';

CREATE FUNCTION shardfdw_internal.lock_unsharding(relation regclass, plan jsonb) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.lock_conversion(relation, plan);
	-- Waits for transactions that are still prepared on the nodes: then all changes by writers of this table are committed.
	PERFORM shardfdw_internal.run_on_noted_shards(relation, format('SET LOCAL lock_timeout = %L; LOCK TABLE %%1$s IN SHARE ROW EXCLUSIVE MODE', current_setting('lock_timeout')));
	RETURN 0;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.lock_unsharding(regclass, jsonb) IS
	'Step of unshard_table() online: locks the table in ACCESS EXCLUSIVE mode, and its shards on nodes in SHARE ROW EXCLUSIVE mode, until the transaction ends. Returns 0. Raises lock_not_available.';

CREATE FUNCTION shardfdw_internal.note_unsharding(relation regclass, plan jsonb) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off
AS $$
DECLARE
	note CONSTANT text := shardfdw_internal.conversion_name(relation, 'note');
BEGIN
	-- waits for all transactions that have written without the triggers, here and then on the nodes
	PERFORM shardfdw_internal.lock_for_conversion(relation, 'SHARE ROW EXCLUSIVE');
	PERFORM shardfdw_internal.check_conversion_unchanged(relation);
	EXECUTE format('CREATE TRIGGER shardfdw_note_truncate BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION %s()', relation, note);
	EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER shardfdw_note_truncate', relation);
	PERFORM shardfdw_internal.run_on_noted_shards(relation, format('SET LOCAL lock_timeout = %L; ', current_setting('lock_timeout')) || shardfdw_internal.note_trigger_commands('%1$s', '%3$s'));
	RETURN 0;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.note_unsharding(regclass, jsonb) IS
	'Does the second step of unshard_table() online: after its commit, every change of a shard records the keys of the changed rows on the node. Returns 0. Raises lock_not_available.';

CREATE FUNCTION shardfdw_internal.check_unsharding_noted(relation regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF EXISTS (SELECT FROM (SELECT array_agg(s.node) AS nodes, array_agg(s.shard::text) AS labels,
				array_agg(format('SELECT count(*) FROM pg_catalog.pg_trigger g WHERE g.tgrelid = pg_catalog.to_regclass(%L) AND g.tgenabled = ''A'' AND g.tgfoid = pg_catalog.to_regproc(%L)', s.remote_name, s.note_function)) AS commands
			  FROM shardfdw_internal.noted_shards(relation) s) x
			CROSS JOIN LATERAL shardfdw_internal.run_commands(x.nodes, x.commands, 'write', labels => x.labels) q WHERE (q.fields)[1] <> '4') THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('triggers of shards of table "%s" have been dropped or disabled while it was unsharded', (SELECT relname FROM pg_class WHERE oid = relation)),
			DETAIL = 'Changes that they were to note may be lost.', HINT = 'Start again.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_unsharding_noted(regclass) IS
	'Checks that the objects on nodes that note changes of a table exist while it is unsharded online. Returns nothing. Raises object_not_in_prerequisite_state, and errors of nodes.';

CREATE FUNCTION shardfdw_internal.successor_index_commands(relation regclass, successor regclass) RETURNS TABLE (make text, rename text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN i.constraint_def IS NOT NULL THEN format('ALTER TABLE %s ADD CONSTRAINT %I %s', successor, x.name, i.constraint_def)
			ELSE format('CREATE %sINDEX %I ON %s USING %s', CASE WHEN i.is_unique THEN 'UNIQUE ' ELSE '' END, x.name, successor, i.using_clause) END,
		format('ALTER INDEX %I.%I RENAME TO %I', n.nspname, x.name, i.index_name)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	CROSS JOIN LATERAL shardfdw_internal.index_definitions(relation) WITH ORDINALITY i(index_name, is_unique, constraint_def, using_clause, number)
	CROSS JOIN LATERAL (SELECT format('shardfdw_new_%s_%s', relation::oid, i.number)) x(name)
	WHERE c.oid = successor
$$;
COMMENT ON FUNCTION shardfdw_internal.successor_index_commands(regclass, regclass) IS
	'Writes the commands that create the keys and indexes of a table on its successor, primary key first, and the commands that give them their names after the old ones are dropped. Returns both for each.';

CREATE FUNCTION shardfdw_internal.copy_unsharding(relation regclass, plan jsonb) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
DECLARE
	successor CONSTANT text := shardfdw_internal.conversion_name(relation, 'new');
	column_list CONSTANT text := shardfdw_internal.insertable_columns(relation);
	copied bigint;
	command text;
BEGIN
	PERFORM shardfdw_internal.lock_for_conversion(relation, 'ACCESS SHARE');
	PERFORM shardfdw_internal.check_conversion_unchanged(relation);
	PERFORM shardfdw_internal.check_owner_code(relation, 'unshard');
	EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM %s', successor, column_list, column_list, relation);
	GET DIAGNOSTICS copied = ROW_COUNT;
	FOR command IN SELECT x.make FROM shardfdw_internal.successor_index_commands(relation, successor::regclass) x
	LOOP
		EXECUTE command;
	END LOOP;
	RETURN copied;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.copy_unsharding(regclass, jsonb) IS
	'Third step of unshard_table() online: copies the rows from the shards, and then creates keys and indexes. Returns the number of rows. Raises errors of nodes.';

CREATE FUNCTION shardfdw_internal.referenced_unsharding(relation regclass, plan jsonb) RETURNS SETOF oid
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT DISTINCT k.referenced::oid FROM shardfdw_internal.shard_foreign_keys(relation) k ORDER BY 1
$$;
COMMENT ON FUNCTION shardfdw_internal.referenced_unsharding(regclass, jsonb) IS
	'Lists the reference tables to which the shards of a table refer by foreign keys. Returns their OIDs.';

CREATE FUNCTION shardfdw_internal.validation_unsharding(relation regclass, plan jsonb) RETURNS text
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(format('ALTER TABLE %s VALIDATE CONSTRAINT %I', relation, k.name), '; ') FROM shardfdw_internal.shard_foreign_keys(relation) k WHERE k.definition NOT LIKE '% NOT VALID'
$$;
COMMENT ON FUNCTION shardfdw_internal.validation_unsharding(regclass, jsonb) IS
	'Writes the commands that validate the foreign keys of a table after it has become plain. Returns them in one text, null if there are none.';

CREATE FUNCTION shardfdw_internal.switch_unsharding(relation regclass, plan jsonb) RETURNS bigint
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
DECLARE
	successor CONSTANT regclass := shardfdw_internal.conversion_name(relation, 'new')::regclass;
	changed CONSTANT text := shardfdw_internal.conversion_name(relation, 'changed');
	note CONSTANT text := shardfdw_internal.conversion_name(relation, 'note');
	table_name CONSTANT name := (SELECT c.relname FROM pg_class c WHERE c.oid = relation);
	is_changed boolean;
	clustered_by name;
	foreign_keys text[];
	commands text[];
BEGIN
	PERFORM shardfdw_internal.lock_unsharding(relation, plan);
	PERFORM shardfdw_internal.check_conversion_unchanged(relation);
	PERFORM shardfdw_internal.check_unsharding_noted(relation);
	EXECUTE format('SELECT EXISTS (SELECT FROM %s)', changed) INTO is_changed;
	IF is_changed THEN
		RAISE EXCEPTION 'changes of table "%" have not been followed', table_name;
	END IF;
	clustered_by := shardfdw_internal.shard_clustered_index(relation);
	-- validated afterwards: the nodes have enforced them
	foreign_keys := ARRAY(SELECT shardfdw_internal.checked_definition(format('ALTER TABLE %s ADD CONSTRAINT %I %s%s', relation, k.name, k.definition, CASE WHEN k.definition LIKE '% NOT VALID' THEN '' ELSE ' NOT VALID' END), k.referenced)
			FROM shardfdw_internal.shard_foreign_keys(relation) k)
		|| ARRAY(SELECT format('COMMENT ON CONSTRAINT %I ON %s IS %L', k.name, relation, k.description) FROM shardfdw_internal.shard_foreign_keys(relation) k WHERE k.description IS NOT NULL);
	PERFORM shardfdw_internal.drop_on_nodes(array_agg(s.node), array_agg(format('DROP TABLE %s, %s; DROP FUNCTION %s()', s.remote_name, s.notes, s.note_function)), array_agg(s.shard::text))
	FROM shardfdw_internal.noted_shards(relation) s;
	EXECUTE format('DROP TRIGGER shardfdw_note_truncate ON %s', relation);
	EXECUTE format('DROP FUNCTION %s()', note);
	EXECUTE format('DROP TABLE %s', changed);
	PERFORM shardfdw_internal.check_replaceable(relation, 'unshard');

	-- Write down the whole definition of the old table before the table loses its name.
	commands := ARRAY(SELECT x.rename FROM shardfdw_internal.successor_index_commands(relation, successor) x)
		|| ARRAY(SELECT * FROM shardfdw_internal.parent_index_commands(relation, false) c WHERE c !~ '^(ALTER TABLE|CREATE) ')
		|| ARRAY(SELECT * FROM shardfdw_internal.successor_commands(relation))
		|| foreign_keys || ARRAY(SELECT format('ALTER TABLE %s CLUSTER ON %I', relation, clustered_by) WHERE clustered_by IS NOT NULL);
	PERFORM shardfdw_internal.exchange_tables(relation, successor, commands);
	RETURN 0;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.switch_unsharding(regclass, jsonb) IS
	'Last step of unshard_table() online: replaces the shards by the plain table. The plain table has all rows of the shards, and the shards are locked. Returns 0. Raises an error if the definition has changed, and errors of nodes.';

CREATE FUNCTION shardfdw_internal.unshard_online(relation regclass, wait boolean) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET row_security = off
AS $$
DECLARE
	id bigint;
BEGIN
	IF wait THEN
		PERFORM shardfdw_internal.check_wait('unshard_table', NULL, 'block');
	END IF;
	PERFORM shardfdw_internal.check_unsharding(relation);
	id := shardfdw_internal.start_conversion(relation, jsonb_build_object('nodes', (SELECT jsonb_agg(DISTINCT s.node) FROM shardfdw_internal.shards_of(relation) s))::text);
	IF wait THEN
		PERFORM shardfdw_internal.await_job(id);
	END IF;
	RETURN id;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.unshard_online(regclass, boolean) IS
	'Does what unshard_table() does online. Returns the number of the job. Raises an error for the first obstacle, and the error that ended the job.';
