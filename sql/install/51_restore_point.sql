-- Restore points over all servers: one moment to which they can all be restored.

-- Not dumped: a restored dump has another WAL.
CREATE TABLE shardfdw_internal.restore_point (
	name text PRIMARY KEY,
	made_at timestamptz NOT NULL,
	role name NOT NULL,
	commit_pause interval,
	nodes name[],
	timelines integer[],
	lsns pg_lsn[]
);
REVOKE ALL ON shardfdw_internal.restore_point FROM PUBLIC;
COMMENT ON TABLE shardfdw_internal.restore_point IS 'Restore points that were asked for. Read the view shardfdw.restore_points instead.';
COMMENT ON COLUMN shardfdw_internal.restore_point.name IS 'Its name in the WAL of all servers, and for recovery_target_name.';
COMMENT ON COLUMN shardfdw_internal.restore_point.made_at IS 'When it was set, or asked for if it was not.';
COMMENT ON COLUMN shardfdw_internal.restore_point.role IS 'Role that has asked for it.';
COMMENT ON COLUMN shardfdw_internal.restore_point.commit_pause IS 'How long commits had to wait while it was set; null: it was not.';
COMMENT ON COLUMN shardfdw_internal.restore_point.nodes IS 'Nodes that have it, null standing for the coordinator; null: it was not made, or this server was restored to a moment before it was.';
COMMENT ON COLUMN shardfdw_internal.restore_point.timelines IS 'Their timelines.';
COMMENT ON COLUMN shardfdw_internal.restore_point.lsns IS 'Where its record ends in their WAL.';

CREATE FUNCTION shardfdw_internal.take_restore_point_name(name text) RETURNS boolean
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_take_restore_point_name';
COMMENT ON FUNCTION shardfdw_internal.take_restore_point_name(text) IS
	'Notes that a restore point is about to be set. Returns false when its name was used before; raises insufficient_privilege without EXECUTE on create_restore_point().';

CREATE FUNCTION shardfdw_internal.set_restore_point(name text, nodes oid[]) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_set_restore_point';
COMMENT ON FUNCTION shardfdw_internal.set_restore_point(text, oid[]) IS
	'Sets a restore point, whose name has been taken, on the coordinator and on nodes at one moment, and notes where it is. Returns nothing; raises lock_not_available when no such moment is found in time, insufficient_privilege without EXECUTE on create_restore_point(), and the nodes'' errors: then some servers may have it all the same.';

