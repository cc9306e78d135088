/*
 * commit_log.h
 *	  The table shardfdw_internal.commit_log: which distributed transactions have committed.
 *
 * A row is inserted by the transaction that it describes.  So it is visible if and only if that
 * transaction has committed; see remote/xact/twophase.c.
 *
 * A row is kept for some time after all nodes have confirmed the commit: if a node is restored, or
 * an older standby of it is promoted, the prepared transaction may exist there again.  A
 * transaction counts as confirmed if
 *
 *	- a row of a later transaction of the same session says so (confirms_xid)
 *	- or its own row says so (settled_at): written by recovery, or at the end of the session
 *
 * Rows have the order of their xids, and a row that confirms another one has the larger xid.
 * Transactions before settled_below (in shardfdw_internal.coordinator) are all confirmed, so their
 * rows are not read again.
 */
#ifndef SHARDFDW_COMMIT_LOG_H
#define SHARDFDW_COMMIT_LOG_H

#include "postgres.h"

#include "access/transam.h"
#include "access/xlogdefs.h"
#include "nodes/pg_list.h"
#include "utils/timestamp.h"

/* Identifies a transaction. */
typedef struct ShardLogKey
{
	FullTransactionId xid;		/* invalid: none */
	int64		token;			/* distinguishes transactions if an xid is assigned again after a crash */
} ShardLogKey;

/* A server that has prepared a transaction. */
typedef struct ShardLogNode
{
	const char *name;			/* the foreign server's name at that time */
	int64		system_identifier;	/* 0: unknown */
	const char *database;		/* database on that server; empty: unknown */
	TimeLineID	timeline;		/* 0: unknown */
} ShardLogNode;

typedef struct ShardLogEntry
{
	ShardLogKey key;
	List	   *nodes;			/* List of ShardLogNode */
} ShardLogEntry;

/*
 * Writes the row of the current transaction.  The row also says that all nodes have confirmed the
 * transaction of confirms. time: the time in the identifiers of the prepared transactions.  The
 * caller's rights do not matter.
 *
 * Errors: the extension is not in this database.
 */
extern void shard_commit_log_insert(ShardLogKey key, TimestampTz time, const ShardLogNode *nodes, int nnodes,
									ShardLogKey confirms);

/* Does the log contain a committed row now?  The transaction's snapshot does not matter. */
extern bool shard_commit_log_contains(ShardLogKey key);

/*
 * shard_commit_log_settle() writes into the row that no part of the transaction is prepared any
 * more; note: a remark, or NULL.  shard_commit_log_set_timelines() writes the timelines of nodes
 * (ShardLogNode, as read).  Both run in the current transaction and do not wait.  False: the row or
 * the log does not exist, or another transaction has locked it.
 */
extern bool shard_commit_log_settle(ShardLogKey key, const char *note);
extern bool shard_commit_log_set_timelines(ShardLogKey key, List *nodes);

/* Returns the rows of unconfirmed transactions, in the order of xids: List of ShardLogEntry in the current context. */
extern List *shard_commit_log_read_unsettled(void);

/*
 * Deletes rows of confirmed transactions that exceed the age or number that the settings allow,
 * oldest first, in the current transaction.  Does nothing if another transaction does the same, or
 * has locked the log.
 */
extern void shard_commit_log_purge(void);

#endif
