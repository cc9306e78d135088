/*
 * commit_log.h
 *	  The table shardfdw.commit_log: which distributed transactions committed.
 *
 * A row is inserted by the transaction that it stands for, so it is visible if
 * and only if that transaction committed; see remote/twophase.c.
 */
#ifndef SHARDFDW_COMMIT_LOG_H
#define SHARDFDW_COMMIT_LOG_H

#include "postgres.h"

#include "access/transam.h"
#include "access/xlogdefs.h"
#include "nodes/pg_list.h"

typedef struct ShardLogEntry
{
	FullTransactionId xid;
	int64		token;			/* tells apart users of one xid: a crash can give it out twice */
	List	   *nodes;			/* of char *: servers' names when it was logged */
	List	   *timelines;		/* int: theirs when they prepared it; 0: not known */
} ShardLogEntry;

/*
 * Logs the current transaction.  The caller's rights do not matter.
 * Errors: the extension is not in this database.
 */
extern void shard_commit_log_insert(FullTransactionId xid, int64 token,
									const char *const *nodes, const TimeLineID *timelines, int nnodes);

/* True when a committed row stands there now, whatever the transaction's snapshot. */
extern bool shard_commit_log_contains(FullTransactionId xid, int64 token);

/*
 * Deletes a row in the current transaction; false when it (or the log) is not
 * there, or when another transaction is at it.  Does not wait.
 */
extern bool shard_commit_log_delete(FullTransactionId xid, int64 token);

/* All committed rows, List of ShardLogEntry in the current context. */
extern List *shard_commit_log_read(void);

#endif
