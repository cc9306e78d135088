/*
 * txn.h
 *	  Remote transactions follow the local one: BEGIN when a node is first
 *	  needed, savepoints, statement snapshots, commit, abort.
 */
#ifndef SHARDFDW_TXN_H
#define SHARDFDW_TXN_H

#include "postgres.h"

#include "remote/connection.h"
#include "remote/pool.h"

/*
 * One statement's view of the nodes.  Streams of one statement on one node
 * share an exported snapshot; see remote/stream.h.
 */
typedef struct ShardSnapshot ShardSnapshot;

/*
 * The snapshot of the statement whose executor state lives in query_cxt; made
 * at first use, released (read transactions are ended without waiting) when
 * query_cxt is reset.
 */
extern ShardSnapshot *shard_txn_snapshot(MemoryContext query_cxt);

/*
 * Announces, before the first stream starts, that nstreams streams will be
 * opened on a node.  A node for which the whole statement expects one stream
 * alone needs no transaction around it (READ COMMITTED).
 */
extern void shard_txn_expect(ShardSnapshot *snapshot, Oid serverid, Oid userid, int nstreams);
extern bool shard_txn_single(ShardSnapshot *snapshot, Oid serverid, Oid userid);

/* Is more than one stream expected on the node, so that others import what one exports? */
extern bool shard_txn_is_shared(ShardSnapshot *snapshot, Oid serverid, Oid userid);

/*
 * The connection of this transaction that writes on the node: yielded by its
 * holder, in a remote transaction with savepoints up to the current nesting
 * level; later statements on this node all use it.  May block (connect, BEGIN).
 */
extern ShardConn *shard_txn_writer(Oid serverid, Oid userid);

/*
 * The parts of it, for those who write to many nodes at once.  start: the
 * connection, without a holder but perhaps still connecting, noted as the
 * node's writer (may block to make a holder yield).  preamble: appends to buf
 * BEGIN and SAVEPOINTs up to nesting level, nothing when they stand already.
 */
extern ShardConn *shard_txn_writer_start(Oid serverid, Oid userid);
extern void shard_txn_writer_preamble(ShardConn *conn, int level, StringInfo buf);

/*
 * One more connection that writes on the node in this transaction, without a
 * holder but perhaps still connecting; the node's writer must have been started
 * before.  NULL when the pool's cap allows no more, and always at REPEATABLE
 * READ and above: use one connection then.
 *
 * What it writes is in a transaction of its own on the node: no other
 * statement of this transaction can see it or touch it, it sees nothing of what
 * the writer or another extra writer does, and a lock that one of them waits
 * for and another one holds is waited for for ever.  So it is only for a statement
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
 * Rows of one table must not come over two connections: they could wait for each
 * other.  claim: conn, an extra writer, writes to table (name as in SQL, the
 * same each time) from now on.  of: the extra writer that has claimed it; NULL:
 * none, it is the writer's.
 */
extern void shard_txn_extra_writer_claim(ShardConn *conn, const char *table);
extern ShardConn *shard_txn_extra_writer_of(Oid serverid, Oid userid, const char *table);

/*
 * conn's holder has rolled its remote transaction back and goes on only to find
 * out why the local transaction is going to fail: what comes may see any moment.
 */
extern void shard_txn_forget_doomed(ShardConn *conn);

/* Raises when the node has aborted the transaction that this transaction wrote in. */
extern void shard_txn_check_writer(ShardConn *conn);

/*
 * True when a reader must use pool->writer.  Not so for a statement whose
 * snapshot on this node is older than the first write: its further streams keep
 * to it, and do not see what the statement itself writes.
 */
extern bool shard_txn_uses_writer(ShardPool *pool, ShardSnapshot *snapshot);

/* Is the node's snapshot exported, or about to be, by a connection that is there? */
extern bool shard_txn_is_exported(ShardSnapshot *snapshot, Oid serverid, Oid userid);

/* Does a snapshot of the node last only as long as conn's transaction? */
extern bool shard_txn_is_exporter(const ShardConn *conn);

/*
 * Appends to buf what must precede a reader's statement on conn: BEGIN with the
 * right isolation level, SET TRANSACTION SNAPSHOT or pg_export_snapshot(), or
 * SAVEPOINTs; nothing when nothing is needed.  *exports is set when the text
 * holds SELECT pg_export_snapshot(), whose result (the text's first one with
 * rows) the caller must hand to shard_txn_exported().  Returns false when the snapshot of this node is being
 * exported by another connection right now: the caller waits for it.
 */
extern bool shard_txn_reader_preamble(ShardConn *conn, ShardSnapshot *snapshot,
									  StringInfo buf, bool *exports);
extern void shard_txn_exported(ShardConn *conn, const char *snapshot_id);

/* Nobody will read the identifier that conn's preamble has asked for: another connection is to export. */
extern void shard_txn_export_given_up(ShardConn *conn);

/* Isolation of the remote transaction, e.g. "READ COMMITTED". */
extern const char *shard_txn_isolation(void);

extern void shard_txn_init(void);	/* (sub)transaction callbacks */

#endif
