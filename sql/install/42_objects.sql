-- Types, functions, collations and extensions that the shards of a table need, and that nodes get with the shards.

CREATE FUNCTION shardfdw_internal.needed(relations regclass[])
	RETURNS TABLE (classid oid, objid oid, level integer)
	LANGUAGE c STABLE STRICT AS 'MODULE_PATHNAME', 'shardfdw_needed';
COMMENT ON FUNCTION shardfdw_internal.needed(regclass[]) IS
	'Finds the user-defined objects that must exist on nodes before the shards of tables can be created. These are the objects that their columns, constraints, generated columns and indexes depend on, and in turn what those objects need. For a member of an extension, the extension is returned. Returns class and OID of each object, and its level: objects with a lower level need those with a higher level.';

CREATE FUNCTION shardfdw_internal.needed_objects(relations regclass[])
	RETURNS TABLE (kind text, object jsonb, label text, level integer)
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	-- Usually there are none, and planning the query takes longer than this test.
	IF NOT EXISTS (SELECT FROM shardfdw_internal.needed(relations)) THEN
		RETURN;
	END IF;
	RETURN QUERY
	SELECT k.kind, k.object, pg_describe_object(n.classid, n.objid, 0), n.level
	FROM shardfdw_internal.needed(relations) n
	CROSS JOIN LATERAL (
		SELECT 'schema', jsonb_build_object('name', s.nspname) FROM pg_namespace s
		WHERE n.classid = 'pg_namespace'::regclass AND s.oid = n.objid
		UNION ALL
		SELECT 'extension', jsonb_build_object('name', e.extname, 'command', format('CREATE EXTENSION IF NOT EXISTS %I SCHEMA %I VERSION %L',
			e.extname, s.nspname, e.extversion)) FROM pg_extension e JOIN pg_namespace s ON s.oid = e.extnamespace
		WHERE n.classid = 'pg_extension'::regclass AND e.oid = n.objid
		UNION ALL
		SELECT 'type', jsonb_build_object('name', t.typname, 'schema', s.nspname) FROM pg_type t JOIN pg_namespace s ON s.oid = t.typnamespace
		WHERE n.classid = 'pg_type'::regclass AND t.oid = n.objid
		UNION ALL
		SELECT 'function', jsonb_build_object('name', p.proname, 'schema', s.nspname, 'arguments',
			(SELECT coalesce(jsonb_agg(format_type(a, NULL) ORDER BY o), '[]') FROM unnest(p.proargtypes) WITH ORDINALITY u(a, o)),
			'owner', CASE WHEN r.rolname <> current_user AND NOT (r.rolsuper AND (SELECT m.rolsuper FROM pg_roles m WHERE m.rolname = current_user)) THEN r.rolname END)
		FROM pg_proc p JOIN pg_namespace s ON s.oid = p.pronamespace JOIN pg_roles r ON r.oid = p.proowner
		WHERE n.classid = 'pg_proc'::regclass AND p.oid = n.objid
		UNION ALL
		SELECT 'collation', jsonb_build_object('name', c.collname, 'schema', s.nspname) FROM pg_collation c JOIN pg_namespace s ON s.oid = c.collnamespace
		WHERE n.classid = 'pg_collation'::regclass AND c.oid = n.objid
		UNION ALL
		SELECT 'operator', jsonb_build_object('name', o.oprname, 'schema', s.nspname, 'arguments',
			jsonb_build_array(format_type(nullif(o.oprleft, 0), NULL), format_type(o.oprright, NULL)))
		FROM pg_operator o JOIN pg_namespace s ON s.oid = o.oprnamespace
		WHERE n.classid = 'pg_operator'::regclass AND o.oid = n.objid
		UNION ALL
		SELECT 'operator class', jsonb_build_object('name', o.opcname, 'schema', s.nspname, 'arguments', jsonb_build_array(a.amname))
		FROM pg_opclass o JOIN pg_namespace s ON s.oid = o.opcnamespace JOIN pg_am a ON a.oid = o.opcmethod
		WHERE n.classid = 'pg_opclass'::regclass AND o.oid = n.objid
		UNION ALL
		SELECT 'text search configuration', jsonb_build_object('name', c.cfgname, 'schema', s.nspname)
		FROM pg_ts_config c JOIN pg_namespace s ON s.oid = c.cfgnamespace
		WHERE n.classid = 'pg_ts_config'::regclass AND c.oid = n.objid
	) k(kind, object);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.needed_objects(regclass[]) IS
	'Lists what the shards of tables need on their nodes, see needed(): schemas, extensions, types, functions, collations, operators and operator classes. Returns for each object the kind, the name as jsonb, a description, and a level: objects with a lower level need those with a higher level. The name contains the owner of a function that the current user may not create on nodes.';

