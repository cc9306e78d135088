/*
 * apply.h
 *	  Makes the source's changes on the target.
 */
#ifndef SHARDFDW_APPLY_H
#define SHARDFDW_APPLY_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "move/job/move.h"
#include "move/job/slot.h"

typedef struct ShardApply ShardApply;

/*
 * Begins to apply what slot sends, over a link to the target; the indexes have to be there.
 * source: a link to the source, for barriers.  Memory: the move's.
 */
extern ShardApply *shard_apply_begin(ShardMove *move, ShardSlot *slot, ShardConn *source, ShardConn *target);

/*
 * Applies all that has committed on the source before this call; when it returns true,
 * that is committed on the target.  False: it would take longer than timeout_ms (-1: no
 * limit), and the next call goes on.
 */
extern bool shard_apply_to_now(ShardApply *apply, int timeout_ms);

/*
 * Applies all transactions that committed on the source before lsn, and none from there on,
 * which are left to the next call.
 */
extern void shard_apply_to(ShardApply *apply, XLogRecPtr lsn);

#endif
