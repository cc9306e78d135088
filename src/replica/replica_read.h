/*
 * replica_read.h
 *	  Reading replicas of shards whose primary is away.
 */
#ifndef SHARDFDW_REPLICA_READ_H
#define SHARDFDW_REPLICA_READ_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "nodes/bitmapset.h"
#include "remote/pool/snapshot.h"

/*
 * Where a statement that only reads finds shards (shardnos; NULL: all) of a table: map itself, or, where nodes cannot be
 * connected to, one that has their shards on nodes that have replicas of them.  What these have prepared by now is settled then.
 * A transaction that has written to a node, or has read it by snapshot, reads there or fails; what it has once read elsewhere,
 * it goes on to read there.  Memory: current context.
 * Errors: object_in_use where it cannot be known whether a replica has all that is committed.
 */
extern const ShardMap *shard_replica_read_map(const ShardMap *map, const Bitmapset *shards, ShardSnapshot *snapshot, Oid userid);

#endif
