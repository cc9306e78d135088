-- Adds a shard to a table, and finds the shard of a key.

CREATE FUNCTION shardfdw_internal.check_default_shard(parent regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off SET constraint_exclusion = off
AS $$
DECLARE
	default_partition regclass := (SELECT nullif(p.partdefid, 0)::regclass FROM pg_partitioned_table p WHERE p.partrelid = parent);
	-- null or empty: no DEFAULT partition, or no other partition
	kept text := nullif(pg_get_partition_constraintdef(default_partition), '');
	p record;
	misplaced boolean;
BEGIN
	IF kept IS NULL THEN
		RETURN;
	END IF;
	-- Core checks local tables only. The planner would conclude from the partition bounds that there are no such rows.
	FOR p IN SELECT t.parentrelid, s.shard FROM pg_partition_tree(default_partition) t, shardfdw_internal.shards_of(t.parentrelid) s WHERE s.shard = t.relid LOOP
		PERFORM shardfdw_internal.check_owner_code_of_shards(p.parentrelid, 'shard', p.shard);
		EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE NOT (%s))', p.shard, kept) INTO misplaced;
		IF misplaced THEN
			RAISE EXCEPTION USING ERRCODE = 'check_violation',
				MESSAGE = format('default partition %s has rows that belong to the new shard', default_partition),
				HINT = 'Delete them, and insert them again when the shard is there.';
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_default_shard(regclass) IS
	'Checks that shards of the DEFAULT partition of a table hold no rows that belong to another partition. Returns nothing. Raises check_violation.';

CREATE FUNCTION shardfdw_internal.common_keys(parent regclass, new_shards regclass[], keys jsonb) RETURNS jsonb
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	WITH shards AS MATERIALIZED (
		SELECT s.srvname AS node, array_agg(format('%I.%I', n.nspname, c.relname)) AS names
		FROM pg_partition_tree(pg_partition_root(parent)) t JOIN pg_class c ON c.oid = t.relid JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
		WHERE c.oid <> ALL (new_shards) AND w.fdwhandler = 'shardfdw_internal.shardfdw_handler'::regproc
			AND NOT EXISTS (SELECT FROM pg_options_to_table(f.ftoptions) o WHERE o.option_name IN ('schema_name', 'table_name'))
		GROUP BY s.srvname
	), answer AS MATERIALIZED (
		SELECT (q.fields)[3]::jsonb->'foreign_keys' AS keys
		FROM (SELECT array_agg(s.node) AS nodes, array_agg(shardfdw_internal.describe_query(s.names)) AS commands FROM shards s) x,
			shardfdw_internal.run_commands(x.nodes, x.commands, 'write') q
	)
	SELECT coalesce(jsonb_agg(k), '[]') FROM jsonb_array_elements(keys) k
	WHERE NOT EXISTS (SELECT FROM pg_foreign_table f WHERE f.ftrelid = to_regclass(k->>'table'))
		AND NOT EXISTS (SELECT FROM answer a WHERE NOT coalesce(a.keys, '[]') @> jsonb_build_array(k))
$$;
COMMENT ON FUNCTION shardfdw_internal.common_keys(regclass, regclass[], jsonb) IS
	'Finds the foreign keys that all other shards of a table, and of the tables above it, have. These are the foreign keys of the root table. Foreign keys to shards of another table are omitted. Input and result have the format of describe_query().';

CREATE FUNCTION shardfdw_internal.expects_right(relation regclass, node name, remote_role name, privilege text, column_name name, is_grantable boolean) RETURNS boolean
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT EXISTS (SELECT FROM (SELECT relation::oid UNION SELECT a.relid FROM pg_partition_ancestors(relation) a) t(oid) JOIN pg_class c ON c.oid = t.oid
		CROSS JOIN LATERAL (SELECT coalesce(c.relacl, acldefault('r', c.relowner)) UNION ALL SELECT a.attacl FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = column_name) l(acl)
		CROSS JOIN LATERAL aclexplode(l.acl) x
		WHERE x.privilege_type = privilege AND privilege <> 'TRIGGER' AND CASE WHEN remote_role IS NULL THEN x.grantee = 0 AND NOT expects_right.is_grantable ELSE
			EXISTS (SELECT FROM pg_roles r WHERE remote_role IN (r.rolname, shardfdw_internal.role_on_node(r.oid, node))
				AND ((x.is_grantable OR NOT expects_right.is_grantable) AND (x.grantee = 0 OR pg_has_role(r.oid, x.grantee, 'USAGE')) OR pg_has_role(r.oid, c.relowner, 'USAGE'))) END)
