/*
 * block.h
 *	  A move during which writers wait.
 */
#ifndef SHARDFDW_BLOCK_H
#define SHARDFDW_BLOCK_H

#include "postgres.h"

#include "move/job/move.h"

/* Tells which stage the move is in. */
typedef void (*ShardMoveStage) (const ShardMove *move, const char *stage);

/* Moves the shards, which have been prepared, under a lock that keeps out who writes. */
extern void shard_block_run(ShardMove *move, ShardMoveStage enter_stage);

/*
 * Begins a transaction and locks the shards; tries again (move/job/attempt.h) as long as others hold a lock for longer
 * than an attempt lasts.
 * before_each: called before each attempt, outside any transaction; NULL: nothing.
 */
extern void shard_block_lock(ShardMove *move, void (*before_each) (void *arg), void *arg);

#endif
