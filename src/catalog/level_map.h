/*
 * level_map.h
 *	  Building the map of a table of two levels.
 */
#ifndef SHARDFDW_LEVEL_MAP_H
#define SHARDFDW_LEVEL_MAP_H

#include "postgres.h"

#include "catalog/map_build.h"

/* What the cache of maps is asked for. */
typedef struct ShardLevelMapCache
{
	const ShardMap *(*get) (Oid relid); /* shard_map_get() */
	bool		(*is_kept) (Oid relid); /* will that map stay in the cache until what it was built from changes? */
} ShardLevelMapCache;

/*
 * The map of a partitioned table as shard_map_get_levels() describes it.  What its shards point to belongs to
 * the partitions' maps, which live as long: what makes one of them invalid makes this one invalid, too.
 * NULL, or a result that is not sharded, when the table is none of two levels; *keep is false when that
 * must be asked anew.
 */
extern ShardCachedMap *shard_level_map_build(Oid relid, bool wait, const ShardLevelMapCache *cache, bool *keep);

#endif
