-- The definition of a table, as commands that create it again: on nodes for its shards, here for its successor.

CREATE FUNCTION shardfdw_internal.storage_options_query(relation text) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('SELECT (coalesce(c.reloptions, ''{}'') || ARRAY(SELECT ''toast.'' || o FROM pg_class t, unnest(t.reloptions) o '
				  'WHERE t.oid = c.reltoastrelid))::text FROM pg_class c WHERE c.oid = to_regclass(%L)', relation)
$$;
COMMENT ON FUNCTION shardfdw_internal.storage_options_query(text) IS
	'Writes the query, to be run here or on a node, for the storage parameters of a table and its TOAST table. Returns its text; the query returns a text[] of "name=value" as text.';

CREATE FUNCTION shardfdw_internal.storage_options(options text[]) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(format('%s%I = %L', o.parts[1], o.parts[2], o.parts[3]), ', ')
	FROM (SELECT regexp_match(x, '^(toast\.)?([^=]*)=(.*)$') AS parts FROM unnest(options) x) o
$$;
COMMENT ON FUNCTION shardfdw_internal.storage_options(text[]) IS
	'Writes storage parameters given as "name=value". Returns the text between the parentheses of WITH or SET, null if there are none.';

CREATE FUNCTION shardfdw_internal.index_definitions(relation regclass)
	RETURNS TABLE (index_name name, is_unique boolean, constraint_def text, using_clause text)
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	r record;
	prefix text;
	definition text;
	deferral text;
BEGIN
	FOR r IN
		SELECT i.indexrelid, i.indisunique, c.relname, c.reloptions, k.oid AS conid,
			format('%I.%I', n.nspname, t.relname) AS on_table, t.relkind
		FROM pg_index i
		JOIN pg_class c ON c.oid = i.indexrelid
		JOIN pg_class t ON t.oid = i.indrelid
		JOIN pg_namespace n ON n.oid = t.relnamespace
		LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid
			AND k.contype IN ('p', 'u', 'x')
		WHERE i.indrelid = relation
		ORDER BY i.indisprimary DESC, k.oid IS NULL, c.relname::text COLLATE "C"
	LOOP
		-- The text up to USING is known exactly, unless another session has changed names since the snapshot. The prefix detects that.
		prefix := format('CREATE %sINDEX %I ON %s%s USING ', CASE WHEN r.indisunique THEN 'UNIQUE ' ELSE '' END,
						 r.relname, CASE r.relkind WHEN 'p' THEN 'ONLY ' ELSE '' END, r.on_table);
		definition := pg_get_indexdef(r.indexrelid);
		IF NOT starts_with(definition, prefix) THEN
			RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = 'could not serialize access due to concurrent update',
				DETAIL = format('Index "%s" is defined as: %s.', r.relname, definition), HINT = 'Try again.';
		END IF;
		index_name := r.relname;
		is_unique := r.indisunique;
		constraint_def := pg_get_constraintdef(r.conid);
		IF constraint_def IS NOT NULL AND r.reloptions IS NOT NULL THEN
			-- pg_get_constraintdef() omits storage parameters
			deferral := coalesce(substring(constraint_def FROM '( DEFERRABLE( INITIALLY DEFERRED)?)$'), '');
			constraint_def := format('%s WITH (%s)%s', left(constraint_def, length(constraint_def) - length(deferral)),
									 shardfdw_internal.storage_options(r.reloptions), deferral);
		END IF;
		using_clause := substr(definition, length(prefix) + 1);
		RETURN NEXT;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.index_definitions(regclass) IS
	'Lists the indexes of a table in parts, primary key first. Returns for each its name, its constraint if any, and the text of its definition after USING.';

