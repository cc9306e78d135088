-- Checks whether moving a table's rows would run code of the owner with the privileges of another role.

CREATE FUNCTION shardfdw_internal.owner_code_query(relation text, names jsonb DEFAULT '[]') RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- Names are substituted in the first line only, so that format() does not interpret their contents.
	SELECT format('WITH RECURSIVE asked(relation, names) AS (SELECT %L::text, %L::jsonb),', relation, names) || $query$
		tables(oid) AS (
			SELECT to_regclass(a.relation) FROM asked a
			-- The partition keys of all levels above define which rows a DEFAULT shard stores.
			UNION SELECT pg_partition_ancestors(to_regclass(a.relation)) FROM asked a
		), code(classid, objid) AS (
			-- No defaults and triggers: sessions that write run them.
			SELECT 'pg_class'::regclass::oid, t.oid::oid FROM tables t
			UNION ALL
			SELECT 'pg_type'::regclass, c.reltype FROM tables t JOIN pg_class c ON c.oid = t.oid
			UNION ALL
			SELECT 'pg_class'::regclass, i.indexrelid FROM tables t JOIN pg_index i ON i.indrelid = t.oid
			UNION ALL
			-- the planner folds constants in them
			SELECT 'pg_statistic_ext'::regclass, s.oid FROM tables t JOIN pg_statistic_ext s ON s.stxrelid = t.oid
			UNION ALL
			SELECT 'pg_constraint'::regclass, k.oid FROM tables t JOIN pg_constraint k ON k.conrelid = t.oid
			UNION ALL
			SELECT 'pg_attrdef'::regclass, d.oid FROM tables t JOIN pg_attrdef d ON d.adrelid = t.oid
			JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum WHERE a.attgenerated <> ''
			UNION ALL
			-- objects that an expression with such names may refer to
			SELECT x.classid, x.objid FROM asked a CROSS JOIN jsonb_array_elements(a.names) o JOIN pg_namespace n ON n.nspname = o->>'schema' CROSS JOIN LATERAL (
				-- A call may omit arguments with defaults, and may have any number of variadic arguments.
				SELECT 'pg_proc'::regclass, p.oid FROM pg_proc p WHERE o->>'kind' = 'function' AND p.pronamespace = n.oid AND p.proname = o->>'name'
					AND (p.provariadic <> 0 OR jsonb_array_length(o->'arguments') BETWEEN p.pronargs - p.pronargdefaults AND p.pronargs)
				UNION ALL SELECT 'pg_operator'::regclass, p.oid FROM pg_operator p WHERE o->>'kind' = 'operator' AND p.oprnamespace = n.oid AND p.oprname = o->>'name'
				UNION ALL SELECT 'pg_type'::regclass, t.oid FROM pg_type t WHERE o->>'kind' = 'type' AND t.typnamespace = n.oid AND t.typname = o->>'name'
				-- a cast to the type, or to an array or multirange of it
				UNION ALL SELECT 'pg_proc'::regclass, k.castfunc FROM pg_type t LEFT JOIN pg_range r ON r.rngtypid = t.oid
				JOIN pg_type y ON t.oid IN (y.oid, y.typelem, y.typarray) OR r.rngmultitypid IN (y.oid, y.typelem) JOIN pg_cast k ON k.casttarget = y.oid AND k.castfunc <> 0
				WHERE o->>'kind' = 'type' AND t.typnamespace = n.oid AND t.typname = o->>'name') x(classid, objid)
			UNION
			SELECT x.classid, x.objid
			FROM code c
			CROSS JOIN LATERAL (
				SELECT d.refclassid, d.refobjid FROM pg_depend d WHERE d.classid = c.classid AND d.objid = c.objid
					AND (d.refclassid IN ('pg_operator'::regclass, 'pg_type'::regclass)
						-- Only superusers can create base types and their input and output functions.
						OR d.refclassid = 'pg_proc'::regclass AND (c.classid <> 'pg_type'::regclass
							OR EXISTS (SELECT FROM pg_range r WHERE r.rngtypid = c.objid)))
				UNION ALL
				-- Dependencies omit built-in objects, and the types that JSON functions return.
				SELECT CASE WHEN m.found[1] ~ 'funcid' THEN 'pg_proc'::regclass WHEN m.found[1] ~ 'opno' THEN 'pg_operator'::regclass
					ELSE 'pg_type'::regclass END, m.found[2]::oid
				FROM (SELECT k.conbin::text FROM pg_constraint k WHERE c.classid = 'pg_constraint'::regclass AND k.oid = c.objid
					  UNION ALL
					  SELECT a.adbin::text FROM pg_attrdef a WHERE c.classid = 'pg_attrdef'::regclass AND a.oid = c.objid
					  UNION ALL
					  SELECT concat(i.indexprs, i.indpred) FROM pg_index i WHERE c.classid = 'pg_class'::regclass AND i.indexrelid = c.objid
					  UNION ALL
					  SELECT s.stxexprs::text FROM pg_statistic_ext s WHERE c.classid = 'pg_statistic_ext'::regclass AND s.oid = c.objid
					  UNION ALL
					  SELECT p.partexprs::text FROM pg_partitioned_table p WHERE c.classid = 'pg_class'::regclass AND p.partrelid = c.objid) e(tree)
				CROSS JOIN LATERAL regexp_matches(e.tree, ':(\w*(?:funcid|opno|typ\w*)) ([1-9]\d*)', 'g') m(found)
				UNION ALL
				SELECT 'pg_proc'::regclass, o.oprcode FROM pg_operator o WHERE c.classid = 'pg_operator'::regclass AND o.oid = c.objid
				UNION ALL
				-- The planner replaces NOT (a op b) by the negator, and b op a by the commutator.
				SELECT 'pg_operator'::regclass, n.oid FROM pg_operator o, unnest(ARRAY[o.oprnegate, o.oprcom]) n(oid)
				WHERE c.classid = 'pg_operator'::regclass AND o.oid = c.objid AND n.oid <> 0
				UNION ALL
				-- constraints of a domain, columns of a composite type
				SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k WHERE c.classid = 'pg_type'::regclass AND k.contypid = c.objid
				UNION ALL
				SELECT 'pg_class'::regclass, t.typrelid FROM pg_type t WHERE c.classid = 'pg_type'::regclass AND t.oid = c.objid AND t.typrelid <> 0
				UNION ALL
				-- Foreign keys, to_json() and similar functions look up casts at run time.
				SELECT 'pg_proc'::regclass, k.castfunc FROM pg_cast k
				WHERE c.classid = 'pg_type'::regclass AND c.objid >= 16384 AND k.castsource = c.objid AND k.castfunc <> 0) x(classid, objid)
		), function AS (
			SELECT p.oid::regprocedure::text AS name, r.rolname AS owner, NOT r.rolsuper AND r.rolname <> current_user AS is_foreign,
				p.provolatile = 'v' AND NOT (p.oid < 16384 AND p.proname IN ('clock_timestamp', 'timeofday',
					'random', 'random_normal', 'gen_random_uuid', 'uuidv4', 'uuidv7'))
				-- Some functions that are not volatile run queries, or evaluate the constraints of a type that an argument names.
				OR p.oid < 16384 AND (p.proname ~ '^(query|table|schema|database|cursor)_to_xml|^pg_input_' OR 'cstring'::regtype = ANY (p.proargtypes)) AS is_open
			FROM code c JOIN pg_proc p ON c.classid = 'pg_proc'::regclass AND p.oid = c.objid JOIN pg_roles r ON r.oid = p.proowner
		)
		SELECT f.name, CASE WHEN f.is_foreign THEN f.owner END, current_user FROM function f WHERE f.is_foreign OR f.is_open
		ORDER BY f.is_foreign DESC, f.name COLLATE "C" LIMIT 1$query$
