-- Schemas whose tables are all on one node, each table as a single shard.

CREATE FUNCTION shardfdw_internal.home_of(schema regnamespace) RETURNS TABLE (relation regclass, shard regclass, node name)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT c.oid::regclass, s.shard, s.node
	FROM pg_class c CROSS JOIN LATERAL shardfdw_internal.shards_of(c.oid) s
	WHERE c.relnamespace = schema AND c.relname = 'shardfdw_home' AND c.relkind = 'p'
$$;
COMMENT ON FUNCTION shardfdw_internal.home_of(regnamespace) IS
	'Finds the table that records the node of a sharded schema, its shard, and the node. Returns no row for other schemas.';

CREATE FUNCTION shardfdw_internal.home_key(relation regclass) RETURNS name
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	key name;
BEGIN
	WITH RECURSIVE base AS (
		SELECT a.attnum, a.attname, t.oid, t.typtype, t.typbasetype, t.typlen FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
		WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
		UNION ALL
		SELECT b.attnum, b.attname, t.oid, t.typtype, t.typbasetype, t.typlen FROM base b JOIN pg_type t ON t.oid = b.typbasetype WHERE b.typtype = 'd')
	SELECT b.attname INTO key FROM base b
	LEFT JOIN pg_index i ON i.indrelid = relation AND i.indisunique AND b.attnum = ANY ((i.indkey::smallint[])[0:i.indnkeyatts - 1])
	WHERE b.typtype IN ('b', 'r') AND NOT EXISTS (SELECT FROM shardfdw_internal.key_types(relation, ARRAY[b.attnum]) y JOIN pg_type t ON t.oid = y.type
			WHERE t.typtype = 'e' OR t.typnamespace = 'pg_catalog'::regnamespace AND t.typname LIKE 'reg%')
		AND EXISTS (SELECT FROM pg_opclass o JOIN pg_am m ON m.oid = o.opcmethod AND m.amname = 'hash'
			WHERE o.opcdefault AND (o.opcintype = CASE b.typtype WHEN 'r' THEN 'anyrange'::regtype ELSE b.oid END OR EXISTS (SELECT FROM pg_cast c
				WHERE c.castsource = b.oid AND c.casttarget = o.opcintype AND c.castmethod = 'b' AND c.castcontext = 'i')))
	ORDER BY i.indisprimary DESC NULLS LAST, i.indrelid IS NULL, b.typlen < 0, b.attnum LIMIT 1;
	IF key IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('cannot shard table "%s" because none of its columns can be hashed', (SELECT c.relname FROM pg_class c WHERE c.oid = relation)),
			HINT = 'Add a column of type bigint, for example.';
	END IF;
	RETURN key;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.home_key(regclass) IS
	'Chooses the partition key for a table whose single shard accepts all rows: a column of the primary key or of another unique key, if possible. Returns its name. Raises feature_not_supported.';

