/*
 * txn.h
 *	  Transactions on nodes follow the local transaction: BEGIN when a node is first needed,
 *	  savepoints, snapshots, commit and abort.
 */
#ifndef SHARDFDW_TXN_H
#define SHARDFDW_TXN_H

#include "postgres.h"

#include "access/xact.h"
#include "remote/pool/pool.h"
#include "remote/pool/snapshot.h"
#include "remote/wire/connection.h"

/*
 * Returns the snapshot of the statement whose executor state is in query_cxt.  The first call
 * creates it.  When query_cxt is reset, the snapshot is released and its read transactions are
 * ended without waiting.
 *
 * If a running statement has shared its snapshot (ShardSnapshot.shared_as) and the coordinator's
 * active snapshot is the same, that shared snapshot is returned.  A shared snapshot is released
 * with the last statement that uses it.
 */
extern ShardSnapshot *shard_txn_snapshot(MemoryContext query_cxt);

/*
 * The connection with which this transaction writes to the node (the "writer").  All later
 * statements of the transaction use it on this node.
 *
 * start: returns the connection and registers it as the writer from nesting level level on.  The
 * connection has no holder, but may still be connecting.  May block, because another holder of the
 * connection has to yield.
 *
 * preamble: appends to buf the BEGIN and the SAVEPOINTs that are still missing up to nesting level.
 * only_reads: a cursor's query follows.  A node that got nothing but cursors takes no part in the
 * two-phase commit.
 */
extern ShardConn *shard_txn_writer_start(Oid serverid, Oid userid, int level);
extern void shard_txn_writer_preamble(ShardConn *conn, int level, bool only_reads, StringInfo buf);

/*
 * shard_txn_note_written(): command cid writes to the node over conn, in nesting level level. written_since: has
 * command cid or a later one written to the node?  If it has, a read of command cid over the writer would see those
 * rows, but PostgreSQL would not show them.
 */
extern void shard_txn_note_written(const ShardConn *conn, int level, CommandId cid);
extern bool shard_txn_written_since(const ShardConn *conn, CommandId cid);

/* Does this transaction write to any node? */
extern bool shard_txn_has_writers(void);

/*
 * For statements that lock more than rows, in a transaction with a single snapshot.  Ends the
 * transaction's reads on this node over connections other than the writer, including connections
 * with a holder.  Otherwise the writer could wait for their locks indefinitely.  The node's writer
 * must have been started.
 */
extern void shard_txn_end_readers(ShardPool *pool);

/*
 * Returns one more connection that writes to the node in this transaction, or NULL: then use the
 * writer alone.  NULL is returned if the limit of connections is reached, and always at REPEATABLE
 * READ and above.  The connection has no holder, but may still be connecting.  The node's writer
 * must have been started before.
 *
 * On the node, an extra writer is a separate transaction.  Its rows are invisible to all other
 * statements of the local transaction, and it does not see the rows of the writer or of other extra
 * writers.  If one of these connections waits for a lock that another one holds, it waits
 * indefinitely.  So an extra writer is allowed only for a statement
 *
 *	- that is the whole transaction: outside a transaction block (raised otherwise), sent by the
 *	  client with the simple protocol, and not run by a function;
 *	- whose connections write to different tables that do not depend on each other (see
 *	  load/spread.h).
 *
 * In commit, and if a connection is lost, an extra writer counts like the writer.
 * shard_txn_writer_preamble() makes its preamble, too.  It belongs to the transaction until the
 * transaction ends, with or without a holder.
 */
extern ShardConn *shard_txn_extra_writer_start(Oid serverid, Oid userid);

/*
 * The rows of one table must not use two connections, since these could wait for each other.
 *
 * claim: from this call on only conn, an extra writer, writes to table.  The name is written as in
 * SQL, and must be the same in each call.
 *
 * of: returns the extra writer that has claimed table.  NULL: none, so the node's writer writes to
 * it.
 */
extern void shard_txn_extra_writer_claim(ShardConn *conn, const char *table);
extern ShardConn *shard_txn_extra_writer_of(Oid serverid, Oid userid, const char *table);

