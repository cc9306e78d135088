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
 * operator families, collations, bounds; shard i of both on one server, for each
 * shardno; of tables of two levels, on both.  A sharded table is colocated with itself.  Two foreign tables by themselves
 * are colocated when they are on one server.  The answer is cached, so its cost does not
 * grow with the number of shards.
 */
extern bool shard_colocated(Oid relid1, Oid relid2);

#endif