CREATE FUNCTION shardfdw_internal.shard_constraint_commands(relation regclass, key name) RETURNS TABLE (is_here boolean, drop_command text, add_command text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- by the name of the table: another table replaces it
	SELECT d.constraint_def IS NULL OR k.contype <> 'x',
		CASE WHEN k.oid IS NULL THEN format('DROP INDEX %I.%I', n.nspname, d.index_name) ELSE format('ALTER TABLE %s DROP CONSTRAINT %I', relation, d.index_name) END,
		CASE WHEN k.oid IS NULL THEN format('CREATE UNIQUE INDEX %I ON %s USING %s', d.index_name, relation, d.using_clause)
			ELSE format('ADD CONSTRAINT %I %s', d.index_name, d.constraint_def) END
	FROM shardfdw_internal.index_definitions(relation) d
	JOIN pg_class t ON t.oid = relation JOIN pg_namespace n ON n.oid = t.relnamespace
	JOIN pg_class x ON x.relnamespace = n.oid AND x.relname = d.index_name
	JOIN pg_index i ON i.indexrelid = x.oid
	LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = relation AND k.contype IN ('p', 'u', 'x')
	WHERE k.contype = 'x' OR i.indisunique AND (SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = key) <> ALL ((i.indkey::smallint[])[0:i.indnkeyatts - 1])
	ORDER BY 3
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_constraint_commands(regclass, name) IS
	'Writes the commands for what only the shard of a table can have: unique keys without the shard key, and exclusion constraints. Returns what drops each, and what makes it again: a command; or, of a constraint, what follows the name of the table, or (not is_here) that of the shard.';

CREATE FUNCTION shardfdw_internal.check_home_owner(home regclass) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	r record;
BEGIN
	-- A role that may only create tables in the schema must not decide where tables of other roles go.
	SELECT c.relowner, n.nspname, n.nspowner, pg_get_userbyid(n.nspowner) AS owner INTO r
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = home;
	IF r.relowner <> r.nspowner AND NOT (SELECT o.rolsuper FROM pg_roles o WHERE o.oid = r.relowner) AND pg_get_userbyid(r.relowner) <> current_user THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = format('table %s says where the tables of schema "%s" are, and does not belong to the owner of the schema', home, r.nspname),
			HINT = format('If it is right: ALTER TABLE %s OWNER TO %I.', home, r.owner);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_home_owner(regclass) IS
	'Checks that the table shardfdw_home of a schema belongs to the owner of the schema, to a superuser or to the caller. Returns nothing. Raises insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.bring_home(relation regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET shardfdw.enable_ddl_propagation = on
AS $$
#variable_conflict use_variable
DECLARE
	home record;
	key name;
	made record;
	qualified CONSTANT text := (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation);
	commands text[] := '{}';
	shard_commands text[] := '{}';
	command text;
BEGIN
	IF (SELECT c.relkind FROM pg_class c WHERE c.oid = relation) <> 'r' THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('cannot make "%s" in a schema whose tables are on one node because it is partitioned', (SELECT c.relname FROM pg_class c WHERE c.oid = relation)),
			HINT = 'Make it in another schema.';
	END IF;
	SELECT h.* INTO home FROM pg_class c CROSS JOIN LATERAL shardfdw_internal.home_of(c.relnamespace) h WHERE c.oid = relation;
	PERFORM shardfdw_internal.check_home_owner(home.relation);
	-- before its indexes are dropped, which shard_table() would check
	PERFORM shardfdw_internal.check_owner_code(relation, 'shard');
	PERFORM shardfdw_internal.prepare_nodes(relation, 'shard', ARRAY[home.node]);
	key := shardfdw_internal.home_key(relation);
	FOR made IN SELECT * FROM shardfdw_internal.shard_constraint_commands(relation, key)
	LOOP
		EXECUTE made.drop_command;
		IF NOT made.is_here THEN
			shard_commands := shard_commands || made.add_command;
		ELSE
			commands := commands || CASE WHEN made.add_command ~ '^ADD ' THEN format('ALTER TABLE %s %s', qualified, made.add_command) ELSE made.add_command END;
		END IF;
	END LOOP;
	PERFORM shardfdw.shard_table(relation, key, 1, ARRAY[home.node], mode => 'block');
	FOREACH command IN ARRAY commands
	LOOP
		EXECUTE command;
	END LOOP;
	PERFORM shardfdw_internal.run_commands(ARRAY[s.node], ARRAY[format('ALTER TABLE %s %s', s.remote_name, array_to_string(shard_commands, ', '))], 'write', labels => ARRAY[s.shard::text])
	FROM shardfdw_internal.shards_of(qualified::regclass) s WHERE shard_commands <> '{}';
END
$$;
COMMENT ON FUNCTION shardfdw_internal.bring_home(regclass) IS
	'Turns a plain table of a sharded schema into a sharded table with a single shard on the node of the schema. Returns nothing. Raises the errors of shard_table().';

CREATE FUNCTION shardfdw_internal.check_home(schema regnamespace, is_home boolean) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	schema_name CONSTANT name := (SELECT n.nspname FROM pg_namespace n WHERE n.oid = schema);
	node name;
BEGIN
	IF schema IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'schema must not be null';
	END IF;
	IF schema_name IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_schema_name', MESSAGE = format('schema with OID %s does not exist', schema::oid);
	END IF;
	IF schema_name ~ '^pg_' OR schema_name IN ('information_schema', 'shardfdw', 'shardfdw_internal') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('schema "%s" is a system schema', schema_name);
	END IF;
	IF NOT pg_has_role((SELECT n.nspowner FROM pg_namespace n WHERE n.oid = schema), 'USAGE') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('must be owner of schema %s', schema_name);
	END IF;
	node := (SELECT h.node FROM shardfdw_internal.home_of(schema) h);
	IF is_home AND node IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('schema "%s" is not sharded', schema_name),
			HINT = format('SELECT shardfdw.shard_schema(%L) moves its tables to a node.', schema::text);
	ELSIF NOT is_home AND node IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('schema "%s" is sharded already, on node "%s"', schema_name, node),
			HINT = 'shardfdw.move_schema() moves it to another node.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_home(regnamespace, boolean) IS
	'Checks that the caller owns a schema, and whether its tables are on one node, as required. Returns nothing. Raises null_value_not_allowed, invalid_schema_name, insufficient_privilege or object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.check_schema_tables(schema regnamespace) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	SELECT c.oid::regclass AS relation, CASE WHEN shardfdw_internal.is_reference(c.oid) THEN 'a reference table' WHEN shardfdw_internal.is_sharded(c.oid) THEN 'sharded already'
			WHEN c.relispartition THEN 'a partition' WHEN c.relkind = 'p' THEN 'partitioned' ELSE 'a foreign table' END AS kind INTO r
	FROM pg_class c WHERE c.relnamespace = schema AND (c.relkind IN ('p', 'f') OR c.relkind = 'r' AND (c.relispartition OR shardfdw_internal.is_reference(c.oid)))
	ORDER BY c.relispartition, c.relname::text COLLATE "C" LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('cannot shard schema %s because table %s is %s', schema, r.relation, r.kind),
			HINT = CASE r.kind WHEN 'sharded already' THEN format('Make it a plain table first: SELECT shardfdw.unshard_table(%L).', r.relation)
				ELSE format('Move it to another schema first: ALTER TABLE %s SET SCHEMA ....', r.relation) END;
	END IF;
	SELECT k.conname, k.conrelid::regclass AS from_table, k.confrelid::regclass AS to_table INTO r
	FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_class f ON f.oid = k.confrelid
	WHERE k.contype = 'f' AND (c.relnamespace = schema) <> (f.relnamespace = schema) AND NOT (c.relnamespace = schema AND shardfdw_internal.is_reference(f.oid))
	ORDER BY k.conname::text COLLATE "C" LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('cannot shard schema %s because of foreign key "%s" from %s to %s', schema, r.conname, r.from_table, r.to_table),
			DETAIL = 'A foreign key cannot be checked across nodes.',
			HINT = CASE WHEN (SELECT c.relnamespace FROM pg_class c WHERE c.oid = r.from_table) = schema
				THEN format('Make %s a reference table first, with shardfdw.create_reference_table().', r.to_table)
				ELSE format('Drop it first: ALTER TABLE %s DROP CONSTRAINT %I.', r.from_table, r.conname) END;
	END IF;
	PERFORM shardfdw_internal.check_key_default(k.oid, format('shard schema %s', schema)) FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
	WHERE k.contype = 'f' AND c.relnamespace = schema AND 'd' IN (k.confdeltype, k.confupdtype) ORDER BY k.conname::text COLLATE "C";
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_schema_tables(regnamespace) IS
	'Checks that the tables of a schema can be moved to one node together. Returns nothing. Raises feature_not_supported with the table or the foreign key.';

CREATE FUNCTION shardfdw_internal.home_node(node name) RETURNS name
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- the node with the fewest schemas
	SELECT coalesce(node, (SELECT n.name FROM unnest(shardfdw_internal.accepting_nodes()) WITH ORDINALITY n(name, ord)
		LEFT JOIN (SELECT s.srvname FROM pg_class c JOIN pg_inherits i ON i.inhparent = c.oid JOIN pg_foreign_table f ON f.ftrelid = i.inhrelid
			JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE c.relname = 'shardfdw_home') h ON h.srvname = n.name
		GROUP BY n.name, n.ord ORDER BY count(h.srvname), n.ord LIMIT 1))
$$;
COMMENT ON FUNCTION shardfdw_internal.home_node(name) IS
	'Chooses the node of a schema, unless it is given. Returns its name.';

CREATE FUNCTION shardfdw.shard_schema(schema regnamespace, node name DEFAULT NULL) RETURNS name
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET extra_float_digits = 3 SET jit = off SET shardfdw.enable_ddl_propagation = on
AS $$
#variable_conflict use_variable
DECLARE
	relations text[];
	relation text;
	key record;
	keys text[];
	command text;
BEGIN
	PERFORM shardfdw_internal.check_isolation('shard_schema');
	PERFORM shardfdw_internal.check_home(schema, false);
	PERFORM shardfdw_internal.lock_schema(schema);
	PERFORM shardfdw_internal.check_home(schema, false);
	node := shardfdw_internal.home_node(node);
	PERFORM shardfdw_internal.check_schema_tables(schema);
	relations := ARRAY(SELECT format('%s.%I', schema, c.relname) FROM pg_class c WHERE c.relnamespace = schema AND c.relkind = 'r' ORDER BY c.oid);
	FOREACH relation IN ARRAY relations
	LOOP
		PERFORM shardfdw_internal.lock_table(relation, 'ACCESS EXCLUSIVE');
	END LOOP;
	PERFORM shardfdw_internal.check_schema_tables(schema);

	PERFORM shardfdw_internal.check_references_on_nodes(r::regclass, 'shard', ARRAY[node]) FROM unnest(relations) r;
	keys := ARRAY(SELECT format('ALTER TABLE %s.%I ADD CONSTRAINT %I %s', schema, c.relname, k.conname, pg_get_constraintdef(k.oid))
		FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid WHERE k.contype = 'f' AND c.relnamespace = schema ORDER BY k.oid);
	FOR key IN SELECT k.conrelid::regclass AS relation, k.conname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
		WHERE k.contype = 'f' AND c.relnamespace = schema
	LOOP
		EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', key.relation, key.conname);
	END LOOP;

	EXECUTE format('CREATE TABLE %s.shardfdw_home (id integer)', schema);
	EXECUTE shardfdw_internal.revoke_command(format('%s.shardfdw_home', schema));
	EXECUTE format('COMMENT ON TABLE %s.shardfdw_home IS %L', schema, 'Its shard is where all tables of this schema are. It has no rows.');
	PERFORM shardfdw.shard_table(format('%s.shardfdw_home', schema)::regclass, 'id', 1, ARRAY[node], mode => 'block');
	EXECUTE format('ALTER TABLE %s.shardfdw_home OWNER TO %I', schema, (SELECT pg_get_userbyid(n.nspowner) FROM pg_namespace n WHERE n.oid = schema));
	FOREACH relation IN ARRAY relations
	LOOP
		PERFORM shardfdw_internal.bring_home(relation::regclass);
	END LOOP;
	FOREACH command IN ARRAY keys
	LOOP
		EXECUTE command;
	END LOOP;
	RETURN node;
END
$$;
COMMENT ON FUNCTION shardfdw.shard_schema(regnamespace, name) IS
	'Moves all tables of a schema to one node, with rows, keys and foreign keys. Tables that are later created in the schema are created on that node. node: null for the node with the fewest such schemas. Runs in this transaction and locks the tables. Returns the node. Raises an error, and changes nothing, if something of the tables cannot be kept.';

CREATE FUNCTION shardfdw_internal.home_constraints(schema regnamespace) RETURNS TABLE (relation text, name name, kind text, definition text, referenced regclass)
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	-- the tables on the node, by the names of the tables here
	SELECT t.relation, (q.fields)[1]::name, (q.fields)[2],
		CASE (q.fields)[2] WHEN 'f' THEN replace((q.fields)[3], ' REFERENCES ' || (q.fields)[4] || '(',
				' REFERENCES ' || coalesce((SELECT format('%I.%I', n.nspname, p.relname) FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent
					JOIN pg_namespace n ON n.oid = p.relnamespace WHERE i.inhrelid = to_regclass((q.fields)[4])), (q.fields)[4]) || '(')
			ELSE (q.fields)[3] END,
		coalesce((SELECT i.inhparent::regclass FROM pg_inherits i WHERE i.inhrelid = to_regclass((q.fields)[4])), to_regclass((q.fields)[4]))
	FROM (SELECT format('%I.%I', n.nspname, c.relname) AS relation, s.* FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		CROSS JOIN LATERAL shardfdw_internal.shards_of(c.oid) s WHERE c.relnamespace = schema AND c.relkind = 'p') t
	CROSS JOIN LATERAL shardfdw_internal.run_commands(ARRAY[t.node], ARRAY[format(
		'SELECT k.conname, k.contype, pg_get_constraintdef(k.oid), (SELECT format(''%%I.%%I'', n.nspname, f.relname) FROM pg_class f JOIN pg_namespace n ON n.oid = f.relnamespace WHERE f.oid = k.confrelid) '
		'FROM pg_constraint k WHERE k.conrelid = %1$L::regclass AND k.contype IN (''f'', ''p'', ''u'', ''x'') '
		'UNION ALL SELECT x.relname, ''i'', pg_get_indexdef(x.oid), NULL FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid '
		'WHERE i.indrelid = %1$L::regclass AND i.indisunique AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid AND k.conrelid = i.indrelid)', t.remote_name)], 'write') q
	WHERE q.fields IS NOT NULL
$$;
COMMENT ON FUNCTION shardfdw_internal.home_constraints(regnamespace) IS
	'Queries the node of a schema for the constraints and unique indexes of its tables. Returns the table, the name on the node, the kind (as in pg_constraint.contype, or i for an index), the definition, and the table here to which a foreign key refers.';

CREATE FUNCTION shardfdw_internal.home_constraint_commands(schema regnamespace) RETURNS TABLE (drop_command text, add_command text)
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN c.kind = 'f' THEN format('ALTER TABLE %s DROP CONSTRAINT %I', s.remote_name, c.name) END,
		CASE c.kind WHEN 'i' THEN concat(CASE WHEN x.name IS NOT NULL THEN format('DROP INDEX %I.%I; ', n.nspname, x.name) END,
				shardfdw_internal.checked_definition(concat(format('CREATE UNIQUE INDEX %I ON %s USING ', coalesce(x.name, c.name), c.relation),
					substr(c.definition, 1 + length(format('CREATE UNIQUE INDEX %I ON %s USING ', c.name, s.remote_name))))))
			ELSE shardfdw_internal.checked_definition(format('ALTER TABLE %s ADD CONSTRAINT %I %s', c.relation, c.name, c.definition),
				(SELECT r.oid::regclass FROM pg_class r WHERE r.oid = c.referenced AND r.relnamespace = schema)) END
	FROM shardfdw_internal.home_constraints(schema) c
	JOIN pg_class t ON t.oid = c.relation::regclass JOIN pg_namespace n ON n.oid = t.relnamespace
	CROSS JOIN LATERAL shardfdw_internal.shards_of(t.oid) s JOIN pg_class o ON o.oid = s.shard
	-- without constraints that the table here has
	LEFT JOIN LATERAL (SELECT d.index_name, d.is_unique FROM shardfdw_internal.index_definitions(t.oid) d
		WHERE shardfdw_internal.shard_object_name(d.index_name, o.relname, ARRAY[o.relname]) = c.name LIMIT 1) x(name, is_unique) ON c.kind <> 'f'
	WHERE NOT coalesce(x.is_unique, false) AND NOT coalesce(shardfdw_internal.is_reference(c.referenced), false)
	ORDER BY c.kind = 'f', c.relation, c.name
$$;
COMMENT ON FUNCTION shardfdw_internal.home_constraint_commands(regnamespace) IS
	'Writes the commands that create, on the tables of a schema here, the definitions that only their shards have: foreign keys between the tables, keys without the shard key, and exclusion constraints. Returns two commands for each: one that drops it on the node if necessary, and one that creates it here.';

CREATE FUNCTION shardfdw.unshard_schema(schema regnamespace) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET extra_float_digits = 3 SET jit = off SET row_security = off SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	relations text[];
	relation text;
	home record;
	elsewhere record;
	drop_commands text[];
	add_commands text[];
	key_commands text[];
	command text;
BEGIN
	PERFORM shardfdw_internal.check_isolation('unshard_schema');
	PERFORM shardfdw_internal.check_no_peers(format('schema %s', schema), 'bring back the tables of');
	PERFORM shardfdw_internal.check_home(schema, true);
	PERFORM shardfdw_internal.lock_schema(schema);
	PERFORM shardfdw_internal.check_home(schema, true);
	relations := ARRAY(SELECT format('%s.%I', schema, c.relname) FROM pg_class c WHERE c.relnamespace = schema AND c.relkind = 'p' AND c.relname <> 'shardfdw_home' ORDER BY c.oid);
	FOREACH relation IN ARRAY relations || format('%s.shardfdw_home', schema)
	LOOP
		PERFORM shardfdw_internal.lock_table(relation, 'ACCESS EXCLUSIVE');
	END LOOP;
	SELECT * INTO home FROM shardfdw_internal.home_of(schema);
	PERFORM shardfdw_internal.check_home_owner(home.relation);
	-- Definitions of constraints that nodes return run as commands here, so all tables must be on that node.
	SELECT s.node, c.oid::regclass AS relation INTO elsewhere FROM pg_class c LEFT JOIN LATERAL shardfdw_internal.shards_of(c.oid) s ON true
	WHERE c.relnamespace = schema AND c.relkind = 'p' AND (s.node IS DISTINCT FROM home.node OR NOT shardfdw_internal.is_sharded(c.oid)) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('table %s is not on node "%s", where the tables of its schema are', elsewhere.relation, home.node),
			HINT = 'Move it to another schema, or drop it.';
	END IF;
	SELECT array_agg(c.drop_command) FILTER (WHERE c.drop_command IS NOT NULL), array_agg(c.add_command) FILTER (WHERE c.drop_command IS NULL), array_agg(c.add_command) FILTER (WHERE c.drop_command IS NOT NULL)
	INTO drop_commands, add_commands, key_commands
	FROM shardfdw_internal.home_constraint_commands(schema) c;
	IF drop_commands IS NOT NULL THEN
		PERFORM shardfdw_internal.run_commands(array_fill(home.node, ARRAY[cardinality(drop_commands)]), drop_commands, 'write');
	END IF;
	FOREACH relation IN ARRAY relations
	LOOP
		PERFORM shardfdw_internal.unshard_block(relation::regclass);
	END LOOP;
	PERFORM shardfdw_internal.unshard_block(home.relation);
	EXECUTE format('DROP TABLE %s.shardfdw_home', schema);
	FOREACH command IN ARRAY coalesce(add_commands, '{}')
	LOOP
		EXECUTE command;
	END LOOP;
	-- A query validates a foreign key, and the definition of an index from a node may have another meaning here.
	IF key_commands IS NOT NULL THEN
		PERFORM shardfdw_internal.check_owner_code(r::regclass, 'unshard') FROM unnest(relations) r;
	END IF;
	FOREACH command IN ARRAY coalesce(key_commands, '{}')
	LOOP
		EXECUTE command;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw.unshard_schema(regnamespace) IS
	'Turns the tables of a schema that shard_schema() moved to a node into plain tables, with rows, keys and foreign keys. Runs in this transaction and locks the tables. Returns nothing. Raises an error if something of the tables cannot be kept.';

CREATE FUNCTION shardfdw.move_schema(schema regnamespace, node name, mode text DEFAULT 'online', verify boolean DEFAULT true, wait boolean DEFAULT true) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
BEGIN
	PERFORM shardfdw_internal.check_home(schema, true);
	RETURN shardfdw.move_shard((SELECT h.shard FROM shardfdw_internal.home_of(schema) h), node, mode, verify, wait);
END
$$;
COMMENT ON FUNCTION shardfdw.move_schema(regnamespace, name, text, boolean, boolean) IS
	'Moves all tables of a schema that shard_schema() moved to a node to another node, in one job. mode, verify, wait: as for move_shard(). Returns the number of the job.';
REVOKE ALL ON FUNCTION shardfdw.move_schema(regnamespace, name, text, boolean, boolean) FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.refuse_drop_of_home_seen() RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	IF NOT current_setting('shardfdw.enable_ddl_propagation')::boolean THEN
		RETURN;
	END IF;
	SELECT d.object_name, d.schema_name INTO r FROM pg_event_trigger_dropped_objects() d JOIN pg_namespace n ON n.nspname = d.schema_name
	WHERE d.object_type IN ('table', 'foreign table') AND d.object_name IN ('shardfdw_home', 'shardfdw_home_00')
		AND EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind = 'p' AND c.relname <> 'shardfdw_home' AND shardfdw_internal.is_sharded(c.oid)) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist',
			MESSAGE = format('table "%s" says where the tables of schema "%s" are', r.object_name, r.schema_name),
			HINT = format('It goes with the schema, or by SELECT shardfdw.unshard_schema(%L).', quote_ident(r.schema_name));
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.refuse_drop_of_home_seen() IS
	'Does what refuse_drop_of_home() does, for the snapshot of the calling query. Returns nothing.';

