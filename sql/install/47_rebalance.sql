-- Plans on which nodes shards should be, and runs the jobs that move them there.

CREATE FUNCTION shardfdw_internal.shard_groups() RETURNS TABLE (leader regclass, shardno integer, shard regclass)
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_shard_groups';
COMMENT ON FUNCTION shardfdw_internal.shard_groups() IS
	'Lists all shards by the groups that move together. Returns for each shard the first of the tables that are colocated with its table, and its number (0-based). Shards with equal values of both are one group.';

CREATE FUNCTION shardfdw_internal.balance(costs float8[], places integer[], movable boolean[], capacities float8[], threshold float8)
	RETURNS TABLE (item integer, source integer, target integer, before float8, after float8)
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_balance';
COMMENT ON FUNCTION shardfdw_internal.balance(float8[], integer[], boolean[], float8[], float8) IS
	'Plans moves of items with costs between places with capacities. A place of capacity 0 is emptied. Returns the moves in order with 1-based numbers, and the highest use of a place before and after each move, as a multiple of the mean. Raises null_value_not_allowed and invalid_parameter_value.';

CREATE FUNCTION shardfdw_internal.node_option(node name, option text) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT o.option_value FROM pg_foreign_server s, pg_options_to_table(s.srvoptions) o WHERE s.srvname = node AND o.option_name = option
$$;
COMMENT ON FUNCTION shardfdw_internal.node_option(name, text) IS 'Returns an option of a node''s server, null if the option is not set.';

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
	'Lists the nodes for new shards if the caller names none: those of granted_nodes() that accept shards. Returns them by name. Raises object_not_in_prerequisite_state if there are none.';

CREATE FUNCTION shardfdw_internal.movable_groups(nodes name[])
	RETURNS TABLE (shard regclass, shards regclass[], place integer, movable boolean)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY
	SELECT (array_agg(g.shard ORDER BY g.shard::oid))[1], array_agg(g.shard ORDER BY g.shard::oid), min(array_position(nodes, s.srvname)),
		-- the condition that move_shard() checks
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
	'Lists the groups of shards that are on nodes. Returns for each group its first shard, all its shards, the number of its node in nodes, and whether the caller may move it. The caller may move a group if the caller owns its tables and no shard is pinned (option of the foreign table) or has replicas.';

CREATE FUNCTION shardfdw.rebalance_plan(strategy text DEFAULT 'bytes', threshold double precision DEFAULT 0.1, drain name DEFAULT NULL)
	RETURNS TABLE (step integer, shard regclass, shards regclass[], size_bytes bigint, source name, target name, imbalance_before double precision, imbalance_after double precision)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
	nodes CONSTANT name[] := shardfdw_internal.granted_nodes();
	-- The cost of a group in addition to its bytes: connections, planning, locks. Without it, empty shards would cost nothing.
	base CONSTANT double precision := 100 * 1024 * 1024;
	capacities double precision[];
	sizes jsonb := '{}';
	-- shards without a size
	unknown regclass[];
	answering name[];
	lost record;
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
		SELECT jsonb_object_agg(z.shard::oid, z.size_bytes), array_agg(z.shard) FILTER (WHERE z.size_bytes IS NULL AND z.node = ANY (nodes)) INTO sizes, unknown
		FROM shardfdw_internal.shard_sizes() z;
		answering := shardfdw_internal.answering_nodes(ARRAY(SELECT DISTINCT v.node FROM shardfdw.shards v WHERE v.shard = ANY (unknown)));
		FOR lost IN SELECT v.relation, v.shard, v.node FROM shardfdw.shards v WHERE v.shard = ANY (unknown) ORDER BY v.shard::oid
		LOOP
			IF lost.node <> ALL (answering) THEN
				RAISE EXCEPTION USING ERRCODE = 'system_error', MESSAGE = format('the sizes of the shards of node "%s" are not known', lost.node),
					HINT = 'Repair the node, or use strategy ''count'', which asks no node.';
			END IF;
			-- The owner of a table must not stop an administrator.
			RAISE WARNING USING ERRCODE = 'undefined_table', MESSAGE = format('table %s is left out: %s', lost.relation, format('shard %s does not exist on node "%s"', lost.shard, lost.node));
		END LOOP;
	END IF;
	RETURN QUERY
	WITH groups AS MATERIALIZED (
		SELECT g.*, row_number() OVER (ORDER BY g.shard::oid)::integer AS number,
			CASE strategy WHEN 'bytes' THEN (SELECT coalesce(sum((sizes->>(s::oid::text))::bigint), 0)::bigint FROM unnest(g.shards) s) END AS size
		FROM shardfdw_internal.movable_groups(nodes) g
	), args AS (
		SELECT array_agg(CASE strategy WHEN 'bytes' THEN g.size + base ELSE 1 END ORDER BY g.number) AS costs,
			array_agg(g.place ORDER BY g.number) AS places, array_agg(g.movable AND NOT g.shards && coalesce(unknown, '{}') ORDER BY g.number) AS movable FROM groups g
	)
	SELECT b.ordinality::integer, g.shard, g.shards, g.size, nodes[b.source], nodes[b.target], b.before, b.after
	FROM args a CROSS JOIN LATERAL shardfdw_internal.balance(a.costs, a.places, a.movable, capacities, threshold) WITH ORDINALITY b
	JOIN groups g ON g.number = b.item
	ORDER BY 1;
