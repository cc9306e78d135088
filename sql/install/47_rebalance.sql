-- Which shards should be on which nodes, and the procedures that bring them there.

CREATE FUNCTION shardfdw_internal.shard_groups() RETURNS TABLE (leader regclass, shardno integer, shard regclass)
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_shard_groups';
COMMENT ON FUNCTION shardfdw_internal.shard_groups() IS
	'Lists all shards by the groups that move together. Returns for each the first table of those that are colocated with its own, and its number, counted from 0: shards with both in common are one group.';

CREATE FUNCTION shardfdw_internal.balance(costs float8[], places integer[], movable boolean[], capacities float8[], threshold float8)
	RETURNS TABLE (item integer, source integer, target integer, before float8, after float8)
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_balance';
COMMENT ON FUNCTION shardfdw_internal.balance(float8[], integer[], boolean[], float8[], float8) IS
	'Plans moves of items, which cost something and are in places, between places of given capacities; one of capacity 0 is emptied. Returns the moves in order, all counted from 1, with the highest use of a place as a multiple of the mean before and after each; raises null_value_not_allowed and invalid_parameter_value.';

CREATE FUNCTION shardfdw_internal.node_option(node name, option text) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT o.option_value FROM pg_foreign_server s, pg_options_to_table(s.srvoptions) o WHERE s.srvname = node AND o.option_name = option
$$;
COMMENT ON FUNCTION shardfdw_internal.node_option(name, text) IS 'Reads an option of a node''s server. Returns null when it is not given.';

CREATE FUNCTION shardfdw_internal.check_accepts(nodes name[]) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	closed name;
BEGIN
	SELECT n INTO closed FROM unnest(nodes) n WHERE NOT coalesce(shardfdw_internal.node_option(n, 'accepts_shards')::boolean, true) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('node "%s" does not accept shards', closed),
			HINT = format('ALTER SERVER %I OPTIONS (SET accepts_shards ''true'') changes that.', closed);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_accepts(name[]) IS
	'Raises object_not_in_prerequisite_state when one of the nodes does not accept shards (server option accepts_shards).';

CREATE FUNCTION shardfdw_internal.accepting_nodes() RETURNS name[]
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	accepting CONSTANT name[] := ARRAY(SELECT n FROM unnest(shardfdw_internal.usable_nodes()) WITH ORDINALITY x(n, o)
		WHERE coalesce(shardfdw_internal.node_option(n, 'accepts_shards')::boolean, true) ORDER BY o);
BEGIN
	IF accepting = '{}' THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'no node accepts shards',
			HINT = 'Add one with shardfdw.add_node(), or set the option accepts_shards of a server to true.';
	END IF;
	RETURN accepting;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.accepting_nodes() IS
	'Lists the nodes to which new shards go that name none: those of trusted_nodes() that accept shards. Returns them by name; raises object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.movable_groups(nodes name[])
	RETURNS TABLE (shard regclass, shards regclass[], place integer, movable boolean)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY
	SELECT (array_agg(g.shard ORDER BY g.shard::oid))[1], array_agg(g.shard ORDER BY g.shard::oid), min(array_position(nodes, s.srvname)),
		-- as move_shard() wants it
		bool_and(pg_has_role(c.relowner, 'USAGE')
			AND NOT coalesce((SELECT o.option_value FROM pg_options_to_table(f.ftoptions) o WHERE o.option_name = 'pinned')::boolean, false)
			AND NOT EXISTS (SELECT FROM pg_options_to_table(f.ftoptions) o WHERE o.option_name IN ('replica_nodes', 'stale_replica_nodes')))
	FROM shardfdw_internal.shard_groups() g
	JOIN pg_foreign_table f ON f.ftrelid = g.shard
	JOIN pg_foreign_server s ON s.oid = f.ftserver
	JOIN pg_inherits i ON i.inhrelid = g.shard
	JOIN pg_class c ON c.oid = i.inhparent
	WHERE s.srvname = ANY (nodes)
	GROUP BY g.leader, g.shardno;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.movable_groups(name[]) IS
	'Lists the groups of shards that are on nodes. Returns for each its first shard, all of them, the number of its node among these, and whether the caller may move it: owns its tables, and none of the shards is pinned (option of the foreign table) or has replicas.';

CREATE FUNCTION shardfdw.rebalance_plan(strategy text DEFAULT 'bytes', threshold double precision DEFAULT 0.1, drain name DEFAULT NULL)
	RETURNS TABLE (step integer, shard regclass, shards regclass[], size_bytes bigint, source name, target name, imbalance_before double precision, imbalance_after double precision)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
	nodes CONSTANT name[] := shardfdw_internal.trusted_nodes();
	-- what a group costs beside its bytes: connections, planning, locks; it keeps empty shards from being of no account
	base CONSTANT double precision := 100 * 1024 * 1024;
	capacities double precision[];
	sizes jsonb := '{}';
	unknown name;
