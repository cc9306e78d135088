/*
 * twophase.h
 *	  Atomic commit over nodes: PREPARE everywhere, the local commit with its log
 *	  row decides, COMMIT PREPARED everywhere; recovery of what a crash left.
 */
#ifndef SHARDFDW_TWOPHASE_H
#define SHARDFDW_TWOPHASE_H

#include "postgres.h"

#include "remote/connection.h"

/* Before the local commit: prepares all conns at once, writes the log row.  Errors abort the transaction. */
extern void shard_twophase_prepare(ShardConn **conns, int nconns);

/* After the local commit: COMMIT PREPARED on all at once.  WARNINGs only. */
extern void shard_twophase_commit(ShardConn **conns, int nconns);

/* In abort: ROLLBACK PREPARED where prepared.  WARNINGs only, bounded waits. */
extern void shard_twophase_abort(ShardConn **conns, int nconns);

#endif
