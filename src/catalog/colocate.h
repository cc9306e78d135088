/*
 * colocate.h
 *	  Whether two sharded tables are colocated.
 */
#ifndef SHARDFDW_COLOCATE_H
#define SHARDFDW_COLOCATE_H

#include "postgres.h"

/*
 * True when rows of both tables with equal keys are always on shards of the
 * same number, and these on the same node: same partition strategy, key types,
 * operator families, collations, bounds; shard i of both on one server, shardno
 * by shardno.  A sharded table is colocated with itself.  Two foreign tables
 * that are no parents are when they are on one server.  Memory: cached, so that
 * asking does not cost by the number of shards.
 */
extern bool shard_colocated(Oid relid1, Oid relid2);

#endif
