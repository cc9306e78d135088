/*
 * place.h
 *	  What a move makes on its nodes, and how the shards change their place.
 */
#ifndef SHARDFDW_PLACE_H
#define SHARDFDW_PLACE_H

#include "postgres.h"

#include "move/job/attempt.h"
#include "move/job/move.h"

/* Makes the move's schemas on both nodes, and in the target's the tables without indexes. */
extern void shard_place_prepare(ShardMove *move);

/* Makes indexes and constraints over the rows, and has the target look at them (ANALYZE). */
extern void shard_place_index(const ShardMove *move);

/*
 * Locks the shards against all who write or lock rows, here and on the source, until the
 * local transaction ends.  Locks that are not given in the time of the attempt are an error (55P03).
 */
extern void shard_place_lock(const ShardMove *move, const ShardAttempts *attempts);

/*
 * Moves the shards, which are locked and whose rows are all on the target, in the current
 * transaction: when it has committed, the shards are there.  False: nothing has been
 * changed, since a lock on the target was not given; it can be tried again.
 */
extern bool shard_place_switch(ShardMove *move);

/*
 * Gives the tables on the target their last touches: comments, and foreign keys are validated.
 * Outside any transaction.
 */
extern void shard_place_finish(ShardMove *move);

/* Drops the old tables, when nobody can read them any more, and the move's schemas. */
extern void shard_place_drop(ShardMove *move);

#endif
