-- From a table to shards: shard_table and create_shard.

CREATE FUNCTION shardfdw_internal.shard_name(base name, shardno integer, nshards integer) RETURNS name
	LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	suffix text := '_' || lpad(shardno::text, greatest(2, length((nshards - 1)::text)), '0');
	kept text := base;
BEGIN
	-- One byte less than the 63 of a name: core calls the array type of the table "_name".
	IF octet_length(kept) + octet_length(suffix) > 62 THEN
		-- what is cut off may be all in which the names of two tables differ
		suffix := '_' || left(encode(sha256(convert_to(base::text, getdatabaseencoding())), 'hex'), 8) || suffix;
		-- whole characters only
		WHILE octet_length(kept) + octet_length(suffix) > 62 LOOP
			kept := left(kept, -1);
		END LOOP;
	END IF;
	RETURN kept || suffix;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_name(name, integer, integer) IS
	'Names a shard: the table''s name and the number of the shard (0-based), padded with zeros. A long name is cut to fit, and gets a part of its hash. Returns at most 62 bytes.';

CREATE FUNCTION shardfdw_internal.is_sharded(relation regclass) RETURNS boolean
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT count(*) > 0 AND count(*) = count(*) FILTER (WHERE w.fdwhandler = 'shardfdw_internal.shardfdw_handler'::regproc)
	FROM pg_inherits i
	JOIN pg_partitioned_table p ON p.partrelid = i.inhparent
	LEFT JOIN pg_foreign_table f ON f.ftrelid = i.inhrelid
	LEFT JOIN pg_foreign_server s ON s.oid = f.ftserver
	LEFT JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
	WHERE i.inhparent = relation
$$;
COMMENT ON FUNCTION shardfdw_internal.is_sharded(regclass) IS
	'Tells whether a table is sharded: partitioned, and all of its partitions are foreign tables of the wrapper. Returns false for anything else.';

