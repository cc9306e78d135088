-- Changes of definitions that reach the nodes.

CREATE FUNCTION shardfdw_internal.shard_object_name(object name, shard name, siblings name[] DEFAULT '{}') RETURNS name
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'shardfdw_shard_object_name';
COMMENT ON FUNCTION shardfdw_internal.shard_object_name(name, name, name[]) IS
	'Returns the name of an index, a key or extended statistics on a shard: the name of the parent''s object and the number of the shard. If the shard has no number or shares it with a sibling, its whole name is used. A long name is truncated and gets a part of its hash. The name has at most 63 bytes.';

CREATE FUNCTION shardfdw_internal.change_nodes() RETURNS event_trigger
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_change_nodes';
COMMENT ON FUNCTION shardfdw_internal.change_nodes() IS
	'Makes a change of definitions on the nodes. Does nothing for statements that affect only the coordinator. Raises errors of nodes.';

-- event triggers run in the order of their names
CREATE EVENT TRIGGER "00_shardfdw_change_nodes" ON ddl_command_end EXECUTE FUNCTION shardfdw_internal.change_nodes();
ALTER EVENT TRIGGER "00_shardfdw_change_nodes" ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER "00_shardfdw_change_nodes" IS
	'Makes changes of definitions on nodes before event triggers of users run.';
CREATE EVENT TRIGGER "00_shardfdw_drop_on_nodes" ON sql_drop EXECUTE FUNCTION shardfdw_internal.change_nodes();
ALTER EVENT TRIGGER "00_shardfdw_drop_on_nodes" ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER "00_shardfdw_drop_on_nodes" IS
	'Drops objects on nodes before event triggers of users run.';

CREATE FUNCTION shardfdw_internal.check_loaded() RETURNS event_trigger
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_check_loaded';
COMMENT ON FUNCTION shardfdw_internal.check_loaded() IS
	'Loads the library into a session that has not loaded it yet. Does nothing if it was loaded before the statement began. Raises object_not_in_prerequisite_state for a change of definitions that would not reach the nodes.';

CREATE EVENT TRIGGER "00_shardfdw_check_loaded" ON ddl_command_start EXECUTE FUNCTION shardfdw_internal.check_loaded();
ALTER EVENT TRIGGER "00_shardfdw_check_loaded" ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER "00_shardfdw_check_loaded" IS
	'Rejects changes of definitions by sessions that have not loaded the library.';
