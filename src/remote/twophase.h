/*
 * twophase.h
 *	  Atomic commit over nodes: PREPARE everywhere, the local commit with its log
 *	  row decides, COMMIT PREPARED everywhere; recovery of what a crash left.
 */
#ifndef SHARDFDW_TWOPHASE_H
#define SHARDFDW_TWOPHASE_H

#include "postgres.h"

#include "access/transam.h"
#include "remote/connection.h"

/* Before the local commit: prepares all conns at once, writes the log row.  Errors abort the transaction. */
extern void shard_twophase_prepare(ShardConn **conns, int nconns);

/* After the local commit: COMMIT PREPARED on all at once.  WARNINGs only. */
extern void shard_twophase_commit(ShardConn **conns, int nconns);

/* When an error has ended that: what the nodes have not been told is left to recovery. */
extern void shard_twophase_leave(ShardConn **conns, int nconns);

/* In abort: ROLLBACK PREPARED where prepared.  WARNINGs only, bounded waits. */
extern void shard_twophase_abort(ShardConn **conns, int nconns);

/*
 * What the identifiers of this database's prepared transactions begin with:
 * "shardfdw:<system identifier>:<database oid>:".  Memory: current context.
 */
extern char *shard_twophase_gid_prefix(void);

/* Takes such an identifier apart; false when it is not one of this database's. */
extern bool shard_twophase_parse_gid(const char *gid, FullTransactionId *xid, int64 *token);

#endif
