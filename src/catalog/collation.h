/*
 * collation.h
 *	  Whether nodes sort text in the default collation as the coordinator does.
 */
#ifndef SHARDFDW_COLLATION_H
#define SHARDFDW_COLLATION_H

#include "postgres.h"

#include "catalog/shard_map.h"

/*
 * Is the default collation of every node of the map noted to be the
 * coordinator's, in the same version?
 */
extern bool shard_collation_same_default(const ShardMap *map);

#endif