CREATE FUNCTION shardfdw_internal.check_replaceable(relation regclass, action text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c record;
	r record;
	refusal CONSTANT text := format('cannot %s table "%s"', action, (SELECT relname FROM pg_class WHERE oid = relation));
BEGIN
	SELECT t.*, n.nspname INTO c FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace WHERE t.oid = relation;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_table', MESSAGE = format('relation with OID %s does not exist', relation::oid);
	END IF;
	IF c.oid < 16384 OR c.nspname IN ('pg_catalog', 'information_schema', 'pg_toast') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
			MESSAGE = format('%s because it is a system table', refusal);
	END IF;
	IF NOT pg_has_role(c.relowner, 'USAGE') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('must be owner of table %s', c.relname);
	END IF;
	IF c.relkind NOT IN ('r', 'p') THEN
		RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('"%s" is not a table', c.relname);
	END IF;
	IF c.relpersistence <> 'p' THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('%s because it is %s', refusal, CASE c.relpersistence WHEN 't' THEN 'temporary' ELSE 'unlogged' END),
			HINT = CASE c.relpersistence WHEN 'u' THEN format('Make it permanent first: ALTER TABLE %s SET LOGGED.', relation)
				ELSE 'Shard a permanent table.' END;
	END IF;
	IF c.reloftype <> 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('%s because it is a typed table', refusal),
			HINT = format('Cut it loose first: ALTER TABLE %s NOT OF.', relation);
	END IF;
	IF EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = relation)
		OR (c.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = relation)) THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('%s because it %s', refusal, CASE
				WHEN c.relispartition THEN 'is a partition'
				WHEN EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = relation) THEN 'inherits from another table'
				ELSE 'has child tables' END),
			HINT = CASE WHEN c.relispartition THEN 'Detach it first.' ELSE 'End the inheritance first, with ALTER TABLE ... NO INHERIT.' END;
	END IF;

	SELECT k.conname, k.conrelid::regclass AS from_table, k.confrelid::regclass AS to_table INTO r
	FROM pg_constraint k
	WHERE k.contype = 'f' AND (k.conrelid = relation OR k.confrelid = relation)
		-- shards can refer to the copies of a reference table
		AND NOT (k.conrelid = relation AND c.relkind = 'r' AND shardfdw_internal.is_reference(k.confrelid))
	ORDER BY k.conrelid <> relation, k.conname::text COLLATE "C" LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('%s because of foreign key "%s" from %s to %s', refusal, r.conname, r.from_table, r.to_table),
			DETAIL = 'A foreign key cannot be checked across nodes.',
			HINT = CASE WHEN r.from_table = relation AND r.to_table <> relation AND action = 'shard' AND NOT shardfdw_internal.is_sharded(r.to_table)
				THEN format('Make %s a reference table first, with shardfdw.replicate_table().', r.to_table)
				ELSE format('Drop it first: ALTER TABLE %s DROP CONSTRAINT %I.', r.from_table, r.conname) END;
	END IF;

	SELECT k.conname INTO r FROM pg_constraint k WHERE k.contype = 'x' AND k.conrelid = relation
	ORDER BY k.conname::text COLLATE "C" LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('%s because of exclusion constraint "%s"', refusal, r.conname),
			DETAIL = 'An exclusion constraint cannot be checked across nodes.',
			HINT = format('Drop it first: ALTER TABLE %s DROP CONSTRAINT %I.', relation, r.conname);
	END IF;

	SELECT t.tgname, t.tgconstraint <> 0 AS is_constraint INTO r FROM pg_trigger t
	WHERE t.tgrelid = relation AND NOT t.tgisinternal
		AND (t.tgconstraint <> 0 OR t.tgoldtable IS NOT NULL OR t.tgnewtable IS NOT NULL)
	ORDER BY t.tgname::text COLLATE "C" LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('%s because of trigger "%s"', refusal, r.tgname),
			DETAIL = CASE WHEN r.is_constraint THEN 'Foreign tables cannot have constraint triggers.'
				ELSE 'Triggers on foreign tables cannot have transition tables.' END,
			HINT = format('Drop it first: DROP TRIGGER %I ON %s.', r.tgname, relation);
	END IF;

	-- Whatever else hangs on the table or its row type would go with the old table.
	SELECT CASE d.classid WHEN 'pg_rewrite'::regclass
			THEN (SELECT CASE WHEN w.ev_class = relation THEN pg_describe_object(d.classid, d.objid, 0)
					ELSE pg_describe_object('pg_class'::regclass, w.ev_class, 0) END FROM pg_rewrite w WHERE w.oid = d.objid)
			ELSE pg_describe_object(d.classid, d.objid, d.objsubid) END AS what, d.deptype INTO r
	FROM pg_depend d
	WHERE ((d.refclassid = 'pg_class'::regclass AND d.refobjid = relation)
			OR (d.refclassid = 'pg_type'::regclass AND d.refobjid IN
				(SELECT t.oid FROM pg_type t WHERE t.oid = c.reltype OR (t.typelem = c.reltype AND t.typcategory = 'A'))))
		AND d.deptype IN ('n', 'a', 'i')
		AND NOT (d.classid = 'pg_type'::regclass AND d.deptype = 'i')
		AND NOT (d.classid = 'pg_constraint'::regclass AND EXISTS
			(SELECT FROM pg_constraint k WHERE k.oid = d.objid AND k.conrelid = relation))
		AND NOT (d.classid = 'pg_attrdef'::regclass AND EXISTS
			(SELECT FROM pg_attrdef a WHERE a.oid = d.objid AND a.adrelid = relation))
		AND NOT (d.classid = 'pg_trigger'::regclass AND EXISTS
			(SELECT FROM pg_trigger t WHERE t.oid = d.objid AND t.tgrelid = relation))
		AND NOT (d.classid = 'pg_policy'::regclass AND EXISTS
			(SELECT FROM pg_policy p WHERE p.oid = d.objid AND p.polrelid = relation))
		AND NOT (d.classid = 'pg_class'::regclass AND (d.objid = relation OR EXISTS
			(SELECT FROM pg_class o WHERE o.oid = d.objid AND o.relkind IN ('i', 'I', 'S', 't'))))
		AND NOT (d.classid = 'pg_class'::regclass AND EXISTS
			(SELECT FROM pg_inherits i WHERE i.inhrelid = d.objid AND i.inhparent = relation))
		AND d.classid <> 'pg_statistic_ext'::regclass
	ORDER BY 1 LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist',
			MESSAGE = format('%s because %s depends on it', refusal, r.what),
			HINT = 'Drop it first, and make it again afterwards.';
	END IF;
	IF EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = relation AND d.deptype = 'e') THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('%s because it belongs to an extension', refusal);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_replaceable(regclass, text) IS
	'Checks that nothing about a table would be lost when another one takes its place. Returns nothing; raises feature_not_supported, dependent_objects_still_exist or insufficient_privilege, naming what is in the way.';

