-- Sharded tables and their shards.
--
-- Views return relations as regclass. A literal without a cast would be compared with a regclass as a number, so write a condition as
-- WHERE relation = 'orders'::regclass.

CREATE FUNCTION shardfdw_internal.key_definition(relation regclass) RETURNS text
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN regexp_replace(pg_get_partkeydef(relation), '^\w+ \((.*)\)$', '\1');
EXCEPTION WHEN internal_error THEN
	IF NOT shardfdw_internal.is_gone(relation) THEN
		RAISE;
	END IF;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.key_definition(regclass) IS
	'Writes the columns and expressions of the key of a partitioned table, which it opens. Returns null if the table has been dropped.';

CREATE VIEW shardfdw.tables AS
WITH sharded AS MATERIALIZED (
	SELECT p.partrelid AS relid, p.partstrat AS strategy, s.shards, s.nodes,
		-- Equal for tables whose equal keys are on the same nodes. Null for a table that is not evenly sharded by hash.
		CASE WHEN h.oid IS NOT NULL THEN h.oid::text || s.nodes::text
			WHEN p.partstrat = 'h' THEN shardfdw_internal.key_signature(p.partrelid) || shardfdw_internal.hash_placement(p.partrelid)::text END AS placement
	FROM pg_catalog.pg_partitioned_table p
	JOIN pg_catalog.pg_class c ON c.oid = p.partrelid
	LEFT JOIN pg_catalog.pg_class h ON h.relnamespace = c.relnamespace AND h.relname = 'shardfdw_home' AND h.relkind = 'p'
	CROSS JOIN LATERAL (
		SELECT pg_catalog.count(*) AS shards, pg_catalog.array_agg(DISTINCT x.node) AS nodes
		FROM shardfdw_internal.shards_of(p.partrelid) x) s
	WHERE shardfdw_internal.is_sharded(p.partrelid)),
placed AS (
	SELECT o.placement, pg_catalog.array_agg(o.relid::pg_catalog.regclass ORDER BY o.relid::pg_catalog.regclass::text COLLATE "C") AS relations
	FROM sharded o WHERE o.placement IS NOT NULL GROUP BY 1)
SELECT t.relid::pg_catalog.regclass AS relation,
	shardfdw_internal.key_definition(t.relid) AS key,
	CASE t.strategy WHEN 'h' THEN 'hash' WHEN 'r' THEN 'range' ELSE 'list' END AS strategy,
	t.shards, t.nodes,
	coalesce(pg_catalog.array_remove(o.relations, t.relid::pg_catalog.regclass), '{}') AS colocated_with
FROM sharded t LEFT JOIN placed o ON o.placement = t.placement
UNION ALL
SELECT r.relation, NULL, 'reference', NULL,
	ARRAY(SELECT n.node FROM shardfdw.nodes n ORDER BY n.node::text COLLATE "C"), '{}'
FROM shardfdw_internal.reference_tables() r(relation);
COMMENT ON VIEW shardfdw.tables IS
	'Lists the sharded tables and the reference tables.';
COMMENT ON COLUMN shardfdw.tables.relation IS 'Sharded or reference table.';
COMMENT ON COLUMN shardfdw.tables.key IS 'Columns and expressions of the shard key. Null for a reference table.';
COMMENT ON COLUMN shardfdw.tables.strategy IS 'hash, range or list: how the key selects the shard. reference for a reference table.';
COMMENT ON COLUMN shardfdw.tables.shards IS 'Number of shards. Null for a reference table.';
COMMENT ON COLUMN shardfdw.tables.nodes IS 'Nodes that have shards or replicas of the table.';
COMMENT ON COLUMN shardfdw.tables.colocated_with IS 'Tables whose shards with the same keys are on the same nodes.';
GRANT SELECT ON shardfdw.tables TO PUBLIC;

CREATE VIEW shardfdw.shards AS
SELECT i.inhparent::pg_catalog.regclass AS relation,
	f.ftrelid::pg_catalog.regclass AS shard,
	s.srvname AS node,
	pg_catalog.pg_get_expr(c.relpartbound, 0) AS bounds,
	shardfdw_internal.nodes_in_option(f.ftoptions, 'replica_nodes') AS replica_nodes,
	shardfdw_internal.nodes_in_option(f.ftoptions, 'stale_replica_nodes') AS stale_replica_nodes
