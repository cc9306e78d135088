/*
 * replica_read.h
 *	  Reads replicas of shards whose primary is not available.
 */
#ifndef SHARDFDW_REPLICA_READ_H
#define SHARDFDW_REPLICA_READ_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "nodes/bitmapset.h"
#include "remote/pool/snapshot.h"

/*
 * Finds the nodes on which a read-only statement reads shards (NULL: all) of a table.  Returns map if all of its nodes can be
 * connected to.  Otherwise returns a map in which nodes with replicas take the place of the others.  Transactions that were
 * prepared on these nodes are then committed or rolled back.  A transaction that has written to a node, or has read it by
 * snapshot, reads there or fails.  A transaction that has read a shard on another node continues to read it there.
 * Memory: current context.
 * Errors: object_in_use if it cannot be determined whether a replica has all committed changes.
 */
extern const ShardMap *shard_replica_read_map(const ShardMap *map, const Bitmapset *shards, ShardSnapshot *snapshot, Oid userid);

#endif
