/*
 * commit_log.h
 *	  The table shardfdw_internal.commit_log: which distributed transactions committed.
 *
 * A row is inserted by the transaction that it stands for, so it is visible if
 * and only if that transaction committed; see remote/xact/twophase.c.
 *
 * Rows are kept for a while after all nodes have confirmed the commit: a node
 * that is restored, or an older standby of it, may show the prepared transaction
 * once more.  Which rows are confirmed ("settled") is known from
 *
 *	- another row, of a later transaction of the same session (confirms_xid)
 *	- the row itself (settled_at): noted by recovery or at the end of a session
 *
 * Rows are in the order of their xids, and a row that confirms has a larger xid
 * than the one it confirms.  Transactions before settled_below, in
 * shardfdw_internal.coordinator, are all settled, so nobody looks at them again.
 */
#ifndef SHARDFDW_COMMIT_LOG_H
#define SHARDFDW_COMMIT_LOG_H

#include "postgres.h"

#include "access/transam.h"
#include "access/xlogdefs.h"
#include "nodes/pg_list.h"
#include "utils/timestamp.h"

/* Names a transaction. */
typedef struct ShardLogKey
{
	FullTransactionId xid;		/* invalid: none */
	int64		token;			/* differs if an xid is given out again after a crash */
} ShardLogKey;

/* A server that prepared a transaction. */
typedef struct ShardLogNode
{
	const char *name;			/* foreign server's, when it was logged */
	int64		system_identifier;	/* 0: not known */
	const char *database;		/* there; empty: not known */
	TimeLineID	timeline;		/* 0: not known */
} ShardLogNode;

typedef struct ShardLogEntry
{
	ShardLogKey key;
	List	   *nodes;			/* of ShardLogNode */
} ShardLogEntry;

/*
 * Logs the current transaction, and that the one of confirms has been confirmed
 * by all of its nodes.  time: the one in its identifiers.  The caller's rights do
 * not matter.
 * Errors: the extension is not in this database.
 */
extern void shard_commit_log_insert(ShardLogKey key, TimestampTz time, const ShardLogNode *nodes, int nnodes,
									ShardLogKey confirms);

/* True when the log has a committed row now, whatever the transaction's snapshot. */
extern bool shard_commit_log_contains(ShardLogKey key);

/*
 * settle notes in the row, in the current transaction, that nothing of it is prepared any
 * more; note: a remark about that, or NULL.  set_timelines notes the timelines of nodes
 * (ShardLogNode, as read).  False when there is no such row (or no log), or another
 * transaction has locked the row or the log.  Neither function waits.
 */
extern bool shard_commit_log_settle(ShardLogKey key, const char *note);
extern bool shard_commit_log_set_timelines(ShardLogKey key, List *nodes);

/* Rows that are not settled, by xid: List of ShardLogEntry in the current context. */
extern List *shard_commit_log_read_unsettled(void);

/*
 * Deletes settled rows, oldest first, that are older or more than the settings
 * allow, in the current transaction.  Does nothing while another transaction does it,
 * or has locked the log.
 */
extern void shard_commit_log_purge(void);

#endif
