/*
 * apply.h
 *	  Applies changes of the source on the target.
 */
#ifndef SHARDFDW_APPLY_H
#define SHARDFDW_APPLY_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "move/job/move.h"
#include "move/job/slot.h"

typedef struct ShardApply ShardApply;

/*
 * Begins to apply the changes that slot sends, over a link to the target.  The indexes must exist. source: a link to
 * the source, for barriers.  Memory: the move's.
 */
extern ShardApply *shard_apply_begin(ShardMove *move, ShardSlot *slot, ShardConn *source, ShardConn *target);

/*
 * Applies all transactions that committed on the source before this call.  If it returns true, they are committed on
 * the target.  Returns false if that would take longer than timeout_ms (-1: no limit).  The next call continues.
 */
extern bool shard_apply_to_now(ShardApply *apply, int timeout_ms);

/* Applies all transactions that committed on the source before lsn.  Later ones are left to the next call. */
extern void shard_apply_to(ShardApply *apply, XLogRecPtr lsn);

#endif
