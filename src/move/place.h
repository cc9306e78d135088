/*
 * place.h
 *	  The objects of a move on its nodes, and the switch of the shards to the target.
 */
#ifndef SHARDFDW_PLACE_H
#define SHARDFDW_PLACE_H

#include "postgres.h"

#include "move/job/attempt.h"
#include "move/job/move.h"

/* Makes the move's schemas on both nodes, and the tables without indexes in the target's schema. */
extern void shard_place_prepare(ShardMove *move);

/* Makes indexes and constraints over the rows, and runs ANALYZE on the target. */
extern void shard_place_index(const ShardMove *move);

/*
 * Locks the shards against sessions that write or lock rows, on the coordinator and on the source, until the local
 * transaction ends.  Raises lock_not_available for a lock that is not granted in the time of the attempt.
 */
extern void shard_place_lock(ShardMove *move, const ShardAttempts *attempts);

/*
 * Moves the shards in the current transaction.  The shards are locked, and all their rows are on the target.  When
 * the transaction has committed, the shards are on the target.  Returns false if a lock on the target was not
 * granted.  Then nothing has changed, and the caller can try again.
 */
extern bool shard_place_switch(ShardMove *move);

/*
 * Adds comments and owners to the tables on the target, and validates their foreign keys.  Call it outside
 * transactions.
 */
extern void shard_place_finish(ShardMove *move);

/* Drops the old tables when no session can read them, and the move's schemas. */
extern void shard_place_drop(ShardMove *move);

#endif