BEGIN
	IF strategy IS NULL OR threshold IS NULL OR strategy NOT IN ('bytes', 'count') THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'strategy must be "bytes" or "count", and threshold not null';
	END IF;
	IF NOT threshold BETWEEN 0 AND 1 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'threshold must be between 0 and 1';
	END IF;
	IF drain IS NOT NULL THEN
		PERFORM shardfdw_internal.check_drainable(drain);
	END IF;
	SELECT array_agg(CASE WHEN n = drain OR NOT coalesce(shardfdw_internal.node_option(n, 'accepts_shards')::boolean, true) THEN 0
		ELSE coalesce(shardfdw_internal.node_option(n, 'capacity')::double precision, 1) END ORDER BY o) INTO capacities
	FROM unnest(nodes) WITH ORDINALITY x(n, o);
	PERFORM shardfdw_internal.accepting_nodes();
	IF strategy = 'bytes' THEN
		SELECT jsonb_object_agg(z.shard::oid, z.size_bytes), min(z.node) FILTER (WHERE z.size_bytes IS NULL AND z.node = ANY (nodes)) INTO sizes, unknown
		FROM shardfdw.shard_sizes() z;
		IF unknown IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'system_error', MESSAGE = format('the sizes of the shards of node "%s" are not known', unknown),
				HINT = 'Repair the node, or use strategy ''count'', which asks no node.';
		END IF;
	END IF;
	RETURN QUERY
	WITH groups AS MATERIALIZED (
		SELECT g.*, row_number() OVER (ORDER BY g.shard::oid)::integer AS number,
			CASE strategy WHEN 'bytes' THEN (SELECT coalesce(sum((sizes->(s::oid::text))::bigint), 0)::bigint FROM unnest(g.shards) s) END AS size
		FROM shardfdw_internal.movable_groups(nodes) g
	), args AS (
		SELECT array_agg(CASE strategy WHEN 'bytes' THEN g.size + base ELSE 1 END ORDER BY g.number) AS costs,
			array_agg(g.place ORDER BY g.number) AS places, array_agg(g.movable ORDER BY g.number) AS movable FROM groups g
	)
	SELECT b.ordinality::integer, g.shard, g.shards, g.size, nodes[b.source], nodes[b.target], b.before, b.after
	FROM args a CROSS JOIN LATERAL shardfdw_internal.balance(a.costs, a.places, a.movable, capacities, threshold) WITH ORDINALITY b
	JOIN groups g ON g.number = b.item
	ORDER BY 1;
END
$$;
COMMENT ON FUNCTION shardfdw.rebalance_plan(text, double precision, name) IS
	'Plans moves after which the nodes carry their shares: of bytes (and 100 MB for each group), or of the count of groups, divided by the server option capacity (1 by default). Nodes that do not accept shards (option accepts_shards), and the one that is to be drained, are emptied. threshold: how far from the mean a node may be; only shards that the caller may move, and that are not pinned, are moved. Returns the moves in order: a shard, all that go with it, their bytes (null for strategy count), nodes, and the highest use of a node as a multiple of the mean before and after; raises invalid_parameter_value, undefined_object, object_not_in_prerequisite_state, and system_error for a node that does not answer.';

