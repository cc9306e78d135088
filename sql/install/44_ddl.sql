-- Changes of definitions that reach the nodes.

CREATE FUNCTION shardfdw_internal.shard_object_name(object name, shard name, siblings name[] DEFAULT '{}') RETURNS name
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'shardfdw_shard_object_name';
COMMENT ON FUNCTION shardfdw_internal.shard_object_name(name, name, name[]) IS
	'Names an index, a key or extended statistics on a shard: the name of the parent''s object and the number of the shard, or the shard''s whole name where it has none or shares it with a sibling. A long name is cut to fit, and gets a part of its hash. Returns at most 63 bytes.';

CREATE FUNCTION shardfdw_internal.change_nodes() RETURNS event_trigger
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_change_nodes';
COMMENT ON FUNCTION shardfdw_internal.change_nodes() IS
	'Makes the nodes'' part of a change of definitions. Does nothing for statements that are the coordinator''s alone; raises the node''s error.';

-- event triggers run in the order of their names
CREATE EVENT TRIGGER "00_shardfdw_change_nodes" ON ddl_command_end EXECUTE FUNCTION shardfdw_internal.change_nodes();
ALTER EVENT TRIGGER "00_shardfdw_change_nodes" ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER "00_shardfdw_change_nodes" IS
	'Has nodes changed before event triggers of users run.';
CREATE EVENT TRIGGER "00_shardfdw_drop_on_nodes" ON sql_drop EXECUTE FUNCTION shardfdw_internal.change_nodes();
ALTER EVENT TRIGGER "00_shardfdw_drop_on_nodes" ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER "00_shardfdw_drop_on_nodes" IS
	'Has what is dropped here dropped on nodes before event triggers of users run.';

CREATE FUNCTION shardfdw_internal.check_loaded() RETURNS event_trigger
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_check_loaded';
COMMENT ON FUNCTION shardfdw_internal.check_loaded() IS
	'Loads the library into a session that has not yet done so. Does nothing where it was loaded before the statement began; raises object_not_in_prerequisite_state for a change of definitions that would pass the nodes by.';

CREATE EVENT TRIGGER "00_shardfdw_check_loaded" ON ddl_command_start EXECUTE FUNCTION shardfdw_internal.check_loaded();
ALTER EVENT TRIGGER "00_shardfdw_check_loaded" ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER "00_shardfdw_check_loaded" IS
	'Refuses changes of definitions by sessions that have not loaded the library.';
