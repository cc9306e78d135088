/*
 * map_build.h
 *	  Building the map of a table of one level; the form in which maps are cached.
 */
#ifndef SHARDFDW_MAP_BUILD_H
#define SHARDFDW_MAP_BUILD_H

#include "postgres.h"

#include "catalog/shard_map.h"

/* What a map was built from, by relid. */
typedef struct ShardMapSource
{
	Oid			relid;
	int			shardno;		/* -1: a partition of a table of two levels */
} ShardMapSource;

typedef struct ShardCachedMap
{
	ShardMap	map;			/* first: callers get a pointer to it */
	MemoryContext cxt;			/* holds this struct and all it points to */
	bool		sharded;		/* false: map is not filled; what made the table none is remembered */
	int			nsources;
	ShardMapSource *sources;	/* ordered by relid */
	struct ShardCachedMap *next;	/* in the list of retired maps */
} ShardCachedMap;

/*
 * Builds the map of a partitioned or foreign table; NULL when it is not ours.
 * *keep is false for a state that only the current snapshot sees (a partition
 * that is being detached concurrently).
 */
extern ShardCachedMap *shard_map_build(Oid relid, char relkind, bool *keep);

/* nodeno of a server, added to the map when it is new there; map->nodes has room for it. */
extern int	shard_map_build_node(ShardMap *map, Oid serverid);

/* Sets hostno and nhosted of all nodes. */
extern void shard_map_build_hosts(ShardMap *map);

/* Orders the sources, and finds a table among them; NULL when it is none. */
extern void shard_map_build_sort(ShardCachedMap *cached);
extern const ShardMapSource *shard_map_build_source(const ShardCachedMap *cached, Oid relid);

#endif