CREATE FUNCTION shardfdw_internal.owner_code_query(relation text) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT replace($query$
		WITH RECURSIVE tables(oid) AS (
			SELECT to_regclass($relation$)
			-- what a DEFAULT shard keeps is said by the keys of all levels above
			UNION SELECT pg_partition_ancestors(to_regclass($relation$))
		), code(classid, objid) AS (
			-- no defaults and triggers: they are run by those who write
			SELECT 'pg_class'::regclass::oid, t.oid::oid FROM tables t
			UNION ALL
			SELECT 'pg_type'::regclass, c.reltype FROM tables t JOIN pg_class c ON c.oid = t.oid
			UNION ALL
			SELECT 'pg_class'::regclass, i.indexrelid FROM tables t JOIN pg_index i ON i.indrelid = t.oid
			UNION ALL
			SELECT 'pg_constraint'::regclass, k.oid FROM tables t JOIN pg_constraint k ON k.conrelid = t.oid
			UNION ALL
			SELECT 'pg_attrdef'::regclass, d.oid FROM tables t JOIN pg_attrdef d ON d.adrelid = t.oid
			JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum WHERE a.attgenerated <> ''
			UNION
			SELECT x.classid, x.objid
			FROM code c
			CROSS JOIN LATERAL (
				SELECT d.refclassid, d.refobjid FROM pg_depend d WHERE d.classid = c.classid AND d.objid = c.objid
					AND (d.refclassid IN ('pg_operator'::regclass, 'pg_type'::regclass)
						-- input, output and the like of base types are made by superusers
						OR d.refclassid = 'pg_proc'::regclass AND (c.classid <> 'pg_type'::regclass
							OR EXISTS (SELECT FROM pg_range r WHERE r.rngtypid = c.objid)))
				UNION ALL
				-- dependencies leave out what is built in, and what JSON functions return
				SELECT CASE WHEN m.found[1] ~ 'funcid' THEN 'pg_proc'::regclass WHEN m.found[1] ~ 'opno' THEN 'pg_operator'::regclass
					ELSE 'pg_type'::regclass END, m.found[2]::oid
				FROM (SELECT k.conbin::text FROM pg_constraint k WHERE c.classid = 'pg_constraint'::regclass AND k.oid = c.objid
					  UNION ALL
					  SELECT a.adbin::text FROM pg_attrdef a WHERE c.classid = 'pg_attrdef'::regclass AND a.oid = c.objid
					  UNION ALL
					  SELECT concat(i.indexprs, i.indpred) FROM pg_index i WHERE c.classid = 'pg_class'::regclass AND i.indexrelid = c.objid
					  UNION ALL
					  SELECT p.partexprs::text FROM pg_partitioned_table p WHERE c.classid = 'pg_class'::regclass AND p.partrelid = c.objid) e(tree)
				CROSS JOIN LATERAL regexp_matches(e.tree, ':(\w*(?:funcid|opno|typ\w*)) ([1-9]\d*)', 'g') m(found)
				UNION ALL
				SELECT 'pg_proc'::regclass, o.oprcode FROM pg_operator o WHERE c.classid = 'pg_operator'::regclass AND o.oid = c.objid
				UNION ALL
				-- NOT (a op b) is planned as the negator, b op a as the commutator
				SELECT 'pg_operator'::regclass, n.oid FROM pg_operator o, unnest(ARRAY[o.oprnegate, o.oprcom]) n(oid)
				WHERE c.classid = 'pg_operator'::regclass AND o.oid = c.objid AND n.oid <> 0
				UNION ALL
				-- constraints of a domain, columns of a composite type
				SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k WHERE c.classid = 'pg_type'::regclass AND k.contypid = c.objid
				UNION ALL
				SELECT 'pg_class'::regclass, t.typrelid FROM pg_type t WHERE c.classid = 'pg_type'::regclass AND t.oid = c.objid AND t.typrelid <> 0
				UNION ALL
				-- foreign keys, to_json() and others look casts up when they run
				SELECT 'pg_proc'::regclass, k.castfunc FROM pg_cast k
				WHERE c.classid = 'pg_type'::regclass AND c.objid >= 16384 AND k.castsource = c.objid AND k.castfunc <> 0) x(classid, objid)
		), function AS (
			SELECT p.oid::regprocedure::text AS name, r.rolname AS owner, NOT r.rolsuper AND r.rolname <> current_user AS is_foreign,
				p.provolatile = 'v' AND NOT (p.oid < 16384 AND p.proname IN ('clock_timestamp', 'timeofday',
					'random', 'random_normal', 'gen_random_uuid', 'uuidv4', 'uuidv7'))
				-- of those that are not volatile, some run queries or, for a type that an argument names, its constraints
				OR p.oid < 16384 AND (p.proname ~ '^(query|table|schema|database|cursor)_to_xml|^pg_input_' OR 'cstring'::regtype = ANY (p.proargtypes)) AS is_open
			FROM code c JOIN pg_proc p ON c.classid = 'pg_proc'::regclass AND p.oid = c.objid JOIN pg_roles r ON r.oid = p.proowner
		)
		SELECT f.name, CASE WHEN f.is_foreign THEN f.owner END, current_user FROM function f WHERE f.is_foreign OR f.is_open
		ORDER BY f.is_foreign DESC, f.name COLLATE "C" LIMIT 1$query$, '$relation$', quote_literal(relation))
$$;
COMMENT ON FUNCTION shardfdw_internal.owner_code_query(text) IS
	'Writes the query, to be run here or on a node, for a function by which the owner of a table decides what runs when its rows are moved: in CHECK constraints, generated columns, indexes, partition keys, operators, domains, casts. Functions of superusers and of the current user are none, unless volatile or known to run what their arguments say. Returns its text; the query returns the function, its owner if that is what counts, and the current user, or no row.';

