/*
 * map_build.h
 *	  Builds the map of a table with one level; the form in which maps are cached.
 */
#ifndef SHARDFDW_MAP_BUILD_H
#define SHARDFDW_MAP_BUILD_H

#include "postgres.h"

#include "catalog/shard_map.h"

/* A relation that a map was built from. */
typedef struct ShardMapSource
{
	Oid			relid;
	int			shardno;		/* -1: a partition of a table with two levels */
} ShardMapSource;

typedef struct ShardCachedMap
{
	ShardMap	map;			/* must be first, since callers get a pointer to it */
	MemoryContext cxt;			/* contains this struct and everything it points to */
	bool		sharded;		/* false: the table is not sharded, and map is not filled */
	int			nsources;
	ShardMapSource *sources;	/* ordered by relid */
	struct ShardCachedMap *next;	/* in the list of retired maps */
} ShardCachedMap;

/*
 * Builds the map of a partitioned or foreign table.  NULL if it does not belong to this extension.
 * *keep is false for a state that only the current snapshot sees (a partition that is being
 * detached concurrently).
 */
extern ShardCachedMap *shard_map_build(Oid relid, char relkind, bool *keep);

/* Returns the nodeno of a server, after adding it to the map if it is new. map->nodes must have room for it. */
extern int	shard_map_build_node(ShardMap *map, Oid serverid);

/* Sets nhosted of all nodes. */
extern void shard_map_build_hosts(ShardMap *map);

/* shard_map_build_sort() sorts the sources.  shard_map_build_source() finds a table among them, or returns NULL. */
extern void shard_map_build_sort(ShardCachedMap *cached);
extern const ShardMapSource *shard_map_build_source(const ShardCachedMap *cached, Oid relid);

#endif