END
$$;
COMMENT ON FUNCTION shardfdw.rebalance_plan(text, double precision, name) IS
	'Plans the moves that rebalance() makes. strategy: bytes balances bytes, plus 100 MB for each group of shards; count balances the number of groups. Each is divided by the server option capacity, which is 1 by default. threshold: how far a node may be from the mean, as a fraction. drain: a node that is to be emptied. Nodes with option accepts_shards = false are also emptied. Only shards that the caller may move and that are not pinned are moved. Leaves out a table, with a WARNING, if strategy bytes finds that one of its shards does not exist on its node. Returns the moves in order: a shard, all shards that move with it, their bytes (null for strategy count), both nodes, and the highest use of a node before and after, as a multiple of the mean. Raises invalid_parameter_value, undefined_object, object_not_in_prerequisite_state, and system_error for a node that does not answer.';

CREATE FUNCTION shardfdw_internal.move_step(shard regclass, source name, target name, mode text, verify boolean) RETURNS text
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	place CONSTANT name := (SELECT v.node FROM shardfdw.shards v WHERE v.shard = move_step.shard);
BEGIN
	IF place IS DISTINCT FROM source THEN
		RAISE NOTICE 'shard % is not on node "%" any more', shard, source;
		RETURN NULL;
	END IF;
	RAISE NOTICE 'moving shard % from node "%" to node "%"', shard, source, target;
	PERFORM shardfdw.move_shard(shard, target, mode, verify);
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	-- Another session may have made the same move. A table that cannot be moved must not stop the moves of others.
	IF SQLSTATE = '55000' AND (SELECT v.node FROM shardfdw.shards v WHERE v.shard = move_step.shard) = target THEN
		RAISE NOTICE 'another job has moved it';
		RETURN NULL;
	ELSIF shardfdw_internal.is_error_of_table(SQLSTATE) THEN
		RAISE WARNING USING ERRCODE = SQLSTATE, MESSAGE = format('shard %s stays on node "%s": %s', shard, source, SQLERRM);
		RETURN format('%s: %s', shard, SQLERRM);
	ELSE
		RAISE;
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.move_step(regclass, name, name, text, boolean) IS
	'Makes a planned move of a shard if the shard is still on the source node. Reports a WARNING for an error about the table. Returns shard and error then, otherwise null. Raises the other errors of move_shard().';

CREATE FUNCTION shardfdw_internal.unmoved_message(plan jsonb, reason text) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN plan ? 'drain' THEN format('%s shards stay on node "%s"', count(*), plan->>'drain') ELSE format('%s shards stay on their nodes', count(*)) END
		|| coalesce('; ' || reason, CASE WHEN plan ? 'drain' THEN '; they are pinned, or have replicas or another owner, or are new' ELSE '' END)
	FROM (SELECT FROM shardfdw.shards v WHERE plan ? 'drain' AND plan->>'drain' = ANY (v.replica_nodes || v.stale_replica_nodes || v.node)
		UNION ALL SELECT FROM jsonb_to_recordset(plan->'moves') m(shard oid, source name) JOIN shardfdw.shards v ON v.shard = m.shard AND v.node = m.source
			CROSS JOIN LATERAL shardfdw_internal.shard_group(m.shard) WHERE NOT plan ? 'drain') x
	HAVING count(*) > 0