$$;
COMMENT ON FUNCTION shardfdw_internal.expects_right(regclass, name, name, text, name, boolean) IS
	'Tells whether a role of a node may have a privilege on the shards of a table. A role here must have this privilege, which is not TRIGGER, on the table or on a table above it. The role of the node must have its name, or be the remote user of its user mapping. remote_role: null for PUBLIC. column_name: null for the whole table. Returns true or false.';

CREATE FUNCTION shardfdw_internal.follow_siblings(parent regclass, new_shards regclass[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	-- the quoted text inside the quotes of DO is not interpreted
	only_if text := 'BEGIN IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = %L) THEN %s; END IF; END';
	sibling record;
	is_alone boolean;
	is_valid boolean;
	k record;
	had record;
	shard record;
	target text;
	commands text[];
	others text[];
BEGIN
	-- Siblings have the same parent. The first shards of a new time partition follow those of other time partitions.
	SELECT s.srvname AS node, format('%I.%I', n.nspname, c.relname) AS name, i.inhparent <> parent AS is_cousin INTO sibling
	FROM pg_partition_tree(pg_partition_root(parent)) t JOIN pg_inherits i ON i.inhrelid = t.relid
	JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
	JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
	WHERE c.oid <> ALL (new_shards) AND w.fdwhandler = 'shardfdw_internal.shardfdw_handler'::regproc
		AND NOT EXISTS (SELECT FROM pg_options_to_table(f.ftoptions) o WHERE o.option_name IN ('schema_name', 'table_name'))
	ORDER BY i.inhparent <> parent, f.ftserver <> (SELECT n.ftserver FROM pg_foreign_table n WHERE n.ftrelid = new_shards[1]), c.relname::text COLLATE "C" LIMIT 1;
	is_alone := NOT FOUND;
	-- Privileges that were granted on one time partition only do not apply to the next one.
	IF is_alone OR sibling.is_cousin THEN
		PERFORM shardfdw_internal.grant_on_nodes(ARRAY[parent]);
	END IF;
	IF is_alone THEN
		RETURN;
	END IF;
	SELECT (q.fields)[1]::jsonb->'foreign_keys' AS keys, (q.fields)[2]::text[] AS options, (q.fields)[3]::jsonb AS rights, (q.fields)[4] AS owner INTO had
	FROM shardfdw_internal.run_commands(ARRAY[sibling.node], ARRAY[format('SELECT q.d, (%s), (SELECT jsonb_agg(jsonb_build_array(a.privilege_type, '
			'CASE WHEN a.grantee <> 0 THEN pg_get_userbyid(a.grantee) END, a.is_grantable, x.attname) ORDER BY a.privilege_type) '
			'FROM pg_class c, LATERAL (SELECT NULL, c.relacl UNION ALL SELECT t.attname, t.attacl FROM pg_attribute t WHERE t.attrelid = c.oid AND NOT t.attisdropped) x(attname, acl), aclexplode(x.acl) a '
			'WHERE c.oid = to_regclass(%L) AND a.grantee <> c.relowner), q.d->>''owner'' FROM (%s) q(ord, major, d)',
			shardfdw_internal.storage_options_query(sibling.name), sibling.name, shardfdw_internal.describe_query(ARRAY[sibling.name]))], 'write') q;

	IF sibling.is_cousin THEN
		had.rights := NULL;
		IF had.keys <> '[]' THEN
			had.keys := shardfdw_internal.common_keys(parent, new_shards, had.keys);
		END IF;
	END IF;
	FOR shard IN SELECT c.oid, format('%I.%I', n.nspname, c.relname) AS name, s.srvname AS node
		FROM unnest(new_shards) x(oid) JOIN pg_class c ON c.oid = x.oid JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver ORDER BY c.relname::text COLLATE "C"
	LOOP
		commands := '{}';
		FOR k IN SELECT * FROM jsonb_to_recordset(had.keys) x(name text, definition text, "table" text)
		LOOP
			-- to a replica of a reference table, or to the shard with the same keys
			target := k."table";
			IF EXISTS (SELECT FROM pg_foreign_table f WHERE f.ftrelid = to_regclass(target)) THEN
				SELECT format('%I.%I', n.nspname, c.relname) INTO target
				FROM pg_inherits i JOIN pg_inherits other ON other.inhparent = i.inhparent
				JOIN pg_class c ON c.oid = other.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
				JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver
				WHERE i.inhrelid = to_regclass(k."table") AND s.srvname = shard.node
					AND pg_get_expr(c.relpartbound, 0) = (SELECT pg_get_expr(n.relpartbound, 0) FROM pg_class n WHERE n.oid = shard.oid);
				IF NOT FOUND THEN
					RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
						MESSAGE = format('foreign key %s of the other shards cannot be made for shard %s', k.name, shard.oid::regclass),
						DETAIL = format('The table that it refers to has no shard with the same bounds on node "%s".', shard.node),
						HINT = 'Create that shard first, on the same node.';
				END IF;
			END IF;
			-- Validated by a command that runs no code of the owner of either table.
			is_valid := k.definition !~ ' NOT (VALID|ENFORCED)$';
			commands := commands || shardfdw_internal.checked_definition(format('ALTER TABLE %s ADD CONSTRAINT %I %s%s', shard.name, (parse_ident(k.name))[1],
				replace(k.definition, format(' REFERENCES %s(', k."table"), format(' REFERENCES %s(', target)), CASE WHEN is_valid THEN ' NOT VALID' END), coalesce(to_regclass(target), 0::regclass));
			IF is_valid THEN
				commands := commands || shardfdw_internal.validating_command(shard.name, (parse_ident(k.name))[1]);
			END IF;
		END LOOP;
		commands := commands || ('ALTER TABLE ' || shard.name || ' SET (' || shardfdw_internal.storage_options(had.options) || ')');
		others := '{}';
		FOR k IN SELECT r->>0 AS privilege, r->>1 AS grantee, (r->>2)::boolean AS grantable, r->>3 AS column FROM jsonb_array_elements(coalesce(had.rights, '[]')) r
		LOOP
			-- The superuser of the node of the sibling must not choose a role of another node.
			IF NOT shardfdw_internal.expects_right(parent, shard.node, k.grantee, k.privilege, k.column, k.grantable) THEN
				others := others || coalesce(k.grantee, 'PUBLIC');
				CONTINUE;
			END IF;
			target := format('GRANT %s %s ON TABLE %s TO %s%s', k.privilege, '(' || quote_ident(k.column) || ')', shard.name, coalesce(quote_ident(k.grantee), 'PUBLIC'), CASE WHEN k.grantable THEN ' WITH GRANT OPTION' END);
			commands := commands || CASE WHEN k.grantee IS NULL THEN target ELSE format('DO %L', format(only_if, k.grantee, target)) END;
		END LOOP;
		IF others <> '{}' THEN
			RAISE WARNING USING MESSAGE = format('roles on node "%s" do not get privileges on shard %s that they have on other shards: %s', shard.node, shard.oid::regclass,
					(SELECT string_agg(DISTINCT o COLLATE "C", ', ') FROM unnest(others) o)),
				DETAIL = 'No role here with that name, or with that remote user, has these privileges on the table.',
				HINT = format('If they are right, grant them on the node, or grant them on table %s here.', parent);
		END IF;
		PERFORM shardfdw_internal.run_commands(ARRAY[shard.node], ARRAY[array_to_string(commands, '; ')], 'write', labels => ARRAY[shard.name]);
	END LOOP;
	IF had.keys::text LIKE '% SET DEFAULT%' THEN
		PERFORM shardfdw_internal.set_key_defaults(pg_partition_root(parent), new_shards);
	END IF;
	-- Last, because the new owner may be a role that we are not a member of.
	PERFORM shardfdw_internal.run_commands(array_agg(s.srvname ORDER BY c.relname), array_agg(format('DO %L', format(only_if, had.owner,
		format('ALTER TABLE %I.%I OWNER TO %I', n.nspname, c.relname, had.owner))) ORDER BY c.relname), 'write', labels => array_agg(format('%I.%I', n.nspname, c.relname) ORDER BY c.relname))
	FROM unnest(new_shards) x(oid) JOIN pg_class c ON c.oid = x.oid JOIN pg_namespace n ON n.oid = c.relnamespace
	JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver
	-- A new time partition gets its owner later.
	WHERE EXISTS (SELECT FROM pg_partition_ancestors(parent) a WHERE shardfdw_internal.owns_shards(a.relid, s.srvname, had.owner)) HAVING count(*) > 0;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.follow_siblings(regclass, regclass[]) IS
	'Gives new shards of a parent the properties that only shards have, on their nodes. They are copied from another shard of the parent, or for the first shards of a partitioned partition, from shards of other partitions. Copies foreign keys and the defaults that these set, storage parameters, and, if the roles exist there, those privileges that expects_right() accepts, and an owner that owns_shards() accepts. Reports a WARNING for other privileges. The first shards of a parent get the privileges that roles have on the parent here. Returns nothing. Raises object_not_in_prerequisite_state if a foreign key would refer to a shard on another node.';

CREATE FUNCTION shardfdw.create_shard(relation regclass, name name, bounds text, node name) RETURNS regclass
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	c record;
	schema_name name;
BEGIN
	PERFORM shardfdw_internal.check_isolation('create_shard');
	PERFORM shardfdw_internal.check_not_at_home(relation, 'add a shard to');
	PERFORM shardfdw_internal.check_no_replicas(relation, 'add a shard to');
	SELECT t.relkind, t.relname, t.relowner, t.relpersistence INTO c FROM pg_class t WHERE t.oid = relation;
	IF c.relkind IS DISTINCT FROM 'p' THEN
		PERFORM shardfdw_internal.raise_other_kind(relation, 'partitioned table');
	END IF;
	IF NOT pg_has_role(c.relowner, 'USAGE') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('must be owner of table %s', c.relname);
	END IF;
	IF c.relpersistence = 't' THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('cannot shard table "%s" because it is temporary', c.relname);
	END IF;
	IF name IS NULL OR bounds IS NULL OR node IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'name, bounds and node must not be null';
	END IF;
	PERFORM shardfdw_internal.lock_schemas(relation);
	PERFORM shardfdw_internal.lock_table(relation, 'ACCESS EXCLUSIVE');
	schema_name := shardfdw_internal.shards_schema(relation);
	PERFORM shardfdw_internal.check_accepts(shardfdw_internal.usable_nodes(ARRAY[node]));
	PERFORM shardfdw_internal.check_owner_code(relation, 'shard');
	PERFORM shardfdw_internal.check_key(relation, array_remove(p.partattrs::smallint[], 0::smallint)) FROM pg_partitioned_table p WHERE p.partrelid = relation;

	PERFORM shardfdw_internal.prepare_nodes(relation, 'shard', ARRAY[node]);
	PERFORM shardfdw_internal.check_owner_code(relation, 'shard');

	bounds := btrim(bounds, E' \t\n');
	IF bounds !~* '^(for\s+values\s|default$)' THEN
		bounds := 'FOR VALUES ' || bounds;
	END IF;
	PERFORM shardfdw_internal.log_sequences(relation);
	PERFORM shardfdw_internal.make_shards(relation, ARRAY[name], ARRAY[bounds], ARRAY[node], unlogged => shardfdw_internal.is_unlogged(relation));
	PERFORM shardfdw_internal.check_default_shard(relation);
	PERFORM shardfdw_internal.index_shards(relation, ARRAY[name], ARRAY[node]);
	PERFORM shardfdw_internal.follow_siblings(relation, ARRAY[format('%I.%I', schema_name, name)::regclass]);
	IF format('%I', schema_name)::regnamespace <> (SELECT t.relnamespace FROM pg_class t WHERE t.oid = relation) THEN
		PERFORM shardfdw_internal.grant_on_nodes(ARRAY[relation], ARRAY[node]);
	END IF;
	RETURN format('%I.%I', schema_name, name)::regclass;
END
$$;
COMMENT ON FUNCTION shardfdw.create_shard(regclass, name, text, name) IS
	'Adds a shard to a partitioned table: creates a table on the node and a foreign table for it here. The new table gets the keys, constraints and indexes of the parent, and the foreign keys of the other shards. bounds: as in FOR VALUES, with or without these words, or DEFAULT. The bounds become part of a command, so never take them from untrusted input. Returns the shard. Raises the errors of CREATE TABLE here or on the node.';

CREATE FUNCTION shardfdw.shard_for(relation regclass, key anyelement) RETURNS regclass
	LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'shardfdw_shard_for';
COMMENT ON FUNCTION shardfdw.shard_for(regclass, anyelement) IS
	'Finds the shard of a table that stores rows with a key. Pass a key of several columns as ROW(...). Returns null if no partition accepts the key. Raises wrong_object_type for a table that is not sharded.';
