/*
 * colocate.h
 *	  Are two sharded tables colocated?
 */
#ifndef SHARDFDW_COLOCATE_H
#define SHARDFDW_COLOCATE_H

#include "postgres.h"

/*
 * True if rows of both tables with equal keys are always in shards with the same number, on the
 * same node.  So these must be equal: partition strategy, key types, operator families, collations
 * and bounds, and for each shardno the server; with two levels, on both levels.  A sharded table is
 * colocated with itself.  Two foreign tables that are not shards are colocated if they are on one
 * server.  The result is cached, so its cost does not grow with the number of shards.
 */
extern bool shard_colocated(Oid relid1, Oid relid2);

#endif
