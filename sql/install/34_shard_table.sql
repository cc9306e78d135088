-- Turns a table into shards.

CREATE FUNCTION shardfdw_internal.check_shardable_kind(relation regclass, lock boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	table_name name;
	kind "char";
BEGIN
	SELECT c.relname, c.relkind INTO table_name, kind FROM pg_class c WHERE c.oid = relation;
	IF kind = 'p' AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = relation) THEN
		IF shardfdw_internal.is_sharded(relation) THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
				MESSAGE = format('table "%s" is sharded already', table_name);
		END IF;
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('cannot shard table "%s" because it has partitions', table_name),
			HINT = 'Shard an empty partitioned table, or a plain one.';
	END IF;
	-- The catalogs are read reliably only under the lock. A user who may not take the lock gets the error here.
	IF lock AND kind IN ('r', 'p') THEN
		PERFORM shardfdw_internal.lock_schemas(relation);
		PERFORM shardfdw_internal.lock_with_views(relation);
	END IF;
	IF shardfdw_internal.is_reference(relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('table "%s" is a reference table', table_name),
			HINT = format('Make it a plain table first: SELECT shardfdw.unshard_table(%L).', relation);
	END IF;
	PERFORM shardfdw_internal.check_replaceable_kind(relation, 'shard');
	PERFORM shardfdw_internal.check_no_conversion(relation, 'shard');
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_shardable_kind(regclass, boolean) IS
	'Checks that a relation is of a kind that can be sharded, and belongs to the caller. lock: also locks the table in ACCESS EXCLUSIVE mode until the transaction ends. Returns nothing. Raises an error with the reason.';

CREATE FUNCTION shardfdw_internal.check_shardable(relation regclass, lock boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.check_shardable_kind(relation, lock);
	PERFORM shardfdw_internal.check_obstacles(relation, 'shard');
	IF lock THEN
		PERFORM shardfdw_internal.undo_conversions(relation);
	END IF;
	PERFORM shardfdw_internal.check_owner_code(relation, 'shard');
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_shardable(regclass, boolean) IS
	'Checks that a table can be sharded. lock: also locks the table in ACCESS EXCLUSIVE mode until the transaction ends. Returns nothing. Raises an error for the first obstacle.';

CREATE FUNCTION shardfdw_internal.choose_key(relation regclass, key name) RETURNS name
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	table_name CONSTANT name := (SELECT c.relname FROM pg_class c WHERE c.oid = relation);
	generated "char";
	type text;
BEGIN
	IF key IS NULL THEN
		SELECT a.attname INTO key FROM pg_index i
		JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
		WHERE i.indrelid = relation AND i.indisprimary;
		IF NOT FOUND THEN
			RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
				MESSAGE = format('table "%s" has no primary key to take the shard key from', table_name),
				HINT = 'Name the column: key => ''...''.';
		END IF;
	END IF;
	SELECT a.attgenerated, format_type(a.atttypid, NULL) INTO generated, type FROM pg_attribute a
	WHERE a.attrelid = relation AND a.attname = key AND a.attnum > 0 AND NOT a.attisdropped;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_column',
			MESSAGE = format('column "%s" of table "%s" does not exist', key, table_name);
	END IF;
	IF generated <> '' THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('generated column "%s" cannot be the shard key', key);
	END IF;
	-- looks up the hash function of the type of an element, also for an empty array
	EXECUTE format('SELECT pg_catalog.hash_array_extended(ARRAY[]::%s[], 0)', type);
	RETURN key;
EXCEPTION WHEN undefined_function THEN
	RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
		MESSAGE = format('column "%s" of table "%s" cannot be the shard key', key, table_name),
		DETAIL = format('Type %s has no hash function.', type), HINT = 'Choose a column whose type can be hashed.';
END
$$;
COMMENT ON FUNCTION shardfdw_internal.choose_key(regclass, name) IS
	'Checks that a column of a plain table can be the shard key. Null means the first column of the primary key. Returns the column. Raises undefined_column, invalid_parameter_value or feature_not_supported.';

CREATE FUNCTION shardfdw_internal.key_columns(relation regclass, key name) RETURNS smallint[]
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	p pg_partitioned_table;
	table_name CONSTANT name := (SELECT c.relname FROM pg_class c WHERE c.oid = relation);
BEGIN
	SELECT * INTO p FROM pg_partitioned_table WHERE partrelid = relation;
	IF NOT FOUND THEN
		RETURN ARRAY(SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = key AND a.attnum > 0);
	END IF;
	IF key IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = format('table "%s" is partitioned and has a key already', table_name),
			HINT = 'Leave the key out.';
	END IF;
	IF p.partstrat <> 'h' THEN
		RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
			MESSAGE = format('table "%s" is partitioned by %s', table_name, pg_get_partkeydef(relation)),
			HINT = 'Make its shards one by one with shardfdw.create_shard().';
	END IF;
	RETURN array_remove(p.partattrs::smallint[], 0::smallint);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.key_columns(regclass, name) IS
	'Finds the columns of the shard key. For a table that is partitioned by hash, key must be null and the partition key is used; for other tables column key is used. Returns their numbers, without expressions. Raises invalid_parameter_value or wrong_object_type.';

CREATE FUNCTION shardfdw_internal.successor_of(relation regclass) RETURNS regclass
	LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	successor regclass := relation;
BEGIN
	IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = relation) THEN
		successor := nullif(current_setting('shardfdw_replaced.t' || relation::oid, true), '')::oid::regclass;
		IF successor IS NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'undefined_table', MESSAGE = 'the table that colocate_with names does not exist any more';
		END IF;
	END IF;
	RETURN successor;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.successor_of(regclass) IS
	'Finds the table that shard_table() created in place of another table in this transaction. A statement that shards several tables may have looked up the name of the old table before. Returns that table, the table itself if it still exists, or null for null. Raises undefined_table.';

CREATE FUNCTION shardfdw_internal.hold_shards(relation regclass) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_hold_shards';
COMMENT ON FUNCTION shardfdw_internal.hold_shards(regclass) IS
	'Prevents the shards of a table from being moved until the transaction ends, so that other shards can be colocated with them. Returns nothing. Raises insufficient_privilege for a table that the user can neither read nor write.';

CREATE FUNCTION shardfdw_internal.choose_placement(shards integer, nodes name[], colocate_with regclass) RETURNS name[]
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	placement name[];
	nshards integer;
BEGIN
	IF colocate_with IS NOT NULL THEN
		IF shards IS NOT NULL OR nodes IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
				MESSAGE = 'shards and nodes cannot be given together with colocate_with';
		END IF;
		placement := shardfdw_internal.hash_placement(colocate_with);
		IF placement IS NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
				MESSAGE = format('cannot colocate with "%s", which is not evenly sharded by hash', colocate_with);
		END IF;
		RETURN shardfdw_internal.usable_nodes(placement);
	END IF;

	IF nodes IS NULL THEN
		nodes := shardfdw_internal.accepting_nodes();
	ELSE
		PERFORM shardfdw_internal.check_accepts(shardfdw_internal.usable_nodes(nodes));
	END IF;
	nshards := coalesce(shards, current_setting('shardfdw.default_shards')::integer);
	IF nshards NOT BETWEEN 1 AND 32768 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = 'the number of shards must be between 1 and 32768';
	END IF;
	RETURN ARRAY(SELECT nodes[1 + i % cardinality(nodes)] FROM generate_series(0, nshards - 1) i);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.choose_placement(integer, name[], regclass) IS
	'Chooses the nodes of new shards: those of another table, or the given nodes in turn. Returns a node for each shard, in order. Raises invalid_parameter_value, wrong_object_type, undefined_object or insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.check_colocatable(relation regclass, colocate_with regclass) RETURNS void
	LANGUAGE plpgsql STABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.check_not_at_home(colocate_with, 'colocate with');
	IF shardfdw_internal.key_signature(relation) <> shardfdw_internal.key_signature(colocate_with) THEN
		RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch',
			MESSAGE = format('cannot colocate "%s" with "%s" because their keys differ in type, collation or operator class',
							 (SELECT c.relname FROM pg_class c WHERE c.oid = relation), colocate_with);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_colocatable(regclass, regclass) IS
	'Checks that two partitioned tables map equal keys to shards of the same number. Does nothing if a table is null. Returns nothing. Raises datatype_mismatch.';

CREATE FUNCTION shardfdw_internal.insertable_columns(relation regclass) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
	FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
$$;
COMMENT ON FUNCTION shardfdw_internal.insertable_columns(regclass) IS
	'Lists the columns of a table that are not generated. Returns their quoted names separated by commas, null if there are none.';

CREATE FUNCTION shardfdw_internal.partition_table(relation regclass, key name, successor text DEFAULT NULL) RETURNS regclass
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	partition_by CONSTANT text := format('HASH (%I)', key);
BEGIN
	IF successor IS NULL THEN
		RETURN shardfdw_internal.replace_table(relation, partition_by, format('shardfdw_old_%s', relation::oid));
	END IF;
	PERFORM shardfdw_internal.make_successor(relation, successor, partition_by);
	RETURN successor::regclass;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.partition_table(regclass, name, text) IS
	'Replaces a plain table by a table that is partitioned by hash, see replace_table(), or creates one with the name successor, see make_successor(). Returns the new table.';

CREATE FUNCTION shardfdw_internal.shard_key_commands(relation regclass)
	RETURNS TABLE (prefixes text[], suffixes text[], names name[], kinds text[])
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY
	SELECT array_agg(c.prefix), array_agg(c.suffix), array_agg(c.object_name), array_agg(c.object_kind)
	FROM (SELECT * FROM shardfdw_internal.shard_index_commands(relation)
		  UNION ALL SELECT k.prefix, k.suffix, NULL, NULL FROM shardfdw_internal.reference_key_commands(relation) k) c;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_key_commands(regclass) IS
	'Writes the commands that create the keys, the indexes and the foreign keys to reference tables of a plain table on its shards. Returns one row, the arguments of run_on_new_shards(); nulls if there are none.';

CREATE FUNCTION shardfdw_internal.at_most(number integer, largest integer) RETURNS integer
	LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF number > largest THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('%s is more than %s', number, largest);
	END IF;
	RETURN number;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.at_most(integer, integer) IS
	'Checks a number that an internal function uses as a limit of a loop. Public functions have checked it already. Returns the number. Raises invalid_parameter_value if it is larger than largest.';

CREATE FUNCTION shardfdw_internal.shard_names(table_name name, shards integer) RETURNS name[]
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT array_agg(shardfdw_internal.shard_name(table_name, i, shards) ORDER BY i) FROM generate_series(0, shardfdw_internal.at_most(shards, 65536) - 1) i
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_names(name, integer) IS
	'Returns the names of the shards of a new table, in the order of hash_bounds().';

CREATE FUNCTION shardfdw_internal.free_shard_names(relation regclass, shards integer, shards_in name DEFAULT NULL) RETURNS name[]
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c record;
	base text;
	names name[];
BEGIN
	-- Shards keep their names when their table is renamed, and another table may then get its name.
	SELECT t.relname, t.relnamespace INTO c FROM pg_class t WHERE t.oid = relation;
	FOR n IN 0 .. 1000
	LOOP
		base := c.relname;
		WHILE n > 0 AND octet_length(base || '_' || n) > 63 LOOP
			base := left(base, -1);
		END LOOP;
		names := shardfdw_internal.shard_names(CASE n WHEN 0 THEN base ELSE base || '_' || n END, shards);
		EXIT WHEN NOT EXISTS (SELECT FROM pg_class t JOIN pg_foreign_table f ON f.ftrelid = t.oid
			WHERE (t.relnamespace = c.relnamespace OR t.relnamespace = to_regnamespace(quote_ident(shards_in))) AND t.relname = ANY (names));
	END LOOP;
	RETURN names;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.free_shard_names(regclass, integer, name) IS
	'Returns names for the shards of a table, as shard_names() does. If shards of a renamed table already have these names, adds a number. Checks the table''s schema and the schema of the new shards. Returns the names in the order of hash_bounds().';

CREATE FUNCTION shardfdw_internal.hash_bounds(shards integer) RETURNS text[]
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT array_agg(format('FOR VALUES WITH (MODULUS %s, REMAINDER %s)', shards, i) ORDER BY i) FROM generate_series(0, shardfdw_internal.at_most(shards, 65536) - 1) i
$$;
COMMENT ON FUNCTION shardfdw_internal.hash_bounds(integer) IS
	'Returns a FOR VALUES clause for each shard of a table that is sharded by hash.';

CREATE FUNCTION shardfdw_internal.replace_by_shards(relation regclass, key name, shard_names name[], bounds text[], placement name[],
													colocate_with regclass, table_options text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	-- Write down the whole definition of the old table before the table loses its name.
	commands CONSTANT text[] := ARRAY(SELECT * FROM shardfdw_internal.parent_index_commands(relation, true))
		|| ARRAY(SELECT * FROM shardfdw_internal.successor_commands(relation));
	column_list CONSTANT text := shardfdw_internal.insertable_columns(relation);
	schema_name CONSTANT name := (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation);
	index_first CONSTANT boolean := shardfdw_internal.index_before_rows(relation);
	sets_defaults CONSTANT boolean := EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = relation AND k.contype = 'f' AND 'd' IN (k.confdeltype, k.confupdtype));
	made record;
	views jsonb;
	parent regclass;
	has_rows boolean;
	command text;
BEGIN
	SELECT * INTO made FROM shardfdw_internal.shard_key_commands(relation);
	parent := shardfdw_internal.partition_table(relation, key);
	PERFORM shardfdw_internal.log_sequences(parent);
	PERFORM shardfdw_internal.check_colocatable(parent, colocate_with);

	PERFORM shardfdw_internal.make_shards(parent, shard_names, bounds, placement, table_options, shardfdw_internal.is_unlogged(relation));
	IF index_first THEN
		PERFORM shardfdw_internal.run_on_new_shards(schema_name, shard_names, placement, made.prefixes, made.suffixes, made.names, made.kinds, shard_names);
	END IF;
	PERFORM shardfdw_internal.check_owner_code(relation, 'shard');
	PERFORM shardfdw_internal.check_owner_code_on_nodes(parent, 'shard', schema_name, shard_names, placement);
	EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s)', relation) INTO has_rows;
	IF has_rows THEN
		EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM ONLY %s',
					   parent, column_list, column_list, relation);
	END IF;
	IF NOT index_first THEN
		-- Indexes are built after the rows are loaded, which is faster.
		PERFORM shardfdw_internal.run_on_new_shards(schema_name, shard_names, placement, made.prefixes, made.suffixes, made.names, made.kinds, shard_names);
	END IF;

	IF sets_defaults THEN
		PERFORM shardfdw_internal.set_key_defaults(parent, ARRAY(SELECT s.shard FROM shardfdw_internal.shards_of(parent) s));
	END IF;
	views := shardfdw_internal.drop_replaced_table(relation, parent);
	PERFORM set_config('shardfdw_replaced.t' || relation::oid, parent::oid::text, true);
	FOREACH command IN ARRAY commands
	LOOP
		EXECUTE command;
	END LOOP;
	PERFORM shardfdw_internal.fill_views(views, parent);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.replace_by_shards(regclass, name, name[], text[], name[], regclass, text[]) IS
	'Replaces a plain table that check_shardable() has locked by a sharded table, and moves its rows. Returns nothing. Raises errors of nodes, datatype_mismatch, and insufficient_privilege for code of the table''s owner.';

