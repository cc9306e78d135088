/*
 * online.h
 *	  A move while other sessions write.
 */
#ifndef SHARDFDW_ONLINE_H
#define SHARDFDW_ONLINE_H

#include "postgres.h"

#include "move/block.h"
#include "move/job/move.h"

/* Moves the prepared shards, with a lock only for the switch. */
extern void shard_online_run(ShardMove *move);

#endif
