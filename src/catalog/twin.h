/*
 * twin.h
 *	  Partial twins: plain SQL aggregates on nodes whose result is the transition
 *	  state of another aggregate.
 */
#ifndef SHARDFDW_TWIN_H
#define SHARDFDW_TWIN_H

#include "postgres.h"

#include "catalog/shard_map.h"

/*
 * The name (schema-qualified, quoted) under which every node of map has the
 * twin of aggregate aggfnoid, or NULL when some node lacks it or keeps such
 * states in another format.  Cost: cached look-ups, nothing remote.
 */
extern const char *shard_twin_name(const ShardMap *map, Oid aggfnoid);

#endif