$$;
COMMENT ON FUNCTION shardfdw_internal.owner_code_query(text, jsonb) IS
	'Writes the query, to be run here or on a node, that finds a function by which the owner of a table controls what runs when its rows are moved. Searches CHECK constraints, generated columns, indexes, statistics, partition keys, operators, domains and casts. relation: the table; null for none. names: further functions, operators and types to search, with their kinds, in the format of needed_objects(). Functions of superusers and of the current user are ignored, unless they are volatile or run code that their arguments contain. Returns the text of the query. The query returns the function, its owner if the owner is the reason, and the current user, or no row.';

CREATE FUNCTION shardfdw_internal.raise_owner_code(relation regclass, action text, function_name text, function_owner text, runs_as text, node name DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
		MESSAGE = format('cannot %s table "%s" because function %s would run with the rights of "%s"', action,
			(SELECT c.relname FROM pg_class c WHERE c.oid = relation),
			concat_ws(' of role ', function_name, '"' || function_owner || '"'), concat_ws('" on node "', runs_as, node)),
		DETAIL = 'A CHECK constraint, generated column, index, statistics object, key or type of the table calls it'
			|| CASE WHEN function_owner IS NULL THEN ', and its arguments may decide what it does.' ELSE '.' END,
		HINT = format('Do it as the owner of the table: SET ROLE %I.', (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = relation));
END
$$;
COMMENT ON FUNCTION shardfdw_internal.raise_owner_code(regclass, text, text, text, text, name) IS
	'Raises insufficient_privilege for a function that owner_code_query() found, here or on a node.';

CREATE FUNCTION shardfdw_internal.is_owner(relation regclass) RETURNS boolean
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT pg_get_userbyid(c.relowner) = current_user FROM pg_class c WHERE c.oid = relation
$$;
COMMENT ON FUNCTION shardfdw_internal.is_owner(regclass) IS
	'Tells whether the current user is exactly the role that owns a table. Returns false for superusers and for members of that role.';

CREATE FUNCTION shardfdw_internal.check_owner_code_seen(relation regclass, action text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	code record;
BEGIN
	IF shardfdw_internal.is_owner(relation) THEN
		RETURN;
	END IF;
	FOR code IN EXECUTE format('SELECT * FROM (%s) q(name, owner, runs_as)', shardfdw_internal.owner_code_query(relation::text))
	LOOP
		PERFORM shardfdw_internal.raise_owner_code(relation, action, code.name, code.owner, code.runs_as);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_owner_code_seen(regclass, text) IS
	'Does what check_owner_code() does, with the snapshot of the statement. Returns nothing. Raises insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.check_owner_code_on_nodes(relation regclass, action text, schema_name name, table_names name[], nodes name[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	code record;
BEGIN
	IF shardfdw_internal.is_owner(relation) THEN
		RETURN;
	END IF;
	-- The tables on nodes were created by the same commands.
	FOR code IN
		SELECT q.node, q.fields
		FROM (SELECT array_agg(n.node ORDER BY n.node) AS nodes, array_agg(shardfdw_internal.owner_code_query(n.name) ORDER BY n.node) AS commands
			  FROM (SELECT t.node, min(format('%I.%I', schema_name, t.table_name)) AS name
					FROM unnest(table_names, nodes) t(table_name, node) GROUP BY t.node) n) a,
			shardfdw_internal.run_commands(a.nodes, a.commands, 'write') q
		WHERE q.fields IS NOT NULL ORDER BY q.command
	LOOP
		PERFORM shardfdw_internal.raise_owner_code(relation, action, code.fields[1], code.fields[2], code.fields[3], code.node);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_owner_code_on_nodes(regclass, text, name, name[], name[]) IS
	'Does the check of check_owner_code() for tables that have just been created on nodes, because names in a definition may have another meaning there. Returns nothing. Raises insufficient_privilege with function and node.';

CREATE FUNCTION shardfdw_internal.check_owner_code_of_tables(relation regclass, action text, nodes name[], names text[]) RETURNS void
	LANGUAGE plpgsql VOLATILE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found record;
BEGIN
	-- The lock prevents new indexes, statistics objects and constraints, and changes of names.
	PERFORM shardfdw_internal.run_commands(nodes, ARRAY(SELECT format('LOCK TABLE ONLY %s IN SHARE UPDATE EXCLUSIVE MODE', n) FROM unnest(names) n), 'write', labels => names);
	FOR found IN SELECT q.node, q.fields FROM shardfdw_internal.run_commands(nodes,
		ARRAY(SELECT format('SELECT format(''%%I.%%I'', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%L) AND c.relkind <> ''r''', n) FROM unnest(names) n), 'write') q
		WHERE q.fields IS NOT NULL
	LOOP
		RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('relation %s on node "%s" is no table', found.fields[1], found.node);
	END LOOP;
	FOR found IN SELECT q.node, q.fields FROM shardfdw_internal.run_commands(nodes, ARRAY(SELECT shardfdw_internal.owner_code_query(n) FROM unnest(names) n), 'write') q WHERE q.fields IS NOT NULL
	LOOP
		PERFORM shardfdw_internal.raise_owner_code(relation, action, found.fields[1], found.fields[2], found.fields[3], found.node);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_owner_code_of_tables(regclass, text, name[], text[]) IS
	'Does the check of check_owner_code() for tables on nodes that a query is about to read, given by their qualified names there. Locks their definitions until the transaction ends. Returns nothing. Raises insufficient_privilege with function and node, and wrong_object_type if a name is not a table on its node.';

CREATE FUNCTION shardfdw_internal.check_names_on_nodes(relation regclass, action text, nodes name[], names jsonb) RETURNS void
	LANGUAGE plpgsql VOLATILE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	code record;
BEGIN
	IF shardfdw_internal.is_owner(relation) OR names = '[]' THEN
		RETURN;
	END IF;
	FOR code IN
		SELECT q.node, q.fields FROM (SELECT array_agg(DISTINCT n) AS nodes FROM unnest(nodes) n) a,
			shardfdw_internal.run_commands(a.nodes, array_fill(shardfdw_internal.owner_code_query(NULL, names), ARRAY[cardinality(a.nodes)]), 'write') q
		WHERE q.fields IS NOT NULL ORDER BY q.command
	LOOP
		PERFORM shardfdw_internal.raise_owner_code(relation, action, code.fields[1], code.fields[2], code.fields[3], code.node);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_names_on_nodes(regclass, text, name[], jsonb) IS
	'Checks that names in the definition of a table do not refer to code of other roles on nodes, as check_owner_code() does. Runs before the table is created, because CREATE TABLE and CREATE INDEX evaluate constant expressions. names: in the format of owner_code_query(). Returns nothing. Raises insufficient_privilege with function and node.';

CREATE FUNCTION shardfdw_internal.check_references_on_nodes(relation regclass, action text, nodes name[]) RETURNS void
	LANGUAGE plpgsql VOLATILE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	referenced record;
BEGIN
	IF shardfdw_internal.is_owner(relation) THEN
		RETURN;
	END IF;
	-- a query validates a foreign key
	FOR referenced IN SELECT format('%I.%I', n.nspname, c.relname) AS name FROM pg_constraint k JOIN pg_class c ON c.oid = k.confrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE k.conrelid = relation AND k.contype = 'f' AND shardfdw_internal.is_reference(c.oid) AND NOT shardfdw_internal.is_owner(c.oid)
	LOOP
		PERFORM shardfdw_internal.check_owner_code_of_tables(relation, action, nodes, array_fill(referenced.name, ARRAY[cardinality(nodes)]));
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_references_on_nodes(regclass, text, name[]) IS
	'Does the check of check_owner_code_of_tables() for the replicas of reference tables that a table''s foreign keys refer to. Returns nothing. Raises insufficient_privilege with function and node.';

CREATE FUNCTION shardfdw_internal.prepare_nodes(relation regclass, action text, nodes name[]) RETURNS void
	LANGUAGE plpgsql VOLATILE STRICT SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.make_objects_on_nodes(relation, nodes);
	IF shardfdw_internal.is_owner(relation) THEN
		RETURN;
	END IF;
	PERFORM shardfdw_internal.check_names_on_nodes(relation, action, nodes, (SELECT jsonb_agg(n.object || jsonb_build_object('kind', n.kind)) FROM shardfdw_internal.needed_objects(ARRAY[relation]) n));
	PERFORM shardfdw_internal.check_references_on_nodes(relation, action, nodes);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.prepare_nodes(regclass, text, name[]) IS
	'Does what make_objects_on_nodes() does. Before a table is created, also checks the code that names in its definition, and replicas that its foreign keys refer to, would run on nodes. Returns nothing. Raises insufficient_privilege with function and node, and the errors of make_objects_on_nodes().';

CREATE FUNCTION shardfdw_internal.check_owner_code_of_shards(relation regclass, action text, one regclass DEFAULT NULL) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT shardfdw_internal.check_owner_code_of_tables(relation, action, array_agg(s.node), array_agg(s.remote_name))
	FROM shardfdw_internal.shards_of(relation) s WHERE (one IS NULL OR s.shard = one) AND NOT shardfdw_internal.is_owner(relation)
$$;
COMMENT ON FUNCTION shardfdw_internal.check_owner_code_of_shards(regclass, text, regclass) IS
	'Does the check of check_owner_code_of_tables() for the shards of a table, or for one shard, if the caller is not the owner. Returns nothing. Raises the same errors.';

CREATE FUNCTION shardfdw_internal.validating_command(relation text, constraint_name text, raises boolean DEFAULT true) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('DO %L', format('DECLARE k record; t record; n bigint; BEGIN '
		'SELECT c.conrelid, c.confrelid INTO k FROM pg_catalog.pg_constraint c WHERE c.conrelid = pg_catalog.to_regclass(%1$L) AND c.conname = %2$L AND NOT c.convalidated; IF NOT FOUND THEN RETURN; END IF; '
		-- Validation is a query on both tables. A superuser must not run code of the owner of one of them.
		'FOR t IN SELECT c.oid, c.oid::pg_catalog.regclass::text AS name, c.relkind FROM pg_catalog.pg_class c JOIN pg_catalog.pg_roles r ON r.rolname = current_user AND r.rolsuper AND r.oid <> c.relowner WHERE c.oid IN (k.conrelid, k.confrelid) LOOP '
		'EXECUTE pg_catalog.format(''LOCK TABLE ONLY %%s IN SHARE UPDATE EXCLUSIVE MODE'', t.name); EXECUTE pg_catalog.replace(%5$L, ''NULL::text'', pg_catalog.quote_literal(t.name) || ''::text''); GET DIAGNOSTICS n = ROW_COUNT; '
		-- While the command waited, the owner may have given the name to another table. The query also reads partitions.
		'IF n > 0 OR t.relkind <> ''r'' OR pg_catalog.to_regclass(t.name) IS DISTINCT FROM t.oid::pg_catalog.regclass THEN '
		'RAISE WARNING USING MESSAGE = pg_catalog.format(''foreign key %%s of table %%s is not validated: it would run code of the owner of table %%s'', %4$L, %1$L, t.name), HINT = ''Validate it on the same server as that role.''; RETURN; END IF; END LOOP; %3$s; '
		|| CASE WHEN raises THEN '' ELSE 'EXCEPTION WHEN foreign_key_violation THEN RAISE WARNING USING MESSAGE = pg_catalog.format(''foreign key %%s of table %%s is not validated: %%s'', %4$L, %1$L, SQLERRM), DETAIL = ''Rows of it have broken the key before.''; ' END || 'END',
		relation, constraint_name, format('ALTER TABLE %s VALIDATE CONSTRAINT %I', relation, constraint_name), quote_ident(constraint_name), shardfdw_internal.owner_code_query(NULL)))
$$;
COMMENT ON FUNCTION shardfdw_internal.validating_command(text, text, boolean) IS
	'Writes the command, to be run here or on a node, that validates a NOT VALID foreign key. relation: qualified name of the table. If a superuser would run code of the owner of one of the two tables, the command leaves the key NOT VALID with a WARNING. The same applies if rows violate the key, unless the command is told to raise foreign_key_violation. Returns the text of the command.';

CREATE FUNCTION shardfdw_internal.index_before_rows(relation regclass) RETURNS boolean
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT NOT shardfdw_internal.is_owner(relation)
		AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = relation AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL))
$$;
COMMENT ON FUNCTION shardfdw_internal.index_before_rows(regclass) IS
	'Tells whether indexes on nodes must be created before the rows are loaded, so that check_owner_code_on_nodes() sees what their expressions call. Returns false if the owner moves the rows.';

CREATE FUNCTION shardfdw_internal.check_owner_code(relation regclass, action text) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_check_owner_code';
COMMENT ON FUNCTION shardfdw_internal.check_owner_code(regclass, text) IS
	'Checks that moving the rows of a table runs no code of other roles with the privileges of the caller: the caller owns the table, or owner_code_query() finds nothing. Returns nothing. Raises insufficient_privilege with the name of a function.';
