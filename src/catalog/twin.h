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
 * The twin of aggregate aggfnoid, as it is on the coordinator and, under the
 * same qualified name, on every node of map; InvalidOid when there is none, or
 * some node lacks it.  Its result is the state that core's Finalize Aggregate
 * takes: aggtranstype, or bytea when that is internal.
 * Cost: a few system cache look-ups, nothing remote.
 */
extern Oid	shard_twin_get(const ShardMap *map, Oid aggfnoid);

#endif
