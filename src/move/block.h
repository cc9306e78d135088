/*
 * block.h
 *	  A move during which writers wait.
 */
#ifndef SHARDFDW_BLOCK_H
#define SHARDFDW_BLOCK_H

#include "postgres.h"

#include "move/job/move.h"

/* Reports the current stage of the move. */
typedef void (*ShardMoveStage) (const ShardMove *move, const char *stage);

/* Moves the prepared shards under a lock against writers. */
extern void shard_block_run(ShardMove *move, ShardMoveStage enter_stage);

/*
 * Begins a transaction and locks the shards.  Tries again (move/job/attempt.h) while others hold a lock for longer
 * than an attempt lasts. before_each: called before each attempt, outside any transaction; may be NULL.
 */
extern void shard_block_lock(ShardMove *move, void (*before_each) (void *arg), void *arg);

#endif
