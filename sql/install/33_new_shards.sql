-- New shards: their names, their nodes, and the commands that create them on nodes and here.

CREATE FUNCTION shardfdw_internal.checked_definition(command text, refers_to regclass DEFAULT NULL) RETURNS text
	LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'shardfdw_checked_definition';
COMMENT ON FUNCTION shardfdw_internal.checked_definition(text, regclass) IS
	'Checks a command with a definition from a node. It must add one foreign key to the table refers_to. If refers_to is null, it must add one other key or exclusion constraint, or create one index, and run here or on that node. Returns the command. Raises protocol_violation for anything else.';

CREATE FUNCTION shardfdw_internal.shard_name(base name, shardno integer, nshards integer) RETURNS name
	LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	suffix text := '_' || lpad(shardno::text, greatest(2, length((nshards - 1)::text)), '0');
	kept text := base;
BEGIN
	-- One byte less than the 63 of a name, because core names the array type of the table "_name".
	IF octet_length(kept) + octet_length(suffix) > 62 THEN
		-- The part that is cut off may be the only difference between the names of two tables.
		suffix := '_' || left(encode(sha256(convert_to(base::text, getdatabaseencoding())), 'hex'), 8) || suffix;
		-- cut at a character boundary
		WHILE octet_length(kept) + octet_length(suffix) > 62 LOOP
			kept := left(kept, -1);
		END LOOP;
	END IF;
	RETURN kept || suffix;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_name(name, integer, integer) IS
	'Returns the name of a shard: the table''s name and the number of the shard (0-based), padded with zeros. A long name is truncated and gets a part of its hash. The name has at most 62 bytes.';

CREATE FUNCTION shardfdw_internal.shard_command(schema_name name, shard name, prefix text, suffix text, object name, kind text) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT prefix || CASE kind
		WHEN 'index' THEN format('%I ON %I.%I', object, schema_name, shard) || suffix
		WHEN 'constraint' THEN format('%I.%I ADD CONSTRAINT %I', schema_name, shard, object) || suffix
		WHEN 'schema' THEN format('%I.%I', schema_name, object) || suffix
		WHEN 'statistics' THEN format('%I.%I%s FROM %I.%I', schema_name, object, suffix, schema_name, shard)
		WHEN 'last' THEN format('%I.%I', schema_name, shard) || suffix || quote_ident(object)
		WHEN 'revoke' THEN shardfdw_internal.revoke_command(format('%I.%I', schema_name, shard))
		ELSE format('%I.%I', schema_name, shard) || suffix END
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_command(name, name, text, text, name, text) IS
	'Writes a command for a shard from the text before and after its name. kind: where the name of an object of the shard goes; or revoke, for revoke_command(). Returns the command.';

CREATE FUNCTION shardfdw_internal.run_on_new_shards(schema_name name, shard_names name[], nodes name[],
										   prefixes text[], suffixes text[],
										   object_names name[] DEFAULT '{}', object_kinds text[] DEFAULT '{}', siblings name[] DEFAULT '{}') RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.run_commands(array_agg(s.node ORDER BY s.ord), array_agg(s.commands ORDER BY s.ord), 'write',
								labels => array_agg(s.label ORDER BY s.ord))
	FROM (SELECT t.node, t.ord, format('%I.%I', schema_name, t.shard_name) AS label,
			(SELECT string_agg(shardfdw_internal.shard_command(schema_name, t.shard_name, c.prefix, c.suffix,
					CASE WHEN c.object IS NOT NULL THEN shardfdw_internal.shard_object_name(c.object, t.shard_name, siblings) END, c.kind), '; ' ORDER BY c.ord)
			 FROM unnest(prefixes, suffixes, object_names, object_kinds) WITH ORDINALITY c(prefix, suffix, object, kind, ord)) AS commands
		  FROM unnest(shard_names, nodes) WITH ORDINALITY t(shard_name, node, ord)) s
	WHERE s.commands IS NOT NULL
	HAVING count(*) > 0;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.run_on_new_shards(name, name[], name[], text[], text[], name[], text[], name[]) IS
	'Runs the same commands for each of several shards on their nodes, in this transaction. prefixes, suffixes: text before and after the name of the shard. object_names, object_kinds: objects of the shard whose name is built from the name of the parent''s object and of the shard. Returns nothing. Raises errors of nodes.';