CREATE FUNCTION shardfdw_internal.check_constraint_definitions(relation regclass)
	RETURNS TABLE (constraint_name name, definition text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- A constraint of a partitioned table cannot be NO INHERIT.
	SELECT k.conname, regexp_replace(pg_get_constraintdef(k.oid), ' NO INHERIT( NOT VALID)?$', '\1')
	FROM pg_constraint k
	WHERE k.conrelid = relation AND k.contype = 'c'
	ORDER BY k.conname::text COLLATE "C"
$$;
COMMENT ON FUNCTION shardfdw_internal.check_constraint_definitions(regclass) IS
	'Lists the CHECK constraints of a table. Returns their names and definitions.';

CREATE FUNCTION shardfdw_internal.shard_columns(relation regclass) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(concat_ws(' ', quote_ident(a.attname), format_type(a.atttypid, a.atttypmod),
			CASE WHEN a.attcompression = 'p' THEN 'COMPRESSION pglz'
				WHEN a.attcompression = 'l' THEN 'COMPRESSION lz4' END,
			CASE WHEN a.attcollation <> t.typcollation
				THEN (SELECT format('COLLATE %I.%I', n.nspname, c.collname)
					  FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace WHERE c.oid = a.attcollation) END,
			CASE a.attgenerated
				WHEN 's' THEN format('GENERATED ALWAYS AS (%s) STORED', pg_get_expr(d.adbin, d.adrelid))
				WHEN 'v' THEN format('GENERATED ALWAYS AS (%s) VIRTUAL', pg_get_expr(d.adbin, d.adrelid)) END,
			CASE WHEN a.attnotnull THEN 'NOT NULL' END), ', ' ORDER BY a.attnum)
	FROM pg_attribute a
	JOIN pg_type t ON t.oid = a.atttypid
	LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
	WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_columns(regclass) IS
	'Writes the column list of a shard: names, types, collations, generation expressions and NOT NULL. Defaults are omitted, because the coordinator computes them. Returns the text between the parentheses of CREATE TABLE.';

CREATE FUNCTION shardfdw_internal.shard_table_commands(relation regclass, reloptions text[] DEFAULT NULL)
	RETURNS TABLE (prefix text, suffix text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT 'CREATE TABLE ', format(' (%s)%s', concat_ws(', ', shardfdw_internal.shard_columns(relation),
			(SELECT string_agg(format('CONSTRAINT %I %s', k.constraint_name, k.definition), ', ')
			 FROM shardfdw_internal.check_constraint_definitions(relation) k WHERE k.definition NOT LIKE '% NOT VALID')),
		' WITH (' || shardfdw_internal.storage_options(reloptions) || ')')
	UNION ALL
	SELECT 'ALTER TABLE ', format(' ALTER COLUMN %I SET STORAGE %s', a.attname,
		CASE a.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END)
	FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
	WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attstorage <> t.typstorage
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_table_commands(regclass, text[]) IS
	'Writes the commands that create a shard of a table on its node, without indexes. Returns the text before and after the name of the shard.';

CREATE FUNCTION shardfdw_internal.statistics_definitions(relation regclass)
	RETURNS TABLE (object_name name, body text, target integer)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.stxname, substr(d.definition, length(d.prefix) + 1, length(d.definition) - length(d.prefix) - length(d.suffix)), (to_jsonb(s)->>'stxstattarget')::integer
	FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace
	CROSS JOIN LATERAL (SELECT pg_get_statisticsobjdef(s.oid), format('CREATE STATISTICS %I.%I', n.nspname, s.stxname), ' FROM ' || relation) d(definition, prefix, suffix)
	WHERE s.stxrelid = relation AND starts_with(d.definition, d.prefix) AND right(d.definition, length(d.suffix)) = d.suffix
	ORDER BY s.stxname::text COLLATE "C"
$$;
COMMENT ON FUNCTION shardfdw_internal.statistics_definitions(regclass) IS
	'Lists the extended statistics of a table. Returns for each the name, the part of CREATE STATISTICS between the name and FROM, and the statistics target (null or -1: the default).';

CREATE FUNCTION shardfdw_internal.shard_index_commands(relation regclass)
	RETURNS TABLE (prefix text, suffix text, object_name name, object_kind text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT c.prefix, c.suffix, c.object_name, c.object_kind FROM (
		SELECT i.ord, 1, CASE WHEN i.constraint_def IS NOT NULL THEN 'ALTER TABLE '
				WHEN i.is_unique THEN 'CREATE UNIQUE INDEX '
				ELSE 'CREATE INDEX ' END,
			CASE WHEN i.constraint_def IS NOT NULL THEN ' ' || i.constraint_def
				ELSE ' USING ' || i.using_clause END,
			i.index_name, CASE WHEN i.constraint_def IS NOT NULL THEN 'constraint' ELSE 'index' END
		FROM shardfdw_internal.index_definitions(relation) WITH ORDINALITY i(index_name, is_unique, constraint_def, using_clause, ord)
		UNION ALL
		SELECT i.ord, 1 + a.attnum, 'ALTER INDEX ', format(' ALTER COLUMN %s SET STATISTICS %s', a.attnum, to_jsonb(a)->>'attstattarget'), i.index_name, 'schema'
		FROM shardfdw_internal.index_definitions(relation) WITH ORDINALITY i(index_name, is_unique, constraint_def, using_clause, ord)
		JOIN pg_class x ON x.relname = i.index_name AND x.relnamespace = (SELECT c.relnamespace FROM pg_class c WHERE c.oid = relation)
		JOIN pg_attribute a ON a.attrelid = x.oid AND (to_jsonb(a)->>'attstattarget')::integer >= 0 AND i.constraint_def IS NULL
		UNION ALL
		SELECT 100000, row_number() OVER (), 'ALTER TABLE ', format(' ADD CONSTRAINT %I %s', k.constraint_name, k.definition), NULL, NULL
		FROM shardfdw_internal.check_constraint_definitions(relation) k WHERE k.definition LIKE '% NOT VALID'
		UNION ALL
		SELECT 100001, 1, 'ALTER TABLE ', ' CLUSTER ON ', x.relname, 'last'
		FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = relation AND i.indisclustered
		UNION ALL
		SELECT 100002, 1, 'ALTER TABLE ', ' REPLICA IDENTITY USING INDEX ', x.relname, 'last'
		FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = relation AND i.indisreplident
		UNION ALL
		SELECT 100003, row_number() OVER (), 'CREATE STATISTICS IF NOT EXISTS ', s.body, s.object_name, 'statistics'
		FROM shardfdw_internal.statistics_definitions(relation) s
		UNION ALL
		SELECT 100004, row_number() OVER (), 'ALTER STATISTICS ', ' SET STATISTICS ' || s.target, s.object_name, 'schema'
		FROM shardfdw_internal.statistics_definitions(relation) s WHERE s.target >= 0) c(ord, sub, prefix, suffix, object_name, object_kind)
	ORDER BY c.ord, c.sub
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_index_commands(regclass) IS
	'Writes the commands that create a table''s keys, indexes, NOT VALID CHECK constraints and extended statistics on a shard. Returns the text before and after the name of the shard, and the name and kind of the object that run_on_new_shards() renames for the shard.';

CREATE FUNCTION shardfdw_internal.parent_index_commands(relation regclass, sharded boolean)
	RETURNS SETOF text
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	i record;
	target record;
	schema_name name := (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation);
	-- Core has no unique keys over foreign partitions. The parent's keys are markers for clients; the shards enforce them.
	only_marker text := CASE WHEN sharded THEN 'ONLY ' ELSE '' END;
BEGIN
	FOR i IN SELECT * FROM shardfdw_internal.index_definitions(relation)
	LOOP
		IF i.constraint_def IS NOT NULL THEN
			RETURN NEXT format('ALTER TABLE %s%s ADD CONSTRAINT %I %s', only_marker, relation, i.index_name, i.constraint_def);
		ELSE
			RETURN NEXT format('CREATE %sINDEX %I ON %s%s USING %s', CASE WHEN i.is_unique THEN 'UNIQUE ' ELSE '' END,
				i.index_name, CASE WHEN i.is_unique THEN only_marker ELSE '' END, relation, i.using_clause);
			FOR target IN
				SELECT a.attnum, to_jsonb(a)->>'attstattarget' AS value FROM pg_attribute a
				JOIN pg_class x ON x.oid = a.attrelid AND x.relname = i.index_name AND x.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = schema_name)
				WHERE (to_jsonb(a)->>'attstattarget')::integer >= 0 ORDER BY a.attnum
			LOOP
				RETURN NEXT format('ALTER INDEX %I.%I ALTER COLUMN %s SET STATISTICS %s', schema_name, i.index_name, target.attnum, target.value);
			END LOOP;
		END IF;
	END LOOP;
	RETURN QUERY SELECT x.command FROM pg_index u JOIN pg_class c ON c.oid = u.indexrelid
	LEFT JOIN pg_constraint k ON k.conindid = u.indexrelid AND k.conrelid = relation AND k.contype IN ('p', 'u', 'x')
	CROSS JOIN LATERAL (VALUES (format('COMMENT ON INDEX %I.%I IS %L', schema_name, c.relname, obj_description(c.oid, 'pg_class')), obj_description(c.oid, 'pg_class')),
		(format('COMMENT ON CONSTRAINT %s ON %s IS %L', quote_ident(k.conname), relation, obj_description(k.oid, 'pg_constraint')), obj_description(k.oid, 'pg_constraint'))) x(command, description)
	WHERE u.indrelid = relation AND x.description IS NOT NULL ORDER BY x.command COLLATE "C";
END
$$;
COMMENT ON FUNCTION shardfdw_internal.parent_index_commands(regclass, boolean) IS
	'Writes the commands that create a table''s keys and indexes again on a table of the same name here. On a sharded table, unique keys become markers. Returns the commands in order.';

CREATE FUNCTION shardfdw_internal.column_commands(relation regclass) RETURNS SETOF text
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	-- Constraints that are NOT VALID come after the others.
	FOR r IN SELECT * FROM shardfdw_internal.check_constraint_definitions(relation) k WHERE k.definition LIKE '% NOT VALID'
	LOOP
		RETURN NEXT format('ALTER TABLE %s ADD CONSTRAINT %I %s', relation, r.constraint_name, r.definition);
	END LOOP;

	-- column settings that CREATE TABLE ... LIKE does not copy
	FOR r IN
		SELECT a.attname, to_jsonb(a)->>'attstattarget' AS target,
			-- core also keeps internal options there
			(SELECT string_agg(format('%I = %L', o.option_name, o.option_value), ', ') FROM pg_options_to_table(a.attoptions) o
			 WHERE o.option_name IN ('n_distinct', 'n_distinct_inherited')) AS options
		FROM pg_attribute a WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
	LOOP
		IF r.target::integer >= 0 THEN
			RETURN NEXT format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS %s', relation, r.attname, r.target);
		END IF;
		IF r.options IS NOT NULL THEN
			RETURN NEXT format('ALTER TABLE %s ALTER COLUMN %I SET (%s)', relation, r.attname, r.options);
		END IF;
	END LOOP;

	FOR r IN
		SELECT k.conname, obj_description(k.oid, 'pg_constraint') AS description
		FROM pg_constraint k WHERE k.conrelid = relation AND k.contype IN ('c', 'n') ORDER BY k.conname::text COLLATE "C"
	LOOP
		CONTINUE WHEN r.description IS NULL;
		RETURN NEXT format('COMMENT ON CONSTRAINT %I ON %s IS %L', r.conname, relation, r.description);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.column_commands(regclass) IS
	'Writes the commands for properties that CREATE TABLE ... LIKE does not copy: statistics targets, column options, NOT VALID constraints, and comments of constraints. Returns the commands in order.';

CREATE FUNCTION shardfdw_internal.statistics_commands(relation regclass) RETURNS SETOF text
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	FOR r IN
		SELECT pg_get_statisticsobjdef(s.oid) AS definition, to_jsonb(s)->>'stxstattarget' AS target, format('%I.%I', n.nspname, s.stxname) AS name,
			pg_get_userbyid(s.stxowner) AS owner, obj_description(s.oid, 'pg_statistic_ext') AS description
		FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace
		WHERE s.stxrelid = relation ORDER BY s.stxname::text COLLATE "C"
	LOOP
		RETURN NEXT r.definition;
		IF r.target::integer >= 0 THEN
			RETURN NEXT format('ALTER STATISTICS %s SET STATISTICS %s', r.name, r.target);
		END IF;
		IF r.owner <> current_user THEN
			RETURN NEXT format('ALTER STATISTICS %s OWNER TO %I', r.name, r.owner);
		END IF;
		IF r.description IS NOT NULL THEN
			RETURN NEXT format('COMMENT ON STATISTICS %s IS %L', r.name, r.description);
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.statistics_commands(regclass) IS
	'Writes the commands that make the extended statistics of a table again, with targets, owners and comments. Returns the commands in order.';

CREATE FUNCTION shardfdw_internal.trigger_commands(relation regclass) RETURNS SETOF text
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	FOR r IN
		SELECT t.tgname, pg_get_triggerdef(t.oid) AS definition, t.tgenabled, obj_description(t.oid, 'pg_trigger') AS description
		FROM pg_trigger t WHERE t.tgrelid = relation AND NOT t.tgisinternal ORDER BY t.tgname::text COLLATE "C"
	LOOP
		RETURN NEXT r.definition;
		IF r.tgenabled <> 'O' THEN
			RETURN NEXT format('ALTER TABLE %s %s TRIGGER %I', relation,
				CASE r.tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, r.tgname);
		END IF;
		IF r.description IS NOT NULL THEN
			RETURN NEXT format('COMMENT ON TRIGGER %I ON %s IS %L', r.tgname, relation, r.description);
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.trigger_commands(regclass) IS
	'Writes the commands that make the triggers of a table again, enabled or disabled as they are, with comments. Returns the commands in order.';

CREATE FUNCTION shardfdw_internal.policy_commands(relation regclass) RETURNS SETOF text
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	FOR r IN
		SELECT p.polname, p.polpermissive, p.polcmd, pg_get_expr(p.polqual, p.polrelid) AS qual,
			pg_get_expr(p.polwithcheck, p.polrelid) AS with_check,
			(SELECT string_agg(CASE role WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(role)) END, ', ')
			 FROM unnest(p.polroles) role) AS roles,
			obj_description(p.oid, 'pg_policy') AS description
		FROM pg_policy p WHERE p.polrelid = relation ORDER BY p.polname::text COLLATE "C"
	LOOP
		RETURN NEXT concat_ws(' ', format('CREATE POLICY %I ON %s', r.polname, relation),
			CASE WHEN r.polpermissive THEN 'AS PERMISSIVE' ELSE 'AS RESTRICTIVE' END,
			CASE r.polcmd WHEN 'r' THEN 'FOR SELECT' WHEN 'a' THEN 'FOR INSERT' WHEN 'w' THEN 'FOR UPDATE'
				WHEN 'd' THEN 'FOR DELETE' ELSE 'FOR ALL' END,
			'TO ' || r.roles, 'USING (' || r.qual || ')', 'WITH CHECK (' || r.with_check || ')');
		IF r.description IS NOT NULL THEN
			RETURN NEXT format('COMMENT ON POLICY %I ON %s IS %L', r.polname, relation, r.description);
		END IF;
	END LOOP;

	FOR r IN SELECT c.relrowsecurity, c.relforcerowsecurity, c.relreplident FROM pg_class c WHERE c.oid = relation
	LOOP
		IF r.relreplident IN ('f', 'n') THEN
			RETURN NEXT format('ALTER TABLE %s REPLICA IDENTITY %s', relation,
				CASE r.relreplident WHEN 'f' THEN 'FULL' ELSE 'NOTHING' END);
		ELSIF r.relreplident = 'i' AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = relation AND i.indisreplident) THEN
			RETURN NEXT format('ALTER TABLE %s REPLICA IDENTITY USING INDEX %I', relation,
				(SELECT x.relname FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = relation AND i.indisreplident));
		END IF;
		IF r.relrowsecurity THEN
			RETURN NEXT format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', relation);
		END IF;
		IF r.relforcerowsecurity THEN
			RETURN NEXT format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', relation);
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.policy_commands(regclass) IS
	'Writes the commands for the row security policies of a table, its replica identity, and whether row security is on. Returns the commands in order.';