CREATE FUNCTION shardfdw_internal.tables_that_need(schema_name name) RETURNS SETOF regclass
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT t.relation
	FROM (SELECT DISTINCT i.inhparent::regclass FROM pg_inherits i JOIN pg_foreign_table f ON f.ftrelid = i.inhrelid
		  UNION ALL SELECT r FROM shardfdw_internal.reference_tables() r) t(relation)
	WHERE EXISTS (
		-- most schemas contain only tables
		SELECT FROM pg_depend d JOIN pg_namespace s ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = s.oid
		WHERE s.nspname = schema_name AND d.classid <> 'pg_class'::regclass
		UNION ALL SELECT FROM pg_extension e JOIN pg_namespace s ON s.oid = e.extnamespace WHERE s.nspname = schema_name
		-- no other object depends on this one
		UNION ALL SELECT WHERE schema_name = 'public')
	AND EXISTS (
		SELECT FROM shardfdw_internal.needed_objects(ARRAY[t.relation]) n
		LEFT JOIN pg_extension e ON n.kind = 'extension' AND e.extname = n.object->>'name'
		LEFT JOIN pg_namespace s ON s.oid = e.extnamespace
		WHERE schema_name IN (n.object->>'schema', s.nspname))
$$;
COMMENT ON FUNCTION shardfdw_internal.tables_that_need(name) IS
	'Lists the sharded and reference tables, in any schema, whose shards and replicas need types, functions, collations, operators or an extension of a schema on their nodes.';

CREATE FUNCTION shardfdw_internal.tables_of_type(type oid) RETURNS SETOF regclass
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT t.relation
	FROM (SELECT DISTINCT i.inhparent::regclass FROM pg_inherits i JOIN pg_foreign_table f ON f.ftrelid = i.inhrelid
		  UNION ALL SELECT r FROM shardfdw_internal.reference_tables() r) t(relation)
	WHERE EXISTS (SELECT FROM shardfdw_internal.needed(ARRAY[t.relation]) n
		WHERE n.classid = 'pg_type'::regclass AND n.objid = tables_of_type.type)
	ORDER BY 1
$$;
COMMENT ON FUNCTION shardfdw_internal.tables_of_type(oid) IS
	'Lists the sharded and reference tables whose shards and replicas need a type on their nodes.';

CREATE FUNCTION shardfdw_internal.lock_schema(schema regnamespace) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_lock_schema';
COMMENT ON FUNCTION shardfdw_internal.lock_schema(regnamespace) IS
	'Prevents other sessions from creating tables in a schema and from renaming it until the transaction ends. Returns nothing. Raises insufficient_privilege if the caller does not own it.';

CREATE FUNCTION shardfdw_internal.lock_schemas(relation regclass) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_lock_schemas';
COMMENT ON FUNCTION shardfdw_internal.lock_schemas(regclass) IS
	'Prevents the schemas that a table needs on nodes from being renamed until this transaction ends. Returns nothing. Raises insufficient_privilege if the caller may not lock the table.';