$$;
COMMENT ON FUNCTION shardfdw_internal.unmoved_message(jsonb, text) IS
	'Describes the shards that a series of jobs has not moved. plan: of the series. reason: why the first of them was not moved; null if no move failed. Returns a message, or null if no shard stays.';

CREATE FUNCTION shardfdw_internal.warn_unmoved(plan jsonb, job bigint) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	move record;
BEGIN
	FOR move IN SELECT v.shard, v.node, coalesce(j.error, 'the server''s log says why') AS reason FROM jsonb_to_recordset(plan->'moves') m(shard oid, source name)
		JOIN shardfdw.shards v ON v.shard = m.shard AND v.node = m.source
		LEFT JOIN LATERAL (SELECT x.error FROM shardfdw.jobs x WHERE x.id > job AND x.state = 'failed' AND v.shard::text = ANY (x.shards) ORDER BY x.id DESC LIMIT 1) j ON true
	LOOP
		RAISE WARNING USING MESSAGE = format('shard %s stays on node "%s": %s', move.shard, move.node, move.reason);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.warn_unmoved(jsonb, bigint) IS
	'Reports a WARNING for each shard that a series of jobs has not moved as planned. plan, job: of the series. Returns nothing.';

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
	'Checks that other nodes can accept the shards of a node. Returns nothing. Raises undefined_object, insufficient_privilege or object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.check_drained(node name) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	held bigint;
	example text;
BEGIN
	SELECT count(*), min(v.shard::text COLLATE "C") INTO held, example FROM shardfdw.shards v WHERE check_drained.node = ANY (v.replica_nodes || v.stale_replica_nodes || v.node);
	IF held > 0 THEN
		RAISE WARNING USING MESSAGE = format('%s shards stay on node "%s"', held, node),
			DETAIL = format('One of them is %s.', example),
			HINT = 'They are pinned, or not the caller''s, or were made during the call, or have replicas. If there is a node without a replica, mode ''block'' moves them.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_drained(name) IS 'Reports a WARNING for shards that are still on a node. Returns nothing.';

CREATE FUNCTION shardfdw_internal.drain_replica(node name, OUT has_moved boolean, OUT reason text) RETURNS record
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	step record;
	failed regclass[] := '{}';
BEGIN
	has_moved := false;
	FOR step IN SELECT p.shard, a.node AS target
		FROM shardfdw_internal.tables_with_replicas(node, '{primary,replica,stale}') t JOIN pg_class c ON c.oid = t AND pg_has_role(c.relowner, 'USAGE')
		CROSS JOIN LATERAL shardfdw_internal.shard_placements(t) p CROSS JOIN unnest(array_remove(shardfdw_internal.accepting_nodes(), node)) a(node)
		WHERE p.node = drain_replica.node AND NOT EXISTS (SELECT FROM shardfdw_internal.shard_placements(t) o WHERE o.shard = p.shard AND o.node = a.node)
		ORDER BY (SELECT count(*) FROM shardfdw.shards v WHERE a.node = ANY (v.replica_nodes || v.node)), p.shard::oid
	LOOP
		CONTINUE WHEN step.shard = ANY (failed);
		BEGIN
			RAISE NOTICE 'moving a replica of shard % from node "%" to node "%"', step.shard, node, step.target;
			PERFORM shardfdw.move_replica(step.shard, node, step.target);
			has_moved := true;
			RETURN;
		EXCEPTION WHEN OTHERS THEN
			IF NOT shardfdw_internal.is_error_of_table(SQLSTATE) THEN
				RAISE;
			END IF;
			failed := failed || step.shard;
			reason := coalesce(reason, format('%s: %s', step.shard, SQLERRM));
			RAISE WARNING USING ERRCODE = SQLSTATE, MESSAGE = format('shard %s stays on node "%s": %s', step.shard, node, SQLERRM);
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.drain_replica(name) IS
	'Moves a node''s placement of one group of shards with replicas to the node with the fewest placements. Leaves out groups whose tables the caller does not own, groups without a node that they are not on, and, with a WARNING, groups for which move_replica() raises an error about the table. Returns whether a group was moved, and the first shard left out with its error. Raises the other errors of move_replica().';

