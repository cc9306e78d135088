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
 * Returns the map of a partitioned table, as described at shard_map_get_levels().  What its shards
 * point to belongs to the partitions' maps, which exist as long: an event that invalidates one of
 * them invalidates this map, too.  If the table is not one with two levels, returns NULL or a
 * result that is not sharded. *keep is false if that must be determined again.
 */
extern ShardCachedMap *shard_level_map_build(Oid relid, bool wait, const ShardLevelMapCache *cache, bool *keep);

#endif