CREATE FUNCTION shardfdw_internal.object_query(objects jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- The text must be the same here and on nodes. Columns with different names in major versions are read as JSON.
	-- Without pg_get_constraintdef(), which uses the snapshot of the transaction, not of the query.
	-- Only the needed parts, because planning takes most of the time.
	SELECT replace(replace($query$
		SELECT o.ord, x.found, x.definition, current_setting('server_version_num')::integer / 10000, r.rolname, m.rolsuper AND NOT r.rolsuper
		FROM jsonb_array_elements($objects$::jsonb) WITH ORDINALITY o(object, ord)
		LEFT JOIN LATERAL ($kinds$) x(found, definition, owner) ON true
		LEFT JOIN pg_roles r ON r.oid = x.owner LEFT JOIN pg_roles m ON m.rolname = current_user
		ORDER BY o.ord$query$, '$kinds$', string_agg(k.query, ' UNION ALL ' ORDER BY k.kind)), '$objects$', quote_literal(objects::text))
	FROM (VALUES
		('schema', $query$
			SELECT true, NULL, CASE s.nspowner WHEN 'pg_database_owner'::regrole THEN d.datdba ELSE s.nspowner END
			FROM pg_namespace s JOIN pg_database d ON d.datname = current_database()
			WHERE o.object->>'kind' = 'schema' AND s.nspname = o.object->>'name'$query$),
		('extension', $query$
			SELECT true, format('SCHEMA %I VERSION %L', s.nspname, e.extversion), NULL::oid FROM pg_extension e JOIN pg_namespace s ON s.oid = e.extnamespace
			WHERE o.object->>'kind' = 'extension' AND e.extname = o.object->>'name'$query$),
		('type', $query$
			SELECT true, CASE t.typtype
				WHEN 'e' THEN format('CREATE TYPE %I.%I AS ENUM (%s)', s.nspname, t.typname,
					(SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid))
				WHEN 'd' THEN concat_ws(' ', format('CREATE DOMAIN %I.%I AS %s', s.nspname, t.typname, format_type(t.typbasetype, t.typtypmod)),
					(SELECT format('COLLATE %I.%I', cs.nspname, c.collname) FROM pg_collation c JOIN pg_namespace cs ON cs.oid = c.collnamespace
					 JOIN pg_type b ON b.oid = t.typbasetype WHERE c.oid = t.typcollation AND t.typcollation <> b.typcollation),
					CASE WHEN t.typnotnull THEN 'NOT NULL' END,
					(SELECT string_agg(format('CONSTRAINT %I CHECK (%s)', k.conname, pg_get_expr(k.conbin, 0)), ' '
						ORDER BY k.conname::text COLLATE "C") FROM pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c'))
				WHEN 'c' THEN (SELECT format('CREATE TYPE %I.%I AS (%s)', s.nspname, t.typname, string_agg(concat_ws(' ',
						quote_ident(a.attname), format_type(a.atttypid, a.atttypmod),
						(SELECT format('COLLATE %I.%I', cs.nspname, c.collname) FROM pg_collation c JOIN pg_namespace cs ON cs.oid = c.collnamespace
						 JOIN pg_type b ON b.oid = a.atttypid WHERE c.oid = a.attcollation AND a.attcollation <> b.typcollation)), ', ' ORDER BY a.attnum))
					FROM pg_class r JOIN pg_attribute a ON a.attrelid = r.oid WHERE r.oid = t.typrelid AND r.relkind = 'c' AND a.attnum > 0 AND NOT a.attisdropped HAVING count(*) > 0)
				WHEN 'r' THEN (SELECT format('CREATE TYPE %I.%I AS RANGE (%s)', s.nspname, t.typname, concat_ws(', ',
						'SUBTYPE = ' || format_type(r.rngsubtype, NULL),
						(SELECT format('SUBTYPE_OPCLASS = %I.%I', os.nspname, oc.opcname) FROM pg_opclass oc JOIN pg_namespace os ON os.oid = oc.opcnamespace WHERE oc.oid = r.rngsubopc),
						(SELECT format('COLLATION = %I.%I', cs.nspname, c.collname) FROM pg_collation c JOIN pg_namespace cs ON cs.oid = c.collnamespace WHERE c.oid = r.rngcollation),
						(SELECT format('CANONICAL = %I.%I', ps.nspname, p.proname) FROM pg_proc p JOIN pg_namespace ps ON ps.oid = p.pronamespace WHERE p.oid = r.rngcanonical),
						(SELECT format('SUBTYPE_DIFF = %I.%I', ps.nspname, p.proname) FROM pg_proc p JOIN pg_namespace ps ON ps.oid = p.pronamespace WHERE p.oid = r.rngsubdiff),
						(SELECT format('MULTIRANGE_TYPE_NAME = %I.%I', ms.nspname, m.typname) FROM pg_type m JOIN pg_namespace ms ON ms.oid = m.typnamespace WHERE m.oid = r.rngmultitypid)))
					FROM pg_range r WHERE r.rngtypid = t.oid) END, t.typowner
			FROM pg_type t JOIN pg_namespace s ON s.oid = t.typnamespace
			WHERE o.object->>'kind' = 'type' AND t.typname = o.object->>'name' AND s.nspname = o.object->>'schema'$query$),
		('function', $query$
			SELECT true, CASE WHEN p.prokind IN ('f', 'p', 'w') THEN regexp_replace(pg_get_functiondef(p.oid), '^CREATE OR REPLACE ', 'CREATE ') END, p.proowner
			FROM pg_proc p JOIN pg_namespace s ON s.oid = p.pronamespace
			WHERE o.object->>'kind' = 'function' AND p.proname = o.object->>'name' AND s.nspname = o.object->>'schema'
				AND o.object->'arguments' = (SELECT coalesce(jsonb_agg(format_type(a, NULL) ORDER BY n), '[]') FROM unnest(p.proargtypes) WITH ORDINALITY u(a, n))$query$),
		('collation', $query$
			SELECT true, format('CREATE COLLATION %I.%I (%s)', s.nspname, j->>'collname', concat_ws(', ',
				'PROVIDER = ' || CASE j->>'collprovider' WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' ELSE 'libc' END,
				'LOCALE = ' || quote_literal(coalesce(j->>'colllocale', j->>'colliculocale')),
				CASE j->>'collprovider' WHEN 'c' THEN format('LC_COLLATE = %L, LC_CTYPE = %L', j->>'collcollate', j->>'collctype') END,
				'RULES = ' || quote_literal(j->>'collicurules'),
				'DETERMINISTIC = ' || (j->>'collisdeterministic'))), NULL::oid
			FROM (SELECT to_jsonb(c) AS j, c.collnamespace FROM pg_collation c WHERE c.collname = o.object->>'name'
				AND c.collencoding IN (-1, (SELECT d.encoding FROM pg_database d WHERE d.datname = current_database()))) c
			JOIN pg_namespace s ON s.oid = c.collnamespace
			WHERE o.object->>'kind' = 'collation' AND s.nspname = o.object->>'schema'$query$),
		('operator', $query$
			SELECT true, concat_ws(', ', format('CREATE OPERATOR %I.%s (FUNCTION = %s', s.nspname, p.oprname, p.oprcode),
				'LEFTARG = ' || format_type(nullif(p.oprleft, 0), NULL), format('RIGHTARG = %s)', format_type(p.oprright, NULL))), NULL::oid
			FROM pg_operator p JOIN pg_namespace s ON s.oid = p.oprnamespace
			WHERE o.object->>'kind' = 'operator' AND p.oprname = o.object->>'name' AND s.nspname = o.object->>'schema'
				AND o.object->'arguments' = jsonb_build_array(format_type(nullif(p.oprleft, 0), NULL), format_type(p.oprright, NULL))$query$),
		('operator class', $query$
			SELECT true, NULL, NULL::oid FROM pg_opclass p JOIN pg_namespace s ON s.oid = p.opcnamespace JOIN pg_am a ON a.oid = p.opcmethod
			WHERE o.object->>'kind' = 'operator class' AND p.opcname = o.object->>'name' AND s.nspname = o.object->>'schema'
				AND o.object->'arguments'->>0 = a.amname$query$),
		('text search configuration', $query$
			SELECT true, NULL, NULL::oid FROM pg_ts_config c JOIN pg_namespace s ON s.oid = c.cfgnamespace
			WHERE o.object->>'kind' = 'text search configuration' AND c.cfgname = o.object->>'name' AND s.nspname = o.object->>'schema'$query$)) k(kind, query)
	WHERE objects @> jsonb_build_array(jsonb_build_object('kind', k.kind))
$$;
COMMENT ON FUNCTION shardfdw_internal.object_query(jsonb) IS
	'Writes the query, to be run here or on a node, for the definitions of objects in the format of needed_objects(). Returns its text. The query returns for each object its number, whether it exists, and its definition as a command, if it has one (for an extension its version). It also returns the major version of the server, the owner of a schema, type or function, and whether that owner is no superuser while the current user is a superuser.';

CREATE FUNCTION shardfdw_internal.compare_objects(relations regclass[], nodes name[], mode text, stop_on_error boolean DEFAULT true)
	RETURNS TABLE (node name, ok boolean, message text, kind text, name text, label text, command text, owner text, here text, there text, found boolean, is_different boolean, level integer, owner_here text, other_owner text)
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	needed jsonb;
	question text;
	answers jsonb;
BEGIN
	SELECT jsonb_agg(n.object || jsonb_build_object('kind', n.kind, 'label', n.label, 'level', n.level)
					 ORDER BY n.level DESC, n.kind <> 'schema', n.kind <> 'extension', n.label COLLATE "C")
	INTO needed FROM shardfdw_internal.needed_objects(relations) n;
	IF needed IS NULL OR nodes = '{}' THEN
		RETURN;
	END IF;
	question := shardfdw_internal.object_query((SELECT jsonb_agg(n - 'label' - 'level' - 'command' - 'owner') FROM jsonb_array_elements(needed) n));
	-- Not in the large query below, whose text would appear in the context of an error of a node.
	answers := (SELECT jsonb_agg(a) FROM shardfdw_internal.run_commands(nodes, array_fill(question, ARRAY[cardinality(nodes)]), mode, stop_on_error) a);
	RETURN QUERY EXECUTE format($q$
		SELECT a.node, a.ok, a.message, n.object->>'kind', n.object->>'name', n.object->>'label',
			CASE n.object->>'kind' WHEN 'schema' THEN format('DO %%L', format('BEGIN %%s; END', shardfdw_internal.schema_command((n.object->>'name')::name)))
				WHEN 'extension' THEN n.object->>'command' ELSE h.definition END,
			n.object->>'owner',
			h.definition, (a.fields)[3], (a.fields)[2] IS NOT NULL,
			CASE WHEN (a.fields)[4]::integer = h.major THEN h.definition IS DISTINCT FROM (a.fields)[3]
				-- Major versions print expressions with different blanks and parentheses.
				ELSE regexp_replace(h.definition, '[\s()]', '', 'g') IS DISTINCT FROM regexp_replace((a.fields)[3], '[\s()]', '', 'g') END,
			(n.object->>'level')::integer, h.owner::text,
			-- roles that could later change what a superuser runs there; an owner of tables can replace them without owning the schema
			CASE WHEN (a.fields)[6] = 't' AND NOT (n.object->>'kind' = 'schema' AND coalesce((SELECT bool_and(shardfdw_internal.owns_shards(c.oid, a.node, (a.fields)[5]))
				FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace WHERE c.oid = ANY ($3) AND s.nspname = n.object->>'name'), false)) THEN nullif((a.fields)[5], h.owner) END
		FROM jsonb_to_recordset($1) a(node name, ok boolean, message text, fields text[])
		LEFT JOIN jsonb_array_elements($2) WITH ORDINALITY n(object, ord) ON n.ord = (a.fields)[1]::bigint
		LEFT JOIN (%s) h(ord, found, definition, major, owner, is_foreign) ON h.ord = n.ord
		ORDER BY a.node::text COLLATE "C", n.ord$q$, question) USING answers, needed, relations;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.compare_objects(regclass[], name[], text, boolean) IS
	'Compares what the shards of tables need with what nodes have. mode: as in query_nodes(). Returns one row per node and object, in the order in which they can be created. If a node does not answer, returns one row with its error if stop_on_error is false, and raises the error otherwise. other_owner: the owner on the node, if the remote user is a superuser and that owner is neither a superuser nor the role that owns the object here. For a schema, the role that owns all shards of these tables in it is also accepted.';

CREATE FUNCTION shardfdw_internal.extensions_command(node name, names text[]) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('ALTER SERVER %I OPTIONS (%s extensions %L)', s.srvname, CASE WHEN o.value IS NULL THEN 'ADD' ELSE 'SET' END,
		concat_ws(', ', nullif(o.value, ''), n.missing))
	FROM pg_foreign_server s
	LEFT JOIN LATERAL (SELECT x.option_value AS value FROM pg_options_to_table(s.srvoptions) x WHERE x.option_name = 'extensions') o ON true
	-- names are parsed like identifiers
	CROSS JOIN LATERAL (SELECT string_agg(DISTINCT quote_ident(e), ', ') AS missing FROM unnest(names) e
		WHERE NOT EXISTS (SELECT FROM regexp_split_to_table(o.value, ',') l WHERE btrim(l) = quote_ident(e) OR lower(btrim(l)) = e)) n
	WHERE s.srvname = node AND n.missing IS NOT NULL
$$;
COMMENT ON FUNCTION shardfdw_internal.extensions_command(name, text[]) IS
	'Writes the command that adds extensions to the option extensions of a server. Returns null if the option lists them already.';

CREATE FUNCTION shardfdw_internal.lock_new_objects(nodes name[]) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_lock_new_objects';
COMMENT ON FUNCTION shardfdw_internal.lock_new_objects(name[]) IS
	'Prevents other sessions from creating schemas, types, functions and similar objects on nodes until the transaction ends, because two sessions may need the same objects. Returns nothing. Raises insufficient_privilege if the caller may not use the nodes.';

CREATE FUNCTION shardfdw_internal.make_objects_seen(relation regclass, nodes name[], mode text DEFAULT 'write') RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	distinct_nodes name[] := (SELECT array_agg(DISTINCT n) FROM unnest(nodes) n);
	o record;
	failed record;
	make_nodes name[] := '{}';
	commands text[] := '{}';
	labels text[] := '{}';
	extension_nodes name[] := '{}';
	extensions text[] := '{}';
	alters text;
BEGIN
	-- When the lock is granted, another session may have created the missing objects.
	IF EXISTS (SELECT FROM shardfdw_internal.compare_objects(ARRAY[relation], distinct_nodes, mode) c WHERE NOT c.found) THEN
		PERFORM shardfdw_internal.lock_new_objects(distinct_nodes);
	END IF;
	FOR o IN SELECT * FROM shardfdw_internal.compare_objects(ARRAY[relation], distinct_nodes, mode)
	LOOP
		IF o.kind = 'extension' AND NOT (o.found AND o.is_different) THEN
			extension_nodes := extension_nodes || o.node;
			extensions := extensions || o.name;
		END IF;
		IF o.found AND o.is_different AND o.kind <> 'extension' THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
				MESSAGE = format('%s on node "%s" is not the one here', o.label, o.node),
				DETAIL = format(E'There: %s\nHere: %s', coalesce(o.there, 'of another kind'), coalesce(o.here, 'of another kind')),
				HINT = 'Make them the same, or give one of them another name.';
		ELSIF o.other_owner IS NOT NULL AND o.kind = 'schema' THEN
			PERFORM shardfdw_internal.raise_schema_owner(o.name, o.node, o.other_owner);
		ELSIF o.other_owner IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
				MESSAGE = format('%s on node "%s" belongs to role "%s"', o.label, o.node, o.other_owner),
				DETAIL = 'That role could change what would run there with the rights of a superuser.',
				HINT = format('If it is right there, give it to the role that owns it here, on the node: ALTER %s OWNER TO %I', o.label, o.owner_here);
		ELSIF NOT o.found AND (o.command IS NULL OR o.kind = 'operator'
				OR (o.kind = 'function' AND (o.command !~ '\n LANGUAGE (sql|plpgsql)\n'
					-- The function would run there with the privileges of the role that creates it, not of its owner here.
					OR o.command LIKE '%SECURITY DEFINER%'))) THEN
			RAISE EXCEPTION USING ERRCODE = 'undefined_object',
				MESSAGE = format('%s does not exist on node "%s"', o.label, o.node),
				DETAIL = 'It is of a kind that is not made there by itself.',
				HINT = coalesce('Create it on the node first, as the role that is to own it: ' || o.command, 'Create it on the node first.');
		ELSIF NOT o.found AND o.owner IS NOT NULL THEN
			-- The function would belong to the role of the caller there, whose functions other roles trust.
			RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
				MESSAGE = format('cannot create %s of role "%s" on node "%s"', o.label, o.owner, o.node),
				DETAIL = 'It would belong there to the role of another user mapping.',
				HINT = format('Do it as the owner of the function: SET ROLE %I. Or create it on the node first, as the role that is to own it: %s', o.owner, o.command);
		ELSIF NOT o.found THEN
			make_nodes := make_nodes || o.node;
			-- objects that a body mentions may be created later
			commands := commands || CASE o.kind WHEN 'function'
				THEN format('SET check_function_bodies = off; %s; RESET check_function_bodies', o.command) ELSE o.command END;
			labels := labels || o.label;
		END IF;
	END LOOP;
	SELECT string_agg(e.command, '; ' ORDER BY e.node::text COLLATE "C") INTO alters
	FROM (SELECT x.node, shardfdw_internal.extensions_command(x.node, array_agg(x.name)) AS command
		FROM unnest(extension_nodes, extensions) x(node, name) GROUP BY x.node) e;
	IF alters IS NOT NULL THEN
		RAISE NOTICE USING MESSAGE = format('nodes do not compute with objects of extensions: %s', (SELECT string_agg(DISTINCT quote_ident(e), ', ') FROM unnest(extensions) e)),
			DETAIL = 'The coordinator computes with them: its queries read more rows from nodes.',
			HINT = format('If the nodes have the same build of these extensions, the owner of the servers can change that: %s', alters);
	END IF;
	IF commands = '{}' THEN
		RETURN;
	END IF;

	SELECT q.* INTO failed FROM shardfdw_internal.run_commands(make_nodes, commands, mode, false) q WHERE NOT q.ok ORDER BY q.command LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = coalesce(failed.sqlstate, 'fdw_error'),
			MESSAGE = format('could not create %s on node "%s": %s', labels[failed.command], failed.node, failed.message),
			DETAIL = coalesce(failed.detail, ''),
			HINT = format('Create it on the node first, as a role that may: %s', commands[failed.command]);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.make_objects_seen(regclass, name[], text) IS
	'Does what make_objects_on_nodes() does, with the snapshot of the statement. mode: write, in this transaction, or autocommit. Returns nothing. Raises the same errors.';

CREATE FUNCTION shardfdw_internal.make_objects_on_nodes(relation regclass, nodes name[]) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_make_objects_on_nodes';
COMMENT ON FUNCTION shardfdw_internal.make_objects_on_nodes(regclass, name[]) IS
	'Creates on nodes the missing objects that the shards of a table need: schemas, extensions, types, collations and functions, in this transaction. Replaces nothing. Returns nothing. Raises object_not_in_prerequisite_state if an object of the same name differs, and undefined_object if an object cannot be created automatically. Raises insufficient_privilege for a function of another role (all superusers count as one role), and errors of nodes. Each error contains the command.';

CREATE FUNCTION shardfdw_internal.inspect_objects(nodes name[])
	RETURNS TABLE (node name, label text, status text, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY
	SELECT o.node, o.label,
		CASE WHEN NOT o.ok OR NOT o.found THEN 'error' WHEN o.is_different THEN CASE o.kind WHEN 'extension' THEN 'warning' ELSE 'error' END
			WHEN o.other_owner IS NOT NULL THEN 'warning' WHEN x.alter IS NOT NULL THEN 'warning' ELSE 'ok' END,
		CASE WHEN NOT o.ok THEN o.message WHEN NOT o.found THEN 'does not exist there'
			WHEN o.is_different THEN format('%s, but %s here', coalesce(o.there, 'of another kind'), coalesce(o.here, 'of another kind'))
			WHEN o.other_owner IS NOT NULL THEN format('belongs to role "%s" there, which could change what runs with the rights of a superuser', o.other_owner)
			WHEN x.alter IS NOT NULL THEN format('the node does not compute with its objects; if it has the same build: %s', x.alter)
			ELSE 'as expected' END
	FROM (SELECT n.relations, array_agg(n.node ORDER BY n.node) AS nodes FROM (
			-- what a node stores; nodes that store the same are queried together
			SELECT x.node, array_agg(x.relation ORDER BY x.relation::oid) AS relations FROM (
				SELECT d.node, d.relation FROM (
					SELECT DISTINCT s.srvname AS node, i.inhparent::regclass AS relation
					FROM pg_inherits i JOIN pg_foreign_table f ON f.ftrelid = i.inhrelid JOIN pg_foreign_server s ON s.oid = f.ftserver
					WHERE s.srvname = ANY (inspect_objects.nodes)) d
				WHERE shardfdw_internal.is_sharded(d.relation)
				UNION SELECT n.node, r FROM unnest(inspect_objects.nodes) n(node), shardfdw_internal.reference_tables() r) x
			GROUP BY x.node) n
		  GROUP BY n.relations) g,
		shardfdw_internal.compare_objects(g.relations, g.nodes, 'read', false) o
		LEFT JOIN LATERAL (SELECT shardfdw_internal.extensions_command(o.node, ARRAY[o.name]) AS alter WHERE o.kind = 'extension') x ON true
	-- A table that was moved without its shards: create_shard() creates the schema when it is needed.
	WHERE NOT o.ok OR o.found OR o.kind <> 'schema' OR NOT EXISTS (
			SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE c.oid = ANY (g.relations) AND c.relkind = 'p' AND n.nspname = o.name)
		OR EXISTS (SELECT FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_class c ON c.oid = f.ftrelid
			JOIN pg_namespace n ON n.oid = c.relnamespace WHERE s.srvname = o.node AND n.nspname = o.name);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.inspect_objects(name[]) IS
	'Compares the types, functions, collations and extensions that sharded and reference tables need with those on their nodes. Returns one row per object and node. error: it is missing or differs. warning: an extension has another version, or option extensions does not list it. Otherwise ok.';