CREATE FUNCTION shardfdw_internal.raise_owner_code(relation regclass, action text, function_name text, function_owner text, runs_as text, node name DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
		MESSAGE = format('cannot %s table "%s" because function %s would run with the rights of "%s"', action,
			(SELECT c.relname FROM pg_class c WHERE c.oid = relation),
			concat_ws(' of role ', function_name, '"' || function_owner || '"'), concat_ws('" on node "', runs_as, node)),
		DETAIL = 'A CHECK constraint, generated column, index, key or type of the table calls it'
			|| CASE WHEN function_owner IS NULL THEN ', and its arguments may decide what it does.' ELSE '.' END,
		HINT = format('Do it as the owner of the table: SET ROLE %I.', (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = relation));
END
$$;
COMMENT ON FUNCTION shardfdw_internal.raise_owner_code(regclass, text, text, text, text, name) IS
	'Raises insufficient_privilege for a function that owner_code_query() has found, here or on a node.';

CREATE FUNCTION shardfdw_internal.is_owner(relation regclass) RETURNS boolean
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT pg_get_userbyid(c.relowner) = current_user FROM pg_class c WHERE c.oid = relation
$$;
COMMENT ON FUNCTION shardfdw_internal.is_owner(regclass) IS
	'Tells whether the current user is the very role that owns a table. Returns false for superusers and members of that role.';

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
	'Does what check_owner_code() does, by what the statement''s snapshot shows. Returns nothing; raises insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.check_owner_code_on_nodes(relation regclass, action text, schema_name name, table_names name[], nodes name[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	code record;
BEGIN
	IF shardfdw_internal.is_owner(relation) THEN
		RETURN;
	END IF;
	-- a node's tables have been made by the same commands
	FOR code IN
		SELECT q.node, q.fields
		FROM (SELECT array_agg(n.node ORDER BY n.node) AS nodes, array_agg(shardfdw_internal.owner_code_query(n.name) ORDER BY n.node) AS commands
			  FROM (SELECT t.node, min(format('%I.%I', schema_name, t.table_name)) AS name
					FROM unnest(table_names, nodes) t(table_name, node) GROUP BY t.node) n) a,
			shardfdw.query_nodes(a.nodes, a.commands, 'write') q
		WHERE q.fields IS NOT NULL ORDER BY q.command
	LOOP
		PERFORM shardfdw_internal.raise_owner_code(relation, action, code.fields[1], code.fields[2], code.fields[3], code.node);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_owner_code_on_nodes(regclass, text, name, name[], name[]) IS
	'Checks what check_owner_code() does for the tables that have just been made on nodes: names in a definition may mean something else there. Returns nothing; raises insufficient_privilege, naming function and node.';

CREATE FUNCTION shardfdw_internal.index_before_rows(relation regclass) RETURNS boolean
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT NOT shardfdw_internal.is_owner(relation)
		AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = relation AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL))
$$;
COMMENT ON FUNCTION shardfdw_internal.index_before_rows(regclass) IS
	'Tells whether indexes on nodes must be there before rows, so that check_owner_code_on_nodes() sees what their expressions call. Returns false where the owner moves the rows.';

CREATE FUNCTION shardfdw_internal.check_owner_code(relation regclass, action text) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_check_owner_code';
COMMENT ON FUNCTION shardfdw_internal.check_owner_code(regclass, text) IS
	'Checks that moving the rows of a table runs no code of others with the rights of the caller: the caller owns the table, or owner_code_query() finds nothing. Returns nothing; raises insufficient_privilege, naming a function.';

CREATE FUNCTION shardfdw_internal.check_unique_keys(relation regclass, key_columns smallint[]) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	SELECT x.relname, k.conname, k.contype,
		(SELECT string_agg(quote_ident(a.attname), ', ') FROM pg_attribute a
		 WHERE a.attrelid = relation AND a.attnum = ANY (key_columns)) AS key_text
	INTO r
	FROM pg_index i
	JOIN pg_class x ON x.oid = i.indexrelid
	LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = relation
	WHERE i.indrelid = relation AND i.indisunique
		AND NOT key_columns <@ (i.indkey::smallint[])[0:i.indnkeyatts - 1]
	ORDER BY i.indisprimary DESC, x.relname::text COLLATE "C" LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('cannot shard table "%s" because %s "%s" does not include the shard key (%s)',
				(SELECT relname FROM pg_class WHERE oid = relation),
				CASE r.contype WHEN 'p' THEN 'primary key' WHEN 'u' THEN 'unique constraint' ELSE 'unique index' END,
				coalesce(r.conname, r.relname), r.key_text),
			DETAIL = 'Uniqueness can be checked only within a shard.',
			HINT = 'Add the shard key to it, drop it, or choose another shard key.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_unique_keys(regclass, smallint[]) IS
	'Checks that every unique key of a table includes the given columns. Returns nothing; raises feature_not_supported naming the key.';

