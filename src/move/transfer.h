/*
 * transfer.h
 *	  Copies the shards of a move, and switches them to the target.
 */
#ifndef SHARDFDW_TRANSFER_H
#define SHARDFDW_TRANSFER_H

#include "postgres.h"

#include "move/job/move.h"

/*
 * Move the prepared shards.  The first function locks the tables against writers only for the switch.  The second one
 * locks them from the beginning.
 */
extern void shard_transfer_online(ShardMove *move);
extern void shard_transfer_block(ShardMove *move);

#endif