CREATE FUNCTION shardfdw_internal.grant_as(grantor name, command text) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_grant_as';
COMMENT ON FUNCTION shardfdw_internal.grant_as(name, text) IS
	'Runs a GRANT on a relation of the caller, or on its row type, so that another role is the grantor. That role must have the grant option. Returns nothing. Raises insufficient_privilege if the relation belongs to another role, undefined_object, and invalid_parameter_value for another command.';

CREATE FUNCTION shardfdw_internal.repeat_grant(grantor name, command text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	peers CONSTANT name[] := shardfdw_internal.peers();
BEGIN
	PERFORM shardfdw_internal.grant_as(grantor, command);
	IF peers <> '{}' AND current_setting('shardfdw.enable_coordinator_propagation')::boolean THEN
		PERFORM shardfdw_internal.run_commands(peers, array_fill(format('SELECT shardfdw_internal.grant_as(%L, %L)', grantor, command), ARRAY[cardinality(peers)]), 'write');
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.repeat_grant(name, text) IS
	'Does what grant_as() does, on all coordinators. Returns nothing. Raises errors of grant_as() and of other coordinators.';

CREATE FUNCTION shardfdw_internal.role_text(role oid) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE role WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(role)) END
$$;
COMMENT ON FUNCTION shardfdw_internal.role_text(oid) IS
	'Writes a role for GRANT and REVOKE. 0: PUBLIC. Returns its quoted name.';

