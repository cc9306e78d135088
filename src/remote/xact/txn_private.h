/*
 * txn_private.h
 *	  Internals of a transaction over nodes.  Included by txn*.c, and by files of remote/run and
 *	  remote/copy that begin or end transactions on nodes.
 */
#ifndef SHARDFDW_TXN_PRIVATE_H
#define SHARDFDW_TXN_PRIVATE_H

#include "nodes/pg_list.h"
#include "remote/pool/pool.h"
#include "remote/xact/txn.h"

/* A node that this transaction writes to. */
typedef struct ShardWriter
{
	Oid			serverid;
	Oid			userid;
	char	   *node;
	int			level;			/* outermost nesting level in which it wrote */
	int			nextra;			/* connections with is_extra that were given out */
	List	   *written;		/* of ShardWritten: what was written, by nesting level */
} ShardWriter;

extern List *shard_txn_writers; /* of ShardWriter, in TopTransactionContext */
extern bool shard_txn_touched;	/* this transaction has used a node */
extern bool shard_txn_has_written;	/* also if a savepoint has rolled the write back */
extern const ShardTxnUpcalls *shard_txn_upcalls;

/* The last command that has written to a node in a nesting level. */
typedef struct ShardWritten
{
	int			level;
	CommandId	cid;
} ShardWritten;

/*
 * The subtransaction of level has ended.  If it was rolled back, drops the notes of what writer wrote in it.  If it was
 * committed, moves the notes to the parent level.
 */
extern void shard_txn_end_written(ShardWriter *writer, int level, bool committed);

/* NULL: this transaction has not written there. */
extern ShardWriter *shard_txn_find_writer(Oid serverid, Oid userid);

/* Raises if the writer or one of its extra connections, and thus what it wrote, is lost. */
extern void shard_txn_check_not_lost(ShardWriter *writer);

/*
 * Makes conn, whose transaction has just exported its snapshot as id, the exporter of snapshot on
 * its node.  At SERIALIZABLE nothing was exported: conn is the only connection that the transaction
 * uses on the node.
 */
extern void shard_txn_take_export(ShardSnapshot *snapshot, ShardConn *conn, const char *id);

/*
 * If conn is in a read transaction that belongs to no snapshot any more, sends COMMIT.  The answer is read before the
 * connection is used again.  Never raises.
 */
extern void shard_txn_end_reading(ShardConn *conn);

/*
 * The subtransaction of level has run sql, which sets the constraint name (NULL: all).  Nodes that
 * join the transaction later get sql, too.
 */
extern void shard_txn_note_constraints(int level, const char *name, const char *sql);

/* Appends the SET CONSTRAINTS commands of the levels min_level to max_level. */
extern void shard_txn_append_constraints(int min_level, int max_level, StringInfo buf);

/* The last sql noted for all constraints; NULL: none. */
extern const char *shard_txn_constraints_of_all(void);

/* The subtransaction of level, or the transaction, has ended. */
extern void shard_txn_end_constraints(int level, bool committed);
extern void shard_txn_reset_constraints(void);

/*
 * Has the local transaction nothing to commit?  Then it cannot fail any more, nor lose anything,
 * after a node has committed.  See txn_end.c.
 */
extern bool shard_txn_is_remote_only(void);

/*
 * Called when a node has committed.  Holds interrupts until the local transaction has ended, so
 * that it cannot fail in between.
 */
extern void shard_txn_hold_interrupts(void);

/* Called after the last wait of the commit: drops a cancel request or timeout, which came too late. */
extern void shard_txn_drop_cancel(void);

/* conn is outside any transaction from here on. */
extern void shard_txn_forget(ShardConn *conn);

/* The local transaction has ended, and its memory is about to be freed. */
extern void shard_txn_reset(void);

#endif
