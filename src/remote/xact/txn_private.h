/*
 * txn_private.h
 *	  The inside of a transaction over nodes: shared by txn*.c, and by files of
 *	  remote/run and remote/copy that begin or end transactions on nodes.
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
extern bool shard_txn_has_written;	/* this transaction has written to a node, even if a savepoint has rolled that back */
extern const ShardTxnUpcalls *shard_txn_upcalls;

/* The last command that has written to a node in a nesting level. */
typedef struct ShardWritten
{
	int			level;
	CommandId	cid;
} ShardWritten;

/* The subtransaction of level has ended: forgets what writer has written in it, or moves that to the level around it. */
extern void shard_txn_end_written(ShardWriter *writer, int level, bool committed);

/* NULL: this transaction has not written there. */
extern ShardWriter *shard_txn_find_writer(Oid serverid, Oid userid);

/* Raises when what writer, or one of its extra connections, wrote is lost. */
extern void shard_txn_check_not_lost(ShardWriter *writer);

/*
 * Makes conn, whose transaction has just exported its snapshot as id, the exporter of
 * snapshot on its node.  At SERIALIZABLE conn has exported none; it is the one
 * connection that the transaction uses on the node.
 */
extern void shard_txn_take_export(ShardSnapshot *snapshot, ShardConn *conn, const char *id);

/*
 * sql, which sets the constraint name, or all if that is NULL, has run in the subtransaction of level; nodes that join
 * later have to be told.
 */
extern void shard_txn_note_constraints(int level, const char *name, const char *sql);

/* Appends SET CONSTRAINTS as the levels from min_level to max_level have set them. */
extern void shard_txn_append_constraints(int min_level, int max_level, StringInfo buf);

/* The sql that was noted last for all constraints; NULL: none. */
extern const char *shard_txn_constraints_of_all(void);

/* The subtransaction of level, or the transaction, has ended. */
extern void shard_txn_end_constraints(int level, bool committed);
extern void shard_txn_reset_constraints(void);

/*
 * True when the local transaction has nothing to commit: it can neither fail nor lose
 * anything once a node has committed, see txn_end.c.
 */
extern bool shard_txn_is_remote_only(void);

/*
 * A node has committed: interrupts are held until the local transaction has ended,
 * so that nothing fails in between.
 */
extern void shard_txn_hold_interrupts(void);

/* After that, when nothing is waited for any more: drops a cancel or time-out, which has come too late. */
extern void shard_txn_drop_cancel(void);

/* conn is outside any transaction now. */
extern void shard_txn_forget(ShardConn *conn);

/* The local transaction has ended: its memory is going. */
extern void shard_txn_reset(void);

#endif
