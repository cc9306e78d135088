/*
 * collation.h
 *	  Do nodes compare and sort text in the default collation in the same way as the coordinator?
 */
#ifndef SHARDFDW_COLLATION_H
#define SHARDFDW_COLLATION_H

#include "postgres.h"

#include "catalog/shard_map.h"

/*
 * Is the default collation of every node of the map known to be the coordinator's, in the same
 * version?
 */
extern bool shard_collation_same_default(const ShardMap *map);

/* Is any node of the cluster known to have another default collation than the coordinator, or another version? */
extern bool shard_collation_differs(void);

/* Servers have changed. */
extern void shard_collation_invalidate(void);

#endif