CREATE FUNCTION shardfdw_internal.move_step(shard regclass, source name, target name, mode text, verify boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	place CONSTANT name := (SELECT v.node FROM shardfdw_internal.placed_shards v WHERE v.shard = move_step.shard);
BEGIN
	IF place IS DISTINCT FROM source THEN
		RAISE NOTICE 'shard % is not on node "%" any more', shard, source;
		RETURN;
	END IF;
	RAISE NOTICE 'moving shard % from node "%" to node "%"', shard, source, target;
	PERFORM shardfdw.move_shard(shard, target, mode, verify);
EXCEPTION WHEN object_not_in_prerequisite_state THEN
	-- somebody else's plan had the same move
	IF (SELECT v.node FROM shardfdw_internal.placed_shards v WHERE v.shard = move_step.shard) IS DISTINCT FROM target THEN
		RAISE;
	END IF;
	RAISE NOTICE 'another job has moved it';
END
$$;
COMMENT ON FUNCTION shardfdw_internal.move_step(regclass, name, name, text, boolean) IS
	'Moves a shard as planned, if it is still where it was then. Returns nothing; raises the errors of move_shard().';

-- These two commit, so they cannot have settings of their own: all names in them are qualified.
CREATE PROCEDURE shardfdw.rebalance(strategy text DEFAULT 'bytes', threshold double precision DEFAULT 0.1, mode text DEFAULT 'online', verify boolean DEFAULT true)
	LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
	step record;
BEGIN
	FOR step IN SELECT p.shard, p.source, p.target FROM shardfdw.rebalance_plan(strategy, threshold) p
	LOOP
		COMMIT;
		PERFORM shardfdw_internal.move_step(step.shard, step.source, step.target, mode, verify);
		COMMIT;
	END LOOP;
END
$$;
COMMENT ON PROCEDURE shardfdw.rebalance(text, double precision, text, boolean) IS
	'Makes the moves of rebalance_plan(), one after the other, each committed by itself; mode and verify as for move_shard(). When it is interrupted, what has moved stays, and the next call goes on. Raises the errors of both, and stops at the first.';
REVOKE ALL ON PROCEDURE shardfdw.rebalance(text, double precision, text, boolean) FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.check_drainable(node name) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.usable_nodes(ARRAY[node]);
	IF cardinality(array_remove(shardfdw_internal.accepting_nodes(), node)) = 0 THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('no other node than "%s" accepts shards', node),
			HINT = 'Add one with shardfdw.add_node(), or set the option accepts_shards of a server to true.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_drainable(name) IS
	'Checks that the shards of a node can go somewhere. Returns nothing; raises undefined_object, insufficient_privilege or object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.check_drained(node name) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	held bigint;
	example text;
BEGIN
	SELECT count(*), min(v.shard COLLATE "C") INTO held, example FROM shardfdw.shards v WHERE check_drained.node = ANY (v.replica_nodes || v.stale_replica_nodes || v.node);
	IF held > 0 THEN
		RAISE WARNING USING MESSAGE = format('%s shards stay on node "%s"', held, node),
			DETAIL = format('One of them is %s.', example),
			HINT = 'They are pinned, or not the caller''s, or were made meanwhile; or they have replicas, which mode ''block'' moves if there is a node without one.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_drained(name) IS 'Warns of shards that a node still has. Returns nothing.';

CREATE FUNCTION shardfdw_internal.drain_replica(node name) RETURNS boolean
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	step record;
BEGIN
	SELECT p.shard, a.node AS target INTO step
	FROM shardfdw_internal.tables_with_replicas(node, '{primary,replica,stale}') t JOIN pg_class c ON c.oid = t AND pg_has_role(c.relowner, 'USAGE')
	CROSS JOIN LATERAL shardfdw_internal.shard_placements(t) p CROSS JOIN unnest(array_remove(shardfdw_internal.accepting_nodes(), node)) a(node)
	WHERE p.node = drain_replica.node AND NOT EXISTS (SELECT FROM shardfdw_internal.shard_placements(t) o WHERE o.shard = p.shard AND o.node = a.node)
	ORDER BY (SELECT count(*) FROM shardfdw.shards v WHERE a.node = ANY (v.replica_nodes || v.node)), p.shard::oid LIMIT 1;
	IF step.shard IS NULL THEN
		RETURN false;
	END IF;
	RAISE NOTICE 'moving a replica of shard % from node "%" to node "%"', step.shard, node, step.target;
	PERFORM shardfdw.move_replica(step.shard, node, step.target);
	RETURN true;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.drain_replica(name) IS
	'Moves what a node has of one group of shards with replicas to the node with the fewest placements. Returns whether there was one whose tables are the caller''s, and a node that lacks it; raises the errors of move_replica().';

CREATE PROCEDURE shardfdw.drain_node(name name, mode text DEFAULT 'online', verify boolean DEFAULT true)
	LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
	step record;
BEGIN
	PERFORM shardfdw_internal.check_drainable(name);
	PERFORM shardfdw_internal.set_node_option(name, 'accepts_shards', 'false');
	COMMIT;
	FOR step IN SELECT p.shard, p.source, p.target FROM shardfdw.rebalance_plan('bytes', 1, name) p WHERE p.source OPERATOR(pg_catalog.=) name
	LOOP
		COMMIT;
		PERFORM shardfdw_internal.move_step(step.shard, step.source, step.target, mode, verify);
		COMMIT;
	END LOOP;
	WHILE mode OPERATOR(pg_catalog.=) 'block' AND shardfdw_internal.drain_replica(name)
	LOOP
		COMMIT;
	END LOOP;
	PERFORM shardfdw_internal.check_drained(name);
END
$$;
COMMENT ON PROCEDURE shardfdw.drain_node(name, text, boolean) IS
	'Sets the server option accepts_shards of a node to false, and moves its shards to the nodes that have most room, one group after the other, each committed by itself; mode and verify as for move_shard(). With mode block also what it has of shards with replicas, by move_replica(). Afterwards remove_node() takes the node out of the cluster. Warns of shards that stay, since they are pinned or not the caller''s; raises the errors of rebalance_plan(), move_shard() and move_replica(), and stops at the first.';
REVOKE ALL ON PROCEDURE shardfdw.drain_node(name, text, boolean) FROM PUBLIC;
