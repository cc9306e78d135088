/*
 * partial_aggregate.h
 *	  Partial twins: plain SQL aggregates on nodes whose result is the transition
 *	  state of another aggregate.
 */
#ifndef SHARDFDW_PARTIAL_AGGREGATE_H
#define SHARDFDW_PARTIAL_AGGREGATE_H

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

/* The twin that an aggregate has on the coordinator, whatever nodes have; or InvalidOid. */
extern Oid	shard_twin_local(Oid aggfnoid);

/*
 * Do all nodes, whatever tables they hold, have a copy of an aggregate that is
 * not built in, and may everybody execute it?  Where its twin is, it is too.
 */
extern bool shard_twin_everywhere(Oid aggfnoid);

/* Name of the twin of an aggregate that is not built in, beside it in its schema.  Memory: current context. */
extern char *shard_twin_name(const char *aggregate);

/* Is twin, by its definition, what returns the state of aggregate? */
extern bool shard_twin_matches(Oid aggfnoid, Oid twin);

extern void shard_twin_init(void);	/* registers invalidation callbacks */

#endif