CREATE FUNCTION shardfdw_internal.start_series(function_name text, relation oid, node oid, plan text, online boolean) RETURNS bigint
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shardfdw_start_series';
COMMENT ON FUNCTION shardfdw_internal.start_series(text, oid, oid, text, boolean) IS
	'Starts the process that runs series_step() until nothing is left to do. relation, node: shown in the view jobs; 0 for none. Returns the number of the job. Raises insufficient_privilege if the caller may not call the function, active_sql_transaction, and insufficient_resources.';

CREATE FUNCTION shardfdw_internal.check_series(function_name text, mode text, verify boolean, wait boolean) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardfdw_internal.check_isolation(function_name);
	IF verify IS NULL OR wait IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'verify and wait must not be null';
	END IF;
	IF mode IS NULL OR mode NOT IN ('online', 'block') THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('invalid mode "%s"', mode), HINT = 'Valid modes are "online" and "block".';
	END IF;
	IF NOT wait THEN
		RETURN;
	END IF;
	PERFORM shardfdw_internal.check_wait(function_name, NULL, 'block');
	-- The jobs of the series may wait for locks of this transaction, while this transaction waits for them.
	IF pg_current_xact_id_if_assigned() IS NOT NULL OR EXISTS (SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
			WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
				AND c.relnamespace NOT IN ('pg_catalog'::regnamespace, 'shardfdw'::regnamespace, 'shardfdw_internal'::regnamespace)) THEN
		RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction', MESSAGE = format('%s() cannot wait in a transaction that has used tables', function_name),
			DETAIL = 'A job might wait for what this transaction has locked or written, and this transaction for the job.',
			HINT = 'Commit first.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_series(text, text, boolean, boolean) IS
	'Checks the arguments of a function that starts a series of jobs, and that these jobs would not wait for the current transaction. Call it before any table is locked. Returns nothing. Raises null_value_not_allowed, invalid_parameter_value and active_sql_transaction.';

CREATE FUNCTION shardfdw_internal.run_series(function_name text, relation oid, node oid, plan jsonb, wait boolean) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	id CONSTANT bigint := shardfdw_internal.start_series(function_name, relation, node, plan::text, plan->>'mode' = 'online');
BEGIN
	IF wait THEN
		PERFORM shardfdw_internal.await_job(id);
	END IF;
	RETURN id;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.run_series(text, oid, oid, jsonb, boolean) IS
	'Starts a series of jobs after its checks, and optionally waits for it. plan: input of series_step(). Returns the number of the job. Raises the error that ended the job.';

CREATE FUNCTION shardfdw_internal.series_step(plan jsonb, number integer, OUT has_step boolean, OUT reason text) RETURNS record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	mode CONSTANT text := plan->>'mode';
	verify CONSTANT boolean := (plan->>'verify')::boolean;
	-- a drained node gets no new shards from the first step on
	move CONSTANT jsonb := plan->'moves'->(number - (plan ? 'drain')::integer);
	step record;
BEGIN
	has_step := true;
	IF plan ? 'drain' AND number = 0 THEN
		PERFORM shardfdw_internal.set_node_option((plan->>'drain')::name, 'accepts_shards', 'false');
		RETURN;
	END IF;
	IF plan ? 'shards' THEN
		SELECT s.action, s.members, s.pieces, s.target INTO step FROM shardfdw_internal.sharding_step((plan->>'relation')::oid::regclass, (plan->>'shards')::integer) s;
		IF step.action IS NOT NULL THEN
			PERFORM shardfdw_internal.run_sharding_step(step.action, step.members, step.pieces, step.target, mode, verify);
		END IF;
		has_step := step.action IS NOT NULL;
	ELSIF move IS NOT NULL THEN
		reason := shardfdw_internal.move_step((move->>'shard')::oid::regclass, (move->>'source')::name, (move->>'target')::name, mode, verify);
	ELSIF plan ? 'drain' AND mode = 'block' THEN
		SELECT r.has_moved, r.reason INTO has_step, reason FROM shardfdw_internal.drain_replica((plan->>'drain')::name) r;
	ELSE
		has_step := false;
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.series_step(jsonb, integer) IS
	'Runs one step of a job of rebalance(), drain_node() or set_shard_count(). number: of the step, from 0. Returns whether there was a step to run, and a shard that it has not moved, with the error. Raises the errors of the jobs that it starts.';

