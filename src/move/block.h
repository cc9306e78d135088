/*
 * block.h
 *	  A move during which writers wait.
 */
#ifndef SHARDFDW_BLOCK_H
#define SHARDFDW_BLOCK_H

#include "postgres.h"

#include "move/job/move.h"

/* Moves the prepared shards under a lock against writers. */
extern void shard_block_run(ShardMove *move);

/* Begins a transaction and locks the shards, see shard_attempts_insist(). */
extern void shard_block_lock(ShardMove *move, void (*before_each) (void *arg), void *arg);

#endif
