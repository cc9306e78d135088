-- Restore points over all servers: one moment to which all of them can be restored.

-- Not dumped: a restored dump has another WAL.
CREATE TABLE shardfdw_internal.restore_point (
	target text PRIMARY KEY,
	name text NOT NULL,
	made_at timestamptz NOT NULL,
	role name NOT NULL,
	commit_pause interval NOT NULL,
	nodes name[] NOT NULL,
	timelines integer[] NOT NULL,
	lsns pg_lsn[] NOT NULL
);
REVOKE ALL ON shardfdw_internal.restore_point FROM PUBLIC;
COMMENT ON TABLE shardfdw_internal.restore_point IS 'Restore points that were set. Read the view shardfdw.restore_points instead.';
COMMENT ON COLUMN shardfdw_internal.restore_point.target IS 'Its name in the WAL of all servers, for recovery_target_name.';
COMMENT ON COLUMN shardfdw_internal.restore_point.name IS 'The name that was asked for.';
COMMENT ON COLUMN shardfdw_internal.restore_point.made_at IS 'When it was set.';
COMMENT ON COLUMN shardfdw_internal.restore_point.role IS 'Role that has asked for it.';
COMMENT ON COLUMN shardfdw_internal.restore_point.commit_pause IS 'How long commits waited while the restore point was created.';
COMMENT ON COLUMN shardfdw_internal.restore_point.nodes IS 'Nodes that have it, null standing for the coordinator.';
COMMENT ON COLUMN shardfdw_internal.restore_point.timelines IS 'Their timelines.';
COMMENT ON COLUMN shardfdw_internal.restore_point.lsns IS 'Where its record ends in their WAL.';

CREATE FUNCTION shardfdw_internal.set_restore_point(name text, nodes oid[]) RETURNS text
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_set_restore_point';
COMMENT ON FUNCTION shardfdw_internal.set_restore_point(text, oid[]) IS
	'Creates a restore point on the coordinator and on nodes at one moment, and records its position. Returns its target. Raises invalid_parameter_value for a bad name, lock_not_available if no such moment is found in time, insufficient_privilege without EXECUTE on create_restore_point(), and errors of the nodes.';

CREATE FUNCTION shardfdw_internal.check_restore_point_nodes(nodes name[]) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	a record;
BEGIN
	FOR a IN SELECT n.node FROM shardfdw.nodes n WHERE n.node <> ALL (nodes) ORDER BY n.node::text COLLATE "C"
	LOOP
		RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('permission denied for foreign server %s', a.node),
			DETAIL = 'A restore point is set on all nodes of the cluster.';
	END LOOP;
	FOR a IN SELECT q.node, (q.fields)[1]::jsonb AS says FROM shardfdw_internal.run_commands(nodes || shardfdw_internal.peers(), array_fill($query$SELECT jsonb_build_object(
		'may', has_function_privilege('pg_create_restore_point(text)', 'EXECUTE'), 'role', current_user,
		'is_standby', pg_is_in_recovery(), 'wal_level', current_setting('wal_level'))$query$::text, ARRAY[cardinality(nodes || shardfdw_internal.peers())]), 'autocommit') q
	LOOP
		IF (a.says->>'is_standby')::boolean THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('node "%s" is a standby', a.node);
		ELSIF a.says->>'wal_level' = 'minimal' THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('wal_level is "minimal" on node "%s"', a.node),
				HINT = 'Set wal_level to replica or logical there, and restart it.';
		ELSIF NOT (a.says->>'may')::boolean THEN
			RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format('role "%s" may not create restore points on node "%s"', a.says->>'role', a.node),
				HINT = format('GRANT EXECUTE ON FUNCTION pg_create_restore_point(text) TO %I there.', a.says->>'role');
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_restore_point_nodes(name[]) IS
	'Checks that the given nodes are all nodes, and that the caller may create restore points there. Returns nothing. Raises object_not_in_prerequisite_state or insufficient_privilege.';

CREATE FUNCTION shardfdw.create_restore_point(name text) RETURNS text
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	-- without nodes, any server is sufficient
	nodes CONSTANT name[] := shardfdw_internal.granted_nodes();
BEGIN
	IF name IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'name must not be null';
	END IF;
	IF pg_is_in_recovery() THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'recovery is in progress',
			HINT = 'Restore points are made by the coordinator, not by its standby.';
	END IF;
	IF current_setting('wal_level') = 'minimal' THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'wal_level is "minimal" on the coordinator',
			HINT = 'Set wal_level to replica or logical, and restart the server.';
	END IF;
	PERFORM shardfdw_internal.check_restore_point_nodes(nodes);
	RETURN shardfdw_internal.set_restore_point(name, ARRAY(SELECT s.oid FROM unnest(nodes) n JOIN pg_foreign_server s ON s.srvname = n));