/*
 * The holder of conn has rolled back its remote transaction, so the local transaction is going to fail.  Later
 * statements on conn only find out the reason, and may use any snapshot.
 */
extern void shard_txn_forget_doomed(ShardConn *conn);

/* Raises if the node has aborted the transaction in which this transaction wrote. */
extern void shard_txn_check_writer(ShardConn *conn);

/*
 * Must a reader use pool->writer?  False for a statement whose snapshot of this node is older than
 * the first write: its further streams keep this snapshot, and do not see what the statement itself
 * writes.
 */
extern bool shard_txn_uses_writer(ShardPool *pool, ShardSnapshot *snapshot);

/*
 * The pool of the connections over which snapshot (NULL: none) reads the node.  It is the primary's
 * pool, unless a standby was chosen (remote/run/read_role.h).
 */
extern ShardPool *shard_txn_reader_pool(ShardSnapshot *snapshot, Oid serverid, Oid userid);

/*
 * The connection for a reader of snapshot: pool->writer, or the result of
 * shard_pool_acquire_reader().  NULL: the caller queues.  Errors: the writer is lost.
 */
extern ShardConn *shard_txn_acquire_reader(ShardPool *pool, ShardSnapshot *snapshot);

/* Is the connection that exported the node's snapshot still open?  Waits if the snapshot is just being exported. */
extern bool shard_txn_is_exported(ShardSnapshot *snapshot, Oid serverid, Oid userid);

/* Has this transaction, at REPEATABLE READ or above, already taken its snapshot of the node? */
extern bool shard_txn_is_fixed(Oid serverid, Oid userid);

/*
 * Appends to buf the commands that must precede a reader's statement on conn: BEGIN with the right
 * isolation level, SET TRANSACTION SNAPSHOT or pg_export_snapshot(), or SAVEPOINTs.  Appends
 * nothing if none is needed.
 *
 * level: nesting level of the statement that reads.  Its streams survive savepoints inside that
 * level.
 *
 * *exports is set if the text contains SELECT pg_export_snapshot().  Its result is the first one
 * with rows; the caller must pass it to shard_snapshot_exported().
 *
 * Returns false if another connection is just exporting the snapshot of this node.  Then the caller
 * waits for that connection.
 */
extern bool shard_txn_reader_preamble(ShardConn *conn, ShardSnapshot *snapshot, int level,
									  StringInfo buf, bool *exports);

/*
 * Functions of higher layers that transactions call. shardfdw.c registers them when the library is
 * loaded.
 */
typedef struct ShardTxnUpcalls
{
	/* If shardfdw.snapshot is 'cluster': takes a new snapshot on all nodes. shard_cut_take(). */
	void		(*take_cut) (ShardSnapshot *snapshot);

	/*
	 * Before the transaction writes to a node: starts the streams that are queued for the node.
	 * Called once per statement for the writer. shard_stream_drain_queue().
	 */
	void		(*drain_queue) (ShardPool *pool);

	/*
	 * Before the commit: sends changes of shards to their replicas.  True: such shards were changed, so the commit must
	 * have two phases.  The function is shard_replica_apply().
	 */
	bool		(*apply_replicas) (void);

	/*
	 * May tables that this transaction has written have replicas?  Then a node must not commit by itself.  The function
	 * is shard_map_seen_replicas().
	 */
	bool		(*may_have_replicas) (void);
} ShardTxnUpcalls;

extern void shard_txn_init(const ShardTxnUpcalls *upcalls);

/*
 * - pre_commit: the commit begins.  pre_prepare: PREPARE TRANSACTION begins.  Both may raise errors of nodes.  PREPARE
 * also raises FEATURE_NOT_SUPPORTED if nodes took part.
 *
 * - end: the transaction has ended (XACT_EVENT_COMMIT, _ABORT or _PREPARE).  end_level: the subtransaction level has
 * ended.  Both must not raise.
 */
extern void shard_txn_pre_commit(void);
extern void shard_txn_pre_prepare(void);
extern void shard_txn_end(XactEvent event);
extern void shard_txn_end_level(int level, bool committed);

#endif
