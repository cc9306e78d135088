/*
 * partial_aggregate.h
 *	  Partial aggregates: SQL aggregates on nodes whose result is the transition state of another
 *	  aggregate.
 */
#ifndef SHARDFDW_PARTIAL_AGGREGATE_H
#define SHARDFDW_PARTIAL_AGGREGATE_H

#include "postgres.h"

#include "catalog/shard_map.h"

/*
 * Returns the partial aggregate of aggregate aggfnoid, which exists on the coordinator and, with
 * the same qualified name, on every node of map.  InvalidOid if there is none, or if a node lacks
 * it.  Its result is the state for core's Finalize Aggregate: aggtranstype, or bytea if that is
 * internal.  Cost: a few system cache look-ups, nothing remote.
 */
extern Oid	shard_partial_aggregate_get(const ShardMap *map, Oid aggfnoid);

/* Returns the partial aggregate that an aggregate has on the coordinator, independent of nodes; or InvalidOid. */
extern Oid	shard_partial_aggregate_local(Oid aggfnoid);

/*
 * Do all nodes, whatever tables they hold, have a copy of an aggregate that is not built in, and
 * may all roles execute it?  Nodes with its partial aggregate have it, too.
 */
extern bool shard_partial_aggregate_everywhere(Oid aggfnoid);

/*
 * Returns the name of the partial aggregate, in the same schema, of an aggregate that is not built
 * in.  Memory: current context.
 */
extern char *shard_partial_aggregate_name(const char *aggregate);

/* Is partial, by its definition, a partial aggregate of aggregate aggfnoid? */
extern bool shard_partial_aggregate_matches(Oid aggfnoid, Oid partial);

/* Servers have changed. */
extern void shard_partial_aggregate_invalidate(void);

#endif
