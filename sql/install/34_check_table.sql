-- Shows what prevents a table from being sharded, before anything is changed.

CREATE FUNCTION shardfdw_internal.table_warnings(relation regclass, key_columns smallint[])
	RETURNS TABLE (condition text, message text, detail text, hint text)
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	t CONSTANT pg_class := (SELECT c FROM pg_class c WHERE c.oid = relation);
	shards CONSTANT integer := current_setting('shardfdw.default_shards');
BEGIN
	RETURN QUERY SELECT o.* FROM (SELECT a.attname, s.null_frac, coalesce(s.most_common_freqs[1], 0) AS largest,
			round(CASE WHEN s.n_distinct < 0 THEN -s.n_distinct * greatest(t.reltuples, 0) ELSE s.n_distinct END) AS nvalues
		FROM pg_attribute a JOIN pg_stats s ON s.schemaname = t.relnamespace::regnamespace::name AND s.tablename = t.relname AND s.attname = a.attname AND NOT s.inherited
		WHERE a.attrelid = relation AND a.attnum = key_columns[1] AND cardinality(key_columns) = 1) k
	CROSS JOIN LATERAL (
		SELECT * FROM shardfdw_internal.obstacle('warning',
			format('column "%s" has about %s different values', k.attname, k.nvalues),
			format('Rows with the same value are in the same shard, so some of %s shards would have no rows or few.', shards),
			'Choose a column with more values.')
		WHERE k.nvalues < 10 * shards AND t.reltuples >= 10 * shards
		UNION ALL SELECT * FROM shardfdw_internal.obstacle('warning',
			format('%s percent of the rows have the same value in column "%s"', round((100 * k.largest)::numeric), k.attname),
			'These rows are all in one shard.', 'Choose a column with other values.')
		WHERE k.largest > 2.0 / shards
		UNION ALL SELECT * FROM shardfdw_internal.obstacle('warning',
			format('%s percent of the rows have null in column "%s"', round((100 * k.null_frac)::numeric), k.attname),
			'These rows are all in one shard.', 'Choose a column without nulls.')
		WHERE k.null_frac > 2.0 / shards) o;

	RETURN QUERY SELECT o.* FROM pg_trigger g
	CROSS JOIN LATERAL shardfdw_internal.obstacle('warning', format('trigger "%s" runs on the coordinator', g.tgname),
		'Statements that fire it change row after row, and the nodes do not run them as a whole.',
		'Leave it if few statements fire it. Else replace it by a default, a generated column or a constraint.') o
	WHERE g.tgrelid = relation AND NOT g.tgisinternal AND g.tgtype & 1 = 1 AND g.tgconstraint = 0 AND g.tgoldtable IS NULL AND g.tgnewtable IS NULL
	ORDER BY g.tgname::text COLLATE "C";

	RETURN QUERY SELECT o.* FROM shardfdw_internal.obstacle('warning', format('table "%s" has row security', t.relname),
		'The coordinator applies the policies. Nodes do not run statements of roles with policies as a whole, and MERGE by these roles is refused.',
		'A view with a condition is faster, if it is not a security_barrier view.') o
	WHERE t.relrowsecurity;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.table_warnings(regclass, smallint[]) IS
	'Finds what would make a sharded table slow: row triggers, row security, and a key with few values, frequent values or nulls. The values are those of the statistics of ANALYZE. key_columns: columns of the shard key. Returns a row of obstacle() for each.';