CREATE FUNCTION shardfdw_internal.grant_commands(kind text, name text, relation regclass) RETURNS SETOF text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH RECURSIVE given AS MATERIALIZED (
		SELECT c.relowner AS owner, 0 AS attnum, '' AS columns, x.grantor, x.grantee, x.privilege_type, x.is_grantable
		FROM pg_class c LEFT JOIN pg_type t ON t.oid = c.reltype CROSS JOIN LATERAL aclexplode(CASE kind WHEN 'TYPE' THEN t.typacl ELSE c.relacl END) x
		WHERE c.oid = relation
		UNION ALL
		SELECT c.relowner, a.attnum, format(' (%I)', a.attname), x.grantor, x.grantee, x.privilege_type, x.is_grantable
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped CROSS JOIN LATERAL aclexplode(a.attacl) x
		WHERE c.oid = relation AND kind <> 'TYPE'
	), can_grant(role, privilege_type, attnum, depth) AS (
		SELECT g.grantee, g.privilege_type, g.attnum, 1 FROM given g WHERE g.grantor = g.owner AND g.is_grantable
		UNION
		-- A grant option on the table is valid for each column.
		SELECT g.grantee, g.privilege_type, g.attnum, c.depth + 1 FROM can_grant c
		JOIN given g ON g.grantor = c.role AND g.privilege_type = c.privilege_type AND c.attnum IN (0, g.attnum) AND g.is_grantable
		WHERE c.depth < 64
	)
	-- The owner has all privileges by default, and may have lost some.
	SELECT format('REVOKE ALL ON %s %s FROM %s%s', kind, name, shardfdw_internal.role_text(c.relowner), CASE kind WHEN 'TYPE' THEN ', PUBLIC' ELSE '' END)
	FROM pg_class c LEFT JOIN pg_type t ON t.oid = c.reltype WHERE c.oid = relation AND CASE kind WHEN 'TYPE' THEN t.typacl ELSE c.relacl END IS NOT NULL
	UNION ALL
	(SELECT CASE WHEN d.depth IS NULL THEN k.command ELSE format('SELECT shardfdw_internal.repeat_grant(%L, %L)', pg_get_userbyid(g.grantor), k.command) END
	FROM given g
	CROSS JOIN LATERAL (SELECT format('GRANT %s%s ON %s %s TO %s%s', g.privilege_type, g.columns, CASE g.attnum WHEN 0 THEN kind ELSE 'TABLE' END, name,
		shardfdw_internal.role_text(g.grantee), CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)) k(command)
	-- Other grantors come after the roles that gave them the grant option.
	LEFT JOIN LATERAL (SELECT min(c.depth) FROM can_grant c
		WHERE c.role = g.grantor AND c.privilege_type = g.privilege_type AND c.attnum IN (0, g.attnum) AND g.grantor <> g.owner) d(depth) ON true
	ORDER BY d.depth NULLS FIRST, g.attnum, g.grantee, g.privilege_type)
