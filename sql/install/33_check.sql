-- Whether nodes and shards are as the catalogs here say.

CREATE FUNCTION shardfdw.expected_shards(node name)
	RETURNS TABLE (shard regclass, remote_name text, columns text[])
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT f.ftrelid::regclass,
		format('%I.%I',
			coalesce((SELECT o.option_value FROM pg_options_to_table(f.ftoptions) o WHERE o.option_name = 'schema_name'), n.nspname),
			coalesce((SELECT o.option_value FROM pg_options_to_table(f.ftoptions) o WHERE o.option_name = 'table_name'), c.relname)),
		ARRAY(SELECT format('%I %s',
				coalesce((SELECT o.option_value FROM pg_options_to_table(a.attfdwoptions) o WHERE o.option_name = 'column_name'), a.attname),
				format_type(a.atttypid, a.atttypmod))
			  FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum)
	FROM pg_foreign_table f
	JOIN pg_foreign_server s ON s.oid = f.ftserver
	JOIN pg_class c ON c.oid = f.ftrelid
	JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE s.srvname = expected_shards.node
	ORDER BY n.nspname::text COLLATE "C", c.relname::text COLLATE "C"
$$;
COMMENT ON FUNCTION shardfdw.expected_shards(name) IS
	'Lists the foreign tables here whose shards a node should hold. Returns each with its qualified name on the node and its columns there as "name type".';

CREATE FUNCTION shardfdw.inspect_shards(nodes name[])
	RETURNS TABLE (node name, shard regclass, status text, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY
	WITH expected AS (
		SELECT n.node, e.shard, e.remote_name, e.columns, row_number() OVER (PARTITION BY n.node ORDER BY e.ord) AS ord
		FROM unnest(inspect_shards.nodes) n(node), shardfdw.expected_shards(n.node) WITH ORDINALITY e(shard, remote_name, columns, ord)
	), question AS (
		-- one question to each node: what columns do these tables have?
		SELECT array_agg(x.node) AS nodes, array_agg(format(
			'SELECT t.ord, to_regclass(t.name) IS NOT NULL, '
			'ARRAY(SELECT format(''%%I %%s'', a.attname, format_type(a.atttypid, a.atttypmod)) FROM pg_attribute a '
			'WHERE a.attrelid = to_regclass(t.name) AND a.attnum > 0 AND NOT a.attisdropped) '
			'FROM unnest(%L::text[]) WITH ORDINALITY t(name, ord)', x.names)) AS commands
		FROM (SELECT e.node, array_agg(e.remote_name ORDER BY e.ord) AS names FROM expected e GROUP BY e.node) x
	), answer AS (
		SELECT a.node, a.ok, a.message, (a.fields)[1]::bigint AS ord, (a.fields)[2]::boolean AS found, (a.fields)[3]::text[] AS columns
		FROM question q, shardfdw.query_nodes(q.nodes, q.commands, 'read', false) a
		WHERE q.nodes IS NOT NULL
	), compared AS (
		SELECT e.node, e.shard, e.remote_name, e.ord, a.ok, a.message, a.found,
			ARRAY(SELECT c FROM unnest(e.columns) c WHERE c <> ALL (a.columns)) AS lacking,
			ARRAY(SELECT c FROM unnest(a.columns) c WHERE c <> ALL (e.columns)) AS surplus
		FROM expected e LEFT JOIN answer a ON a.node = e.node AND (a.ord = e.ord OR NOT a.ok)
	)
	SELECT c.node, c.shard,
		CASE WHEN NOT c.ok OR NOT c.found OR c.lacking <> '{}' THEN 'error' WHEN c.surplus <> '{}' THEN 'warning' ELSE 'ok' END,
		CASE WHEN NOT c.ok THEN c.message
			WHEN NOT c.found THEN format('table %s does not exist there', c.remote_name)
			WHEN c.lacking <> '{}' OR c.surplus <> '{}' THEN concat_ws('; ',
				'columns only here: ' || nullif(array_to_string(c.lacking, ', '), ''),
				'columns only there: ' || nullif(array_to_string(c.surplus, ', '), ''))
			ELSE 'as expected' END
	FROM compared c ORDER BY c.node::text COLLATE "C", c.ord;
END
$$;
COMMENT ON FUNCTION shardfdw.inspect_shards(name[]) IS
	'Asks nodes for the tables that should be their shards. Returns one row per shard: error if its table is missing or lacks a column or has another type for it, warning if it has further columns, else ok.';

CREATE FUNCTION shardfdw.check_nodes(contents boolean DEFAULT false)
	RETURNS TABLE (node name, "check" text, status text, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	nodes name[] := ARRAY(SELECT n.name FROM shardfdw.nodes n WHERE has_server_privilege(n.name, 'USAGE')
						  ORDER BY n.name::text COLLATE "C");
	reachable name[];
	i record;
BEGIN
	IF nodes = '{}' THEN
		RETURN;
	END IF;
	FOR i IN SELECT * FROM shardfdw.inspect_nodes(nodes)
	LOOP
		IF i."check" = 'connect' AND i.status = 'ok' THEN
			reachable := reachable || i.node;
		END IF;
		node := i.node;
		"check" := i."check";
		status := i.status;
		detail := i.detail;
		RETURN NEXT;
	END LOOP;

	FOR i IN
		SELECT s.node, s.shard, s.status, s.detail,
			count(*) FILTER (WHERE s.status = 'ok') OVER (PARTITION BY s.node) AS nok,
			row_number() OVER (PARTITION BY s.node ORDER BY s.status <> 'ok') AS ord
		FROM shardfdw.inspect_shards(reachable) s
		ORDER BY s.node::text COLLATE "C", ord, s.shard::text COLLATE "C"
	LOOP
		CONTINUE WHEN i.status = 'ok' AND i.ord > 1;
		node := i.node;
		"check" := CASE i.status WHEN 'ok' THEN 'shards' ELSE 'shard ' || i.shard::text END;
		status := i.status;
		detail := CASE i.status WHEN 'ok' THEN format('%s as expected', i.nok) ELSE i.detail END;
		RETURN NEXT;
	END LOOP;

	FOR i IN SELECT t.node, t.status, t.detail FROM shardfdw.inspect_twins(coalesce(reachable, '{}')) t
	LOOP
		node := i.node;
		"check" := 'partial twins';
		status := i.status;
		detail := i.detail;
		RETURN NEXT;
	END LOOP;

	FOR i IN
		SELECT r.node, r.relation, r.status, r.detail,
			count(*) FILTER (WHERE r.status = 'ok') OVER (PARTITION BY r.node) AS nok,
			row_number() OVER (PARTITION BY r.node ORDER BY r.status <> 'ok') AS ord
		FROM shardfdw.inspect_references(coalesce(reachable, '{}'), contents) r
		ORDER BY r.node::text COLLATE "C", ord, r.relation::text COLLATE "C"
	LOOP
		CONTINUE WHEN i.status = 'ok' AND i.ord > 1;
		node := i.node;
		"check" := CASE i.status WHEN 'ok' THEN 'reference tables' ELSE 'reference table ' || i.relation::text END;
		status := i.status;
		detail := CASE i.status WHEN 'ok' THEN format('%s as expected', i.nok) ELSE i.detail END;
		RETURN NEXT;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw.check_nodes(boolean) IS
	'Checks every node: that it can be reached, version, encoding, locale, max_prepared_transactions, clock, partial twins, that each shard is there with the columns and types it has here, and each copy of a reference table with as many rows; with contents, with equal rows. Returns one row per check, shards and copies in order as one, with status ok, warning or error; raises nothing for a node that is down.';
