/*
 * apply.h
 *	  Applies changes of the source on the target.
 */
#ifndef SHARDFDW_APPLY_H
#define SHARDFDW_APPLY_H

#include "postgres.h"

#include "move/job/follow.h"
#include "move/job/move.h"

/*
 * Begins to apply the changes that slot sends, over a link to the target.  The indexes must exist. source: a link to
 * the source, for positions.  Memory: the move's.
 */
extern ShardFollow *shard_apply_begin(ShardMove *move, ShardSlot *slot, ShardConn *source, ShardConn *target);

#endif