CREATE FUNCTION shardfdw_internal.plan_moves(strategy text, threshold double precision, drain name, mode text, verify boolean) RETURNS jsonb
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_build_object('mode', mode, 'verify', verify,
		'moves', coalesce(jsonb_agg(jsonb_build_object('shard', p.shard::oid, 'source', p.source, 'target', p.target) ORDER BY p.step), '[]'))
	FROM shardfdw.rebalance_plan(strategy, threshold, drain) p WHERE p.source = drain OR drain IS NULL
$$;
COMMENT ON FUNCTION shardfdw_internal.plan_moves(text, double precision, name, text, boolean) IS
	'Writes the plan of rebalance_plan() in the format of series_step(). drain: only the moves away from that node; null for all. Returns the plan. Raises the errors of rebalance_plan().';

CREATE FUNCTION shardfdw.rebalance(strategy text DEFAULT 'bytes', threshold double precision DEFAULT 0.1, mode text DEFAULT 'online', verify boolean DEFAULT true, wait boolean DEFAULT true) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
	plan jsonb;
	id bigint;
BEGIN
	PERFORM shardfdw_internal.check_series('rebalance', mode, verify, wait);
	plan := shardfdw_internal.plan_moves(strategy, threshold, NULL, mode, verify);
	id := shardfdw_internal.run_series('rebalance', 0, 0, plan, wait);
	IF wait THEN
		PERFORM shardfdw_internal.warn_unmoved(plan, id);
	END IF;
	RETURN id;
END
$$;
COMMENT ON FUNCTION shardfdw.rebalance(text, double precision, text, boolean, boolean) IS
	'Makes the moves of rebalance_plan() one after the other, each committed separately. mode, verify: as for move_shard(). wait: true returns when all moves are done, false returns immediately. Background processes do the work; a rollback of this transaction does not undo it. After an interruption, moved shards stay where they are, and the next call continues. Reports a WARNING for a shard that cannot be moved because of an error about its table. Returns the number of the job, which stops at the first other error. Raises an error before anything changes if the arguments are wrong.';
REVOKE ALL ON FUNCTION shardfdw.rebalance(text, double precision, text, boolean, boolean) FROM PUBLIC;

CREATE FUNCTION shardfdw.drain_node(node name, undo boolean DEFAULT false, mode text DEFAULT 'online', verify boolean DEFAULT true, wait boolean DEFAULT true) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
	plan jsonb;
	id bigint;
BEGIN
	IF undo IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'undo must not be null';
	END IF;
	PERFORM shardfdw_internal.check_series('drain_node', mode, verify, wait AND NOT undo);
	IF undo THEN
		PERFORM shardfdw_internal.usable_nodes(ARRAY[node]);
		PERFORM shardfdw.cancel_job(j.id) FROM shardfdw.jobs j WHERE j.kind = 'drain_node' AND j.state = 'running' AND j.source = node;
		PERFORM shardfdw_internal.set_node_option(node, 'accepts_shards', 'true');
		RETURN NULL;
	END IF;
	plan := shardfdw_internal.plan_moves('bytes', 1, node, mode, verify) || jsonb_build_object('drain', node);
	id := shardfdw_internal.run_series('drain_node', 0, (SELECT s.oid FROM pg_foreign_server s WHERE s.srvname = node), plan, wait);
	IF wait THEN
		PERFORM shardfdw_internal.warn_unmoved(plan, id);
		PERFORM shardfdw_internal.check_drained(node);
	END IF;
	RETURN id;
END
$$;
COMMENT ON FUNCTION shardfdw.drain_node(name, boolean, text, boolean, boolean) IS
	'Sets the server option accepts_shards of a node to false, and moves its shards to the nodes that have most room. Each group of shards is committed separately. Mode block also moves the node''s placements of shards with replicas, as move_replica() does. Afterwards remove_node() can remove the node. undo: cancels a job that drains the node, and sets accepts_shards to true; moved shards stay where they are. mode, verify: as for move_shard(). wait: true returns when all is done, false returns immediately. Background processes do the work; a rollback of this transaction does not undo it. Reports a WARNING for shards that remain because they are pinned, the caller does not own them, or an error about their table prevents the move. Returns the number of the job, which stops at the first other error; null for undo. Raises an error before anything changes if the node cannot be drained.';
REVOKE ALL ON FUNCTION shardfdw.drain_node(name, boolean, text, boolean, boolean) FROM PUBLIC;
