/*
 * transfer.h
 *	  Copies the shards of a move, and switches them to the target.
 */
#ifndef SHARDFDW_TRANSFER_H
#define SHARDFDW_TRANSFER_H

#include "postgres.h"

#include "move/job/move.h"

/* Moves the prepared shards, with a lock against writers only for the switch; and with such a lock from the beginning. */
extern void shard_transfer_online(ShardMove *move);
extern void shard_transfer_block(ShardMove *move);

#endif
