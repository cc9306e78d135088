/*
 * copies_read.h
 *	  Reading copies of shards whose primary is away.
 */
#ifndef SHARDFDW_COPIES_READ_H
#define SHARDFDW_COPIES_READ_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "nodes/bitmapset.h"
#include "remote/pool/snapshot.h"

/*
 * Where a statement that only reads finds shards (shardnos; NULL: all) of a table: map itself, or, where nodes cannot be
 * connected to, one that has their shards on nodes that have copies of them.  What these have prepared by now is settled then.
 * A transaction that has written to a node, or has read it by snapshot, reads there or fails; what it has once read elsewhere,
 * it goes on to read there.  Memory: current context.
 * Errors: object_in_use where it cannot be known whether a copy has all that is committed.
 */
extern const ShardMap *shard_copies_read_map(const ShardMap *map, const Bitmapset *shards, ShardSnapshot *snapshot, Oid userid);

#endif
