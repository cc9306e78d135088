/*
 * txn.h
 *	  Remote transactions follow the local one: BEGIN when a node is first
 *	  needed, savepoints, statement snapshots, commit, abort.
 */
#ifndef SHARDFDW_TXN_H
#define SHARDFDW_TXN_H

#include "postgres.h"

#include "access/xact.h"
#include "remote/pool/pool.h"
#include "remote/pool/snapshot.h"
#include "remote/wire/connection.h"

/*
 * The snapshot of the statement whose executor state lives in query_cxt; made
 * at first use, released (read transactions are ended without waiting) when
 * query_cxt is reset.  It is that of another statement which has shared it
 * (ShardSnapshot.shared_as), if the coordinator's active snapshot is the same; then it
 * is released with the last of them.
 */
extern ShardSnapshot *shard_txn_snapshot(MemoryContext query_cxt);

/*
 * The connection of this transaction that writes on the node; later statements on
 * this node all use it.  start: without a holder but perhaps still connecting,
 * noted as the node's writer of nesting level level (may block to make a holder
 * yield).  preamble: appends to buf BEGIN and SAVEPOINTs up to nesting level, nothing
 * when they stand already; only_reads: what follows is a cursor's, and a node that has
 * seen nothing else takes no part in the two-phase commit.
 */
extern ShardConn *shard_txn_writer_start(Oid serverid, Oid userid, int level);
extern void shard_txn_writer_preamble(ShardConn *conn, int level, bool only_reads, StringInfo buf);

/*
 * Command cid writes to the node over conn, in nesting level level.  since: has command cid or a later one written to
 * the node?  A statement of that command which reads over the connection that writes would see it, where PostgreSQL
 * would not show it.
 */
extern void shard_txn_note_written(const ShardConn *conn, int level, CommandId cid);
extern bool shard_txn_written_since(const ShardConn *conn, CommandId cid);

/* Does this transaction write to some node? */
extern bool shard_txn_has_writers(void);

/*
 * In a transaction with one snapshot, whose writer on the node of pool has been started: ends
 * what reads there over other connections, held or not, since the writer could wait for its
 * locks for ever.  For statements that lock more than rows.
 */
extern void shard_txn_end_readers(ShardPool *pool);

/*
 * One more connection that writes on the node in this transaction, without a
 * holder but perhaps still connecting; the node's writer must have been started
 * before.  NULL when the pool's cap allows no more, and always at REPEATABLE
 * READ and above: use one connection then.
 *
 * It writes in a transaction of its own on the node: no other statement of this
 * transaction sees those rows, and it does not see what the writer or another extra
 * writer does.  When one of them waits for a lock that another one holds, it waits
 * for ever.  So it is only for a statement
 *	- that is the whole transaction: outside a transaction block and at the
 *	  outermost level (raised otherwise), sent by the client by the simple
 *	  protocol (in a pipeline others may follow) and not run by a function;
 *	- whose connections write to different tables that do not depend on each
 *	  other (see load/spread.h).
 * It takes part in the commit, and in the loss of the transaction, as the
 * writer does.  Its preamble is shard_txn_writer_preamble's.  It belongs to the
 * transaction until that ends, held or not, and is free for anybody afterwards.
 */
extern ShardConn *shard_txn_extra_writer_start(Oid serverid, Oid userid);

/*
 * Rows of one table must not come over two connections, which could wait for each
 * other.  claim: from now on only conn, an extra writer, writes to table (name as in
 * SQL, the same each time).  of: the extra writer that has claimed table; NULL: none,
 * the node's writer writes to it.
 */
extern void shard_txn_extra_writer_claim(ShardConn *conn, const char *table);
extern ShardConn *shard_txn_extra_writer_of(Oid serverid, Oid userid, const char *table);

/*
 * conn's holder has rolled its remote transaction back, and runs statements only to
 * find out why the local transaction is going to fail: which snapshot they see does
 * not matter.
 */
extern void shard_txn_forget_doomed(ShardConn *conn);

/* Raises when the node has aborted the remote transaction in which this one wrote. */
extern void shard_txn_check_writer(ShardConn *conn);

/*
 * True when a reader must use pool->writer.  Not so for a statement whose
 * snapshot on this node is older than the first write: its further streams keep
 * to it, and do not see what the statement itself writes.
 */
extern bool shard_txn_uses_writer(ShardPool *pool, ShardSnapshot *snapshot);

/*
 * The pool of the connections that snapshot (NULL: none) reads the node over: that of the
 * primary, unless a standby has been chosen (remote/run/read_role.h).
 */
extern ShardPool *shard_txn_reader_pool(ShardSnapshot *snapshot, Oid serverid, Oid userid);

/*
 * The connection that a reader of snapshot is to use: pool->writer, or what
 * shard_pool_acquire_reader() gives.  NULL: the caller queues.  Errors: the writer is lost.
 */
extern ShardConn *shard_txn_acquire_reader(ShardPool *pool, ShardSnapshot *snapshot);

/* Is the node's snapshot exported by a connection that is there?  Waits for one that is about to export it. */
extern bool shard_txn_is_exported(ShardSnapshot *snapshot, Oid serverid, Oid userid);

/* Has this transaction, at REPEATABLE READ or above, taken its snapshot of the node already? */
extern bool shard_txn_is_fixed(Oid serverid, Oid userid);

/*
 * Appends to buf what must precede a reader's statement on conn: BEGIN with the
 * right isolation level, SET TRANSACTION SNAPSHOT or pg_export_snapshot(), or
 * SAVEPOINTs; nothing when nothing is needed.  level: the nesting level of the
 * statement that reads; what it reads outlives savepoints within that.  *exports is
 * set when the text holds SELECT pg_export_snapshot(), whose result (the text's first
 * one with rows) the caller must hand to shard_snapshot_exported().  Returns false
 * when the snapshot of this node is being exported by another connection right now:
 * the caller waits for it.
 */
extern bool shard_txn_reader_preamble(ShardConn *conn, ShardSnapshot *snapshot, int level,
									  StringInfo buf, bool *exports);

/*
 * Functions of higher layers that transactions call.  shardfdw.c registers them,
 * once, when the library is loaded.
 */
typedef struct ShardTxnUpcalls
{
	/* Takes a new snapshot on all nodes, where shardfdw.snapshot is 'cluster': shard_cut_take(). */
	void		(*take_cut) (ShardSnapshot *snapshot);

	/*
	 * Before the transaction writes on a node: streams that are queued for it start
	 * first.  Once per statement for the writer: shard_stream_drain_queue().
	 */
	void		(*drain_queue) (ShardPool *pool);

	/*
	 * Before the commit: sends to replicas of shards what was written to these: shard_replica_apply().  True: such shards were
	 * changed, so the commit must have two phases.
	 */
	bool		(*apply_replicas) (void);

	/* May what this transaction writes have replicas?  Then a node must not commit by itself: shard_map_seen_replicas(). */
	bool		(*may_have_replicas) (void);
} ShardTxnUpcalls;

extern void shard_txn_init(const ShardTxnUpcalls *upcalls);

/*
 * The commit begins; PREPARE TRANSACTION begins; the transaction has ended (XACT_EVENT_COMMIT, _ABORT or _PREPARE); a
 * subtransaction, level, has ended.  The first two may raise, the others must not.
 * Errors: those of nodes; FEATURE_NOT_SUPPORTED of PREPARE, when nodes took part.
 */
extern void shard_txn_pre_commit(void);
extern void shard_txn_pre_prepare(void);
extern void shard_txn_end(XactEvent event);
extern void shard_txn_end_level(int level, bool committed);

#endif
