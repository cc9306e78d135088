-- Splits and merges: one shard becomes several shards, or several become one, together with the shards of colocated tables.

CREATE FUNCTION shardfdw_internal.bound_values(list text) RETURNS text[]
	LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp
AS $$
	-- a quotation mark within a literal is doubled
	SELECT ARRAY(SELECT x.value[1] FROM regexp_matches(list, '(E?''(?:[^'']|'''')*''|[^(), '']+)', 'g') WITH ORDINALITY x(value, ord) ORDER BY x.ord)
$$;
COMMENT ON FUNCTION shardfdw_internal.bound_values(text) IS
	'Splits a list in a partition bound, as pg_get_expr() prints it. Returns its literals, MINVALUE, MAXVALUE and NULL.';

CREATE FUNCTION shardfdw_internal.shard_bound(shard regclass) RETURNS TABLE (strategy "char", modulus bigint, remainder bigint, lower text, upper text, list text)
	-- literals that every session reads in the same way
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO' SET intervalstyle = 'postgres' SET extra_float_digits = 1
AS $$
	SELECT p.partstrat, h[1]::bigint, h[2]::bigint, r[1], r[2], l[1]
	FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid JOIN pg_partitioned_table p ON p.partrelid = i.inhparent
	CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, 0)) b(bound)
	LEFT JOIN LATERAL regexp_match(b.bound, '^FOR VALUES WITH \(modulus (\d+), remainder (\d+)\)$') h ON true
	LEFT JOIN LATERAL regexp_match(b.bound, '^FOR VALUES FROM (\((?:[^'']|''[^'']*'')*\)) TO (\((?:[^'']|''[^'']*'')*\))$') r ON true
	LEFT JOIN LATERAL regexp_match(b.bound, '^FOR VALUES IN (\(.*\))$') l ON true
	WHERE c.oid = shard
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_bound(regclass) IS
	'Splits the partition bound of a shard. Returns how its table is partitioned. For hash also returns modulus and remainder, for range the lists after FROM and TO, and for list the list after IN. Returns nulls for a DEFAULT partition.';

CREATE FUNCTION shardfdw_internal.shard_key_type(shard regclass) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- types whose input functions run no code of users, and whose text form does not depend on settings
	SELECT format_type(t.oid, a.atttypmod) FROM pg_inherits i JOIN pg_partitioned_table p ON p.partrelid = i.inhparent
	JOIN pg_attribute a ON a.attrelid = i.inhparent AND a.attnum = p.partattrs[0]
	JOIN pg_type t ON t.oid = a.atttypid
	WHERE i.inhrelid = shard AND (t.typtype = 'e' OR t.oid = ANY ('{smallint,integer,bigint,numeric,real,double precision,text,varchar,bpchar,"char",name,boolean,date,time,timestamp,timestamptz,uuid,bytea,oid,inet,cidr}'::regtype[]))
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_key_type(regclass) IS
	'Returns the type of the first column of the partition key of a shard''s table. Null if that is an expression, or a type whose values cannot be sent to nodes safely.';

CREATE FUNCTION shardfdw_internal.key_values(shard regclass, at text[]) RETURNS text[]
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET bytea_output = 'hex'
AS $$
DECLARE
	result text[];
	type CONSTANT text := shardfdw_internal.shard_key_type(shard);
BEGIN
	-- JSON has one format for times. Other types use their output function, never a cast of a user.
	EXECUTE format('SELECT ARRAY(SELECT %s FROM unnest(%L::%s[]) WITH ORDINALITY x(v, ord) ORDER BY x.ord)',
		CASE WHEN type IN ('date', 'time without time zone', 'timestamp without time zone', 'timestamp with time zone') THEN 'to_jsonb(x.v) #>> ''{}''' ELSE 'CASE WHEN x.v IS NOT NULL THEN format(''%s'', x.v) END' END, at, type) INTO result;
	RETURN result;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.key_values(regclass, text[]) IS
	'Parses values for the first column of a partition key, of a type from shard_key_type(), with the settings of this session. Returns them as texts that every session parses in the same way. Raises the errors of the type.';

CREATE FUNCTION shardfdw_internal.are_among(shard regclass, literals text[], at text[]) RETURNS boolean[]
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	result boolean[];
BEGIN
	EXECUTE format('SELECT ARRAY(SELECT EXISTS (SELECT FROM unnest(%1$L::%2$s[]) a(v) WHERE a.v IS NOT DISTINCT FROM x.v) FROM unnest(ARRAY[%3$s]::%2$s[]) WITH ORDINALITY x(v, ord) ORDER BY x.ord)',
		at, shardfdw_internal.shard_key_type(shard), array_to_string(literals, ', ')) INTO result;
	RETURN result;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.are_among(regclass, text[], text[]) IS
	'Tells for each literal of a partition bound whether one of the values equals it. Returns true or false for each.';

CREATE FUNCTION shardfdw_internal.piece_bounds(parts regclass[], pieces integer, at text[]) RETURNS text[]
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	b record;
	ends text[];
BEGIN
	SELECT x.strategy, (array_agg(x.modulus ORDER BY p.ord))[1] AS modulus, (array_agg(x.remainder ORDER BY p.ord))[1] AS remainder, min(x.modulus) * pieces / cardinality(parts) AS new_modulus,
		array_agg(x.lower) AS lowers, array_agg(x.upper) AS uppers, string_agg(substr(x.list, 2, length(x.list) - 2), ', ' ORDER BY p.ord) AS list,
		(SELECT k.partnatts FROM pg_inherits i JOIN pg_partitioned_table k ON k.partrelid = i.inhparent WHERE i.inhrelid = parts[1]) AS nkeys INTO b
	FROM unnest(parts) WITH ORDINALITY p(shard, ord) CROSS JOIN LATERAL shardfdw_internal.shard_bound(p.shard) x GROUP BY x.strategy;
	IF b.strategy = 'h' THEN
		RETURN ARRAY(SELECT format('FOR VALUES WITH (MODULUS %s, REMAINDER %s)', b.new_modulus, (b.remainder + (n - 1) * b.modulus) % nullif(b.new_modulus, 0)) FROM generate_series(1, shardfdw_internal.at_most(pieces, 64)) n);
	ELSIF b.strategy = 'r' THEN
		-- of adjacent ranges, the bounds that no other shard has
		ends := ARRAY(SELECT x FROM unnest(b.lowers) x WHERE x <> ALL (b.uppers))
			|| ARRAY(SELECT format('(%s%s)', quote_literal(a.v), repeat(', MINVALUE', b.nkeys - 1)) FROM unnest(at) WITH ORDINALITY a(v, ord) ORDER BY a.ord)
			|| ARRAY(SELECT x FROM unnest(b.uppers) x WHERE x <> ALL (b.lowers));
		-- colocated tables may write equal bounds in different ways
		IF cardinality(ends) <> pieces + 1 THEN
			RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('these shards of table %s do not make up one', (SELECT i.inhparent::regclass FROM pg_inherits i WHERE i.inhrelid = parts[1])),
				DETAIL = 'One has to begin where another ends, and both to write this alike.', HINT = 'The view shardfdw.shards shows the bounds.';
		END IF;
		RETURN ARRAY(SELECT format('FOR VALUES FROM %s TO %s', ends[n], ends[n + 1]) FROM generate_series(1, shardfdw_internal.at_most(pieces, 64)) n);
	ELSIF cardinality(at) = 0 THEN
		RETURN ARRAY[format('FOR VALUES IN (%s)', b.list)];
	END IF;
	RETURN ARRAY(SELECT format('FOR VALUES IN (%s)', string_agg(x.v, ', '))
		FROM unnest(shardfdw_internal.bound_values(b.list), shardfdw_internal.are_among(parts[1], shardfdw_internal.bound_values(b.list), at)) x(v, is_among) GROUP BY x.is_among ORDER BY x.is_among);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.piece_bounds(regclass[], integer, text[]) IS
	'Writes the bounds of the pieces that shards of one table become. A range is divided at the values of at. A list is divided into the other values and the values of at. Returns FOR VALUES clauses. Raises invalid_parameter_value for ranges that are not adjacent.';

CREATE FUNCTION shardfdw_internal.shard_pieces(shards regclass[], pieces integer, at text[]) RETURNS TABLE (relation regclass, number integer, name name, bounds text, is_first boolean)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT m.relation, n, CASE WHEN pieces = 1 AND cardinality(shards) = 1 THEN m.remote_table ELSE shardfdw_internal.shard_name(p.relname, f.next + n - 1, f.next + pieces) END,
		b.bounds[n], m.ord = 1
	FROM (SELECT x.relation, x.parent, x.remote_table, s.ord, array_agg(x.relation) OVER (PARTITION BY x.parent ORDER BY s.ord ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS parts
		FROM unnest(shards) WITH ORDINALITY s(shard, ord) CROSS JOIN LATERAL shardfdw_internal.moving_tables(s.shard) x) m
	JOIN pg_class p ON p.oid = m.parent
	CROSS JOIN LATERAL (SELECT CASE WHEN pieces > 1 OR cardinality(shards) > 1 THEN shardfdw_internal.piece_bounds(m.parts, pieces, at) END) b(bounds)
	CROSS JOIN LATERAL (SELECT 1 + coalesce(max(substring(s.relname FROM '_(\d{1,8})$')::integer), -1)
		FROM pg_inherits i JOIN pg_class s ON s.oid = i.inhrelid WHERE i.inhparent = m.parent) f(next)
	CROSS JOIN generate_series(1, shardfdw_internal.at_most(pieces, 64)) n
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_pieces(regclass[], integer, text[]) IS
	'Names the pieces that shards, and the shards that go with them, become. One shard stays itself (pieces: 1) or becomes several, or several shards become one. Numbers continue after the last shard of the table. at: as for piece_bounds(). Returns a row for each shard and piece: number (1-based) and name of the piece, and its FOR VALUES clause, null for an unchanged shard. Shards that become one shard all have number 1 and the same name. is_first: whether the row is of the first shard or a shard that goes with it.';

CREATE FUNCTION shardfdw_internal.job_tables(shards regclass[])
	RETURNS TABLE (relation regclass, parent regclass, owner oid, node name, server oid, name text, remote_name text, remote_schema name, remote_table name, adopted boolean, is_first boolean, staging name, schema_number integer)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT m.relation, m.parent, m.owner, m.node, m.server, m.name, m.remote_name, m.remote_schema, m.remote_table, m.adopted, s.ord = 1,
		CASE WHEN cardinality(shards) = 1 THEN m.remote_table ELSE (SELECT p.name FROM shardfdw_internal.shard_pieces(shards, 1, '{}') p WHERE p.relation = m.relation) END,
		dense_rank() OVER (ORDER BY m.remote_schema)::integer
	FROM unnest(shards) WITH ORDINALITY s(shard, ord) CROSS JOIN LATERAL shardfdw_internal.moving_tables(s.shard) m ORDER BY m.relation::oid
$$;
COMMENT ON FUNCTION shardfdw_internal.job_tables(regclass[]) IS
	'Lists the tables of a job on these shards: moving_tables() of all shards. Also returns whether a table belongs to the group of the first shard, the name of its staging table, and the number of the schema of the job that has it (job_schema()).';

CREATE FUNCTION shardfdw_internal.piece_renames(shards regclass[], relation regclass, pieces integer, at text[], number integer) RETURNS jsonb
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH g AS MATERIALIZED (
		SELECT m.relation, m.parent, m.remote_schema, m.remote_table, p.name
		FROM shardfdw_internal.job_tables(shards) m JOIN shardfdw_internal.shard_pieces(shards, pieces, at) p ON p.relation = m.relation AND p.number = piece_renames.number
	), o AS (
		SELECT DISTINCT i.object_name AS name FROM g, shardfdw_internal.shard_index_commands(g.parent) i WHERE g.relation = piece_renames.relation AND i.object_name IS NOT NULL
	), s AS (
		SELECT array_agg(c.relname) AS siblings FROM g JOIN pg_inherits i ON i.inhparent = g.parent JOIN pg_class c ON c.oid = i.inhrelid WHERE g.relation = piece_renames.relation
	)
	SELECT jsonb_build_object(
		'tables', (SELECT jsonb_object_agg(format('%I.%I', x.remote_schema, x.remote_table), format('%I.%I', x.remote_schema, x.name)) FROM g x),
		-- no other shard of the table has this number
		'objects', coalesce((SELECT jsonb_object_agg(shardfdw_internal.shard_object_name(o.name, g.remote_table, n.siblings), shardfdw_internal.shard_object_name(o.name, g.name))
			FROM o, s, unnest(ARRAY[0, 1]) x CROSS JOIN LATERAL (SELECT CASE x WHEN 1 THEN s.siblings ELSE '{}' END) n(siblings)), '{}'),
		'suffix', substring(g.name FROM '_\d+$'))
	FROM g WHERE g.relation = piece_renames.relation
$$;
COMMENT ON FUNCTION shardfdw_internal.piece_renames(regclass[], regclass, integer, text[], integer) IS
	'Finds the names of a piece of a shard, and of its objects, on the node. Returns them in the format of moving_table_query().';

CREATE FUNCTION shardfdw_internal.piece_parts(shards regclass[], id bigint, pieces integer, at text[]) RETURNS TABLE (relation regclass, part text, command text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH g AS MATERIALIZED (
		SELECT m.*, x.mark, x.schema, format('%I.%I', x.schema, m.staging) AS root, pieces > 1 OR cardinality(shards) > 1 AS is_placed
		FROM shardfdw_internal.job_tables(shards) m CROSS JOIN LATERAL (SELECT shardfdw_internal.job_schema(id), shardfdw_internal.job_schema(id, m.schema_number)) x(mark, schema)
	), p AS MATERIALIZED (
		SELECT g.relation, g.parent, g.owner, g.node, g.remote_schema, g.mark, g.root, g.is_placed, x.number, x.bounds, x.name AS piece, format('%I.%I', g.schema, x.name) AS staging, format('%I.%I', g.remote_schema, x.name) AS piece_name
		FROM g JOIN shardfdw_internal.shard_pieces(shards, pieces, at) x ON x.relation = g.relation AND x.is_first
	), parts AS (
		SELECT p.relation, 'piece', 1, p.number, jsonb_build_object('name', p.piece_name, 'schema', p.remote_schema, 'table', p.piece)::text FROM p
		UNION ALL SELECT p.relation, 'table', 2, p.number, concat_ws('; ', format('COMMENT ON TABLE %s IS %L', p.staging, p.mark), shardfdw_internal.revoke_command(p.staging)) FROM p
		-- The pieces together accept the rows of the shard, and core routes each row to its piece.
		UNION ALL SELECT p.relation, 'table', 3, 0, concat_ws('; ', format('CREATE TABLE %s (LIKE %s INCLUDING GENERATED) PARTITION BY %s', p.root, p.staging, pg_get_partkeydef(p.parent)),
			shardfdw_internal.revoke_command(p.root))
		FROM p WHERE pieces > 1 AND p.number = 1
		UNION ALL SELECT p.relation, 'table', 4, p.number, format('ALTER TABLE %s ATTACH PARTITION %s %s', p.root, p.staging, p.bounds) FROM p WHERE pieces > 1
		UNION ALL SELECT p.relation, 'name', 5, p.number, concat_ws('; ', CASE WHEN pieces > 1 THEN format('ALTER TABLE %s DETACH PARTITION %s', p.root, p.staging) END,
			format('ALTER TABLE %s SET SCHEMA %I', p.staging, p.remote_schema)) FROM p
		UNION ALL SELECT g.relation, 'name', 6, 0, format('DROP TABLE %s', g.root) FROM g WHERE pieces > 1
		-- before the text that names the transaction of the switch: a piece may get the name of an older table (shard_map.c)
		UNION ALL SELECT p.relation, 'named_by', 6, p.number, format('COMMENT ON TYPE %s IS ', p.piece_name) FROM p WHERE p.is_placed
		UNION ALL SELECT g.relation, 'place', 7, 0, (SELECT format('DROP FOREIGN TABLE %s', string_agg(o.name, ', ')) FROM g o WHERE o.parent = g.parent) FROM g WHERE g.is_placed AND g.is_first
		UNION ALL SELECT p.relation, 'place', 8, p.number, concat_ws('; ',
			format('CREATE FOREIGN TABLE %I.%I PARTITION OF %s %s SERVER %I%s', n.nspname, p.piece, p.parent, p.bounds, p.node,
				(SELECT format(' OPTIONS (%s)', string_agg(format('%I %L', o.option_name, o.option_value), ', ')) FROM pg_options_to_table(f.ftoptions) o
				 WHERE o.option_name NOT IN ('schema_name', 'table_name') HAVING count(*) > 0)),
			shardfdw_internal.revoke_command(format('%I.%I', n.nspname, p.piece)),
			(SELECT string_agg(format('GRANT %s ON %I.%I TO %s%s', a.privilege_type, n.nspname, p.piece,
				CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END), '; ')
			 FROM aclexplode(c.relacl) a WHERE a.grantee <> c.relowner),
			(SELECT string_agg(format('GRANT %s (%I) ON %I.%I TO %s%s', a.privilege_type, t.attname, n.nspname, p.piece,
				CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END), '; ')
			 FROM pg_attribute t, aclexplode(t.attacl) a WHERE t.attrelid = c.oid AND NOT t.attisdropped AND a.grantee <> c.relowner),
			format('COMMENT ON FOREIGN TABLE %I.%I IS %L', n.nspname, p.piece, obj_description(c.oid, 'pg_class')),
			-- last, because the current role then loses the privileges for the other commands
			CASE WHEN pg_get_userbyid(p.owner) <> current_user THEN format('ALTER FOREIGN TABLE %I.%I OWNER TO %I', n.nspname, p.piece, pg_get_userbyid(p.owner)) END)
		FROM p JOIN pg_class c ON c.oid = p.relation JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_foreign_table f ON f.ftrelid = c.oid WHERE p.is_placed
		UNION ALL SELECT p.relation, 'placed', 8, p.number, format('%I.%I', n.nspname, p.piece) FROM p JOIN pg_class c ON c.oid = p.relation JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.is_placed
		UNION ALL SELECT g.relation, 'fact_analyze', 9, 0, coalesce(string_agg(format('ANALYZE %I.%I', n.nspname, p.piece), '; ' ORDER BY p.number) FILTER (WHERE p.is_placed
			AND EXISTS (SELECT FROM pg_stats s WHERE (s.schemaname, s.tablename) = (n.nspname, c.relname))), '')
		FROM g JOIN pg_class c ON c.oid = g.relation JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN p ON p.relation = g.relation GROUP BY g.relation
	)
	SELECT x.relation, x.part, x.command FROM parts x(relation, part, ord, number, command) WHERE x.command IS NOT NULL ORDER BY x.relation::oid, x.ord, x.number
$$;
COMMENT ON FUNCTION shardfdw_internal.piece_parts(regclass[], bigint, integer, text[]) IS
	'Writes what a job does with the pieces of shards in addition to creating them: their staging tables, their names, and their foreign tables here. Returns for each shard its parts, in order.';

CREATE FUNCTION shardfdw_internal.run_here(commands text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_ddl_propagation = off
AS $$
BEGIN
	EXECUTE commands;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.run_here(text) IS 'Runs commands as the current user without sending them to nodes. Returns nothing. Raises their errors.';

CREATE FUNCTION shardfdw_internal.check_split_key(parent regclass, shard regclass) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	k record;
	reason text;
BEGIN
	SELECT p.partstrat, p.partattrs::smallint[] AS columns, p.partclass::oid[] AS classes, p.partcollation::oid[] AS collations INTO k
	FROM pg_partitioned_table p WHERE p.partrelid = parent;
	IF k.partstrat = 'h' THEN
		PERFORM shardfdw_internal.check_key(parent, k.columns);
	END IF;
	-- The node has to hash and compare values exactly as the coordinator does.
	SELECT CASE WHEN 0 = ANY (k.columns) THEN 'its key has an expression'
		WHEN EXISTS (SELECT FROM unnest(k.classes) c WHERE c >= 16384) THEN 'its key has an operator class of its own'
		WHEN EXISTS (SELECT FROM unnest(k.collations) c JOIN pg_collation l ON l.oid = c WHERE NOT l.collisdeterministic) THEN 'its key has a collation that is not deterministic'
		WHEN k.partstrat = 'r' AND EXISTS (SELECT FROM unnest(k.collations) c WHERE c <> 0 AND c NOT IN ('pg_catalog."C"'::regcollation, 'pg_catalog."POSIX"'::regcollation))
			THEN 'its key has another collation than "C"'
		WHEN k.partstrat = 'r' AND EXISTS (SELECT FROM shardfdw_internal.key_types(parent, k.columns) p WHERE p.type >= 16384) THEN 'its key has a type of its own'
		WHEN EXISTS (SELECT FROM shardfdw_internal.key_types(parent, k.columns) p JOIN pg_type t ON t.oid = p.type WHERE t.oid >= 16384 AND t.typtype = 'b' AND NOT (t.typelem <> 0 AND t.typsubscript = 'array_subscript_handler'::regproc))
			THEN 'its key has a type of its own' END INTO reason;
	IF reason IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('shard %s cannot be split: %s', shard, reason),
			DETAIL = 'The node says which of the new shards a row belongs to, and nothing makes sure that it would say what the coordinator says.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_split_key(regclass, regclass) IS
	'Checks that a node divides the rows of a shard of this table exactly as the coordinator would. Returns nothing. Raises feature_not_supported.';

CREATE FUNCTION shardfdw_internal.check_pieces_here(shards regclass[], pieces integer, at text[], done text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	m record;
	reason text;
	other bigint;
BEGIN
	-- The names, and whether they are in use, come from one snapshot: another job may be creating shards of the table.
	FOR m IN SELECT x.*, p.name AS piece, substring(p.bounds FROM '^FOR VALUES WITH \(MODULUS (\d+)')::bigint AS modulus,
			EXISTS (SELECT FROM pg_class t WHERE (t.relname, t.relnamespace) = (p.name, c.relnamespace)) OR EXISTS (SELECT FROM pg_type t WHERE (t.typname, t.typnamespace) = (p.name, c.relnamespace)) AS is_taken
		FROM shardfdw_internal.job_tables(shards) x JOIN pg_class c ON c.oid = x.relation LEFT JOIN shardfdw_internal.shard_pieces(shards, pieces, at) p ON p.relation = x.relation
		ORDER BY x.relation::oid, p.number
	LOOP
		-- Core requires that each modulus is a factor of the next larger one.
		SELECT x.modulus INTO other FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		CROSS JOIN LATERAL (SELECT substring(pg_get_expr(c.relpartbound, 0) FROM 'modulus (\d+)')::bigint) x(modulus)
		WHERE i.inhparent = m.parent AND x.modulus % m.modulus <> 0 AND m.modulus % x.modulus <> 0
			AND i.inhrelid NOT IN (SELECT t.relation FROM shardfdw_internal.job_tables(shards) t) LIMIT 1;
		-- For each table, each session has an array as large as the largest modulus.
		IF FOUND OR m.modulus > 65536 THEN
			RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('shard %s cannot be %s: the new modulus would be %s', m.relation, done, m.modulus),
				DETAIL = CASE WHEN other IS NULL THEN 'The largest modulus that a split makes is 65536.' ELSE format('Another shard has modulus %s, and one of the two has to be a factor of the other.', other) END;
		END IF;
		reason := CASE
			WHEN m.adopted THEN 'has another name on its node'
			WHEN EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = m.relation AND a.attfdwoptions IS NOT NULL) THEN 'has columns with options'
			WHEN EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = m.relation AND k.contype = 'c' AND k.coninhcount = 0) THEN 'has constraints of its own on the coordinator'
			WHEN EXISTS (SELECT FROM pg_attribute a JOIN pg_attribute p ON p.attrelid = m.parent AND p.attname = a.attname
					LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum LEFT JOIN pg_attrdef e ON e.adrelid = p.attrelid AND e.adnum = p.attnum
					WHERE a.attrelid = m.relation AND a.attnum > 0 AND a.attgenerated = '' AND pg_get_expr(d.adbin, d.adrelid) IS DISTINCT FROM pg_get_expr(e.adbin, e.adrelid))
				THEN 'has other defaults than its table on the coordinator'
			WHEN EXISTS (SELECT FROM pg_trigger g JOIN pg_trigger o ON o.oid = g.tgparentid WHERE g.tgrelid = m.relation AND g.tgenabled <> o.tgenabled)
				THEN 'has triggers that are enabled otherwise than those of its table on the coordinator'
			WHEN EXISTS (SELECT FROM pg_seclabel l WHERE l.classoid = 'pg_class'::regclass AND l.objoid = m.relation) THEN 'has a security label on the coordinator'
			WHEN m.is_taken THEN format('needs the name %I, which is taken on the coordinator', m.piece)
			ELSE (SELECT format('is used by %s', pg_describe_object(d.classid, d.objid, d.objsubid)) FROM pg_class c JOIN pg_type y ON y.oid = c.reltype
				JOIN pg_depend d ON d.deptype = 'n' AND (d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.classid NOT IN ('pg_attrdef'::regclass, 'pg_constraint'::regclass)
						-- an internal dependency, of UPDATE OF a column
						AND NOT (d.classid = 'pg_trigger'::regclass AND EXISTS (SELECT FROM pg_trigger g WHERE g.oid = d.objid AND g.tgrelid = c.oid))
					OR d.refclassid = 'pg_type'::regclass AND d.refobjid IN (y.oid, y.typarray))
				WHERE c.oid = m.relation LIMIT 1) END;
		IF reason IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('shard %s cannot be %s: it %s', m.relation, done, reason);
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_pieces_here(regclass[], integer, text[], text) IS
	'Checks with the catalogs of the coordinator whether the new partitions can replace the present ones. Returns nothing. Raises invalid_parameter_value or object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.check_split_at(shard regclass, at text[]) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	b record;
	type CONSTANT text := shardfdw_internal.shard_key_type(shard);
	wrong text;
	among boolean[];
BEGIN
	SELECT x.strategy, x.modulus IS NULL AND x.lower IS NULL AND x.list IS NULL AS is_default, shardfdw_internal.bound_values(x.lower) AS lowers, shardfdw_internal.bound_values(x.upper) AS uppers,
		shardfdw_internal.bound_values(x.list) AS list, p.partcollation[0] <> 0 AS collates, i.inhparent::regclass AS parent INTO b
	FROM shardfdw_internal.shard_bound(shard) x, pg_inherits i JOIN pg_partitioned_table p ON p.partrelid = i.inhparent WHERE i.inhrelid = shard;
	IF b.strategy = 'h' AND cardinality(at) > 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('shard %s cannot be split at values: table %s is partitioned by HASH', shard, b.parent), HINT = 'Say into how many: pieces => n.';
	ELSIF b.strategy = 'h' THEN
		RETURN;
	ELSIF b.is_default THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('shard %s cannot be split: it is the default partition of table %s', shard, b.parent);
	ELSIF cardinality(at) = 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('shard %s cannot be split without values: table %s is not partitioned by HASH', shard, b.parent),
			HINT = CASE b.strategy WHEN 'r' THEN 'Say where: at => the values at which the new shards begin, from the second on.' ELSE 'Say how: at => the values for the second of two new shards.' END;
	ELSIF type IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('shard %s cannot be split: the first column of the key of table %s is an expression, or of a type for which that is not known to be safe', shard, b.parent);
	ELSIF b.strategy = 'r' THEN
		EXECUTE format('SELECT coalesce(quote_literal(x.v), ''NULL'') FROM (SELECT a.ord, a.v%2$s AS v, lag(a.v) OVER (ORDER BY a.ord)%2$s AS last FROM unnest(%3$L::%1$s[]) WITH ORDINALITY a(v, ord)) x WHERE (x.v IS NOT NULL AND x.v > %4$s AND (x.v < %5$s) AND (x.last IS NULL OR x.v > x.last)) IS NOT TRUE ORDER BY x.ord LIMIT 1', type,
			CASE WHEN b.collates THEN ' COLLATE pg_catalog."C"' ELSE '' END, at,
			CASE WHEN b.lowers[1] = 'MINVALUE' THEN 'ALL (''{}''::' || type || '[])' ELSE format('%s::%s', b.lowers[1], type) END,
			CASE WHEN b.uppers[1] = 'MAXVALUE' THEN 'ALL (''{}''::' || type || '[])' ELSE format('%s::%s', b.uppers[1], type) END
				|| CASE WHEN b.uppers[2] <> 'MINVALUE' AND b.uppers[1] <> 'MAXVALUE' THEN format(' OR x.v = %s::%s', b.uppers[1], type) ELSE '' END) INTO wrong;
		IF wrong IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('shard %s cannot be split at %s', shard, wrong),
				DETAIL = 'The values have to be within the shard''s bounds, one greater than the other.', HINT = 'The view shardfdw.shards shows the bounds.';
		END IF;
	ELSE
		EXECUTE format('SELECT ARRAY(SELECT EXISTS (SELECT FROM unnest(ARRAY[%3$s]::%1$s[]) l(v) WHERE l.v IS NOT DISTINCT FROM a.v) FROM unnest(%2$L::%1$s[]) WITH ORDINALITY a(v, ord) ORDER BY a.ord)',
			type, at, array_to_string(b.list, ', ')) INTO among;
		IF false = ANY (among) THEN
			RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('shard %s cannot be split: it is not for the value %s', shard, coalesce(quote_literal(at[array_position(among, false)]), 'NULL')),
				HINT = 'The view shardfdw.shards shows the bounds.';
		ELSIF NOT false = ANY (shardfdw_internal.are_among(shard, b.list, at)) THEN
			RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('shard %s cannot be split: no value would be left for the first of the new shards', shard);
		END IF;
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_split_at(regclass, text[]) IS
	'Checks that a shard can be split at these values. Without values, checks that the shard is one by hash. Returns nothing. Raises invalid_parameter_value, feature_not_supported or the errors of the key''s type.';

CREATE FUNCTION shardfdw_internal.check_split_here(shard regclass, pieces integer, at text[], mode text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
BEGIN
	PERFORM shardfdw_internal.check_not_at_home(shard, 'split');
	IF shard IS NULL OR mode IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'shard, mode, verify and wait must not be null';
	END IF;
	PERFORM shardfdw_internal.check_group_here(shard, mode, 'split');
	PERFORM shardfdw_internal.check_split_at(x.relation, at) FROM shardfdw_internal.moving_tables(shard) x;
	IF pieces NOT BETWEEN 2 AND 64 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('a shard cannot be split into %s', pieces), HINT = 'It can be split into 2 to 64 shards.';
	END IF;
	PERFORM shardfdw_internal.check_split_key(x.parent, x.relation) FROM shardfdw_internal.moving_tables(shard) x;
	PERFORM shardfdw_internal.check_pieces_here(ARRAY[shard], pieces, at, 'split');
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_split_here(regclass, integer, text[], text) IS
	'Checks a requested split with the catalogs of the coordinator. Returns nothing. Raises null_value_not_allowed, invalid_parameter_value, feature_not_supported, wrong_object_type, insufficient_privilege or object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.check_merge_here(shards regclass[], mode text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
	s record;
BEGIN
	IF shards IS NULL OR mode IS NULL OR array_position(shards, NULL) IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'shards, mode, verify and wait must not be null';
	END IF;
	IF cardinality(shards) NOT BETWEEN 2 AND 16 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('%s shards cannot be merged', cardinality(shards)), HINT = 'From 2 to 16 shards can be merged into one.';
	END IF;
	IF EXISTS (SELECT FROM unnest(shards) x(shard) GROUP BY x.shard HAVING count(*) > 1) THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'a shard cannot be merged with itself';
	END IF;
	PERFORM shardfdw_internal.check_group_here(x.shard, mode, 'merged') FROM unnest(shards) x(shard);
	SELECT count(DISTINCT x.node) AS nodes, count(DISTINCT x.parent) AS parents, min(b.strategy::text) AS strategy, count(*) FILTER (WHERE b.modulus IS NULL AND b.lower IS NULL AND b.list IS NULL) AS defaults,
		count(DISTINCT b.modulus) AS moduli, count(DISTINCT b.remainder) AS remainders, max(b.modulus) AS modulus, count(DISTINCT b.remainder % greatest(1, b.modulus / cardinality(shards))) AS rests,
		max(x.parent::text) AS parent INTO s
	FROM shardfdw_internal.job_tables(shards) x CROSS JOIN LATERAL shardfdw_internal.shard_bound(x.relation) b
	WHERE x.relation = ANY (shards);
	IF s.parents > 1 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'shards of different tables cannot be merged';
	END IF;
	IF s.defaults > 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('the default partition of table %s cannot be merged', s.parent);
	END IF;
	-- for range partitions piece_bounds() checks this
	IF s.strategy = 'h' AND (s.moduli > 1 OR s.remainders <> cardinality(shards) OR s.modulus % cardinality(shards) <> 0 OR s.rests > 1) THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('these shards of table %s do not make up one', s.parent),
			DETAIL = 'What can be merged are n shards of one modulus m whose remainders are r, r + m/n, r + 2m/n and so on.', HINT = 'The view shardfdw.shards shows the bounds.';
	END IF;
	IF s.nodes > 1 THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('these shards of table %s are not on one node', s.parent), HINT = 'Move them to one node first (move_shard).';
	END IF;
	PERFORM shardfdw_internal.check_pieces_here(shards, 1, '{}', 'merged');
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_merge_here(regclass[], text) IS
	'Checks a requested merge with the catalogs of the coordinator. Returns nothing. Raises null_value_not_allowed, invalid_parameter_value, feature_not_supported, wrong_object_type, insufficient_privilege or object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.check_split_node(shard regclass, node name, mode text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	encoding CONSTANT text := shardfdw_internal.ask_for_move(node)->>'encoding';
BEGIN
	PERFORM shardfdw_internal.check_job_nodes(ARRAY[shard], node, node, mode, 'split');
	IF encoding <> getdatabaseencoding() THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported', MESSAGE = format('shard %s cannot be split: the encoding of node "%s" is %s', shard, node, encoding),
			DETAIL = format('The encoding here is %s, so that texts have other hashes there.', getdatabaseencoding());
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_split_node(regclass, name, text) IS
	'Checks the node for a requested split. Returns nothing. Raises the errors of check_job_nodes(), and feature_not_supported.';

CREATE FUNCTION shardfdw.split_shard(shard regclass, pieces integer DEFAULT NULL, mode text DEFAULT 'online', verify boolean DEFAULT true, wait boolean DEFAULT true, at text[] DEFAULT NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
	strategy "char";
BEGIN
	PERFORM shardfdw_internal.check_isolation('split_shard');
	IF pieces IS NOT NULL AND at IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'pieces and at exclude each other', HINT = 'at says how many pieces there are.';
	END IF;
	IF shard IS NULL OR mode IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'shard, mode, verify and wait must not be null';
	END IF;
	-- Checked before any code of the table's owner can run.
	PERFORM shardfdw_internal.check_group_here(shard, mode, 'split');
	SELECT x.strategy INTO strategy FROM shardfdw_internal.shard_bound(shard) x;
	at := CASE WHEN at IS NOT NULL AND shardfdw_internal.shard_key_type(shard) IS NOT NULL THEN shardfdw_internal.key_values(shard, at) ELSE coalesce(at, '{}') END;
	-- A split by list makes two shards.
	pieces := CASE WHEN cardinality(at) > 0 AND strategy = 'r' THEN cardinality(at) + 1 ELSE coalesce(pieces, 2) END;
	PERFORM shardfdw_internal.check_split_here(shard, pieces, at, mode);
	RETURN shardfdw_internal.run_job('split_shard', ARRAY[shard], (SELECT m.server FROM shardfdw_internal.moving_tables(shard) m LIMIT 1), pieces, at, mode, verify, wait);
END
$$;
COMMENT ON FUNCTION shardfdw.split_shard(regclass, integer, text, boolean, boolean, text[]) IS
	'Splits a shard on its node, together with the shards of colocated tables that have the same keys. pieces: number of new shards of a shard by hash. at: for a shard by range, the values of the key''s first column at which the second and later new shards begin; for a shard by list, the values of the second of two new shards. mode: online, or block, where readers and writers of the tables wait during the whole copy. verify: compares the rows before the switch. wait: true returns when the shard is split, false returns immediately. A background process does the work; a rollback of this transaction does not undo it. Returns the number of the job. Raises an error before anything changes if the shard cannot be split.';
REVOKE ALL ON FUNCTION shardfdw.split_shard(regclass, integer, text, boolean, boolean, text[]) FROM PUBLIC;

CREATE FUNCTION shardfdw.merge_shards(shards regclass[], mode text DEFAULT 'online', verify boolean DEFAULT true, wait boolean DEFAULT true) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
BEGIN
	PERFORM shardfdw_internal.check_isolation('merge_shards');
	PERFORM shardfdw_internal.check_merge_here(shards, mode);
	RETURN shardfdw_internal.run_job('merge_shards', shards, (SELECT m.server FROM shardfdw_internal.moving_tables(shards[1]) m LIMIT 1), 1, '{}', mode, verify, wait);
END
$$;
COMMENT ON FUNCTION shardfdw.merge_shards(regclass[], text, boolean, boolean) IS
	'Merges several shards on one node into one shard, and the shards of colocated tables that have the same keys. The shards must be such that a split of the new shard could produce them. Properties that only shards have are taken from the first shard. mode, verify, wait: as for split_shard(). A background process does the work; a rollback of this transaction does not undo it. Returns the number of the job. Raises an error before anything changes if the shards cannot be merged.';
REVOKE ALL ON FUNCTION shardfdw.merge_shards(regclass[], text, boolean, boolean) FROM PUBLIC;