END
$$;
COMMENT ON FUNCTION shardfdw.create_restore_point(text) IS
	'Creates a restore point on the coordinator and on all nodes of the cluster at one moment. If all servers are restored to it, they agree about every transaction. Commits of other sessions wait while it is created, as for a snapshot over all nodes. Returns the target: the name followed by a random number, for recovery_target_name and promote_coordinator(). The view restore_points shows the position on each server. Raises null_value_not_allowed, invalid_parameter_value, object_not_in_prerequisite_state, insufficient_privilege, lock_not_available if commits cannot be stopped within five seconds, and errors of nodes.';
REVOKE ALL ON FUNCTION shardfdw.create_restore_point(text) FROM PUBLIC;

CREATE VIEW shardfdw.restore_points AS
	SELECT p.name, p.target, p.made_at, p.commit_pause, x.node, x.timeline, x.lsn
	FROM shardfdw_internal.restore_point p
	CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(p.nodes), pg_catalog.unnest(p.timelines), pg_catalog.unnest(p.lsns)) x(node, timeline, lsn);
COMMENT ON VIEW shardfdw.restore_points IS
	'Lists the restore points of create_restore_point(): one row for the coordinator and one row for each node.';
COMMENT ON COLUMN shardfdw.restore_points.name IS 'Name that was given to create_restore_point().';
COMMENT ON COLUMN shardfdw.restore_points.target IS 'Name of the restore point in the WAL, for recovery_target_name and promote_coordinator().';
COMMENT ON COLUMN shardfdw.restore_points.made_at IS 'Time when the restore point was created.';
COMMENT ON COLUMN shardfdw.restore_points.commit_pause IS 'How long commits waited while the restore point was created.';
COMMENT ON COLUMN shardfdw.restore_points.node IS 'Node of this row. Null for the coordinator.';
COMMENT ON COLUMN shardfdw.restore_points.timeline IS 'Timeline of that server.';
COMMENT ON COLUMN shardfdw.restore_points.lsn IS 'End of the restore point''s record in the WAL of that server.';
GRANT SELECT ON shardfdw.restore_points TO PUBLIC;

CREATE FUNCTION shardfdw_internal.check_restored(target text)
	RETURNS TABLE (node name, restored boolean, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	-- recovery writes its end reason as the last line of the history file
	question CONSTANT text := $query$SELECT CASE WHEN NOT pg_is_in_recovery() THEN (regexp_match(
		pg_read_file(format('pg_wal/%s.history', substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)), 0, 1000000, true),
		'([^\t\n]*)\n*$'))[1] END$query$;
	nodes CONSTANT name[] := shardfdw_internal.granted_nodes() || shardfdw_internal.peers();
	wanted CONSTANT text := format('at restore point "%s"', target);
	here text;
BEGIN
	EXECUTE question INTO here;
	RETURN QUERY
	SELECT x.node, x.says IS NOT DISTINCT FROM wanted,
		CASE WHEN x.message IS NOT NULL THEN x.message WHEN x.says IS NULL THEN 'It has not been restored, or recovery goes on.' ELSE format('Its recovery has ended %s.', x.says) END
	FROM (SELECT NULL::name AS node, here AS says, NULL AS message
		UNION ALL SELECT q.node, (q.fields)[1], CASE WHEN NOT q.ok THEN q.message END
		FROM shardfdw_internal.run_commands(nodes, array_fill(question, ARRAY[cardinality(nodes)]), 'autocommit', false) q WHERE nodes <> '{}') x
	ORDER BY x.node::text COLLATE "C" NULLS FIRST;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_restored(text) IS
	'Looks at how the recovery of the coordinator (node is null), of all nodes of the cluster and of the other coordinators has ended. Returns whether that was at a restore point, and where it was, or why a server cannot be asked.';

CREATE FUNCTION shardfdw_internal.require_restored(restore_point text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT c.node, c.detail FROM shardfdw_internal.check_restored(restore_point) c WHERE NOT c.restored
	LOOP
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('%s has not been restored to restore point "%s"', CASE WHEN r.node IS NULL THEN 'the coordinator' ELSE format('%s "%s"', CASE WHEN r.node = ANY (shardfdw_internal.peers()) THEN 'coordinator' ELSE 'node' END, r.node) END, restore_point),
			DETAIL = r.detail, HINT = 'Restore all servers to it (recovery_target_name), and have the coordinator''s servers lead to the restored ones (ALTER SERVER).';
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.require_restored(text) IS
	'Checks that all servers have been restored to a restore point. Returns nothing; raises object_not_in_prerequisite_state.';
