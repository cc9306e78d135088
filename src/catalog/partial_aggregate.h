/*
 * partial_aggregate.h
 *	  Partial aggregates: plain SQL aggregates on nodes whose result is the transition
 *	  state of another aggregate.
 */
#ifndef SHARDFDW_PARTIAL_AGGREGATE_H
#define SHARDFDW_PARTIAL_AGGREGATE_H

#include "postgres.h"

#include "catalog/shard_map.h"

/*
 * The partial aggregate of aggregate aggfnoid, as it is on the coordinator and, under the
 * same qualified name, on every node of map; InvalidOid when there is none, or
 * some node lacks it.  Its result is the state that core's Finalize Aggregate
 * takes: aggtranstype, or bytea when that is internal.
 * Cost: a few system cache look-ups, nothing remote.
 */
extern Oid	shard_partial_aggregate_get(const ShardMap *map, Oid aggfnoid);

/* The partial aggregate that an aggregate has on the coordinator, whatever nodes have; or InvalidOid. */
extern Oid	shard_partial_aggregate_local(Oid aggfnoid);

/*
 * Do all nodes, whatever tables they hold, have a copy of an aggregate that is
 * not built in, and may everybody execute it?  Nodes with its partial aggregate have it, too.
 */
extern bool shard_partial_aggregate_everywhere(Oid aggfnoid);

/* Name of the partial aggregate of an aggregate that is not built in, in the same schema.  Memory: current context. */
extern char *shard_partial_aggregate_name(const char *aggregate);

/* Is partial, by its definition, a partial aggregate of aggregate aggfnoid? */
extern bool shard_partial_aggregate_matches(Oid aggfnoid, Oid partial);

/* Servers have changed. */
extern void shard_partial_aggregate_invalidate(void);

#endif