$$;
COMMENT ON FUNCTION shardfdw_internal.grant_commands(text, text, regclass) IS
	'Writes the commands that give an object exactly the privileges of another one of the same owner, with their grantors. kind: TABLE, SEQUENCE, or TYPE for the row type. name: of the object that gets the privileges; no other role has privileges on it. relation: the table or sequence whose privileges are read. Returns the commands in order.';

CREATE FUNCTION shardfdw_internal.privilege_commands(relation regclass) RETURNS SETOF text
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- exactly the privileges of the old table, whatever the default privileges are
	RETURN NEXT format('REVOKE ALL ON %s FROM PUBLIC', relation);
	RETURN QUERY SELECT DISTINCT format('REVOKE ALL ON %s FROM %s', relation, shardfdw_internal.role_text(x.grantee))
	FROM pg_default_acl a CROSS JOIN LATERAL aclexplode(a.defaclacl) x JOIN pg_class c ON c.oid = relation
	WHERE a.defaclobjtype = 'r' AND x.grantee NOT IN (0, c.relowner);
	RETURN QUERY SELECT * FROM shardfdw_internal.grant_commands('TABLE', relation::text, relation);
	RETURN QUERY SELECT * FROM shardfdw_internal.grant_commands('TYPE', relation::text, relation);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.privilege_commands(regclass) IS
	'Writes the commands that give a new table of the same owner the privileges of a table, its columns and its row type, and no others. Returns the commands in order.';

CREATE FUNCTION shardfdw_internal.dependent_views(relation regclass) RETURNS SETOF regclass
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT DISTINCT w.ev_class::regclass FROM pg_depend d
	JOIN pg_rewrite w ON w.oid = d.objid AND w.rulename = '_RETURN'
	JOIN pg_class v ON v.oid = w.ev_class AND v.relkind = 'v' AND v.relpersistence = 'p'
	WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = relation
	ORDER BY 1
$$;
COMMENT ON FUNCTION shardfdw_internal.dependent_views(regclass) IS
	'Finds the views whose query names a table, without views of these views, materialized views and temporary views.';

CREATE FUNCTION shardfdw_internal.rule_depends(view regclass, except_table oid) RETURNS text[]
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(DISTINCT concat_ws(' ', d.refclassid, d.refobjid) ORDER BY concat_ws(' ', d.refclassid, d.refobjid)), '{}')
	FROM pg_rewrite w JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
	LEFT JOIN pg_class c ON c.oid = except_table
	WHERE w.ev_class = view AND w.rulename = '_RETURN' AND d.refclassid <> 'pg_constraint'::regclass
		AND NOT (d.refclassid = 'pg_class'::regclass AND d.refobjid IN (view, except_table))
		AND NOT (d.refclassid = 'pg_type'::regclass AND d.refobjid IN (SELECT unnest(ARRAY[t.oid, t.typarray]) FROM pg_type t WHERE t.oid = c.reltype))
$$;
COMMENT ON FUNCTION shardfdw_internal.rule_depends(regclass, oid) IS
	'Lists the objects that the query of a view names, as catalog and OID, without constraints, the given table and its row type.';

CREATE FUNCTION shardfdw_internal.set_view_query(view regclass, query text, options text[] DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	name CONSTANT text := view;
BEGIN
	EXECUTE format('CREATE OR REPLACE VIEW %s%s%s AS %s', name,
		(SELECT format(' (%s)', string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)) FROM pg_attribute a WHERE a.attrelid = view AND a.attnum > 0 HAVING count(*) > 0),
		(SELECT format(' WITH (%s)', string_agg(format('%I = %L', o.option_name, o.option_value), ', ')) FROM pg_options_to_table(options) o HAVING count(*) > 0),
		query);
	-- Another session may have renamed the view or its schema, and the name may belong to another view by then.
	IF to_regclass(name) IS DISTINCT FROM view THEN
		RAISE EXCEPTION USING ERRCODE = 'serialization_failure', MESSAGE = format('view %s has been renamed or dropped by another session', name), HINT = 'Try again.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.set_view_query(regclass, text, text[]) IS
	'Gives a view another query with the same columns, and these options. Owner, privileges, comments, triggers, rules and defaults of the view stay. Objects that depend on the view stay, too. Returns nothing. Raises serialization_failure if the name belongs to another view.';

CREATE FUNCTION shardfdw_internal.empty_views(old_table regclass, new_table regclass) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	old_name CONSTANT name := (SELECT c.relname FROM pg_class c WHERE c.oid = old_table);
	new_name CONSTANT name := (SELECT c.relname FROM pg_class c WHERE c.oid = new_table);
	beside CONSTANT name := format('shardfdw_new_name_%s', new_table::oid);
	views jsonb;
