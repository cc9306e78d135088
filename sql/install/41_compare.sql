-- Describes definitions of tables as JSON, here and on nodes, and compares them.

CREATE FUNCTION shardfdw_internal.describe_query(relations text[]) RETURNS text
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- Only what is equal in all major versions: NOT NULL is a property of the column, whether or not a constraint implements it.
	-- pg_get_constraintdef() uses the snapshot of the transaction, not of the query, and does not find newer constraints.
	SELECT replace($query$
		SELECT t.ord, current_setting('server_version_num')::integer / 10000, CASE WHEN c.oid IS NOT NULL THEN jsonb_build_object(
			'columns', (SELECT coalesce(jsonb_agg(jsonb_build_object('name', quote_ident(a.attname),
					'type', format_type(a.atttypid, a.atttypmod),
					'collation', (SELECT format('%I.%I', cn.nspname, co.collname) FROM pg_collation co
						JOIN pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = a.attcollation),
					'not_null', a.attnotnull,
					'generated', CASE a.attgenerated WHEN 's' THEN 'STORED' WHEN 'v' THEN 'VIRTUAL' END,
					'expression', CASE WHEN a.attgenerated <> '' THEN pg_get_expr(d.adbin, d.adrelid) END) ORDER BY a.attnum), '[]')
				FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
				WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
			'checks', (SELECT coalesce(jsonb_agg(jsonb_build_object('name', quote_ident(k.conname),
					'definition', coalesce(regexp_replace(pg_get_constraintdef(k.oid), '( NO INHERIT)?( NOT VALID)?$', ''),
						format('CHECK (%s)%s', pg_get_expr(k.conbin, k.conrelid), CASE WHEN to_jsonb(k)->>'conenforced' = 'false' THEN ' NOT ENFORCED' END)),
					'valid', k.convalidated) ORDER BY k.conname::text COLLATE "C"), '[]')
				FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c'),
			'indexes', (SELECT coalesce(jsonb_agg(jsonb_build_object(
					'kind', CASE WHEN k.contype = 'p' THEN 'PRIMARY KEY' WHEN k.contype = 'u' THEN 'UNIQUE'
						WHEN k.contype = 'x' THEN 'EXCLUDE' WHEN i.indisunique THEN 'UNIQUE INDEX' ELSE 'INDEX' END,
					'using', substr(pg_get_indexdef(i.indexrelid), 1 + length(format('CREATE %sINDEX %I ON %s%I.%I USING ',
						CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END, x.relname,
						CASE c.relkind WHEN 'p' THEN 'ONLY ' ELSE '' END, n.nspname, c.relname))),
					'deferral', substring(pg_get_constraintdef(k.oid) FROM ' (DEFERRABLE( INITIALLY DEFERRED)?)$'),
					'invalid', CASE WHEN NOT i.indisvalid AND c.relkind <> 'p' THEN quote_ident(x.relname) END)
					ORDER BY k.contype, i.indisunique, substring(pg_get_indexdef(i.indexrelid) FROM ' USING .*') COLLATE "C"), '[]')
				FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
				LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u', 'x')
				WHERE i.indrelid = c.oid),
			'foreign_keys', (SELECT coalesce(jsonb_agg(jsonb_build_object('name', quote_ident(k.conname), 'definition', pg_get_constraintdef(k.oid),
					'table', k.confrelid::regclass) ORDER BY k.conname::text COLLATE "C"), '[]')
				FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f'),
			'owner', pg_get_userbyid(c.relowner),
			'unlogged', c.relpersistence = 'u' OR EXISTS (SELECT FROM pg_foreign_table f CROSS JOIN LATERAL pg_options_to_table(f.ftoptions) o
				WHERE f.ftrelid = c.oid AND o.option_name = 'unlogged' AND lower(o.option_value) IN ('true', 'on', '1'))) END
		FROM unnest($relations$::text[]) WITH ORDINALITY t(name, ord)
		LEFT JOIN pg_class c ON c.oid = to_regclass(t.name)
		LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
		ORDER BY t.ord$query$, '$relations$', quote_literal(relations::text))
$$;
COMMENT ON FUNCTION shardfdw_internal.describe_query(text[]) IS
	'Writes the query, to be run here or on a node, for the definitions of tables given by their qualified names. Returns its text. The query returns for each table its number, the major version of the server, and its columns, CHECK constraints, indexes, foreign keys and owner as jsonb, null if there is no such table.';

CREATE FUNCTION shardfdw_internal.describe_tables(relations regclass[])
	RETURNS TABLE (relation regclass, definition jsonb)
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	definitions jsonb[];
BEGIN
	LOOP
		relations := ARRAY(SELECT r FROM unnest(relations) WITH ORDINALITY u(r, ord) WHERE NOT shardfdw_internal.is_gone(r) ORDER BY ord);
		BEGIN
			-- names, because of how regclass prints with the search path above
			EXECUTE format('SELECT array_agg(q.definition ORDER BY q.ord) FROM (%s) q(ord, major, definition)', shardfdw_internal.describe_query(relations::text[])) INTO definitions;
			EXIT;
		EXCEPTION WHEN internal_error OR undefined_table THEN
			-- Functions that print definitions open the relations, and a relation may have been dropped.
			IF NOT EXISTS (SELECT FROM unnest(relations) r WHERE shardfdw_internal.is_gone(r)) THEN
				RAISE;
			END IF;
		END;
	END LOOP;
	RETURN QUERY SELECT u.r, u.d FROM unnest(relations, definitions) u(r, d);
END
$$;
COMMENT ON FUNCTION shardfdw_internal.describe_tables(regclass[]) IS
	'Describes tables here. Returns for each what describe_query() returns. Dropped tables are omitted.';

CREATE FUNCTION shardfdw_internal.comparable_keys(shard regclass, keys jsonb) RETURNS jsonb
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- If a shard refers to the shard with the same keys of another table, its siblings refer to other shards.
	SELECT coalesce(jsonb_agg(concat_ws(' ', k->>'name', replace(k->>'definition', format(' REFERENCES %s(', k->>'table'),
			format(' REFERENCES %s(', coalesce(p.parent::text, k->>'table')))) ORDER BY k->>'name'), '[]')
	FROM jsonb_array_elements(keys) k
	LEFT JOIN LATERAL (
		SELECT i.inhparent::regclass AS parent FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
		WHERE c.oid = to_regclass(k->>'table') AND c.relkind = 'f'
			AND pg_get_expr(c.relpartbound, 0) = (SELECT pg_get_expr(s.relpartbound, 0) FROM pg_class s WHERE s.oid = shard)) p ON true
$$;
COMMENT ON FUNCTION shardfdw_internal.comparable_keys(regclass, jsonb) IS
	'Writes the foreign keys of a shard, as describe_query() returns them, in a form that is the same for all shards of a table. A foreign key to a colocated shard is written as one to its table. Returns a list of texts.';

CREATE FUNCTION shardfdw_internal.compare_definitions(here jsonb, there jsonb, same_major boolean)
	RETURNS TABLE (status text, difference text)
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH h AS (
		SELECT x.*, row_number() OVER () AS ord FROM jsonb_to_recordset(here->'columns')
			x(name text, type text, "collation" text, not_null boolean, generated text, expression text)
	), t AS (
		SELECT x.*, row_number() OVER () AS ord FROM jsonb_to_recordset(there->'columns')
			x(name text, type text, "collation" text, not_null boolean, generated text, expression text)
	), both_sides AS (
		SELECT h.name, h."collation" AS h_collation, t."collation" AS t_collation, h.not_null AS h_not_null, t.not_null AS t_not_null,
			concat_ws(' ', h.expression, h.generated) AS h_generated, concat_ws(' ', t.expression, t.generated) AS t_generated,
			row_number() OVER (ORDER BY h.ord) <> row_number() OVER (ORDER BY t.ord) AS moved
		FROM h JOIN t USING (name, type)
	), hi AS (
		-- A table of a sharded schema has a plain index for each unique index that it cannot have itself.
		SELECT concat_ws(' ', CASE WHEN here ? 'at_home' AND x.kind = 'INDEX' AND row_number() OVER (PARTITION BY x.kind, x.using) <= (
				SELECT count(*) FROM jsonb_array_elements(there->'indexes') o WHERE o->>'kind' = 'UNIQUE INDEX' AND o->>'using' = x.using) THEN 'UNIQUE INDEX' ELSE x.kind END,
			x.using, x.deferral) AS definition
		FROM jsonb_to_recordset(here->'indexes') x(kind text, "using" text, deferral text)
	), ti AS (
		SELECT x.invalid, concat_ws(' ', x.kind, x.using, x.deferral) AS definition
		FROM jsonb_to_recordset(there->'indexes') x(kind text, "using" text, deferral text, invalid text)
	), hk AS (
		SELECT * FROM jsonb_to_recordset(here->'checks') x(name text, definition text, valid boolean)
	), tk AS (
		SELECT * FROM jsonb_to_recordset(there->'checks') x(name text, definition text, valid boolean)
	)
	-- Major versions print expressions with different blanks and parentheses.
	SELECT * FROM (
		SELECT 'error', 'columns only here: ' || string_agg(concat_ws(' ', h.name, h.type), ', ' ORDER BY h.ord)
		FROM h WHERE NOT EXISTS (SELECT FROM t WHERE (t.name, t.type) = (h.name, h.type))
		UNION ALL
		SELECT 'warning', 'columns only there: ' || string_agg(concat_ws(' ', t.name, t.type), ', ' ORDER BY t.ord)
		FROM t WHERE NOT EXISTS (SELECT FROM h WHERE (t.name, t.type) = (h.name, h.type))
		UNION ALL
		SELECT 'warning', 'columns in another order: ' || string_agg(b.name, ', ' ORDER BY b.name COLLATE "C") FROM both_sides b WHERE b.moved
		UNION ALL
		SELECT 'error', format('collation of %s: %s, but %s here', b.name, coalesce(b.t_collation, 'none'), coalesce(b.h_collation, 'none'))
		FROM both_sides b WHERE b.h_collation IS DISTINCT FROM b.t_collation
		UNION ALL
		SELECT 'error', 'NOT NULL only here: ' || string_agg(b.name, ', ' ORDER BY b.name COLLATE "C") FROM both_sides b WHERE b.h_not_null AND NOT b.t_not_null
		UNION ALL
		SELECT 'warning', 'NOT NULL only there: ' || string_agg(b.name, ', ' ORDER BY b.name COLLATE "C") FROM both_sides b WHERE b.t_not_null AND NOT b.h_not_null
		UNION ALL
		SELECT 'error', format('generation of %s: %s, but %s here', b.name, coalesce(nullif(b.t_generated, ''), 'none'), coalesce(nullif(b.h_generated, ''), 'none'))
		FROM both_sides b WHERE CASE WHEN same_major THEN b.h_generated <> b.t_generated
			ELSE regexp_replace(b.h_generated, '[\s()]', '', 'g') <> regexp_replace(b.t_generated, '[\s()]', '', 'g') END
		UNION ALL
		SELECT 'error', 'constraints only here: ' || string_agg(concat_ws(' ', k.name, k.definition), ', ')
		FROM hk k WHERE NOT EXISTS (SELECT FROM tk WHERE CASE WHEN same_major THEN tk.definition = k.definition
			ELSE regexp_replace(tk.definition, '[\s()]', '', 'g') = regexp_replace(k.definition, '[\s()]', '', 'g') END)
		UNION ALL
		SELECT 'warning', 'constraints only there: ' || string_agg(concat_ws(' ', k.name, k.definition), ', ')
		FROM tk k WHERE NOT EXISTS (SELECT FROM hk WHERE CASE WHEN same_major THEN hk.definition = k.definition
			ELSE regexp_replace(hk.definition, '[\s()]', '', 'g') = regexp_replace(k.definition, '[\s()]', '', 'g') END)
		UNION ALL
		SELECT 'warning', 'constraints not validated there: ' || string_agg(k.name, ', ')
		FROM tk k JOIN hk ON (hk.name, hk.definition) = (k.name, k.definition) WHERE hk.valid AND NOT k.valid
		UNION ALL
		SELECT 'error', 'indexes only here: ' || string_agg(i.definition, ', ')
		FROM (SELECT CASE WHEN same_major THEN hi.definition ELSE regexp_replace(hi.definition, '[\s()]', '', 'g') END AS definition FROM hi
			  EXCEPT ALL
			  SELECT CASE WHEN same_major THEN ti.definition ELSE regexp_replace(ti.definition, '[\s()]', '', 'g') END FROM ti ORDER BY 1) i
		UNION ALL
		SELECT 'warning', 'indexes only there: ' || string_agg(i.definition, ', ')
		FROM (SELECT CASE WHEN same_major THEN ti.definition ELSE regexp_replace(ti.definition, '[\s()]', '', 'g') END AS definition FROM ti
			  EXCEPT ALL
			  SELECT CASE WHEN same_major THEN hi.definition ELSE regexp_replace(hi.definition, '[\s()]', '', 'g') END FROM hi ORDER BY 1) i
		WHERE NOT here ? 'at_home'
		UNION ALL
		SELECT 'error', 'indexes not valid there: ' || string_agg(ti.invalid, ', ') FROM ti
		UNION ALL
		SELECT 'error', 'foreign keys only on other shards: ' || string_agg(f, ', ')
		FROM jsonb_array_elements_text(here->'foreign_keys') f WHERE NOT there->'foreign_keys' ? f
		UNION ALL
		SELECT 'warning', format('owner %s, but %s of other shards', there->>'owner', here->>'owner') WHERE here->>'owner' <> there->>'owner'
		UNION ALL
		SELECT 'warning', 'the table is unlogged there' WHERE there->'unlogged' = 'true' AND here->'unlogged' = 'false'
		UNION ALL
		SELECT 'warning', 'the table is not unlogged there' WHERE there->'unlogged' = 'false' AND here->'unlogged' = 'true'
	) d(status, difference)
	WHERE d.difference IS NOT NULL
$$;
COMMENT ON FUNCTION shardfdw_internal.compare_definitions(jsonb, jsonb, boolean) IS
	'Compares the results of describe_query() for a table here and on a node. Returns the differences. error: the node would return other results or make other checks. warning: any other difference.';

CREATE FUNCTION shardfdw_internal.shard_differences(shard regclass, there jsonb, major integer) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(x.difference, '; ')
	FROM shardfdw_internal.describe_tables(ARRAY[shard]) h
	-- A foreign table has no keys and indexes; these belong to its parent.
	CROSS JOIN LATERAL shardfdw_internal.compare_definitions(h.definition || jsonb_build_object('indexes', '[]'::jsonb, 'foreign_keys', '[]'::jsonb),
		there || jsonb_build_object('indexes', '[]'::jsonb, 'foreign_keys', '[]'::jsonb),
		major = current_setting('server_version_num')::integer / 10000) x
	WHERE x.status = 'error'
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_differences(regclass, jsonb, integer) IS
	'Compares the columns and constraints of a foreign table with the result of describe_query() for its table on the node, whose major version is given. Returns differences that would change results or checks on the node, null if there are none.';
