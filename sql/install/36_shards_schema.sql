-- The schema of the shards of a table.

CREATE FUNCTION shardfdw_internal.shards_schema(parent regclass) RETURNS name
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT n.nspname FROM pg_class p
	LEFT JOIN LATERAL (SELECT c.relnamespace FROM shardfdw_internal.shards_of(p.oid) s JOIN pg_class c ON c.oid = s.shard LIMIT 1) s ON true
	JOIN pg_namespace n ON n.oid = coalesce(s.relnamespace, p.relnamespace) WHERE p.oid = parent
$$;
COMMENT ON FUNCTION shardfdw_internal.shards_schema(regclass) IS
	'Finds the schema for a new shard of a table: the schema of the first shard, or of the table itself. Returns its name.';

CREATE FUNCTION shardfdw.set_shards_schema(relation regclass, schema name) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = on
AS $$
#variable_conflict use_variable
DECLARE
	other record;
	shard text;
BEGIN
	PERFORM shardfdw_internal.check_isolation('set_shards_schema');
	PERFORM shardfdw_internal.check_no_replicas(relation, 'move the shards of');
	IF relation IS NULL OR schema IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'relation and schema must not be null';
	END IF;
	PERFORM shardfdw_internal.check_not_at_home(relation, 'move the shards of');
	IF NOT EXISTS (SELECT FROM pg_partition_tree(relation) t JOIN shardfdw.shards s ON s.shard = t.relid) THEN
		PERFORM shardfdw_internal.raise_other_kind(relation, 'sharded table');
	END IF;
	SELECT c.relname, c.relowner INTO other FROM pg_class c WHERE c.oid = relation;
	IF NOT pg_has_role(other.relowner, 'USAGE') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('must be owner of table %s', other.relname);
	END IF;
	IF shardfdw_internal.peers() <> '{}' THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = 'shards cannot be moved to another schema while there are several coordinators',
			HINT = 'Remove the others first, with shardfdw.remove_coordinator().';
	END IF;
	PERFORM shardfdw_internal.lock_table(relation, 'ACCESS EXCLUSIVE');
	IF to_regnamespace(quote_ident(schema)) IS NULL THEN
		EXECUTE format('CREATE SCHEMA %I', schema);
		EXECUTE shardfdw_internal.revoke_command(quote_ident(schema), 'SCHEMA');
		-- access is controlled by the privileges on the tables
		EXECUTE format('GRANT USAGE ON SCHEMA %I TO PUBLIC', schema);
	END IF;
	-- Indexes in two schemas may have the same name, and then those of their shards too.
	SELECT c.relname, n.nspname INTO other FROM pg_class s JOIN pg_inherits i ON i.inhrelid = s.oid JOIN pg_class c ON c.oid = i.inhparent
	JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE s.relnamespace = to_regnamespace(quote_ident(schema)) AND s.relkind = 'f' AND n.nspname <> schema
		AND c.relnamespace <> (SELECT t.relnamespace FROM pg_class t WHERE t.oid = relation)
	ORDER BY n.nspname::text COLLATE "C", c.relname::text COLLATE "C" LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('schema %I has the shards of table %I.%I', schema, other.nspname, other.relname),
			DETAIL = 'Tables and indexes of two schemas may have the same names.', HINT = 'Choose a schema for the shards of each schema.';
	END IF;
	FOR shard IN SELECT format('%I.%I', n.nspname, c.relname) FROM pg_partition_tree(relation) t JOIN shardfdw.shards s ON s.shard = t.relid
		JOIN pg_class c ON c.oid = t.relid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname <> schema ORDER BY c.relname::text COLLATE "C"
	LOOP
		EXECUTE format('ALTER FOREIGN TABLE %s SET SCHEMA %I', shard, schema);
	END LOOP;
	PERFORM shardfdw_internal.grant_on_nodes(ARRAY[relation]);
END
$$;
COMMENT ON FUNCTION shardfdw.set_shards_schema(regclass, name) IS
	'Moves the shards of a table to a schema, here and on their nodes. Later shards of the table are created in that schema. If the schema does not exist, it is created with USAGE for PUBLIC. Returns nothing. Raises wrong_object_type for a table that is not sharded, object_not_in_prerequisite_state for a schema with shards of tables from another schema, and the errors of ALTER FOREIGN TABLE ... SET SCHEMA.';