CREATE FUNCTION shardfdw_internal.begin_restore_point(name text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	-- of pg_create_restore_point()
	max_bytes CONSTANT integer := 63;
	-- a database without nodes is as good as any server
	nodes CONSTANT name[] := shardfdw_internal.trusted_nodes();
	other name;
	a record;
BEGIN
	IF name IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'name must not be null';
	END IF;
	-- the name stands in a line of a file of the server that is restored
	IF octet_length(name) NOT BETWEEN 1 AND max_bytes OR name ~ '[[:cntrl:]]' THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('name of a restore point must have 1 to %s bytes, and no control characters', max_bytes);
	END IF;
	IF pg_is_in_recovery() THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'recovery is in progress',
			HINT = 'Restore points are made by the coordinator, not by its standby.';
	END IF;
	IF current_setting('wal_level') = 'minimal' THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'wal_level is "minimal" on the coordinator',
			HINT = 'Set wal_level to replica or logical, and restart the server.';
	END IF;
	FOR a IN SELECT q.node, (q.fields)[1]::jsonb AS says FROM shardfdw.query_nodes(nodes, array_fill($query$SELECT jsonb_build_object(
		'may', has_function_privilege('pg_create_restore_point(text)', 'EXECUTE'), 'role', current_user,
		'is_standby', pg_is_in_recovery(), 'wal_level', current_setting('wal_level'))$query$::text, ARRAY[cardinality(nodes)]), 'autocommit') q
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
	FOR other IN SELECT DISTINCT s.node FROM shardfdw.shards s WHERE s.node <> ALL (nodes) ORDER BY 1
	LOOP
		RAISE WARNING USING MESSAGE = format('node "%s" gets no restore point', other),
			DETAIL = 'It has shards, but its server belongs to a role that may not add nodes, or may not be used by the current one.';
	END LOOP;
	IF NOT shardfdw_internal.take_restore_point_name(name) THEN
		RAISE EXCEPTION USING ERRCODE = 'duplicate_object', MESSAGE = format('restore point "%s" exists already', name),
			DETAIL = 'A server is restored to the first one that its WAL has of a name; those of one that has failed may be there, too.', HINT = 'Choose another name.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.begin_restore_point(text) IS
	'Checks that a restore point can be made on all nodes of the cluster, and takes its name, which nobody can use again. Returns nothing; raises null_value_not_allowed, invalid_parameter_value, object_not_in_prerequisite_state, insufficient_privilege or duplicate_object.';

CREATE FUNCTION shardfdw_internal.make_restore_point(name text) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT shardfdw_internal.set_restore_point(name, ARRAY(SELECT s.oid FROM unnest(shardfdw_internal.trusted_nodes()) n JOIN pg_foreign_server s ON s.srvname = n))
$$;
COMMENT ON FUNCTION shardfdw_internal.make_restore_point(text) IS
	'Sets a restore point, whose name has been taken, on the coordinator and on all nodes of the cluster. Returns nothing; raises the errors of set_restore_point().';

-- It commits, so it cannot have settings of its own: all names in it are qualified.
CREATE PROCEDURE shardfdw.create_restore_point(name text)
	LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
BEGIN
	PERFORM shardfdw_internal.begin_restore_point(name);
	-- so that the name is used up, whatever happens, and a coordinator that is restored to the point knows it
	COMMIT;
	PERFORM shardfdw_internal.make_restore_point(name);
END
$$;
COMMENT ON PROCEDURE shardfdw.create_restore_point(text) IS
	'Sets a restore point of a name on the coordinator and on all nodes of the cluster at one moment: servers that are all restored to it (recovery_target_name) agree about every transaction. The view restore_points says where it is. Commits of others wait meanwhile, as for a snapshot over all nodes. A name can be used once. Raises null_value_not_allowed, invalid_parameter_value, object_not_in_prerequisite_state, insufficient_privilege, duplicate_object, lock_not_available when no such moment is found in five seconds, and the nodes'' errors.';
REVOKE ALL ON PROCEDURE shardfdw.create_restore_point(text) FROM PUBLIC;

CREATE VIEW shardfdw.restore_points AS
	SELECT p.name, p.made_at, p.commit_pause, x.node, x.timeline, x.lsn
	FROM shardfdw_internal.restore_point p
	LEFT JOIN LATERAL ROWS FROM (pg_catalog.unnest(p.nodes), pg_catalog.unnest(p.timelines), pg_catalog.unnest(p.lsns)) x(node, timeline, lsn) ON true;
COMMENT ON VIEW shardfdw.restore_points IS
	'Lists the restore points of create_restore_point(): a row for the coordinator (node is null), and one for each node. Of one that has failed, or to which this coordinator was restored, there is one row without timeline and lsn.';
COMMENT ON COLUMN shardfdw.restore_points.name IS 'Its name, for recovery_target_name.';
COMMENT ON COLUMN shardfdw.restore_points.made_at IS 'When it was set, or asked for if it was not.';
COMMENT ON COLUMN shardfdw.restore_points.commit_pause IS 'How long commits had to wait while it was set; null: it was not.';
COMMENT ON COLUMN shardfdw.restore_points.node IS 'Node that has it; null: the coordinator.';
COMMENT ON COLUMN shardfdw.restore_points.timeline IS 'Timeline of that server.';
COMMENT ON COLUMN shardfdw.restore_points.lsn IS 'Where its record ends in the WAL of that server.';
GRANT SELECT ON shardfdw.restore_points TO PUBLIC;

CREATE FUNCTION shardfdw_internal.check_restored(restore_point text)
	RETURNS TABLE (node name, restored boolean, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	-- recovery writes there why it has ended, as its last line
	question CONSTANT text := $query$SELECT CASE WHEN NOT pg_is_in_recovery() THEN (regexp_match(
		pg_read_file(format('pg_wal/%s.history', substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)), 0, 1000000, true),
		'([^\t\n]*)\n*$'))[1] END$query$;
	nodes CONSTANT name[] := shardfdw_internal.trusted_nodes();
	wanted CONSTANT text := format('at restore point "%s"', restore_point);
	here text;
BEGIN
	EXECUTE question INTO here;
	RETURN QUERY
	SELECT x.node, x.says IS NOT DISTINCT FROM wanted,
		CASE WHEN x.says IS NULL THEN 'It has not been restored, or recovery goes on.' ELSE format('Its recovery has ended %s.', x.says) END
	FROM (SELECT NULL::name AS node, here AS says
		UNION ALL SELECT q.node, (q.fields)[1] FROM shardfdw.query_nodes(nodes, array_fill(question, ARRAY[cardinality(nodes)]), 'autocommit') q WHERE nodes <> '{}') x
	ORDER BY x.node::text COLLATE "C" NULLS FIRST;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_restored(text) IS
	'Looks at how the recovery of the coordinator (node is null) and of all nodes of the cluster has ended. Returns whether that was at a restore point, and where it was; raises the nodes'' errors.';

CREATE FUNCTION shardfdw_internal.require_restored(restore_point text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT c.node, c.detail FROM shardfdw_internal.check_restored(restore_point) c WHERE NOT c.restored
	LOOP
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('%s has not been restored to restore point "%s"', CASE WHEN r.node IS NULL THEN 'the coordinator' ELSE format('node "%s"', r.node) END, restore_point),
			DETAIL = r.detail, HINT = 'Restore all servers to it (recovery_target_name), and have the coordinator''s servers lead to the restored nodes (ALTER SERVER).';
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.require_restored(text) IS
	'Checks that all servers have been restored to a restore point. Returns nothing; raises object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.forget_timelines() RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE shardfdw_internal.commit_log SET timelines = NULL WHERE settled_at IS NULL
$$;
COMMENT ON FUNCTION shardfdw_internal.forget_timelines() IS
	'Has recovery take commits of which nodes have nothing prepared any more for done, whatever timeline they are on. Returns nothing.';
REVOKE ALL ON FUNCTION shardfdw_internal.forget_timelines() FROM PUBLIC;
