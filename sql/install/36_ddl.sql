-- Changes of definitions that reach the nodes.

CREATE FUNCTION shardfdw.shard_object_name(object name, shard name, siblings name[] DEFAULT '{}') RETURNS name
	LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'shardfdw_shard_object_name';
COMMENT ON FUNCTION shardfdw.shard_object_name(name, name, name[]) IS
	'Names an index, a key or extended statistics on a shard: the name of the parent''s object and the number of the shard, or the shard''s whole name where it has none or shares it with a sibling. A long name is cut to fit, and gets a part of its hash. Returns at most 63 bytes.';
