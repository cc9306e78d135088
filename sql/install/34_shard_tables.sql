-- Shards tables that are connected by foreign keys, in one call.

CREATE FUNCTION shardfdw_internal.key_beside_others(relation regclass, relations regclass[], key name) RETURNS name
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	-- the columns that columns of this name refer to
	found CONSTANT name[] := ARRAY(
		SELECT DISTINCT f.attname FROM pg_constraint k
		CROSS JOIN LATERAL unnest(k.conkey, k.confkey) u(attnum, fattnum)
		JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum AND a.attname = key
		JOIN pg_attribute f ON f.attrelid = k.confrelid AND f.attnum = u.fattnum
		WHERE k.contype = 'f' AND k.confrelid = relation AND k.conrelid <> relation AND k.conrelid = ANY (relations));
BEGIN
	IF cardinality(found) = 1 THEN
		RETURN found[1];
	END IF;
	IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = key AND a.attnum > 0 AND NOT a.attisdropped) THEN
		RETURN key;
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'undefined_column',
		MESSAGE = format('column "%s" of table "%s" does not exist', key, (SELECT c.relname FROM pg_class c WHERE c.oid = relation)),
		DETAIL = CASE WHEN found = '{}' THEN 'Nor is there a foreign key by which that column of another one of the tables refers to it.'
			ELSE format('Foreign keys by which that column of others refers to it name several: %s.', array_to_string(found, ', ')) END,
		HINT = 'Shard it by itself, with colocate_with.';
END
$$;
COMMENT ON FUNCTION shardfdw_internal.key_beside_others(regclass, regclass[], name) IS
	'Finds the shard key of one of several tables: the column that the key columns of other tables refer to by foreign keys, or the column of that name. Returns its name. Raises undefined_column.';

CREATE FUNCTION shardfdw_internal.check_key_between(constraint_oid oid, from_key name, to_key name) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	k pg_constraint;
	reason text;
BEGIN
	SELECT * INTO k FROM pg_constraint c WHERE c.oid = constraint_oid;
	IF NOT EXISTS (SELECT FROM unnest(k.conkey, k.confkey) u(attnum, fattnum)
			JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum AND a.attname = from_key
			JOIN pg_attribute f ON f.attrelid = k.confrelid AND f.attnum = u.fattnum AND f.attname = to_key) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('cannot shard table "%s" because foreign key "%s" to "%s" does not pair the shard keys',
				(SELECT c.relname FROM pg_class c WHERE c.oid = k.conrelid), k.conname, (SELECT c.relname FROM pg_class c WHERE c.oid = k.confrelid)),
			DETAIL = 'A foreign key cannot be checked across nodes.',
			HINT = format('Make it again with both: FOREIGN KEY (%I, ...) REFERENCES %s (%I, ...).', from_key, k.confrelid::regclass, to_key);
	END IF;
	reason := CASE WHEN k.confupdtype IN ('n', 'd')
			OR k.confdeltype IN ('n', 'd') AND (SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = k.conrelid AND a.attname = from_key) = ANY (coalesce(k.confdelsetcols, k.conkey))
			THEN 'would set the shard key' END;
	IF reason IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('cannot shard table "%s" because foreign key "%s" %s', (SELECT c.relname FROM pg_class c WHERE c.oid = k.conrelid), k.conname, reason),
			HINT = 'Make it again without that action, or with the columns that are to become null: ON DELETE SET NULL (column).';
	END IF;
	PERFORM shardfdw_internal.check_key_default(constraint_oid, format('shard table "%s"', (SELECT c.relname FROM pg_class c WHERE c.oid = k.conrelid)));
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_key_between(oid, name, name) IS
	'Checks that a foreign key between two tables can be a foreign key between their shards, given both shard keys. Returns nothing. Raises feature_not_supported.';

CREATE FUNCTION shardfdw.shard_tables(relations regclass[], key name, shards integer DEFAULT NULL, nodes name[] DEFAULT NULL,
									  colocate_with regclass DEFAULT NULL, shards_in name DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET extra_float_digits = 3 SET jit = off SET shardfdw.enable_ddl_propagation = on
AS $$
#variable_conflict use_variable
DECLARE
	relation regclass;
	keys name[] := '{}';
	-- Names, because shard_table() replaces these tables by others.
	names CONSTANT text[] := relations::text[];
	drops text[];
	definitions text[];
	command text;
BEGIN
	PERFORM shardfdw_internal.check_isolation('shard_tables');
	IF relations IS NULL OR array_position(relations, NULL) IS NOT NULL OR key IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'relations and key must not be null';
	END IF;
	IF cardinality(relations) = 0 OR cardinality(relations) <> (SELECT count(DISTINCT r) FROM unnest(relations) r) THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'relations must name at least one table, and none twice';
	END IF;
	-- in a fixed order, so that two calls do not deadlock
	FOR relation IN SELECT r FROM unnest(relations) r ORDER BY r::oid
	LOOP
		PERFORM shardfdw_internal.check_replaceable_kind(relation, 'shard');
		PERFORM shardfdw_internal.lock_schemas(relation);
		PERFORM shardfdw_internal.lock_with_views(relation);
	END LOOP;

	FOREACH relation IN ARRAY relations
	LOOP
		keys := keys || shardfdw_internal.key_beside_others(relation, relations, key);
	END LOOP;
	SELECT array_agg(format('ALTER TABLE %s DROP CONSTRAINT %I', k.conrelid::regclass, k.conname)),
		array_agg(format('ALTER TABLE %s ADD CONSTRAINT %I %s', k.conrelid::regclass, k.conname, pg_get_constraintdef(k.oid)) ORDER BY k.conname::text COLLATE "C")
	INTO drops, definitions
	FROM pg_constraint k
	CROSS JOIN LATERAL shardfdw_internal.check_key_between(k.oid, keys[array_position(relations, k.conrelid::regclass)], keys[array_position(relations, k.confrelid::regclass)])
	WHERE k.contype = 'f' AND k.conrelid = ANY (relations) AND k.confrelid = ANY (relations);
	FOREACH command IN ARRAY coalesce(drops, '{}')
	LOOP
		EXECUTE command;
	END LOOP;

	FOR i IN 1 .. cardinality(names)
	LOOP
		IF i = 1 THEN
			PERFORM shardfdw.shard_table(names[1]::regclass, keys[1], shards, nodes, colocate_with, mode => 'block', shards_in => shards_in);
		ELSE
			PERFORM shardfdw.shard_table(names[i]::regclass, keys[i], colocate_with => names[1]::regclass, mode => 'block', shards_in => shards_in);
		END IF;
	END LOOP;
	FOREACH command IN ARRAY coalesce(definitions, '{}')
	LOOP
		EXECUTE command;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw.shard_tables(regclass[], name, integer, name[], regclass, name) IS
	'Shards several plain tables in one transaction, colocates them, and creates the foreign keys between them again on their shards. key: name of the shard key column. If other tables refer to a table with such a column, that table is sharded by the referenced column. shards, nodes, colocate_with, shards_in: as for shard_table(). Returns nothing. Raises the errors of shard_table() before any rows are moved, undefined_column, and feature_not_supported for a foreign key that does not pair the shard keys.';