FROM pg_catalog.pg_foreign_table f
JOIN pg_catalog.pg_class c ON c.oid = f.ftrelid
JOIN pg_catalog.pg_foreign_server s ON s.oid = f.ftserver
JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw
JOIN pg_catalog.pg_inherits i ON i.inhrelid = f.ftrelid
JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = i.inhparent
WHERE w.fdwhandler = 'shardfdw_internal.shardfdw_handler'::pg_catalog.regproc;
COMMENT ON VIEW shardfdw.shards IS
	'Lists the shards of sharded tables. The view asks no node; see stat_shards for sizes and statistics.';
COMMENT ON COLUMN shardfdw.shards.replica_nodes IS 'Nodes that have replicas of the shard.';
COMMENT ON COLUMN shardfdw.shards.stale_replica_nodes IS 'Disabled nodes whose replicas of the shard have missed changes.';
COMMENT ON COLUMN shardfdw.shards.relation IS 'Sharded table.';
COMMENT ON COLUMN shardfdw.shards.shard IS 'Foreign table that represents the shard here.';
COMMENT ON COLUMN shardfdw.shards.node IS 'Node that has the shard; for a shard with replicas, the primary.';
COMMENT ON COLUMN shardfdw.shards.bounds IS 'Partition bounds of the shard, as in CREATE TABLE ... PARTITION OF.';
GRANT SELECT ON shardfdw.shards TO PUBLIC;

CREATE FUNCTION shardfdw_internal.shard_sizes(relation regclass DEFAULT NULL)
	RETURNS TABLE (shard regclass, node name, size_bytes bigint, estimated_rows bigint)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	wanted CONSTANT regclass[] := ARRAY(SELECT v.shard FROM shardfdw.shards v
		WHERE shard_sizes.relation IS NULL OR v.shard IN (SELECT t.relid FROM pg_partition_tree(shard_sizes.relation) t));
	nodes name[];
	commands text[];
	a record;
	-- [size, rows] by the OID of the shard
	answers jsonb := '{}';
BEGIN
	IF shard_sizes.relation IS NOT NULL AND wanted = '{}' THEN
		PERFORM shardfdw_internal.raise_other_kind(shard_sizes.relation, 'sharded table');
	END IF;
	SELECT array_agg(n.name), array_agg(format(
			'SELECT jsonb_object_agg(t.shard, jsonb_build_array(pg_total_relation_size(c.oid), c.reltuples::bigint)) '
			'FROM unnest(%L::oid[], %L::text[]) t(shard, name) JOIN pg_class c ON c.oid = to_regclass(t.name)',
			n.shards, n.names)) INTO nodes, commands
	FROM (SELECT x.name, array_agg(e.shard::oid) AS shards, array_agg(e.remote_name) AS names
		  FROM unnest(shardfdw_internal.granted_nodes()) x(name), shardfdw_internal.expected_shards(x.name) e
		  WHERE e.shard = ANY (wanted) GROUP BY x.name) n;

	FOR a IN SELECT q.node, q.ok, q.fields, q.message FROM shardfdw_internal.run_commands(nodes, commands, 'read', false) q WHERE nodes IS NOT NULL
	LOOP
		IF NOT a.ok THEN
			RAISE WARNING USING MESSAGE = format('could not ask node "%s" for the sizes of its shards', a.node), DETAIL = a.message;
		ELSE
			answers := answers || coalesce(a.fields[1]::jsonb, '{}');
		END IF;
	END LOOP;
	RETURN QUERY
	SELECT v.shard, v.node, (x.answer->>0)::bigint,
		-- -1 means never counted
		nullif((x.answer->>1)::bigint, -1)
	FROM shardfdw.shards v CROSS JOIN LATERAL (SELECT answers->(v.shard::oid::text)) x(answer)
	WHERE v.shard = ANY (wanted) ORDER BY v.shard::text COLLATE "C";
END
$$;
COMMENT ON FUNCTION shardfdw_internal.shard_sizes(regclass) IS
	'Queries nodes in parallel for the sizes of the shards of a table, or of one shard. Null means all shards. Returns one row per shard: size_bytes including indexes, and estimated_rows from the last ANALYZE or VACUUM there, null before the first. Both are null, with a WARNING, if a node does not answer. Raises wrong_object_type for a table that is not sharded.';
