-- Checks whether nodes and shards match the catalogs here.

CREATE FUNCTION shardfdw_internal.expected_shards(node name)
	RETURNS TABLE (shard regclass, parent regclass, remote_name text, is_exact boolean, remote_columns jsonb)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH parents AS MATERIALIZED (
		-- computed once per table, not per shard
		SELECT x.inhparent, shardfdw_internal.is_sharded(x.inhparent) AS is_sharded FROM (
			SELECT DISTINCT i.inhparent FROM pg_inherits i JOIN pg_foreign_table f ON f.ftrelid = i.inhrelid
			JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE s.srvname = expected_shards.node) x
	)
	SELECT f.ftrelid::regclass, p.inhparent::regclass,
		format('%I.%I', coalesce(o.schema_name, n.nspname), coalesce(o.table_name, c.relname)),
		p.inhparent IS NOT NULL AND o.schema_name IS NULL AND o.table_name IS NULL AND k.columns IS NULL,
		k.columns
	FROM pg_foreign_table f
	JOIN pg_foreign_server s ON s.oid = f.ftserver
	JOIN pg_class c ON c.oid = f.ftrelid
	JOIN pg_namespace n ON n.oid = c.relnamespace
	LEFT JOIN pg_inherits i ON i.inhrelid = f.ftrelid
	LEFT JOIN parents p ON p.inhparent = i.inhparent AND p.is_sharded
	CROSS JOIN LATERAL (SELECT max(x.option_value) FILTER (WHERE x.option_name = 'schema_name') AS schema_name,
			max(x.option_value) FILTER (WHERE x.option_name = 'table_name') AS table_name
		FROM pg_options_to_table(f.ftoptions) x) o
	CROSS JOIN LATERAL (SELECT jsonb_object_agg(quote_ident(a.attname), quote_ident(x.option_value)) AS columns
		FROM pg_attribute a CROSS JOIN LATERAL pg_options_to_table(a.attfdwoptions) x
		WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND x.option_name = 'column_name') k
	WHERE s.srvname = expected_shards.node
	ORDER BY n.nspname::text COLLATE "C", c.relname::text COLLATE "C"
$$;
COMMENT ON FUNCTION shardfdw_internal.expected_shards(name) IS
	'Lists the foreign tables here whose shards a node should have. Returns each with its sharded table if any, its qualified name on the node, whether the table and its columns have the same names here, and the names of columns that differ.';

CREATE FUNCTION shardfdw_internal.keys_of_levels(parents jsonb[]) RETURNS jsonb
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- Each level has the keys of the level above. Equal keys are listed once.
	SELECT parents[1]->'indexes' || coalesce((
		SELECT jsonb_agg(DISTINCT k) FROM unnest(parents[2:]) p, jsonb_array_elements(p->'indexes') k
		WHERE k->>'kind' <> 'INDEX' AND NOT EXISTS (
			SELECT FROM jsonb_array_elements(parents[1]->'indexes') o WHERE (o->'kind', o->'using', o->'deferral') = (k->'kind', k->'using', k->'deferral'))), '[]')
$$;
COMMENT ON FUNCTION shardfdw_internal.keys_of_levels(jsonb[]) IS
	'Combines the indexes of a shard''s parent with the keys of the tables above it. parents: from the bottom, in the format of describe_query(). Returns them in the format of its indexes.';

