-- From a table to shards.

CREATE FUNCTION shardfdw.shard_table(relation regclass, key name DEFAULT NULL, shards integer DEFAULT NULL,
									 nodes name[] DEFAULT NULL, colocate_with regclass DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	relation_text text;
	table_name name;
	kind "char";
	table_options text[];
	key_columns smallint[];
	key_text text;
	placement name[];
	shard_names name[];
	bounds text[];
	nshards integer;
	old_name name;
	parent regclass;
	index_commands text[];
	commands text[];
	command text;
	shard_prefixes text[];
	shard_suffixes text[];
	object_names name[];
	object_kinds text[];
	schema_name name;
	is_indexed boolean;
	has_rows boolean;
	column_list text;
BEGIN
	PERFORM shardfdw_internal.check_isolation('shard_table');
	IF relation IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'relation must not be null';
	END IF;
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
	-- the catalogs are read for good only under the lock; who may not take it learns so here
	IF kind IN ('r', 'p') THEN
		PERFORM shardfdw_internal.lock_schemas(relation);
		EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', relation);
	END IF;
	IF shardfdw_internal.is_reference(relation) THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('table "%s" is a reference table', table_name),
			HINT = format('Make it a plain table first: SELECT shardfdw.unshard_table(%L).', relation);
	END IF;
	PERFORM shardfdw_internal.check_replaceable(relation, 'shard');
	PERFORM shardfdw_internal.check_owner_code(relation, 'shard');
	relation_text := relation::text;
	EXECUTE shardfdw_internal.storage_options_query(relation_text) INTO table_options;

	-- the shard key
	IF kind = 'p' THEN
		IF key IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
				MESSAGE = format('table "%s" is partitioned and has a key already', table_name),
				HINT = 'Leave the key out.';
		END IF;
		SELECT p.partattrs::smallint[], pg_get_partkeydef(relation) INTO key_columns, key_text
		FROM pg_partitioned_table p WHERE p.partrelid = relation;
		IF (SELECT p.partstrat FROM pg_partitioned_table p WHERE p.partrelid = relation) <> 'h' THEN
			RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
				MESSAGE = format('table "%s" is partitioned by %s', table_name, key_text),
				HINT = 'Make its shards one by one with shardfdw.create_shard().';
		END IF;
		key_columns := array_remove(key_columns, 0::smallint);
	ELSE
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
		SELECT ARRAY[a.attnum] INTO key_columns FROM pg_attribute a
		WHERE a.attrelid = relation AND a.attname = key AND a.attnum > 0 AND NOT a.attisdropped;
		IF NOT FOUND THEN
			RAISE EXCEPTION USING ERRCODE = 'undefined_column',
				MESSAGE = format('column "%s" of table "%s" does not exist', key, table_name);
		END IF;
		IF (SELECT a.attgenerated FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum = key_columns[1]) <> '' THEN
			RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
				MESSAGE = format('generated column "%s" cannot be the shard key', key);
		END IF;
		key_text := format('HASH (%I)', key);
	END IF;
	PERFORM shardfdw_internal.check_unique_keys(relation, key_columns);
	PERFORM shardfdw_internal.check_hash_key(relation, key_columns);

	-- where the shards go
	IF colocate_with IS NOT NULL THEN
		IF shards IS NOT NULL OR nodes IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
				MESSAGE = 'shards and nodes cannot be given together with colocate_with';
		END IF;
		-- a statement that also shards that table has looked its name up before
		IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = colocate_with) THEN
			colocate_with := nullif(current_setting('shardfdw_replaced.t' || colocate_with::oid, true), '')::oid::regclass;
			IF colocate_with IS NULL THEN
				RAISE EXCEPTION USING ERRCODE = 'undefined_table', MESSAGE = 'the table that colocate_with names does not exist any more';
			END IF;
		END IF;
		placement := shardfdw_internal.hash_placement(colocate_with);
		IF placement IS NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'wrong_object_type',
				MESSAGE = format('cannot colocate with "%s", which is not evenly sharded by hash', colocate_with);
		END IF;
		PERFORM shardfdw_internal.usable_nodes(placement);
		nshards := cardinality(placement);
	ELSE
		nodes := shardfdw_internal.usable_nodes(nodes);
		nshards := coalesce(shards, current_setting('shardfdw.default_shards')::integer);
		IF nshards NOT BETWEEN 1 AND 32768 THEN
			RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
				MESSAGE = 'the number of shards must be between 1 and 32768';
		END IF;
		placement := ARRAY(SELECT nodes[1 + i % cardinality(nodes)] FROM generate_series(0, nshards - 1) i);
	END IF;
	PERFORM shardfdw_internal.make_objects_on_nodes(relation, placement);
	-- no lock of the table keeps constraints of its domains from being added
	PERFORM shardfdw_internal.check_owner_code(relation, 'shard');
	SELECT array_agg(shardfdw_internal.shard_name(table_name, i, nshards) ORDER BY i),
		array_agg(format('FOR VALUES WITH (MODULUS %s, REMAINDER %s)', nshards, i) ORDER BY i)
	INTO shard_names, bounds FROM generate_series(0, nshards - 1) i;

	IF kind = 'p' THEN
		IF colocate_with IS NOT NULL AND shardfdw_internal.key_signature(relation) <> shardfdw_internal.key_signature(colocate_with) THEN
			RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch',
				MESSAGE = format('cannot colocate "%s" with "%s" because their keys differ in type, collation or operator class', table_name, colocate_with);
		END IF;
		PERFORM shardfdw_internal.make_shards(relation, shard_names, bounds, placement, table_options);
		PERFORM shardfdw_internal.index_shards(relation, shard_names, placement);
		RETURN;
	END IF;

	-- Everything about the old table is written down before it loses its name.
	index_commands := ARRAY(SELECT * FROM shardfdw_internal.parent_index_commands(relation, true));
	commands := ARRAY(SELECT * FROM shardfdw_internal.successor_commands(relation));
	SELECT array_agg(c.prefix), array_agg(c.suffix), array_agg(c.object_name), array_agg(c.object_kind)
	INTO shard_prefixes, shard_suffixes, object_names, object_kinds
	FROM (SELECT * FROM shardfdw_internal.shard_index_commands(relation) UNION ALL SELECT k.prefix, k.suffix, NULL, NULL FROM shardfdw_internal.reference_key_commands(relation) k) c;
	SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO column_list
	FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '';

	old_name := format('shardfdw_old_%s', relation::oid);
	BEGIN
		parent := shardfdw_internal.replace_table(relation, key_text, old_name);
	EXCEPTION WHEN undefined_object THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('column "%s" of table "%s" cannot be the shard key', key, table_name),
			DETAIL = SQLERRM, HINT = 'Choose a column whose type can be hashed.';
	END;
	IF colocate_with IS NOT NULL AND shardfdw_internal.key_signature(parent) <> shardfdw_internal.key_signature(colocate_with) THEN
		RAISE EXCEPTION USING ERRCODE = 'datatype_mismatch',
			MESSAGE = format('cannot colocate "%s" with "%s" because their keys differ in type, collation or operator class', table_name, colocate_with);
	END IF;

	SELECT n.nspname INTO schema_name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = parent;
	PERFORM shardfdw_internal.make_shards(parent, shard_names, bounds, placement, table_options);
	is_indexed := shardfdw_internal.index_before_rows(relation);
	IF is_indexed THEN
		PERFORM shardfdw_internal.run_on_new_shards(schema_name, shard_names, placement, shard_prefixes, shard_suffixes, object_names, object_kinds, shard_names);
	END IF;
	PERFORM shardfdw_internal.check_owner_code(relation, 'shard');
	PERFORM shardfdw_internal.check_owner_code_on_nodes(parent, 'shard', schema_name, shard_names, placement);
	EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s)', relation) INTO has_rows;
	IF has_rows THEN
		EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM ONLY %s',
					   parent, column_list, column_list, relation);
	END IF;
	IF NOT is_indexed THEN
		-- faster to make over the rows than to keep up while they come
		PERFORM shardfdw_internal.run_on_new_shards(schema_name, shard_names, placement, shard_prefixes, shard_suffixes, object_names, object_kinds, shard_names);
	END IF;

	PERFORM shardfdw_internal.drop_replaced_table(relation, parent);
	PERFORM set_config('shardfdw_replaced.t' || relation::oid, parent::oid::text, true);
	FOREACH command IN ARRAY index_commands || commands
	LOOP
		EXECUTE command;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw.shard_table(regclass, name, integer, name[], regclass) IS
	'Makes a sharded table of a plain one, moving its rows, or gives an empty table partitioned by HASH its shards. key: a column, by default the first of the primary key; shards: how many, by default shardfdw.default_shards; nodes: where, in turn, by default on all; colocate_with: as many and on the same nodes as that table. Part of the transaction; raises, before anything changes, what cannot be kept.';