BEGIN
	IF NOT EXISTS (SELECT FROM shardfdw_internal.dependent_views(old_table)) THEN
		RETURN '[]';
	END IF;
	-- The queries are written with the name that the new table has, immediately before they are needed.
	EXECUTE format('ALTER TABLE %s RENAME TO %I', new_table, beside);
	EXECUTE format('ALTER TABLE %s RENAME TO %I', old_table, new_name);
	SELECT jsonb_agg(jsonb_build_object('oid', v::oid, 'query', pg_get_viewdef(v), 'options', c.reloptions, 'depends', shardfdw_internal.rule_depends(v, old_table))) INTO views
	FROM shardfdw_internal.dependent_views(old_table) v JOIN pg_class c ON c.oid = v;
	EXECUTE format('ALTER TABLE %s RENAME TO %I', old_table, old_name);
	EXECUTE format('ALTER TABLE %s RENAME TO %I', new_table, new_name);
	PERFORM shardfdw_internal.set_view_query(v, 'SELECT ' || coalesce((
			SELECT string_agg(format('NULL::%s%s', format_type(a.atttypid, a.atttypmod), ' COLLATE ' || nullif(a.attcollation, 0)::regcollation), ', ' ORDER BY a.attnum)
			FROM pg_attribute a WHERE a.attrelid = v AND a.attnum > 0), ''))
	FROM shardfdw_internal.dependent_views(old_table) v;
	RETURN views;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.empty_views(regclass, regclass) IS
	'Gives the views of a table a query that names no table, so that the table can be dropped. new_table: the table that has its name. Returns the views with their queries and options, for fill_views().';