CREATE FUNCTION shardfdw_internal.shard_obstacles(relation regclass)
	RETURNS TABLE (condition text, message text, detail text, hint text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH d(shards) AS (SELECT current_setting('shardfdw.default_shards')::integer),
	node(name, number) AS (
		SELECT n, row_number() OVER () FROM unnest(shardfdw_internal.granted_nodes()) WITH ORDINALITY x(n, o)
		WHERE coalesce(shardfdw_internal.node_option(n, 'accepts_shards')::boolean, true) ORDER BY o
	)
	(SELECT o.* FROM pg_class c CROSS JOIN d
	CROSS JOIN LATERAL unnest(shardfdw_internal.free_shard_names(relation, d.shards)) s(name)
	CROSS JOIN LATERAL (SELECT 'relation', 'duplicate_table' FROM pg_class x WHERE x.relnamespace = c.relnamespace AND x.relname = s.name
		UNION ALL SELECT 'type', 'duplicate_object' FROM pg_type t WHERE t.typnamespace = c.relnamespace AND t.typname = s.name AND t.typrelid = 0 AND t.typelem = 0) x(kind, condition)
	CROSS JOIN LATERAL shardfdw_internal.obstacle(x.condition, format('%s "%s" already exists', x.kind, s.name),
		'A shard would have this name.', 'Rename it, or choose another number of shards.') o
	WHERE c.oid = relation ORDER BY s.name::text COLLATE "C")
	UNION ALL
	(SELECT o.* FROM node n CROSS JOIN d
	CROSS JOIN LATERAL shardfdw_internal.obstacle('undefined_object', format('user mapping not found for user "%s" on node "%s"', CURRENT_USER, n.name), NULL,
		format('Create one with CREATE USER MAPPING FOR %I SERVER %I; shardfdw.add_user() does so for all nodes.', CURRENT_USER, n.name)) o
	WHERE n.number <= d.shards AND NOT EXISTS (SELECT FROM pg_user_mappings u WHERE u.srvname = n.name AND (u.umuser = 0 OR u.usename = CURRENT_USER))
	ORDER BY n.number)
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_obstacles(regclass) IS
	'Finds what prevents the default number of shards of a table from being created on all nodes: names that are taken, and nodes for which the caller has no user mapping. Returns a row of obstacle() for each.';

CREATE FUNCTION shardfdw.check_table(relation regclass, key name DEFAULT NULL)
	RETURNS TABLE (severity text, message text, detail text, hint text)
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	key_columns smallint[];
	is_kind boolean := false;
BEGIN
	IF relation IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'relation must not be null';
	END IF;
	severity := 'error';
	BEGIN
		PERFORM shardfdw_internal.check_shardable_kind(relation, false);
		is_kind := true;
		-- The first column of the primary key is only a default, so a table without one is no error of the caller.
		key_columns := shardfdw_internal.key_columns(relation, CASE WHEN NOT EXISTS (SELECT FROM pg_partitioned_table p WHERE p.partrelid = relation)
			THEN shardfdw_internal.choose_key(relation, check_table.key) ELSE check_table.key END);
	EXCEPTION WHEN feature_not_supported OR object_not_in_prerequisite_state OR object_in_use OR invalid_parameter_value OR wrong_object_type THEN
		GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
		detail := nullif(detail, '');
		hint := nullif(hint, '');
		RETURN NEXT;
	END;
	IF NOT is_kind THEN
		RETURN;
	END IF;
	RETURN QUERY SELECT CASE o.condition WHEN 'warning' THEN 'warning' ELSE 'error' END, o.message, o.detail, o.hint FROM (
		SELECT * FROM shardfdw_internal.constraint_obstacles(relation, 'shard')
		UNION ALL SELECT * FROM shardfdw_internal.dependent_obstacles(relation, 'shard')
		UNION ALL SELECT * FROM shardfdw_internal.key_obstacles(relation, key_columns) WHERE key_columns IS NOT NULL
		UNION ALL SELECT * FROM shardfdw_internal.shard_obstacles(relation)
		UNION ALL SELECT * FROM shardfdw_internal.table_warnings(relation, key_columns)) o;
	BEGIN
		PERFORM shardfdw_internal.check_owner_code(relation, 'shard');
	EXCEPTION WHEN insufficient_privilege THEN
		GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
		detail := nullif(detail, '');
		hint := nullif(hint, '');
		RETURN NEXT;
	END;
END
$$;
COMMENT ON FUNCTION shardfdw.check_table(regclass, name) IS
	'Shows what prevents shard_table() from sharding a table, and what would be slow afterwards. Changes nothing and asks no node. key: the intended shard key; null for the first column of the primary key. Returns a row for each obstacle: severity is error if shard_table() would refuse the table, else warning; message, detail and hint are those of shard_table(). Returns no row if nothing is in the way. Raises an error if the table belongs to another role, or has no such column.';