CREATE FUNCTION shardfdw_internal.check_conversion_mode(relation regclass, mode text, wait boolean) RETURNS void
	LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF relation IS NULL OR mode IS NULL OR wait IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'relation, mode and wait must not be null';
	END IF;
	IF mode NOT IN ('auto', 'online', 'block') THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('invalid mode "%s"', mode), HINT = 'Valid modes are "auto", "online" and "block".';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_conversion_mode(regclass, text, boolean) IS
	'Checks the arguments that shard_table() and unshard_table() share. Returns nothing. Raises null_value_not_allowed and invalid_parameter_value.';

CREATE FUNCTION shardfdw_internal.choose_conversion_mode(relation regclass, obstacle text, check_command text) RETURNS text
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	in_transaction CONSTANT boolean := NOT shardfdw_internal.is_alone() OR shardfdw_internal.in_remote_transaction() OR pg_current_xact_id_if_assigned() IS NOT NULL;
	size_bytes bigint;
BEGIN
	IF NOT shardfdw_internal.is_sharded(relation) THEN
		size_bytes := pg_table_size(relation);
	ELSIF NOT in_transaction THEN
		-- Outside of this transaction, which would keep locks that the job waits for, and may have locks for which this would wait.
		BEGIN
			SELECT sum((q.fields)[1]::bigint) INTO size_bytes
			FROM (SELECT array_agg(s.node) AS nodes, array_agg(format('SELECT pg_catalog.pg_table_size(pg_catalog.to_regclass(%L))', s.remote_name)) AS commands
				  FROM shardfdw_internal.shards_of(relation) s) x
			CROSS JOIN LATERAL shardfdw_internal.run_commands(x.nodes, x.commands, 'autocommit') q;
		EXCEPTION WHEN OTHERS THEN
			-- Mode block reports its own obstacles.
			RETURN 'block';
		END;
	END IF;
	-- A small table is not worth a job.
	IF coalesce(size_bytes, 0) < 64 * 1024 * 1024 THEN
		RETURN 'block';
	END IF;
	IF in_transaction THEN
		obstacle := 'A transaction could not undo the other mode.';
	ELSIF EXISTS (SELECT FROM pg_publication WHERE puballtables)
		OR EXISTS (SELECT FROM pg_publication_namespace n JOIN pg_class c ON c.relnamespace = n.pnnspid WHERE c.oid = relation) THEN
		obstacle := 'A publication of all tables or of the schema would send the rows of a temporary table.';
	ELSIF obstacle IS NULL THEN
		BEGIN
			EXECUTE check_command;
		EXCEPTION WHEN OTHERS THEN
			obstacle := SQLERRM;
		END;
	END IF;
	RAISE NOTICE USING MESSAGE = format('mode "%s" was chosen for table "%s"', CASE WHEN obstacle IS NULL THEN 'online' ELSE 'block' END, (SELECT relname FROM pg_class WHERE oid = relation)),
		DETAIL = coalesce('Other sessions that use the table wait. Mode "online" is not possible: ' || obstacle, 'Other sessions go on to read and write the table.');
	RETURN CASE WHEN obstacle IS NULL THEN 'online' ELSE 'block' END;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.choose_conversion_mode(regclass, text, text) IS
	'Chooses the mode in place of auto: online if the table is large, the mode is possible, and the call is the whole statement and transaction. obstacle: why online is not possible; null if the caller knows no reason. check_command: raises an error for other reasons. Returns online or block. Reports the mode of a large table in a NOTICE.';