CREATE FUNCTION shardfdw_internal.check_hash_key(relation regclass, key_columns smallint[]) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	-- The hash of an enum value, or of one of a reg type, is that of an OID, which a restored dump changes: rows
	-- would be looked for in other shards.
	WITH RECURSIVE parts AS (
		SELECT a.attname, a.atttypid AS type FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum = ANY (key_columns)
		UNION
		SELECT p.attname, inner_type FROM parts p
		JOIN pg_type t ON t.oid = p.type
		CROSS JOIN LATERAL (
			SELECT nullif(t.typbasetype, 0) AS inner_type UNION ALL
			SELECT nullif(t.typelem, 0) UNION ALL
			SELECT g.rngsubtype FROM pg_range g WHERE g.rngtypid = t.oid UNION ALL
			SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) x
		WHERE inner_type IS NOT NULL)
	SELECT p.attname, CASE t.typtype WHEN 'e' THEN 'enum ' ELSE 'type ' END || format_type(p.type, NULL) AS type INTO r
	FROM parts p JOIN pg_type t ON t.oid = p.type
	WHERE t.typtype = 'e' OR t.typnamespace = 'pg_catalog'::regnamespace AND t.typname LIKE 'reg%' LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('column "%s" of table "%s" cannot be the shard key', r.attname,
							 (SELECT relname FROM pg_class WHERE oid = relation)),
			DETAIL = format('The hash of a value of %s is not the same in a restored database.', r.type),
			HINT = 'Choose another shard key, or partition the table by LIST.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_hash_key(regclass, smallint[]) IS
	'Checks that the values of a hash key are hashed alike in a database restored from a dump, which those of enums are not. Returns nothing; raises feature_not_supported.';

CREATE FUNCTION shardfdw_internal.shard_command(schema_name name, shard name, prefix text, suffix text, object name, kind text) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT prefix || CASE kind
		WHEN 'index' THEN format('%I ON %I.%I', object, schema_name, shard) || suffix
		WHEN 'constraint' THEN format('%I.%I ADD CONSTRAINT %I', schema_name, shard, object) || suffix
		WHEN 'schema' THEN format('%I.%I', schema_name, object) || suffix
		WHEN 'last' THEN format('%I.%I', schema_name, shard) || suffix || quote_ident(object)
		ELSE format('%I.%I', schema_name, shard) || suffix END
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_command(name, name, text, text, name, text) IS
	'Writes a command for a shard from what stands before and after its name; kind tells where the name of an object of the shard goes. Returns the command.';

CREATE FUNCTION shardfdw_internal.run_on_new_shards(schema_name name, shard_names name[], nodes name[],
										   prefixes text[], suffixes text[],
										   object_names name[] DEFAULT '{}', object_kinds text[] DEFAULT '{}', siblings name[] DEFAULT '{}') RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw.query_nodes(array_agg(s.node ORDER BY s.ord), array_agg(s.commands ORDER BY s.ord), 'write',
								labels => array_agg(s.label ORDER BY s.ord))
	FROM (SELECT t.node, t.ord, format('%I.%I', schema_name, t.shard_name) AS label,
			(SELECT string_agg(shardfdw_internal.shard_command(schema_name, t.shard_name, c.prefix, c.suffix,
					CASE WHEN c.object IS NOT NULL THEN shardfdw.shard_object_name(c.object, t.shard_name, siblings) END, c.kind), '; ' ORDER BY c.ord)
			 FROM unnest(prefixes, suffixes, object_names, object_kinds) WITH ORDINALITY c(prefix, suffix, object, kind, ord)) AS commands
		  FROM unnest(shard_names, nodes) WITH ORDINALITY t(shard_name, node, ord)) s
	WHERE s.commands IS NOT NULL
	HAVING count(*) > 0;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.run_on_new_shards(name, name[], name[], text[], text[], name[], text[], name[]) IS
	'Runs the same commands for each of several shards on their nodes, as part of this transaction; prefixes and suffixes stand around the shard''s name, object_names and object_kinds say what objects of the shard get a name made of that of the parent''s and the shard''s. Returns nothing; raises the node''s error.';

CREATE FUNCTION shardfdw_internal.schema_command(schema_name name) RETURNS text
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'shardfdw_schema_command';
COMMENT ON FUNCTION shardfdw_internal.schema_command(name) IS
	'Writes the commands, for a block of PL/pgSQL, that make a schema on a node, with a comment by which it is known as made by the extension. Returns them.';

CREATE FUNCTION shardfdw_internal.make_schema_on_nodes(schema_name name, nodes name[]) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	-- CREATE SCHEMA IF NOT EXISTS asks for the right to create even when it has nothing to do
	SELECT shardfdw.query_nodes(nodes, array_fill(format('DO %L', format(
			'BEGIN IF pg_catalog.to_regnamespace(%L) IS NULL THEN %s; END IF; END',
			quote_ident(schema_name), shardfdw_internal.schema_command(schema_name))), ARRAY[cardinality(nodes)]), 'write')
