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
 * holder but perhaps still connecting; NULL when the pool's limit allows no
 * more.  For a statement that is the whole transaction (not in a transaction
 * block, outermost level): what it writes is seen by nobody else here, and it
 * takes part in the commit, or in the loss of the transaction, as the writer
 * does.  Its preamble is shard_txn_writer_preamble's.  Free again after the commit.
 */
extern ShardConn *shard_txn_extra_writer_start(Oid serverid, Oid userid);

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

/* Isolation of the remote transaction, e.g. "READ COMMITTED". */
extern const char *shard_txn_isolation(void);

extern void shard_txn_init(void);	/* (sub)transaction callbacks */

#endif