CREATE FUNCTION shardfdw_internal.refuse_drop_of_home() RETURNS event_trigger
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_check_event_now';
COMMENT ON FUNCTION shardfdw_internal.refuse_drop_of_home() IS
	'Rejects dropping the table that records the node of a sharded schema while the schema has tables. Raises dependent_objects_still_exist.';

CREATE EVENT TRIGGER shardfdw_refuse_drop_of_home ON sql_drop WHEN TAG IN ('DROP TABLE', 'DROP FOREIGN TABLE', 'DROP OWNED')
	EXECUTE FUNCTION shardfdw_internal.refuse_drop_of_home();
ALTER EVENT TRIGGER shardfdw_refuse_drop_of_home ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER shardfdw_refuse_drop_of_home IS
	'Protects the table that records the node of a sharded schema.';

CREATE VIEW shardfdw.sharded_schemas AS
SELECT n.nspname AS schema, h.node,
	(SELECT pg_catalog.count(*) FROM pg_catalog.pg_class t WHERE t.relnamespace = c.relnamespace AND t.relkind = 'p' AND t.oid <> c.oid) AS tables
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace CROSS JOIN LATERAL shardfdw_internal.shards_of(c.oid) h
WHERE c.relname = 'shardfdw_home' AND c.relkind = 'p';
COMMENT ON VIEW shardfdw.sharded_schemas IS 'Lists the schemas that shard_schema() moved to a node.';
COMMENT ON COLUMN shardfdw.sharded_schemas.schema IS 'Name of the schema.';
COMMENT ON COLUMN shardfdw.sharded_schemas.node IS 'Node that stores the tables of the schema.';
COMMENT ON COLUMN shardfdw.sharded_schemas.tables IS 'Number of tables of the schema.';
GRANT SELECT ON shardfdw.sharded_schemas TO PUBLIC;