$$;
COMMENT ON FUNCTION shardfdw_internal.make_schema_on_nodes(name, name[]) IS
	'Makes a schema on each of several different nodes where it does not exist, as part of this transaction. Returns nothing; raises the node''s error.';

CREATE FUNCTION shardfdw_internal.make_shards(parent regclass, shard_names name[], bounds text[], nodes name[],
									 reloptions text[] DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	schema_name name;
	table_owner name;
	distinct_nodes name[] := (SELECT array_agg(DISTINCT n) FROM unnest(nodes) n);
	prefixes text[];
	suffixes text[];
	i integer;
BEGIN
	SELECT n.nspname, pg_get_userbyid(c.relowner) INTO schema_name, table_owner
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = parent;

	PERFORM shardfdw_internal.make_schema_on_nodes(schema_name, distinct_nodes);
	SELECT array_agg(c.prefix), array_agg(c.suffix) INTO prefixes, suffixes
	FROM shardfdw_internal.shard_table_commands(parent, reloptions) c;
	PERFORM shardfdw_internal.run_on_new_shards(schema_name, shard_names, nodes, prefixes, suffixes);

	-- the library's hook has the parent's unique keys step aside, see ddl/marker.c
	FOR i IN 1 .. cardinality(shard_names)
	LOOP
		EXECUTE format('CREATE FOREIGN TABLE %I.%I PARTITION OF %s %s SERVER %I',
					   schema_name, shard_names[i], parent, bounds[i], nodes[i]);
		IF table_owner <> current_user THEN
			EXECUTE format('ALTER FOREIGN TABLE %I.%I OWNER TO %I', schema_name, shard_names[i], table_owner);
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.make_shards(regclass, name[], text[], name[], text[]) IS
	'Makes shards of a partitioned table: tables without indexes on their nodes, and foreign tables for them here. bounds are FOR VALUES clauses or DEFAULT. Returns nothing; raises the node''s error, naming node and shard.';

CREATE FUNCTION shardfdw_internal.index_shards(parent regclass, shard_names name[], nodes name[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	made record;
BEGIN
	SELECT array_agg(i.prefix) AS prefixes, array_agg(i.suffix) AS suffixes, array_agg(i.object_name) AS names, array_agg(i.object_kind) AS kinds INTO made
	FROM shardfdw_internal.shard_index_commands(parent) i;
	PERFORM shardfdw_internal.run_on_new_shards(
		(SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = parent),
		shard_names, nodes, made.prefixes, made.suffixes, made.names, made.kinds,
		ARRAY(SELECT s.relname FROM pg_inherits i JOIN pg_class s ON s.oid = i.inhrelid WHERE i.inhparent = parent));
END
$$;
COMMENT ON FUNCTION shardfdw_internal.index_shards(regclass, name[], name[]) IS
	'Makes the keys and indexes of a table on its shards, all nodes at once. Returns nothing; raises the node''s error, for example unique_violation.';

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
	CROSS JOIN LATERAL regexp_match(pg_get_expr(c.relpartbound, c.oid), '^FOR VALUES WITH \(modulus (\d+), remainder (\d+)\)$') AS b(bound)
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
	'Writes down what decides where a key value goes: strategy, operator classes, collations and types. Returns equal texts for tables that agree in it, null for a table that is not partitioned.';

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

CREATE FUNCTION shardfdw_internal.check_default_shard(parent regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET row_security = off
AS $$
DECLARE
	default_shard regclass := (SELECT nullif(p.partdefid, 0)::regclass FROM pg_partitioned_table p
							   JOIN pg_class c ON c.oid = p.partdefid AND c.relkind = 'f' WHERE p.partrelid = parent);
	-- null or empty: no DEFAULT shard, or no other
	kept text := nullif(pg_get_partition_constraintdef(default_shard), '');
	misplaced boolean;
BEGIN
	IF kept IS NULL THEN
		RETURN;
	END IF;
	-- core looks into local tables only
	EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE NOT (%s))', default_shard, kept) INTO misplaced;
	IF misplaced THEN
		RAISE EXCEPTION USING ERRCODE = 'check_violation',
			MESSAGE = format('default shard %s has rows that belong to the new shard', default_shard),
			HINT = 'Delete them, and insert them again when the shard is there.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_default_shard(regclass) IS
	'Checks that the DEFAULT shard of a table holds no rows that belong to another shard. Returns nothing; raises check_violation.';

CREATE FUNCTION shardfdw_internal.common_keys(parent regclass, shard regclass, keys jsonb) RETURNS jsonb
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	WITH shards AS MATERIALIZED (
		SELECT s.srvname AS node, array_agg(format('%I.%I', n.nspname, c.relname)) AS names
		FROM pg_partition_tree(pg_partition_root(parent)) t JOIN pg_class c ON c.oid = t.relid JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
		WHERE c.oid <> shard AND w.fdwhandler = 'shardfdw_internal.shardfdw_handler'::regproc
			AND NOT EXISTS (SELECT FROM pg_options_to_table(f.ftoptions) o WHERE o.option_name IN ('schema_name', 'table_name'))
		GROUP BY s.srvname
	), answer AS MATERIALIZED (
		SELECT (q.fields)[3]::jsonb->'foreign_keys' AS keys
		FROM (SELECT array_agg(s.node) AS nodes, array_agg(shardfdw_internal.describe_query(s.names)) AS commands FROM shards s) x,
			shardfdw.query_nodes(x.nodes, x.commands, 'write') q
	)
	SELECT coalesce(jsonb_agg(k), '[]') FROM jsonb_array_elements(keys) k
	WHERE NOT EXISTS (SELECT FROM pg_foreign_table f WHERE f.ftrelid = to_regclass(k->>'table'))
		AND NOT EXISTS (SELECT FROM answer a WHERE NOT coalesce(a.keys, '[]') @> jsonb_build_array(k))
$$;
COMMENT ON FUNCTION shardfdw_internal.common_keys(regclass, regclass, jsonb) IS
	'Finds which foreign keys, as describe_query() returns them, all other shards of a table and of the tables above it have: they are those of the topmost one. Those to shards of another table are left out. Returns them in the same form.';

CREATE FUNCTION shardfdw_internal.follow_siblings(parent regclass, shard regclass, node name) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	names text := (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = shard);
	-- what is quoted inside of a DO's quotes stays text
	only_if text := 'BEGIN IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = %L) THEN %s; END IF; END';
	sibling record;
	had record;
	k record;
	target text;
	commands text[] := '{}';
BEGIN
	-- of the same parent; the first shard of a month is as those of other months are
	SELECT s.srvname AS node, format('%I.%I', n.nspname, c.relname) AS name, i.inhparent <> parent AS is_cousin INTO sibling
	FROM pg_partition_tree(pg_partition_root(parent)) t JOIN pg_inherits i ON i.inhrelid = t.relid
	JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
	JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
	WHERE c.oid <> shard AND w.fdwhandler = 'shardfdw_internal.shardfdw_handler'::regproc
		AND NOT EXISTS (SELECT FROM pg_options_to_table(f.ftoptions) o WHERE o.option_name IN ('schema_name', 'table_name'))
	ORDER BY i.inhparent <> parent, s.srvname <> node, c.relname::text COLLATE "C" LIMIT 1;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	SELECT (q.fields)[1]::jsonb->'foreign_keys' AS keys, (q.fields)[2]::text[] AS options, (q.fields)[3]::jsonb AS rights, (q.fields)[4] AS owner INTO had
	FROM shardfdw.query_nodes(ARRAY[sibling.node], ARRAY[format('SELECT q.d, (%s), (SELECT jsonb_agg(jsonb_build_array(a.privilege_type, '
			'CASE WHEN a.grantee <> 0 THEN pg_get_userbyid(a.grantee) END, a.is_grantable) ORDER BY a.privilege_type) '
			'FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = to_regclass(%L) AND a.grantee <> c.relowner), q.d->>''owner'' FROM (%s) q(ord, major, d)',
			shardfdw_internal.storage_options_query(sibling.name), sibling.name, shardfdw_internal.describe_query(ARRAY[sibling.name]))], 'write') q;

	IF sibling.is_cousin AND had.keys <> '[]' THEN
		had.keys := shardfdw_internal.common_keys(parent, shard, had.keys);
	END IF;
	FOR k IN SELECT * FROM jsonb_to_recordset(had.keys) x(name text, definition text, "table" text)
	LOOP
		-- to a copy of a reference table, or to the shard that takes the same keys
		target := k."table";
		IF EXISTS (SELECT FROM pg_foreign_table f WHERE f.ftrelid = to_regclass(target)) THEN
			SELECT format('%I.%I', n.nspname, c.relname) INTO target
			FROM pg_inherits i JOIN pg_inherits other ON other.inhparent = i.inhparent
			JOIN pg_class c ON c.oid = other.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
			JOIN pg_foreign_table f ON f.ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = f.ftserver
			WHERE i.inhrelid = to_regclass(k."table") AND s.srvname = node
				AND pg_get_expr(c.relpartbound, c.oid) = (SELECT pg_get_expr(n.relpartbound, n.oid) FROM pg_class n WHERE n.oid = shard);
			IF NOT FOUND THEN
				RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
					MESSAGE = format('foreign key %s of the other shards cannot be made for shard %s', k.name, shard),
					DETAIL = format('The table that it refers to has no shard with the same bounds on node "%s".', node),
					HINT = 'Create that shard first, on the same node.';
			END IF;
		END IF;
		commands := commands || format('ALTER TABLE %s ADD CONSTRAINT %s %s', names, k.name,
			replace(k.definition, format(' REFERENCES %s(', k."table"), format(' REFERENCES %s(', target)));
	END LOOP;
	commands := commands || ('ALTER TABLE ' || names || ' SET (' || shardfdw_internal.storage_options(had.options) || ')');
	FOR k IN SELECT r->>0 AS privilege, r->>1 AS grantee, (r->>2)::boolean AS grantable FROM jsonb_array_elements(coalesce(had.rights, '[]')) r
	LOOP
		target := format('GRANT %s ON TABLE %s TO %s%s', k.privilege, names, coalesce(quote_ident(k.grantee), 'PUBLIC'), CASE WHEN k.grantable THEN ' WITH GRANT OPTION' END);
		commands := commands || CASE WHEN k.grantee IS NULL THEN target ELSE format('DO %L', format(only_if, k.grantee, target)) END;
	END LOOP;
	-- last, since the next owner may not be one of ours
	IF had.owner IS NOT NULL THEN
		commands := commands || format('DO %L', format(only_if, had.owner, format('ALTER TABLE %s OWNER TO %I', names, had.owner)));
	END IF;
	PERFORM shardfdw.query_nodes(ARRAY[node], ARRAY[array_to_string(commands, '; ')], 'write', labels => ARRAY[names]);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.follow_siblings(regclass, regclass, name) IS
	'Gives a new shard on a node what only shards have, as one of the other shards has it, the first one of a partitioned partition as those of other partitions: foreign keys, storage parameters, and, as far as the roles exist there, privileges and owner. Returns nothing; raises object_not_in_prerequisite_state when a foreign key would need a shard that is not on this node.';

CREATE FUNCTION shardfdw.create_shard(parent regclass, name name, bounds text, node name) RETURNS regclass
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	c record;
	k record;
BEGIN
	PERFORM shardfdw_internal.check_isolation('create_shard');
	SELECT t.relkind, t.relname, t.relowner, t.relpersistence, n.nspname INTO c
	FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace WHERE t.oid = parent;
	IF c.relkind IS DISTINCT FROM 'p' THEN
		RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = format('"%s" is not a partitioned table', c.relname);
	END IF;
	IF NOT pg_has_role(c.relowner, 'USAGE') THEN
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('must be owner of table %s', c.relname);
	END IF;
	IF c.relpersistence <> 'p' THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('cannot shard table "%s" because it is temporary', c.relname);
	END IF;
	IF name IS NULL OR bounds IS NULL OR node IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'name, bounds and node must not be null';
	END IF;
	PERFORM shardfdw_internal.lock_schemas(parent);
	EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', parent);
	PERFORM shardfdw_internal.usable_nodes(ARRAY[node]);
	PERFORM shardfdw_internal.check_owner_code(parent, 'shard');
	SELECT p.partstrat, array_remove(p.partattrs::smallint[], 0::smallint) AS columns INTO k
	FROM pg_partitioned_table p WHERE p.partrelid = parent;
	PERFORM shardfdw_internal.check_unique_keys(parent, k.columns);
	IF k.partstrat = 'h' THEN
		PERFORM shardfdw_internal.check_hash_key(parent, k.columns);
	END IF;

	PERFORM shardfdw_internal.make_objects_on_nodes(parent, ARRAY[node]);
	PERFORM shardfdw_internal.check_owner_code(parent, 'shard');

	bounds := btrim(bounds, E' \t\n');
	IF bounds !~* '^(for\s+values\s|default$)' THEN
		bounds := 'FOR VALUES ' || bounds;
	END IF;
	PERFORM shardfdw_internal.make_shards(parent, ARRAY[name], ARRAY[bounds], ARRAY[node]);
	PERFORM shardfdw_internal.check_default_shard(parent);
	PERFORM shardfdw_internal.index_shards(parent, ARRAY[name], ARRAY[node]);
	PERFORM shardfdw_internal.follow_siblings(parent, format('%I.%I', c.nspname, name)::regclass, node);
	RETURN format('%I.%I', c.nspname, name)::regclass;
END
$$;
COMMENT ON FUNCTION shardfdw.create_shard(regclass, name, text, name) IS
	'Adds a shard to a partitioned table: a table on the node, with the parent''s keys, constraints and indexes and the other shards'' foreign keys, and a foreign table for it here. bounds: as in FOR VALUES, with or without these words, or DEFAULT; part of a command, so never take it from strangers. Returns the shard; raises what CREATE TABLE raises here or there.';

CREATE FUNCTION shardfdw.shard_for(relation regclass, key anyelement) RETURNS regclass
	LANGUAGE c STABLE AS 'MODULE_PATHNAME', 'shardfdw_shard_for';
COMMENT ON FUNCTION shardfdw.shard_for(regclass, anyelement) IS
	'Tells which shard of a table takes rows with this key; a key of several columns is given as ROW(...). Returns null when no partition takes it; raises wrong_object_type for a table that is not sharded.';