CREATE FUNCTION shardfdw_internal.schema_command(schema_name name) RETURNS text
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'shardfdw_schema_command';
COMMENT ON FUNCTION shardfdw_internal.schema_command(name) IS
	'Writes the PL/pgSQL commands that create a schema on a node, with a comment that marks it as created by the extension. Returns them.';

CREATE FUNCTION shardfdw_internal.raise_schema_owner(schema_name name, node name, owner text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
		MESSAGE = format('schema %I on node "%s" belongs to role "%s"', schema_name, node, owner),
		DETAIL = 'That role could drop the tables in it, and make others with their names.',
		HINT = format('Choose another schema. Or take this one over, on the node, as a superuser: ALTER SCHEMA %I OWNER TO CURRENT_USER', schema_name);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.raise_schema_owner(name, name, text) IS
	'Raises insufficient_privilege for a schema on a node whose owner could replace the objects in it.';

CREATE FUNCTION shardfdw_internal.role_on_node(role oid, node name) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce((SELECT o.option_value FROM pg_options_to_table(m.umoptions) o WHERE o.option_name = 'user'), pg_get_userbyid(role))
	FROM pg_user_mappings m WHERE m.srvname = node AND m.umuser IN (role, 0) ORDER BY m.umuser DESC LIMIT 1
$$;
COMMENT ON FUNCTION shardfdw_internal.role_on_node(oid, name) IS
	'Finds the remote user of a role''s user mapping if the caller can see it, or else returns the name of the role. Returns null for a role without a user mapping.';

CREATE FUNCTION shardfdw_internal.give_command(remote_name text, role text) RETURNS text
	LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
	-- What ALTER TABLE ... OWNER needs. USAGE: later commands of this role need the rights of the new owner. Superusers have all of this.
	SELECT format('DO %L', format(
		'BEGIN IF EXISTS (SELECT FROM pg_catalog.pg_roles r, pg_catalog.pg_roles m, pg_catalog.pg_class c WHERE r.rolname = %L AND m.rolname = current_user AND c.oid = %L::pg_catalog.regclass '
		'AND pg_catalog.pg_has_role(r.oid, ''USAGE'') AND pg_catalog.pg_has_role(r.oid, CASE WHEN pg_catalog.current_setting(''server_version_num'')::pg_catalog.int4 < 160000 THEN ''USAGE'' ELSE ''SET'' END) '
		'AND (m.rolsuper OR pg_catalog.has_schema_privilege(r.oid, c.relnamespace, ''CREATE''))) THEN ALTER TABLE %s OWNER TO %I; END IF; END',
		role, remote_name, remote_name, role))
$$;
COMMENT ON FUNCTION shardfdw_internal.give_command(text, text) IS
	'Writes the command, to be run on a node, that changes the owner of a table if the role exists there and the role that runs the command may give the table to it. Returns its text.';

CREATE FUNCTION shardfdw_internal.owns_shards(relation regclass, node name, remote_role text) RETURNS boolean
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(remote_role IN (pg_get_userbyid(c.relowner), coalesce(shardfdw_internal.role_on_node(c.relowner, node), '')), false)
	FROM pg_class c WHERE c.oid = relation
$$;
COMMENT ON FUNCTION shardfdw_internal.owns_shards(regclass, name, text) IS
	'Tells whether a role of a node has the name of the owner of a table, or is the remote user of that owner''s user mapping if the caller can see it. Returns null if the table does not exist.';

CREATE FUNCTION shardfdw_internal.schema_owner_query(schema_name name) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format($query$SELECT r.rolname, m.rolsuper AND NOT r.rolsuper FROM pg_namespace s JOIN pg_database d ON d.datname = current_database()
		JOIN pg_roles r ON r.oid = CASE s.nspowner WHEN 'pg_database_owner'::regrole THEN d.datdba ELSE s.nspowner END
		JOIN pg_roles m ON m.rolname = current_user WHERE s.nspname = %L$query$, schema_name)
$$;
COMMENT ON FUNCTION shardfdw_internal.schema_owner_query(name) IS
	'Writes the query, to be run here or on a node, for the owner of a schema. pg_database_owner is replaced by the owner of the database. Returns its text. The query returns the role, and whether that role is no superuser while the current user is a superuser.';

CREATE FUNCTION shardfdw_internal.own_name_condition(name text) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- The owner of a schema can rename it, and create another schema of that name with other tables.
	SELECT format('EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database() '
		'JOIN pg_catalog.pg_roles r ON r.oid = CASE s.nspowner WHEN ''pg_database_owner''::pg_catalog.regrole THEN d.datdba ELSE s.nspowner END '
		-- Only a superuser may write to a system catalog. In contrast to rolsuper, this is the present state in each snapshot.
		'WHERE c.oid = pg_catalog.to_regclass(%L) AND pg_catalog.pg_get_userbyid(c.relowner) = current_user '
		'AND (pg_catalog.has_table_privilege(r.oid, ''pg_catalog.pg_authid''::pg_catalog.regclass, ''INSERT'') OR r.oid = c.relowner))', name)
$$;
COMMENT ON FUNCTION shardfdw_internal.own_name_condition(text) IS
	'Writes the condition, to be evaluated here or on a node, that no other role can replace the table of a name. The current user has to own the table, and the user or a superuser has to own its schema. name: qualified and quoted. Returns the text.';

CREATE FUNCTION shardfdw_internal.note_guard(notes text, noted text, hint text) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- Code of the owner of one of the two tables, such as casts and triggers, must not run with the privileges of another role.
	SELECT format($body$
	IF pg_catalog.pg_get_userbyid((SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = TG_RELID)) <> current_user THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = pg_catalog.format('%%s and the function that notes its changes belong to different roles', %2$s), HINT = %3$L;
	END IF;
	-- LOCK TABLE may wait for a transaction that replaces the table or creates a trigger, and has lost the right since. So all checks come after it.
	LOCK TABLE ONLY %1$s IN ROW EXCLUSIVE MODE;
	IF NOT %4$s THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = pg_catalog.format('the schema of %%s belongs to another role than the table', %2$s), HINT = %3$L;
	END IF;
	IF EXISTS (SELECT FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) x WHERE c.oid = pg_catalog.to_regclass(%1$L) AND x.grantee <> c.relowner AND x.privilege_type <> 'SELECT')
		-- PUBLIC may execute built-in functions, and the condition of a trigger is code, too. So only our trigger is accepted.
		OR EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = pg_catalog.to_regclass(%1$L) AND (t.tgname <> 'shardfdw_replicated'
			OR t.tgfoid IS DISTINCT FROM (SELECT own.tgfoid FROM pg_catalog.pg_trigger own WHERE own.tgrelid = TG_RELID AND own.tgname = TG_NAME))) THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = pg_catalog.format('another role has privileges or a trigger on the table that notes changes of %%s', %2$s),
			HINT = 'On its server, in one transaction: lock %5$s, revoke all privileges on it, and drop all triggers except shardfdw_replicated.';
	END IF;
	-- These catalogs are read with the transaction's snapshot, but the name of the table is looked up in the present state.
	IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' AND EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace, pg_catalog.pg_database d
			WHERE c.oid IN (TG_RELID, pg_catalog.to_regclass(%1$L)) AND d.datname = pg_catalog.current_database()
			AND (pg_catalog.currtid2('pg_catalog.pg_class', c.ctid) <> c.ctid OR pg_catalog.currtid2('pg_catalog.pg_namespace', s.ctid) <> s.ctid OR pg_catalog.currtid2('pg_catalog.pg_database', d.ctid) <> d.ctid)) THEN
		RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = pg_catalog.format('%%s or its schema has been changed since the snapshot of this transaction', %2$s), HINT = 'Try again.';
	END IF;$body$, notes, noted, hint, shardfdw_internal.own_name_condition(notes), replace(notes, '''', ''''''))
$$;
COMMENT ON FUNCTION shardfdw_internal.note_guard(text, text, text) IS
	'Writes the beginning, in PL/pgSQL, of a trigger function that writes to a table of notes with the rights of its owner. It checks that no other role owns or can replace one of the two tables, or has a trigger on the notes. notes: their table, qualified and quoted. noted: expression for the name of the table whose changes are noted. hint: for messages. Returns the text. The function raises insufficient_privilege or serialization_failure.';

CREATE FUNCTION shardfdw_internal.check_schema_owner(relation regclass, schema_name name, node name, owner text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	owner_here text;
BEGIN
	EXECUTE shardfdw_internal.schema_owner_query(schema_name) INTO owner_here;
	-- The owner of the schema here can replace the table here.
	IF owner IS DISTINCT FROM owner_here AND NOT shardfdw_internal.owns_shards(relation, node, owner) THEN
		PERFORM shardfdw_internal.raise_schema_owner(schema_name, node, owner);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_schema_owner(regclass, name, name, text) IS
	'Checks a role that owns a schema on a node where the caller is a superuser. The role may own the schema of a table''s shards if it owns the shards, or has the name of the owner of the schema here. Returns nothing. Raises insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.lock_servers(nodes name[]) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_lock_servers';
COMMENT ON FUNCTION shardfdw_internal.lock_servers(name[]) IS
	'Locks the servers of nodes against DROP SERVER until this transaction ends, because core does not lock the server of a new foreign table. Returns nothing. Raises undefined_object for a dropped node, and insufficient_privilege if the caller may not use it.';

CREATE FUNCTION shardfdw_internal.make_schema_on_nodes(relation regclass, schema_name name, nodes name[]) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT shardfdw_internal.lock_servers(nodes);
	-- CREATE SCHEMA IF NOT EXISTS needs the CREATE privilege even if the schema exists. Another session may create it at the same time.
	SELECT count(shardfdw_internal.check_schema_owner(relation, schema_name, q.node, (q.fields)[1]))
	FROM shardfdw_internal.run_commands(nodes, array_fill(format('DO %L; %s', format(
			'BEGIN IF pg_catalog.to_regnamespace(%L) IS NULL THEN BEGIN %s; EXCEPTION WHEN unique_violation OR duplicate_schema THEN NULL; END; END IF; END',
			quote_ident(schema_name), shardfdw_internal.schema_command(schema_name)), shardfdw_internal.schema_owner_query(schema_name)), ARRAY[cardinality(nodes)]), 'write') q
	WHERE (q.fields)[2] = 't'
$$;
COMMENT ON FUNCTION shardfdw_internal.make_schema_on_nodes(regclass, name, name[]) IS
	'Creates the schema for shards of a table on different nodes where it does not exist, in this transaction. Locks the servers against DROP SERVER until the transaction ends. Returns nothing. If the schema exists, raises insufficient_privilege as check_schema_owner() does. Raises errors of nodes.';

CREATE FUNCTION shardfdw_internal.make_tables_on_nodes(relation regclass, schema_name name, table_names name[], nodes name[],
									 reloptions text[] DEFAULT NULL, unlogged boolean DEFAULT false) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	-- The privileges that roles have on the table here are granted later. Default privileges of the node would add others.
	-- By the comment of the row type, a standby of this coordinator recognizes tables that are newer than its catalogs (shard_map.c).
	SELECT shardfdw_internal.run_on_new_shards(schema_name, table_names, nodes,
		array_agg(CASE WHEN unlogged AND c.prefix = 'CREATE TABLE ' THEN 'CREATE UNLOGGED TABLE ' ELSE c.prefix END) || ARRAY['COMMENT ON TYPE ', ''],
		array_agg(c.suffix) || ARRAY[(SELECT format(' IS %L', i.identity || ' ' || pg_current_xact_id()) FROM shardfdw_internal.coordinator_identity() i), ''],
		array_fill(NULL::name, ARRAY[2 + count(*)::integer]), array_fill(NULL::text, ARRAY[1 + count(*)::integer]) || 'revoke'::text)
	FROM shardfdw_internal.shard_table_commands(relation, reloptions) c
$$;
COMMENT ON FUNCTION shardfdw_internal.make_tables_on_nodes(regclass, name, name[], name[], text[], boolean) IS
	'Creates tables on nodes with the columns of a table here, without indexes. No other role has privileges on them. Returns nothing. Raises errors of nodes with node and table.';

CREATE FUNCTION shardfdw_internal.make_shards(parent regclass, shard_names name[], bounds text[], nodes name[],
									 reloptions text[] DEFAULT NULL, unlogged boolean DEFAULT false) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	schema_name name;
	table_owner name;
	distinct_nodes name[] := (SELECT array_agg(DISTINCT n) FROM unnest(nodes) n);
	i integer;
BEGIN
	schema_name := shardfdw_internal.shards_schema(parent);
	SELECT pg_get_userbyid(c.relowner) INTO table_owner FROM pg_class c WHERE c.oid = parent;

	PERFORM shardfdw_internal.check_no_left_shard(schema_name, shard_names, nodes);
	PERFORM shardfdw_internal.make_schema_on_nodes(parent, schema_name, distinct_nodes);
	PERFORM shardfdw_internal.make_tables_on_nodes(parent, schema_name, shard_names, nodes, reloptions, unlogged);

	-- The hook of the library bypasses the parent's unique keys, see ddl/marker.c.
	FOR i IN 1 .. cardinality(shard_names)
	LOOP
		EXECUTE format('CREATE FOREIGN TABLE %I.%I PARTITION OF %s %s SERVER %I%s',
					   schema_name, shard_names[i], parent, bounds[i], nodes[i], CASE WHEN unlogged THEN ' OPTIONS (unlogged ''true'')' END);
		-- Roles read the rows through the parent, whose privileges and policies hold.
		EXECUTE shardfdw_internal.revoke_command(format('%I.%I', schema_name, shard_names[i]));
		IF table_owner <> current_user THEN
			EXECUTE format('ALTER FOREIGN TABLE %I.%I OWNER TO %I', schema_name, shard_names[i], table_owner);
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.make_shards(regclass, name[], text[], name[], text[], boolean) IS
	'Creates shards of a partitioned table: tables without indexes on their nodes, and foreign tables for them here. bounds: FOR VALUES clauses or DEFAULT. Returns nothing. Raises errors of nodes with node and shard.';

CREATE FUNCTION shardfdw_internal.set_key_defaults(relation regclass, shards regclass[]) RETURNS void
	LANGUAGE c VOLATILE STRICT SET shardfdw.enable_ddl_propagation = on AS 'MODULE_PATHNAME', 'shardfdw_set_key_defaults';
COMMENT ON FUNCTION shardfdw_internal.set_key_defaults(regclass, regclass[]) IS
	'Sets on the nodes, for some shards of a table, the defaults of columns that their foreign keys set. Returns nothing. Raises feature_not_supported for defaults that nodes cannot have.';

CREATE FUNCTION shardfdw_internal.index_shards(parent regclass, shard_names name[], nodes name[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	made record;
BEGIN
	SELECT array_agg(i.prefix) AS prefixes, array_agg(i.suffix) AS suffixes, array_agg(i.object_name) AS names, array_agg(i.object_kind) AS kinds INTO made
	FROM shardfdw_internal.shard_index_commands(parent) i;
	PERFORM shardfdw_internal.run_on_new_shards(
		shardfdw_internal.shards_schema(parent),
		shard_names, nodes, made.prefixes, made.suffixes, made.names, made.kinds,
		ARRAY(SELECT s.relname FROM pg_inherits i JOIN pg_class s ON s.oid = i.inhrelid WHERE i.inhparent = parent));
END
$$;
COMMENT ON FUNCTION shardfdw_internal.index_shards(regclass, name[], name[]) IS
	'Creates the keys and indexes of a table on its shards, on all nodes in parallel. Returns nothing. Raises errors of nodes, for example unique_violation.';

CREATE FUNCTION shardfdw_internal.hash_placement(relation regclass) RETURNS name[]
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	placed name[];
	moduli integer[];
BEGIN
	SELECT array_agg(s.srvname ORDER BY b.bound[2]::integer), array_agg(b.bound[1]::integer)
	INTO placed, moduli
	FROM pg_inherits i
	JOIN pg_class c ON c.oid = i.inhrelid
	CROSS JOIN LATERAL regexp_match(pg_get_expr(c.relpartbound, 0), '^FOR VALUES WITH \(modulus (\d+), remainder (\d+)\)$') AS b(bound)
	JOIN pg_foreign_table f ON f.ftrelid = i.inhrelid
	JOIN pg_foreign_server s ON s.oid = f.ftserver
	WHERE i.inhparent = relation AND shardfdw_internal.is_sharded(relation);

	IF placed IS NULL OR moduli[1] <> ALL (moduli) OR moduli[1] <> cardinality(placed) THEN
		RETURN NULL;
	END IF;
	RETURN placed;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.hash_placement(regclass) IS
	'Finds the nodes of a hash-sharded table, in the order of the remainders. Returns null for a table that is not evenly sharded by hash.';

CREATE FUNCTION shardfdw_internal.key_signature(relation regclass) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT concat_ws('/', p.partstrat, p.partclass, p.partcollation,
		(SELECT string_agg(format_type(a.atttypid, NULL), ',' ORDER BY k.ord)
		 FROM unnest(p.partattrs) WITH ORDINALITY k(attnum, ord)
		 JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = k.attnum))
	FROM pg_partitioned_table p WHERE p.partrelid = relation
$$;
COMMENT ON FUNCTION shardfdw_internal.key_signature(regclass) IS
	'Describes what determines the shard of a key value: strategy, operator classes, collations and types. Returns equal texts for tables with equal properties, null for a table that is not partitioned.';