CREATE FUNCTION shardfdw_internal.expected_definition(shard jsonb, parent jsonb, siblings jsonb, remote_columns jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN parent IS NOT NULL THEN shard || jsonb_strip_nulls(jsonb_build_object('indexes', parent->'indexes', 'at_home', parent->'at_home')) || siblings
		-- for a foreign table without a parent, only the columns are known
		ELSE jsonb_build_object('columns', (
			SELECT jsonb_agg(jsonb_build_object('name', coalesce(remote_columns->>(c->>'name'), c->>'name'), 'type', c->'type'))
			FROM jsonb_array_elements(shard->'columns') c)) END
$$;
COMMENT ON FUNCTION shardfdw_internal.expected_definition(jsonb, jsonb, jsonb, jsonb) IS
	'Builds the expected definition of a shard: columns and constraints of its foreign table, indexes of its parent, keys of all levels above, foreign keys and owner of its siblings. Returns it in the format of describe_query().';

CREATE FUNCTION shardfdw_internal.inspect_shards(nodes name[])
	RETURNS TABLE (node name, shard regclass, status text, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY
	WITH expected AS MATERIALIZED (
		SELECT n.node, e.shard, e.parent, e.remote_name, e.is_exact, e.remote_columns, row_number() OVER (PARTITION BY n.node ORDER BY e.ord) AS ord
		FROM unnest(inspect_shards.nodes) n(node),
			shardfdw_internal.expected_shards(n.node) WITH ORDINALITY e(shard, parent, remote_name, is_exact, remote_columns, ord)
	), levels AS MATERIALIZED (
		-- The sharded tables and their ancestors, from the bottom. Read once, because the nodes' answers are waited for.
		SELECT p.parent, a.relation, a.ord FROM (SELECT DISTINCT e.parent FROM expected e WHERE e.parent IS NOT NULL) p,
			pg_partition_ancestors(p.parent) WITH ORDINALITY a(relation, ord)
	), here AS MATERIALIZED (
		SELECT d.relation, d.definition FROM shardfdw_internal.describe_tables(
			(SELECT array_agg(x.r) FROM (SELECT e.shard AS r FROM expected e UNION SELECT l.relation FROM levels l) x)) d
	), parents AS MATERIALIZED (
		SELECT h.relation AS parent, h.definition || jsonb_build_object('indexes', shardfdw_internal.keys_of_levels(l.definitions))
			|| CASE WHEN shardfdw_internal.is_at_home(h.relation) THEN '{"at_home": true}' ELSE '{}' END::jsonb AS definition
		FROM (SELECT x.parent, array_agg(d.definition ORDER BY x.ord) AS definitions FROM levels x JOIN here d ON d.relation = x.relation GROUP BY x.parent) l
		JOIN here h ON h.relation = l.parent
	), question AS MATERIALIZED (
		-- one query to each node
		SELECT array_agg(x.node) AS nodes, array_agg(shardfdw_internal.describe_query(x.names)) AS commands
		FROM (SELECT e.node, array_agg(e.remote_name ORDER BY e.ord) AS names FROM expected e GROUP BY e.node) x
	), first_answer AS MATERIALIZED (
		-- Functions that print definitions open the relations, and a relation may have been dropped since the query began.
		SELECT a.*, NOT a.ok AND a.sqlstate IN ('XX000', '42P01') AS may_be_gone
		FROM question q, shardfdw_internal.run_commands(q.nodes, q.commands, 'read', false) a
		WHERE q.nodes IS NOT NULL
	), second_answer AS MATERIALIZED (
		SELECT a.*
		FROM (SELECT array_agg(q.nodes[f.command]) AS nodes, array_agg(q.commands[f.command]) AS commands FROM question q, first_answer f WHERE f.may_be_gone) r,
			shardfdw_internal.run_commands(r.nodes, r.commands, 'read', false) a
		WHERE r.nodes IS NOT NULL
	), answer AS MATERIALIZED (
		SELECT a.node, a.ok, a.message, (a.fields)[1]::bigint AS ord,
			(a.fields)[2]::integer = current_setting('server_version_num')::integer / 10000 AS same_major, (a.fields)[3]::jsonb AS definition
		FROM (SELECT f.node, f.ok, f.message, f.fields FROM first_answer f WHERE NOT f.may_be_gone
			UNION ALL SELECT x.node, x.ok, x.message, x.fields FROM second_answer x) a
	), compared AS MATERIALIZED (
		SELECT e.*, a.ok, a.message, a.same_major, h.definition AS here,
			a.definition || jsonb_build_object('foreign_keys', CASE WHEN a.definition->'foreign_keys' = '[]' THEN '[]'
				ELSE shardfdw_internal.comparable_keys(e.shard, a.definition->'foreign_keys') END) AS there,
			CASE WHEN e.is_exact THEN p.definition END AS parent_definition
		FROM expected e
		LEFT JOIN answer a ON a.node = e.node AND (a.ord = e.ord OR NOT a.ok)
		LEFT JOIN here h ON h.relation = e.shard
		LEFT JOIN parents p ON p.parent = e.parent
	), siblings AS MATERIALIZED (
		-- properties that only shards have: each shard should have what the others have
		SELECT c.parent, jsonb_build_object('foreign_keys', coalesce(jsonb_agg(DISTINCT f) FILTER (WHERE f IS NOT NULL), '[]')) AS definition
		FROM compared c LEFT JOIN LATERAL jsonb_array_elements(c.there->'foreign_keys') f ON true WHERE c.is_exact GROUP BY c.parent
	), owners AS MATERIALIZED (
		SELECT c.parent, c.node, jsonb_build_object('owner', mode() WITHIN GROUP (ORDER BY c.there->>'owner')) AS definition
		FROM compared c WHERE c.is_exact GROUP BY c.parent, c.node
	)
	SELECT c.node, c.shard,
		CASE WHEN NOT c.ok OR c.there IS NULL OR d.has_error THEN 'error' WHEN d.differences IS NOT NULL THEN 'warning' ELSE 'ok' END,
		CASE WHEN NOT c.ok THEN c.message
			WHEN c.there IS NULL THEN format('table %s does not exist there', c.remote_name)
			ELSE coalesce(d.differences, 'as expected') END
	FROM compared c
	LEFT JOIN siblings s ON s.parent = c.parent
	LEFT JOIN owners o ON o.parent = c.parent AND o.node = c.node
	LEFT JOIN LATERAL (
		SELECT bool_or(x.status = 'error') AS has_error, string_agg(x.difference, '; ') AS differences
		FROM (SELECT shardfdw_internal.expected_definition(c.here, c.parent_definition, s.definition || o.definition, c.remote_columns)
				|| jsonb_build_object('unlogged', c.here->'unlogged') AS definition) e
		CROSS JOIN LATERAL shardfdw_internal.compare_definitions(e.definition, c.there, c.same_major) x
		WHERE e.definition <> c.there AND (c.is_exact OR x.difference LIKE 'columns only %')) d ON c.ok AND c.there IS NOT NULL
	WHERE NOT shardfdw_internal.is_gone(c.shard)
	ORDER BY c.node::text COLLATE "C", c.ord;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.inspect_shards(name[]) IS
	'Queries nodes for the definitions of their shards. Returns one row per shard. error: its table is missing, lacks a column, constraint or index, or has another type, collation or expression for a column. warning: it has more than expected. Otherwise ok. If the names on the node differ from those here, only columns are compared.';

CREATE FUNCTION shardfdw_internal.inspect_identity(nodes name[])
	RETURNS TABLE (node name, status text, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	here record;
BEGIN
	SELECT c.identity, c.confirmed, c.note_name INTO here FROM shardfdw_internal.coordinator_identity() c;
	IF nodes IS NULL AND NOT here.confirmed AND NOT pg_is_in_recovery() THEN
		RETURN QUERY VALUES (NULL::name, 'error',
			format('this server is a copy of coordinator %s: promote_coordinator() has it take that one''s place', here.identity));
	END IF;
	RETURN QUERY
	SELECT q.node, 'error', format('coordinator %s is noted there, this one is %s', (q.fields)[1], here.identity)
	FROM shardfdw_internal.run_commands(coalesce(nodes, '{}'), array_fill(format(
		$q$SELECT pg_catalog.obj_description(c.oid, 'pg_class') FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'shardfdw_internal' AND c.relname = %L$q$, here.note_name),
		ARRAY[cardinality(coalesce(nodes, '{}'))]), 'autocommit', false) q
	WHERE q.ok AND (q.fields)[1] <> here.identity;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.inspect_identity(name[]) IS
	'Queries nodes for the coordinator whose identity is recorded there. Null checks instead whether this server is a clone of the coordinator. Returns an error row for each node that another coordinator has taken over, or for a clone (without node).';

CREATE FUNCTION shardfdw_internal.inspect_tables(nodes name[], compare_rows boolean)
	RETURNS TABLE (node name, check_name text, status text, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	-- Shards without findings are one row with their number.
	RETURN QUERY
	SELECT y.node, CASE y.status WHEN 'ok' THEN y.kind ELSE y.label END, y.status,
		CASE y.status WHEN 'ok' THEN format('%s as expected', y.nok) ELSE y.detail END
	FROM (
		SELECT x.*, count(*) FILTER (WHERE x.status = 'ok') OVER (PARTITION BY x.part, x.node) AS nok,
			row_number() OVER (PARTITION BY x.part, x.node ORDER BY x.status <> 'ok', x.label COLLATE "C") AS ord
		FROM (
			SELECT 1 AS part, 'shards' AS kind, s.node, 'shard ' || s.shard::text AS label, s.status, s.detail
			FROM shardfdw_internal.inspect_shards(nodes) s
			UNION ALL
			SELECT 2, 'objects', o.node, o.label, o.status, o.detail FROM shardfdw_internal.inspect_objects(nodes) o
			UNION ALL
			SELECT 3, 'reference tables', r.node, 'reference table ' || r.relation::text, r.status, r.detail
			FROM shardfdw_internal.inspect_references(nodes, compare_rows) r) x) y
	WHERE y.status <> 'ok' OR y.ord = 1
	ORDER BY y.part, y.node::text COLLATE "C", y.ord, y.label COLLATE "C";
END
$$;
COMMENT ON FUNCTION shardfdw_internal.inspect_tables(name[], boolean) IS
	'Compares the tables of nodes with those here: shards, the types and functions that they need, and replicas of reference tables. Returns one row for each difference, with status warning or error, and one row with the number of tables without findings.';

CREATE FUNCTION shardfdw_internal.inspect_schemas() RETURNS TABLE (node name, status text, detail text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- A join, not a query per table: there may be tens of thousands of tables.
	WITH placed AS MATERIALIZED (SELECT i.inhparent, f.ftserver FROM pg_inherits i JOIN pg_foreign_table f ON f.ftrelid = i.inhrelid)
	SELECT s.srvname, 'error', format('table %s is not there with the other tables of its schema', c.oid::regclass)
	FROM pg_class h JOIN placed home ON home.inhparent = h.oid JOIN pg_foreign_server s ON s.oid = home.ftserver
	JOIN pg_class c ON c.relnamespace = h.relnamespace AND (c.relkind = 'p' AND NOT c.relispartition OR c.relkind = 'r')
	WHERE h.relname = 'shardfdw_home' AND h.relkind = 'p'
		AND NOT EXISTS (SELECT FROM placed p WHERE p.inhparent = c.oid AND p.ftserver = home.ftserver)
	ORDER BY c.oid::regclass::text COLLATE "C"
$$;
COMMENT ON FUNCTION shardfdw_internal.inspect_schemas() IS
	'Finds tables of sharded schemas that are not on the node of the other tables. Returns the node and an error for each.';