CREATE FUNCTION shardfdw_internal.fill_views(views jsonb, new_table regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	view record;
BEGIN
	FOR view IN SELECT * FROM jsonb_to_recordset(views) v(oid oid, query text, options text[], depends text[])
	LOOP
		PERFORM shardfdw_internal.set_view_query(view.oid::regclass, view.query, view.options);
		-- By OID: the command may have found another view by the name. This view would still have no rows then.
		IF shardfdw_internal.rule_depends(view.oid::regclass, new_table) <> view.depends
			OR NOT EXISTS (SELECT FROM shardfdw_internal.dependent_views(new_table) v WHERE v = view.oid) THEN
			RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
				MESSAGE = format('an object that view %s uses has been renamed or replaced by another session', view.oid::regclass), HINT = 'Try again.';
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.fill_views(jsonb, regclass) IS
	'Gives views the queries that empty_views() took from them. Returns nothing. Raises serialization_failure if a query names other objects than before.';

CREATE FUNCTION shardfdw_internal.lock_view(view regclass) RETURNS void
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shardfdw_lock_view';
COMMENT ON FUNCTION shardfdw_internal.lock_view(regclass) IS
	'Locks a view until the transaction ends, in mode ACCESS EXCLUSIVE. LOCK TABLE would lock the tables of the view, too. Returns nothing. Raises insufficient_privilege if the caller does not own the view, also if it has another owner after the wait. Raises wrong_object_type for other relations, and undefined_table.';

CREATE FUNCTION shardfdw_internal.lock_with_views(relation regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	view record;
BEGIN
	-- A query locks outer views first, then the views and tables that they name.
	FOR view IN
		WITH RECURSIVE uses(outer_view, oid) AS (
			SELECT v::oid, v::oid FROM shardfdw_internal.dependent_views(relation) v
			UNION
			SELECT u.outer_view, d.refobjid FROM uses u JOIN pg_rewrite w ON w.ev_class = u.oid
			JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_class'::regclass
			JOIN pg_class c ON c.oid = d.refobjid AND c.relkind = 'v'
		)
		SELECT u.outer_view::regclass AS oid, c.relowner AS owner
		FROM uses u JOIN pg_class c ON c.oid = u.outer_view GROUP BY u.outer_view, c.relowner ORDER BY count(*) DESC, u.outer_view
	LOOP
		-- dependent_obstacles() refuses views of other roles with a hint.
		CONTINUE WHEN shardfdw_internal.is_gone(view.oid) OR NOT pg_has_role(view.owner, 'USAGE');
		PERFORM shardfdw_internal.lock_view(view.oid);
	END LOOP;
	PERFORM shardfdw_internal.lock_table(relation, 'ACCESS EXCLUSIVE');
END
$$;
COMMENT ON FUNCTION shardfdw_internal.lock_with_views(regclass) IS
	'Locks the views whose query names a table, and then the table, in ACCESS EXCLUSIVE mode until the transaction ends. Leaves out views of roles that the caller is no member of. Returns nothing. Raises serialization_failure if the name of a view belongs to another view.';

CREATE FUNCTION shardfdw_internal.publications_of(relation regclass) RETURNS TABLE (oid oid, name name, owner oid, columns text, condition text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- Of a publication of all tables, such a row would be an exception.
	SELECT r.oid, p.pubname, p.pubowner,
		(SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = r.prrelid AND a.attnum = ANY (r.prattrs::smallint[])),
		pg_get_expr(r.prqual, r.prrelid)
	FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
	WHERE r.prrelid = relation AND NOT p.puballtables
	ORDER BY p.pubname::text COLLATE "C"
$$;
COMMENT ON FUNCTION shardfdw_internal.publications_of(regclass) IS
	'Finds the publications that name a table. Returns for each the OID of its entry for the table, its name and owner, and of the entry the columns, separated by commas, and the condition. Both are null if there is none.';

CREATE FUNCTION shardfdw_internal.publication_commands(relation regclass) RETURNS SETOF text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('ALTER PUBLICATION %I ADD TABLE ONLY %s%s%s', p.name, relation, ' (' || p.columns || ')', ' WHERE (' || p.condition || ')')
	FROM shardfdw_internal.publications_of(relation) p
$$;
COMMENT ON FUNCTION shardfdw_internal.publication_commands(regclass) IS
	'Writes the commands that add a new table of the same name to the publications that name a table, with the same columns and conditions. Returns a command for each.';

CREATE FUNCTION shardfdw_internal.description_commands(relation regclass, name text) RETURNS SETOF text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH object(classid, objid, objsubid, name) AS (
		SELECT c.tableoid, c.oid, 0, CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' ELSE 'TABLE ' END || $2 FROM pg_class c WHERE c.oid = relation
		UNION ALL
		SELECT a.tableoid, a.attrelid, a.attnum, format('COLUMN %s.%I', $2, a.attname) FROM pg_attribute a WHERE a.attrelid = relation AND NOT a.attisdropped
		UNION ALL
		SELECT t.tableoid, t.oid, 0, 'TYPE ' || $2 || CASE WHEN t.typrelid = 0 THEN '[]' ELSE '' END
		FROM pg_class c JOIN pg_type r ON r.oid = c.reltype JOIN pg_type t ON t.oid IN (r.oid, r.typarray) WHERE c.oid = relation
	)
	-- CREATE TABLE ... LIKE copies the comments of columns.
	SELECT format('COMMENT ON %s IS %L', o.name, d.description) FROM object o JOIN pg_description d ON d.classoid = o.classid AND d.objoid = o.objid AND d.objsubid = o.objsubid
	WHERE o.objsubid = 0
	UNION ALL
	SELECT format('SECURITY LABEL FOR %I ON %s IS %L', l.provider, o.name, l.label) FROM object o
	JOIN pg_seclabel l ON l.classoid = CASE WHEN o.objsubid = 0 THEN o.classid ELSE 'pg_class'::regclass END AND l.objoid = o.objid AND l.objsubid = o.objsubid
$$;
COMMENT ON FUNCTION shardfdw_internal.description_commands(regclass, text) IS
	'Writes the commands that give another table or sequence the comments of a relation and its row type, and the security labels of the relation, its columns and its row type. name: qualified and quoted name of the other one. Returns the commands.';

CREATE FUNCTION shardfdw_internal.successor_commands(relation regclass) RETURNS SETOF text
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY SELECT * FROM shardfdw_internal.column_commands(relation);
	RETURN QUERY SELECT * FROM shardfdw_internal.statistics_commands(relation);
	RETURN QUERY SELECT * FROM shardfdw_internal.trigger_commands(relation);
	RETURN QUERY SELECT * FROM shardfdw_internal.policy_commands(relation);
	RETURN QUERY SELECT * FROM shardfdw_internal.privilege_commands(relation);
	RETURN QUERY SELECT * FROM shardfdw_internal.publication_commands(relation);
	RETURN QUERY SELECT * FROM shardfdw_internal.description_commands(relation, relation::text);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.successor_commands(regclass) IS
	'Writes the commands that give a new table of the same name the properties that its columns and indexes do not carry: NOT VALID CHECK constraints, comments of constraints, statistics, triggers, row security, replica identity, privileges, publications, comments, security labels. Returns the commands in order.';

CREATE FUNCTION shardfdw_internal.is_unlogged(relation regclass) RETURNS boolean
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- pg_partition_tree() would lock the tables. The caller of a job must not hold a lock that the job waits for.
	WITH RECURSIVE part(oid) AS (
		SELECT relation::oid
		UNION ALL
		SELECT i.inhrelid FROM part p JOIN pg_inherits i ON i.inhparent = p.oid
	)
	SELECT EXISTS (SELECT FROM pg_class c WHERE c.oid = relation AND c.relpersistence = 'u')
		OR EXISTS (SELECT FROM part p JOIN pg_foreign_table f ON f.ftrelid = p.oid CROSS JOIN LATERAL pg_options_to_table(f.ftoptions) o
				   WHERE o.option_name = 'unlogged' AND o.option_value::boolean)
$$;
COMMENT ON FUNCTION shardfdw_internal.is_unlogged(regclass) IS
	'Tells whether a table is unlogged: the table itself, or any of its shards by option. Returns false if the table does not exist.';

CREATE FUNCTION shardfdw_internal.log_sequences(relation regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT s.oid::regclass AS name FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S' AND s.relpersistence = 'u'
		WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = relation AND d.deptype IN ('a', 'i')
	LOOP
		EXECUTE format('ALTER SEQUENCE %s SET LOGGED', r.name);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.log_sequences(regclass) IS
	'Makes the sequences of a table''s columns permanent. The rows on nodes survive a crash of the coordinator, so the sequences must survive it too. Returns nothing.';

CREATE FUNCTION shardfdw_internal.make_successor(relation regclass, successor text, partition_by text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	constraint_row record;
BEGIN
	-- for a partitioned table: its shards are unlogged
	EXECUTE format('CREATE %sTABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING IDENTITY INCLUDING STORAGE INCLUDING COMPRESSION INCLUDING COMMENTS)%s',
				   CASE WHEN partition_by IS NULL AND shardfdw_internal.is_unlogged(relation) THEN 'UNLOGGED ' END,
				   successor, relation, coalesce(' PARTITION BY ' || partition_by, ''));
	EXECUTE format('ALTER TABLE %s OWNER TO %I', successor, (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = relation));
	-- LIKE copies NOT NULL NO INHERIT, which a partitioned table cannot have. A dump of it could not be restored.
	FOR constraint_row IN SELECT k.conname FROM pg_constraint k WHERE k.conrelid = successor::regclass AND k.contype = 'n' AND k.connoinherit AND partition_by IS NOT NULL
	LOOP
		EXECUTE format('ALTER TABLE %s ALTER CONSTRAINT %I INHERIT', successor, constraint_row.conname);
	END LOOP;
	FOR constraint_row IN SELECT * FROM shardfdw_internal.check_constraint_definitions(relation) k WHERE k.definition NOT LIKE '% NOT VALID'
	LOOP
		EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', successor, constraint_row.constraint_name, constraint_row.definition);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.make_successor(regclass, text, text) IS
	'Creates a table of a qualified and quoted name with the columns, defaults, CHECK constraints and owner of another table, without rows, keys and indexes. Optionally partitioned. Returns nothing.';

CREATE FUNCTION shardfdw_internal.sequence_commands(old_sequence regclass, new_sequence regclass) RETURNS SETOF text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- Default privileges have been granted on the new sequence first.
	SELECT format('REVOKE ALL ON SEQUENCE %s FROM %s', new_sequence, shardfdw_internal.role_text(x.grantee))
	FROM pg_class c CROSS JOIN LATERAL (SELECT DISTINCT a.grantee FROM aclexplode(c.relacl) a) x WHERE c.oid = new_sequence AND x.grantee <> c.relowner
	UNION ALL
	SELECT * FROM shardfdw_internal.grant_commands('SEQUENCE', new_sequence::text, old_sequence)
	UNION ALL
	SELECT * FROM shardfdw_internal.description_commands(old_sequence, new_sequence::text)
$$;
COMMENT ON FUNCTION shardfdw_internal.sequence_commands(regclass, regclass) IS
	'Writes the commands that give the sequence of an identity column the privileges, the comment and the security labels of another sequence. Returns the commands in order.';

CREATE FUNCTION shardfdw_internal.take_sequences(old_table regclass, new_table regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	sequence record;
	new_sequence text;
	command text;
	last_value bigint;
	is_called boolean;
BEGIN
	-- Serial columns keep their sequence. Identity columns continue at the value of the old table.
	FOR sequence IN
		SELECT d.objid::regclass AS seq, a.attname, d.deptype
		FROM pg_depend d
		JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
		JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
		WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
			AND d.refobjid = old_table AND d.deptype IN ('a', 'i')
	LOOP
		IF sequence.deptype = 'a' THEN
			EXECUTE format('ALTER SEQUENCE %s OWNED BY %s.%I', sequence.seq, new_table, sequence.attname);
		ELSE
			new_sequence := pg_get_serial_sequence(new_table::text, sequence.attname);
			-- LIKE makes it a bigint, and with several coordinators each has got the share of a bigint.
			EXECUTE (SELECT format('ALTER SEQUENCE %s AS %s MINVALUE %s MAXVALUE %s START %s RESTART %s', new_sequence, format_type(s.seqtypid, NULL), s.seqmin, s.seqmax, s.seqstart, s.seqstart)
				FROM pg_sequence s WHERE s.seqrelid = sequence.seq);
			-- This locks the sequence by its OID. By name, the owner could give the name to a view while the lock is waited for.
			PERFORM pg_sequence_last_value(sequence.seq);
			EXECUTE format('SELECT last_value, is_called FROM %s', sequence.seq) INTO last_value, is_called;
			PERFORM setval(new_sequence, last_value, is_called);
			FOR command IN SELECT * FROM shardfdw_internal.sequence_commands(sequence.seq, new_sequence::regclass)
			LOOP
				EXECUTE command;
			END LOOP;
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.take_sequences(regclass, regclass) IS
	'Moves the sequences of a table to the table that make_successor() created. Serial columns keep their sequence; identity columns get the values, privileges and comments. Returns nothing.';

CREATE FUNCTION shardfdw_internal.replace_table(relation regclass, partition_by text, old_name name) RETURNS regclass
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	relation_text CONSTANT text := relation::text;
BEGIN
	EXECUTE format('ALTER TABLE %s RENAME TO %I', relation, old_name);
	-- Row security policies that apply to the owner must not hide rows while the rows are moved.
	EXECUTE format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', relation);
	PERFORM shardfdw_internal.make_successor(relation, relation_text, partition_by);
	PERFORM shardfdw_internal.take_sequences(relation, relation_text::regclass);
	RETURN relation_text::regclass;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.replace_table(regclass, text, name) IS
	'Renames a table to old_name and creates a new table in its place with the same columns, defaults, sequences, CHECK constraints and owner, without rows, keys and indexes. Optionally partitioned. Returns the new table.';

-- Not dumped: the rows belong to transactions of this server.
CREATE TABLE shardfdw_internal.copied_table (relation oid PRIMARY KEY);
REVOKE ALL ON shardfdw_internal.copied_table FROM PUBLIC;
COMMENT ON TABLE shardfdw_internal.copied_table IS
	'Contains a row for each table whose rows a conversion has copied. Transactions whose snapshot does not show the row cannot use the table.';
COMMENT ON COLUMN shardfdw_internal.copied_table.relation IS 'OID of the table.';

CREATE FUNCTION shardfdw_internal.note_copied_table(relation regclass) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_note_copied_table';
COMMENT ON FUNCTION shardfdw_internal.note_copied_table(regclass) IS
	'Records that the rows of a table are copies, so that transactions with an older snapshot get an error and not an empty table. Returns nothing. Raises insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.drop_replaced_table(old_table regclass, new_table regclass) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	names text[];
	i integer;
	views jsonb;
BEGIN
	views := shardfdw_internal.empty_views(old_table, new_table);
	-- The names of identity sequences are free once the old table is dropped.
	SELECT array_agg(ARRAY[a.attname::text, s.relname::text]) INTO names
	FROM pg_depend d
	JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
	JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
	WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
		AND d.refobjid = old_table AND d.deptype = 'i';

	PERFORM shardfdw_internal.note_copied_table(new_table);
	EXECUTE format('DROP TABLE %s', old_table);

	FOR i IN 1 .. coalesce(array_length(names, 1), 0)
	LOOP
		EXECUTE format('ALTER SEQUENCE %s RENAME TO %I', pg_get_serial_sequence(new_table::text, names[i][1]), names[i][2]);
	END LOOP;
	RETURN views;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.drop_replaced_table(regclass, regclass) IS
	'Drops a table that replace_table() renamed, and gives the names of its identity sequences to those of the new table. Returns the views of the table, which have no rows until fill_views(). Raises dependent_objects_still_exist if another object depends on it.';