CREATE FUNCTION shardfdw.shard_table(relation regclass, key name DEFAULT NULL, shards integer DEFAULT NULL, nodes name[] DEFAULT NULL,
									 colocate_with regclass DEFAULT NULL, mode text DEFAULT 'auto', wait boolean DEFAULT true, shards_in name DEFAULT NULL, replication_factor integer DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET extra_float_digits = 3 SET jit = off SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	is_partitioned boolean;
	table_name name;
	table_options text[];
	key_columns smallint[];
	placement name[];
	shard_names name[];
	bounds text[];
	-- for each shard, the nodes that get replicas
	placed text[];
BEGIN
	PERFORM shardfdw_internal.check_isolation('shard_table');
	PERFORM shardfdw_internal.check_conversion_mode(relation, mode, wait);
	replication_factor := shardfdw_internal.check_replication_factor(replication_factor, relation, colocate_with, mode);
	IF mode = 'auto' THEN
		mode := shardfdw_internal.choose_conversion_mode(relation,
			CASE WHEN shards_in IS NOT NULL THEN 'shards_in is given.' WHEN replication_factor > 1 THEN 'The shards get replicas.'
				WHEN shardfdw_internal.peers() <> '{}' THEN 'There are several coordinators.' END,
			format('SELECT shardfdw_internal.check_conversion(%L, %L, %L)', relation::oid, key, colocate_with::oid));
	END IF;
	IF mode = 'online' THEN
		IF shards_in IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'shards_in cannot be given together with mode "online"',
				HINT = format('Leave it out. When the table is sharded: SELECT shardfdw.set_shards_schema(%L, %L).', relation, quote_ident(shards_in));
		END IF;
		PERFORM shardfdw_internal.check_no_peers(format('table %s online', relation), 'shard');
		RETURN shardfdw_internal.shard_online(relation, key, shards, nodes, colocate_with, wait);
	END IF;
	PERFORM shardfdw_internal.check_shardable(relation, true);
	SELECT c.relname, c.relkind = 'p' INTO table_name, is_partitioned FROM pg_class c WHERE c.oid = relation;
	EXECUTE shardfdw_internal.storage_options_query(relation::text) INTO table_options;

	IF NOT is_partitioned THEN
		key := shardfdw_internal.choose_key(relation, key);
		PERFORM shardfdw_internal.check_empty_on_peers(relation, 'shard');
	END IF;
	key_columns := shardfdw_internal.key_columns(relation, key);
	PERFORM shardfdw_internal.check_key(relation, key_columns);

	IF replication_factor > 1 THEN
		PERFORM shardfdw_internal.take_replicas_turn(ARRAY[relation], true);
	END IF;
	colocate_with := shardfdw_internal.successor_of(colocate_with);
	PERFORM shardfdw_internal.hold_shards(colocate_with);
	placement := shardfdw_internal.choose_placement(shards, nodes, colocate_with);
	IF replication_factor > 1 THEN
		PERFORM shardfdw_internal.check_shard_replicable(relation);
		placed := shardfdw_internal.choose_replicas(placement, nodes, replication_factor, colocate_with);
	END IF;
	PERFORM shardfdw_internal.prepare_nodes(relation, 'shard', placement);
	-- A lock of the table does not prevent new constraints on its domains.
	PERFORM shardfdw_internal.check_owner_code(relation, 'shard');
	shard_names := shardfdw_internal.free_shard_names(relation, cardinality(placement), shards_in);
	bounds := shardfdw_internal.hash_bounds(cardinality(placement));

	IF is_partitioned THEN
		PERFORM shardfdw_internal.check_colocatable(relation, colocate_with);
		PERFORM shardfdw_internal.log_sequences(relation);
		PERFORM shardfdw_internal.make_shards(relation, shard_names, bounds, placement, table_options, shardfdw_internal.is_unlogged(relation));
		PERFORM shardfdw_internal.index_shards(relation, shard_names, placement);
		PERFORM shardfdw_internal.follow_siblings(relation, ARRAY(SELECT i.inhrelid::regclass FROM pg_inherits i WHERE i.inhparent = relation));
	ELSE
		PERFORM shardfdw_internal.replace_by_shards(relation, key, shard_names, bounds, placement, colocate_with, table_options);
		relation := shardfdw_internal.successor_of(relation);
		PERFORM shardfdw_internal.grant_on_nodes(ARRAY[relation]);
	END IF;
	IF shards_in IS NOT NULL THEN
		PERFORM shardfdw.set_shards_schema(relation, shards_in);
	END IF;
	IF placed IS NOT NULL THEN
		PERFORM shardfdw_internal.make_replicas(relation, placed);
	END IF;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION shardfdw.shard_table(regclass, name, integer, name[], regclass, text, boolean, name, integer) IS
	'Turns a plain table into a sharded table and moves its rows, or creates the shards of an empty table that is partitioned by HASH. key: the column that rows are sharded by; null for the first column of the primary key. shards: number of shards; null for shardfdw.default_shards. nodes: nodes that get the shards in turn; null for all nodes. colocate_with: a table whose number of shards and nodes are used. mode: block runs in this transaction and locks the table; online runs in a background process while other sessions read and write the table. Mode auto is online for a table of 64 MB or more if that is possible and the call is the whole statement and transaction. Otherwise it is block. wait: for online, true returns when the table is sharded, false returns immediately. shards_in: schema of the shards, see set_shards_schema(); null for the schema of the table. replication_factor: on how many nodes each shard is stored; null for the number of colocate_with, or 1. Returns the number of the job, null for block. Raises an error before anything changes if something of the table cannot be kept.';
