/*
 * level_map.h
 *	  Builds the map of a table with two levels.
 */
#ifndef SHARDFDW_LEVEL_MAP_H
#define SHARDFDW_LEVEL_MAP_H

#include "postgres.h"

#include "catalog/map_build.h"

/* Functions of the cache of maps. */
typedef struct ShardLevelMapCache
{
	const ShardMap *(*get) (Oid relid); /* shard_map_get() */
	bool		(*is_kept) (Oid relid); /* will that map stay in the cache until the catalogs that it was built from change? */
} ShardLevelMapCache;

/*
 * Returns the map of a partitioned table, as described at shard_map_get_levels().  The strings of its shards belong to
 * the maps of the partitions.  They exist as long as this map, because an event that invalidates a partition's map
 * invalidates this map, too.  Returns NULL, or a result that is not sharded, for a table that does not have two levels.
 * *keep is false if the caller must not cache that result.
 */
extern ShardCachedMap *shard_level_map_build(Oid relid, bool wait, const ShardLevelMapCache *cache, bool *keep);

#endif
