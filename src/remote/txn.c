/*
 * txn.c
 *	  Remote transactions follow the local one.
 *
 * A connection is outside a transaction (xact_depth 0), or in one that belongs
 *
 *	- to this transaction's writes on the node: pool->writer, from the first
 *	  write until the local transaction ends, with a savepoint per local
 *	  subtransaction in which the connection was used;
 *	- to the snapshot of one statement (READ COMMITTED): the first connection
 *	  exports its snapshot, the others import it, all are READ ONLY; they are
 *	  ended, without waiting, when the statement's memory goes;
 *	- to the snapshot of the whole transaction (REPEATABLE READ and above): the
 *	  same, but they end with the local transaction.  When the node is written
 *	  to, the writer is one more connection that imports the snapshot.
 *
 * A statement that needs one stream of a node has no transaction around it.
 * SERIALIZABLE: the pool gives out one connection per node, since the node can
 * find dangerous structures only when it sees one transaction.
 *
 * BEGIN and SAVEPOINT are sent when a connection is used, in one message with
 * what follows; the end of a subtransaction costs nothing (its savepoint is
 * "stale" and released with the next statement).
 *
 * End of the local transaction (PRE_COMMIT):
 *
 *	 nothing written ------------------> COMMIT of readers, not waited for
 *	 one node, nothing local ----------> COMMIT there, waited for
 *	 several nodes, or node + local ---> twophase.c
 *
 * The writer of a node may have been lost while an inner block caught the
 * error.  Then the local transaction can no longer commit: list "writers" says
 * what was written where, and is compared with what is left.
 */
#include "postgres.h"

#include "access/xact.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "miscadmin.h"
#include "remote/broadcast.h"
#include "remote/error.h"
#include "remote/stream.h"
#include "remote/twophase.h"
#include "remote/txn.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* All of an abort's waiting for nodes, in ms. */
#define ABORT_TIMEOUT_MS 10000

typedef enum ShardSnapshotState
{
	SNAPSHOT_NONE,
	SNAPSHOT_EXPORTING,			/* asked for, the identifier has not come */
	SNAPSHOT_EXPORTED
} ShardSnapshotState;

/* What a snapshot is on one node. */
typedef struct ShardNodeSnapshot
{
	Oid			serverid;
	Oid			userid;
	int			nexpected;		/* streams announced */
	ShardSnapshotState state;
	ShardConn  *exporter;		/* compare only: it may be gone */
	char	   *id;				/* as pg_export_snapshot() gave it */
} ShardNodeSnapshot;

struct ShardSnapshot
{
	dlist_node	link;			/* in snapshots */
	MemoryContext query_cxt;	/* NULL: the transaction's */
	MemoryContext cxt;			/* memory of the below */
	MemoryContextCallback callback;
	List	   *nodes;			/* of ShardNodeSnapshot */
};

/* A node that this transaction writes to. */
typedef struct ShardWriter
{
	Oid			serverid;
	Oid			userid;
	char	   *node;
	int			level;			/* outermost nesting level in which it wrote */
} ShardWriter;

typedef struct ShardConnList
{
	ShardConn **conns;
	int			nconns;
	int			maxconns;
} ShardConnList;

static dlist_head snapshots = DLIST_STATIC_INIT(snapshots);
static ShardSnapshot *xact_snapshot = NULL; /* in TopTransactionContext */
static List *writers = NIL;		/* of ShardWriter, in TopTransactionContext */
static bool touched = false;	/* this transaction has used a node */

/* After PREPARE on the nodes, until the end of the local transaction. */
static ShardConnList prepared = {NULL, 0, 0};

const char *
shard_txn_isolation(void)
{
	if (XactIsoLevel == XACT_SERIALIZABLE)
		return "SERIALIZABLE";
	if (XactIsoLevel == XACT_REPEATABLE_READ)
		return "REPEATABLE READ";
	return "READ COMMITTED";
}

/*
 * Lists of connections
 */

static void
add_conn(ShardConn *conn, void *arg)
{
	ShardConnList *list = arg;

	if (list->nconns == list->maxconns)
	{
		list->maxconns = Max(16, list->maxconns * 2);
		if (list->conns)
			list->conns = repalloc(list->conns, list->maxconns * sizeof(ShardConn *));
		else
			list->conns = palloc(list->maxconns * sizeof(ShardConn *));
	}
	list->conns[list->nconns++] = conn;
}

/* Every connection of this backend, in the current context. */
static ShardConnList
all_conns(void)
{
	ShardConnList list = {NULL, 0, 0};

	shard_pool_each(add_conn, &list);
	return list;
}

static ShardPool *
pool_of(ShardConn *conn)
{
	return shard_pool_get(conn->serverid, conn->userid);
}

/* conn is outside any transaction now. */
static void
forget_xact(ShardConn *conn)
{
	conn->xact_depth = 0;
	conn->xact_wrote = false;
	conn->xact_failed = false;
	conn->xact_stale = false;
	conn->snapshot = NULL;
	conn->prepared_gid = NULL;
}

/*
 * Snapshots
 */

static ShardNodeSnapshot *
node_snapshot(ShardSnapshot *snapshot, Oid serverid, Oid userid)
{
	MemoryContext oldcxt;
	ShardNodeSnapshot *node;
	ListCell   *lc;

	foreach(lc, snapshot->nodes)
	{
		node = lfirst(lc);
		if (node->serverid == serverid && node->userid == userid)
			return node;
	}
	oldcxt = MemoryContextSwitchTo(snapshot->cxt);
	node = palloc0(sizeof(ShardNodeSnapshot));
	node->serverid = serverid;
	node->userid = userid;
	snapshot->nodes = lappend(snapshot->nodes, node);
	MemoryContextSwitchTo(oldcxt);
	return node;
}

/* True when the transaction that exported node's snapshot is still open. */
static bool
exporter_alive(ShardSnapshot *snapshot, ShardNodeSnapshot *node)
{
	ShardPool  *pool = shard_pool_get(node->serverid, node->userid);
	dlist_iter	iter;

	if (node->state == SNAPSHOT_NONE)
		return false;
	dlist_foreach(iter, &pool->conns)
	{
		ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

		if (conn != node->exporter)
			continue;
		return conn->state == SHARD_CONN_READY && conn->snapshot == snapshot &&
			conn->xact_depth > 0 && !conn->xact_failed &&
			(node->state == SNAPSHOT_EXPORTED || conn->holder != NULL);
	}
	return false;
}

/*
 * Sends the COMMIT that ends the read transaction of conn when it belongs to
 * the snapshot arg; its answer is read before the connection is used again.
 */
static void
end_read_transaction(ShardConn *conn, void *arg)
{
	if (conn->snapshot == NULL || conn->snapshot != (ShardSnapshot *) arg)
		return;
	conn->snapshot = NULL;
	if (conn->xact_depth == 0 || conn->xact_wrote || conn->holder != NULL ||
		conn->state != SHARD_CONN_READY)
		return;

	/*
	 * A stream that could not be ended keeps the connection busy: then the
	 * transaction is ended by the connection's next user or with the local
	 * one.
	 */
	if (PQtransactionStatus(conn->pg) == PQTRANS_ACTIVE)
		return;
	if (shard_broadcast_send(conn, "COMMIT"))
	{
		conn->end_pending = true;
		forget_xact(conn);
	}
}

static void
end_snapshot(void *arg)
{
	ShardSnapshot *snapshot = arg;

	dlist_delete(&snapshot->link);
	shard_pool_each(end_read_transaction, snapshot);
}

ShardSnapshot *
shard_txn_snapshot(MemoryContext query_cxt)
{
	MemoryContext cxt = query_cxt;
	ShardSnapshot *snapshot;
	dlist_iter	iter;

	touched = true;
	if (IsolationUsesXactSnapshot())
	{
		if (!xact_snapshot)
		{
			xact_snapshot = MemoryContextAllocZero(TopTransactionContext, sizeof(ShardSnapshot));
			xact_snapshot->cxt = TopTransactionContext;
		}
		return xact_snapshot;
	}

	dlist_foreach(iter, &snapshots)
	{
		snapshot = dlist_container(ShardSnapshot, link, iter.cur);
		if (snapshot->query_cxt == query_cxt)
			return snapshot;
	}
	snapshot = MemoryContextAllocZero(cxt, sizeof(ShardSnapshot));
	snapshot->query_cxt = query_cxt;
	snapshot->cxt = cxt;
	snapshot->callback.func = end_snapshot;
	snapshot->callback.arg = snapshot;
	dlist_push_head(&snapshots, &snapshot->link);
	MemoryContextRegisterResetCallback(cxt, &snapshot->callback);
	return snapshot;
}

void
shard_txn_expect(ShardSnapshot *snapshot, Oid serverid, Oid userid, int nstreams)
{
	node_snapshot(snapshot, serverid, userid)->nexpected += nstreams;
}

bool
shard_txn_single(ShardSnapshot *snapshot, Oid serverid, Oid userid)
{
	if (IsolationUsesXactSnapshot())
		return false;
	return snapshot == NULL || node_snapshot(snapshot, serverid, userid)->nexpected == 1;
}

bool
shard_txn_is_exporter(const ShardConn *conn)
{
	return conn->xact_depth > 0 && conn->snapshot != NULL &&
		node_snapshot(conn->snapshot, conn->serverid, conn->userid)->exporter == conn;
}

bool
shard_txn_is_exported(ShardSnapshot *snapshot, Oid serverid, Oid userid)
{
	ShardNodeSnapshot *node = node_snapshot(snapshot, serverid, userid);

	return node->state != SNAPSHOT_NONE && exporter_alive(snapshot, node);
}

bool
shard_txn_uses_writer(ShardPool *pool, ShardSnapshot *snapshot)
{
	ShardNodeSnapshot *node;

	if (!pool->writer)
		return false;
	if (IsolationUsesXactSnapshot() || !snapshot)
		return true;
	node = node_snapshot(snapshot, pool->key_serverid, pool->key_userid);
	return node->state != SNAPSHOT_EXPORTED || !exporter_alive(snapshot, node);
}

/*
 * Beginning
 */

/* Appends SAVEPOINTs until conn has one per local level. */
static void
append_savepoints(ShardConn *conn, int level, StringInfo buf)
{
	if (conn->xact_stale)
	{
		appendStringInfo(buf, "RELEASE SAVEPOINT s%d; ", conn->xact_depth + 1);
		conn->xact_stale = false;
	}
	while (conn->xact_depth < level)
		appendStringInfo(buf, "SAVEPOINT s%d; ", ++conn->xact_depth);
}

/* Appends the end of a read transaction that conn is still in, if it is in one. */
static void
append_end_of_reading(ShardConn *conn, StringInfo buf)
{
	if (conn->xact_depth > 0)
		appendStringInfoString(buf, "COMMIT; ");
	forget_xact(conn);
}

static void
append_begin(ShardConn *conn, StringInfo buf, const char *isolation, bool read_only)
{
	appendStringInfo(buf, "BEGIN ISOLATION LEVEL %s%s%s; ", isolation,
					 read_only ? " READ ONLY" : "",
					 XactDeferrable && XactReadOnly && IsolationIsSerializable() ? " DEFERRABLE" : "");
	conn->xact_depth = 1;
}

static ShardWriter *
find_writer(Oid serverid, Oid userid)
{
	ListCell   *lc;

	foreach(lc, writers)
	{
		ShardWriter *writer = lfirst(lc);

		if (writer->serverid == serverid && writer->userid == userid)
			return writer;
	}
	return NULL;
}

/* Notes that conn's node is written to in the subtransaction of level. */
static void
note_writer(ShardConn *conn, int level)
{
	ShardWriter *writer = find_writer(conn->serverid, conn->userid);
	MemoryContext oldcxt;

	if (writer)
	{
		writer->level = Min(writer->level, level);
		return;
	}
	oldcxt = MemoryContextSwitchTo(TopTransactionContext);
	writer = palloc(sizeof(ShardWriter));
	writer->serverid = conn->serverid;
	writer->userid = conn->userid;
	writer->node = pstrdup(conn->node);
	writer->level = level;
	writers = lappend(writers, writer);
	MemoryContextSwitchTo(oldcxt);
}

/*
 * The transaction's snapshot of a node has been lost with its connection: what
 * would be read now is another one.
 */
static void
check_snapshot_kept(ShardNodeSnapshot *node)
{
	if (node->state == SNAPSHOT_EXPORTED && !exporter_alive(xact_snapshot, node))
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("the snapshot of this transaction on node \"%s\" was lost with its connection",
						GetForeignServer(node->serverid)->servername),
				 errhint("Roll back the transaction and try again.")));
}

/* Appends what a statement over the node's writing connection needs before it. */
static void
append_writer_begin(ShardConn *conn, int level, StringInfo buf)
{
	bool		whole = IsolationUsesXactSnapshot();

	/* a read transaction of an earlier statement, or of this transaction's readers, is in the way */
	if (conn->xact_depth > 0 && !conn->xact_wrote && (!whole || conn->snapshot != NULL))
		append_end_of_reading(conn, buf);
	if (conn->xact_depth == 0)
	{
		append_begin(conn, buf, shard_txn_isolation(), XactReadOnly);
		if (whole && xact_snapshot)
		{
			ShardNodeSnapshot *node = node_snapshot(xact_snapshot, conn->serverid, conn->userid);

			check_snapshot_kept(node);
			if (node->state == SNAPSHOT_EXPORTED)
				appendStringInfo(buf, "SET TRANSACTION SNAPSHOT '%s'; ", node->id);
		}
	}
	append_savepoints(conn, level, buf);
}

void
shard_txn_writer_preamble(ShardConn *conn, int level, StringInfo buf)
{
	append_writer_begin(conn, level, buf);
	conn->xact_wrote = true;
	note_writer(conn, level);
}

bool
shard_txn_reader_preamble(ShardConn *conn, ShardSnapshot *snapshot,
						  StringInfo buf, bool *exports)
{
	bool		whole = IsolationUsesXactSnapshot();
	ShardNodeSnapshot *node;

	*exports = false;
	touched = true;
	if (whole)
		snapshot = shard_txn_snapshot(NULL);

	if (pool_of(conn)->writer == conn)
	{
		append_writer_begin(conn, GetCurrentTransactionNestLevel(), buf);
		return true;
	}
	if (conn->xact_depth > 0 && conn->snapshot == snapshot && snapshot != NULL)
	{
		if (whole)
			append_savepoints(conn, GetCurrentTransactionNestLevel(), buf);
		return true;
	}

	if (shard_txn_single(snapshot, conn->serverid, conn->userid))
	{
		append_end_of_reading(conn, buf);
		return true;
	}

	node = node_snapshot(snapshot, conn->serverid, conn->userid);
	if (whole)
		check_snapshot_kept(node);
	if (!exporter_alive(snapshot, node))
		node->state = SNAPSHOT_NONE;

	/* nothing is taken for done before it is certain that buf will be sent */
	if (node->state == SNAPSHOT_EXPORTING)
		return false;
	append_end_of_reading(conn, buf);

	if (node->state == SNAPSHOT_EXPORTED)
	{
		append_begin(conn, buf, IsolationIsSerializable() ? "SERIALIZABLE" : "REPEATABLE READ", true);
		appendStringInfo(buf, "SET TRANSACTION SNAPSHOT '%s'; ", node->id);
	}
	else
	{
		append_begin(conn, buf, whole ? shard_txn_isolation() : "REPEATABLE READ", true);
		appendStringInfoString(buf, "SELECT pg_catalog.pg_export_snapshot(); ");
		node->state = SNAPSHOT_EXPORTING;
		node->exporter = conn;
		*exports = true;
	}
	conn->snapshot = snapshot;
	if (whole)
		append_savepoints(conn, GetCurrentTransactionNestLevel(), buf);
	return true;
}

void
shard_txn_exported(ShardConn *conn, const char *snapshot_id)
{
	ShardNodeSnapshot *node;

	if (!conn->snapshot)
		return;					/* its statement has ended meanwhile */
	node = node_snapshot(conn->snapshot, conn->serverid, conn->userid);
	node->id = MemoryContextStrdup(conn->snapshot->cxt, snapshot_id);
	node->state = SNAPSHOT_EXPORTED;
	node->exporter = conn;
}

/*
 * Writing
 */

/* Raises when what writer wrote is lost. */
static void
check_not_lost(ShardWriter *writer)
{
	ShardConn  *conn = shard_pool_get(writer->serverid, writer->userid)->writer;

	if (conn == NULL || conn->state == SHARD_CONN_BROKEN ||
		(conn->state == SHARD_CONN_READY && PQstatus(conn->pg) == CONNECTION_BAD))
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("connection to node \"%s\" was lost after this transaction had written there",
						writer->node),
				 errhint("Roll back the transaction and try again.")));
}

void
shard_txn_check_writer(ShardConn *conn)
{
	if (conn->state == SHARD_CONN_READY && PQtransactionStatus(conn->pg) == PQTRANS_INERROR)
		ereport(ERROR,
				(errcode(ERRCODE_IN_FAILED_SQL_TRANSACTION),
				 errmsg("the transaction on node \"%s\" is aborted", conn->node),
				 errhint("Roll back the transaction and try again.")));
}

/*
 * A connection to write with, not yet in a transaction of this one's: a free
 * one, one that a statement has read with and does not need to export its
 * snapshot any more, one that is being opened; else one more is opened, even
 * above the cap, since taking one from a reader would lose its snapshot.
 */
static ShardConn *
pick_writer(ShardPool *pool)
{
	ShardConn  *leftover = NULL;
	ShardConn  *conn;
	dlist_iter	iter;

	dlist_foreach(iter, &pool->conns)
	{
		conn = dlist_container(ShardConn, link, iter.cur);
		if (conn->holder != NULL || conn->invalidated || conn->state != SHARD_CONN_READY ||
			!shard_connection_usable(conn))
			continue;
		if (conn->xact_depth == 0)
			return conn;
		if (!conn->snapshot ||
			node_snapshot(conn->snapshot, conn->serverid, conn->userid)->exporter != conn)
			leftover = conn;
	}
	if (leftover)
		return leftover;

	shard_pool_warm(pool);
	dlist_foreach(iter, &pool->conns)
	{
		conn = dlist_container(ShardConn, link, iter.cur);
		if (conn->holder == NULL && !conn->invalidated && conn->state == SHARD_CONN_CONNECTING)
			return conn;
	}
	conn = shard_pool_acquire_free(pool);
	shard_connection_release(conn);
	return conn;
}

/*
 * In a transaction with one snapshot: the new writer of pool imports it, which
 * has to be waited for, since only then may those who read with it end.  They
 * do, because the locks they hold could stand in the writer's way for ever.
 */
static void
take_over_snapshot(ShardPool *pool)
{
	StringInfoData buf;
	dlist_iter	iter;
	bool		importing = false;

	shard_connection_finish(pool->writer);
	initStringInfo(&buf);
	append_writer_begin(pool->writer, GetCurrentTransactionNestLevel(), &buf);
	if (buf.len > 0)
		shard_connection_exec(pool->writer, buf.data);
	pfree(buf.data);

	/* A stream may have sent its import without the node having carried it out. */
	dlist_foreach(iter, &pool->conns)
	{
		ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

		if (conn != pool->writer && conn->holder != NULL && conn->snapshot == xact_snapshot)
			importing = true;
	}
	dlist_foreach(iter, &pool->conns)
	{
		ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

		if (conn != pool->writer && conn->holder == NULL &&
			!(importing && shard_txn_is_exporter(conn)))
			end_read_transaction(conn, xact_snapshot);
	}
}

ShardConn *
shard_txn_writer_start(Oid serverid, Oid userid)
{
	ShardPool  *pool = shard_pool_get(serverid, userid);
	ShardWriter *writer = find_writer(serverid, userid);
	ShardConn  *conn;
	bool		takes_over = false;

	touched = true;
	if (writer)
		check_not_lost(writer);

	/*
	 * Streams of this statement that have not begun, be it that they are
	 * queued or that their connection is being opened, must not see what it
	 * writes.
	 */
	shard_stream_drain_queue(pool);

	conn = pool->writer;
	if (!conn && xact_snapshot)
	{
		ShardNodeSnapshot *node = node_snapshot(xact_snapshot, serverid, userid);

		check_snapshot_kept(node);

		/*
		 * What has exported a snapshot cannot be prepared for a two-phase
		 * commit: the writer is another connection, which imports it.
		 */
		if (node->state == SNAPSHOT_EXPORTING && exporter_alive(xact_snapshot, node))
			shard_connection_yield(node->exporter);
		takes_over = node->state == SNAPSHOT_EXPORTED;
	}
	if (!conn)
		conn = pick_writer(pool);
	if (conn->holder)
		shard_connection_yield(conn);

	pool->writer = conn;
	note_writer(conn, GetCurrentTransactionNestLevel());
	if (takes_over)
		take_over_snapshot(pool);
	return conn;
}

ShardConn *
shard_txn_writer(Oid serverid, Oid userid)
{
	ShardConn  *conn = shard_txn_writer_start(serverid, userid);
	StringInfoData buf;

	shard_connection_finish(conn);
	shard_txn_check_writer(conn);
	initStringInfo(&buf);
	shard_txn_writer_preamble(conn, GetCurrentTransactionNestLevel(), &buf);
	if (buf.len > 0)
		shard_connection_exec(conn, buf.data);
	pfree(buf.data);
	return conn;
}

/*
 * Commit
 */

/* Raises what went wrong with a COMMIT on one of items, after all have ended. */
static void
check_committed(ShardBroadcast *items, int nitems)
{
	int			ncommitted = 0;

	for (int i = 0; i < nitems; i++)
		if (shard_broadcast_ok(&items[i], "COMMIT"))
			ncommitted++;
	if (ncommitted > 0 && ncommitted < nitems)
		ereport(WARNING,
				(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
				 errmsg("the transaction has committed on %d of %d nodes", ncommitted, nitems),
				 errhint("Set shardfdw.commit_protocol to '2pc' to commit on all nodes or on none.")));

	for (int i = 0; i < nitems; i++)
	{
		ShardBroadcast *item = &items[i];
		PGresult   *res = item->result;

		if (item->done && shard_broadcast_ok(item, "COMMIT"))
			continue;
		item->result = NULL;
		for (int j = i + 1; j < nitems; j++)
			PQclear(items[j].result);
		if (item->done && res && PQresultStatus(res) == PGRES_FATAL_ERROR)
			shard_error_report(ERROR, res, item->conn, NULL, NULL);
		PQclear(res);
		if (!item->sent)
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("connection to node \"%s\" was lost before commit", item->conn->node)));
		if (item->done)
			ereport(ERROR,
					(errcode(ERRCODE_IN_FAILED_SQL_TRANSACTION),
					 errmsg("the transaction on node \"%s\" is aborted", item->conn->node),
					 errdetail("The node answered COMMIT with ROLLBACK.")));
		ereport(ERROR,
				(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
				 errmsg("node \"%s\" did not confirm the commit", item->conn->node),
				 errdetail("Whether the transaction has committed there is not known.")));
	}
}

/* COMMIT on all conns at once, waited for. */
static void
commit_now(ShardConn **conns, int nconns)
{
	ShardBroadcast *items = palloc0(nconns * sizeof(ShardBroadcast));

	for (int i = 0; i < nconns; i++)
	{
		items[i].conn = conns[i];
		items[i].sql = "COMMIT";
	}
	shard_broadcast_start(items, nconns);
	shard_broadcast_finish(items, nconns, -1, SHARD_BROADCAST_HURRY);
	for (int i = 0; i < nconns; i++)
		if (items[i].done)
			forget_xact(conns[i]);
	check_committed(items, nconns);
	shard_broadcast_clear(items, nconns);
	pfree(items);
}

/* Ends the transactions of readers.  Those of SERIALIZABLE are verdicts and are waited for. */
static void
commit_readers(ShardConnList *readers)
{
	if (IsolationIsSerializable())
	{
		commit_now(readers->conns, readers->nconns);
		return;
	}
	for (int i = 0; i < readers->nconns; i++)
	{
		ShardConn  *conn = readers->conns[i];

		if (conn->state != SHARD_CONN_READY)
			continue;			/* the pool closes it */
		if (PQtransactionStatus(conn->pg) == PQTRANS_ACTIVE)
			conn->state = SHARD_CONN_BROKEN;
		else if (shard_broadcast_send(conn, "COMMIT"))
			conn->end_pending = true;
		forget_xact(conn);
	}
}

/* Lets holders of writing connections finish, and raises if something written is lost. */
static void
settle_writers(void)
{
	ListCell   *lc;

	foreach(lc, writers)
	{
		ShardWriter *writer = lfirst(lc);
		ShardConn  *conn;

		check_not_lost(writer);
		conn = shard_pool_get(writer->serverid, writer->userid)->writer;
		if (conn->holder)
			shard_connection_yield(conn);
		check_not_lost(writer);
		shard_txn_check_writer(conn);
	}
}

static void
pre_commit(void)
{
	ShardConnList all;
	ShardConnList readers = {NULL, 0, 0};
	ShardConnList written = {NULL, 0, 0};

	settle_writers();
	all = all_conns();
	for (int i = 0; i < all.nconns; i++)
	{
		ShardConn  *conn = all.conns[i];

		if (conn->xact_depth == 0)
			continue;
		if (conn->holder)
			shard_connection_yield(conn);
		if (conn->xact_wrote)
			add_conn(conn, &written);
		else
			add_conn(conn, &readers);
	}
	if (readers.nconns > 0)
		commit_readers(&readers);
	if (written.nconns == 0)
		return;

	if (shard_guc_commit_protocol == SHARD_COMMIT_1PC ||
		(written.nconns == 1 && !TransactionIdIsValid(GetTopTransactionIdIfAny())))
		commit_now(written.conns, written.nconns);
	else
	{
		/* known to abort from the first PREPARE on */
		MemoryContext oldcxt = MemoryContextSwitchTo(TopTransactionContext);

		for (int i = 0; i < written.nconns; i++)
			add_conn(written.conns[i], &prepared);
		MemoryContextSwitchTo(oldcxt);
		shard_twophase_prepare(prepared.conns, prepared.nconns);
	}
}

/* The transaction is over here: nothing may point to it any more. */
static void
end_of_xact(void)
{
	ShardConnList all = all_conns();

	for (int i = 0; i < all.nconns; i++)
	{
		ShardConn  *conn = all.conns[i];

		pool_of(conn)->writer = NULL;
		forget_xact(conn);
		if (conn->state == SHARD_CONN_BROKEN)
			shard_pool_discard(conn);
	}
	if (all.conns)
		pfree(all.conns);
	xact_snapshot = NULL;
	writers = NIL;
	memset(&prepared, 0, sizeof(prepared));
	touched = false;
}

/*
 * Abort
 */

static int
left_ms(TimestampTz deadline)
{
	return Max(100, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline));
}

/* What runs on conn does not end: closing the connection makes the node roll back. */
static void
give_up(ShardConn *conn)
{
	conn->state = SHARD_CONN_BROKEN;
	ereport(WARNING,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("connection to node \"%s\" is closed, since it did not answer while rolling back",
					conn->node)));
}

/* Runs items at once; connections on which that fails are broken. */
static void
rollback_all(ShardBroadcast *items, int nitems, TimestampTz deadline)
{
	if (nitems == 0)
		return;
	shard_broadcast_start(items, nitems);
	shard_broadcast_finish(items, nitems, left_ms(deadline), SHARD_BROADCAST_IGNORE);
	for (int i = 0; i < nitems; i++)
		if (!shard_broadcast_ok(&items[i], NULL))
			give_up(items[i].conn);
	shard_broadcast_clear(items, nitems);
}

/* Frees conn from whoever holds it and ends what runs there. */
static void
stop_running(ShardConn *conn, TimestampTz deadline)
{
	if (conn->holder)
		shard_connection_release(conn);
	if (conn->state == SHARD_CONN_READY && !conn->end_pending &&
		PQtransactionStatus(conn->pg) == PQTRANS_ACTIVE &&
		!shard_connection_cancel_noerror(conn, left_ms(deadline)))
		give_up(conn);
}

static void
abort_all(void)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ABORT_TIMEOUT_MS);
	ShardConnList all = all_conns();
	ShardBroadcast *items = palloc0(Max(all.nconns, 1) * sizeof(ShardBroadcast));
	int			nitems = 0;

	for (int i = 0; i < all.nconns; i++)
	{
		ShardConn  *conn = all.conns[i];

		if (conn->prepared_gid != NULL)
			continue;
		stop_running(conn, deadline);
		if (conn->state != SHARD_CONN_READY || conn->end_pending)
			continue;
		if (PQtransactionStatus(conn->pg) == PQTRANS_INTRANS ||
			PQtransactionStatus(conn->pg) == PQTRANS_INERROR)
		{
			items[nitems].conn = conn;
			items[nitems++].sql = "ROLLBACK";
		}
	}
	rollback_all(items, nitems, deadline);
	pfree(items);

	if (prepared.nconns > 0)
		shard_twophase_abort(prepared.conns, prepared.nconns);
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (touched)
				pre_commit();
			break;
		case XACT_EVENT_COMMIT:
			if (prepared.nconns > 0)
				shard_twophase_commit(prepared.conns, prepared.nconns);
			if (touched)
				end_of_xact();
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (touched)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has used nodes of shardfdw")));
			break;
		case XACT_EVENT_ABORT:
			/* not only if touched: a statement outside any transaction may be under way */
			abort_all();
			end_of_xact();
			break;
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			break;
	}
}

/*
 * Subtransactions
 */

/* True when all that this transaction wrote over conn was written in level or deeper. */
static bool
wrote_only_below(ShardConn *conn, int level)
{
	ShardWriter *writer = find_writer(conn->serverid, conn->userid);

	return writer && writer->level >= level && pool_of(conn)->writer == conn;
}

/*
 * Back to the savepoint of level on every connection that has one; the end of
 * the remote transaction where nothing else was done in it.
 */
static void
abort_sub(int level)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ABORT_TIMEOUT_MS);
	ShardConnList all = all_conns();
	ShardBroadcast *items = palloc0(Max(all.nconns, 1) * sizeof(ShardBroadcast));
	int			nitems = 0;
	char		rollback_to[80];

	snprintf(rollback_to, sizeof(rollback_to),
			 "ROLLBACK TO SAVEPOINT s%d; RELEASE SAVEPOINT s%d", level, level);
	for (int i = 0; i < all.nconns; i++)
	{
		ShardConn  *conn = all.conns[i];
		bool		whole = !IsolationUsesXactSnapshot() && wrote_only_below(conn, level);

		if (conn->xact_depth < level && !(whole && conn->xact_depth > 0))
			continue;
		stop_running(conn, deadline);
		if (conn->state == SHARD_CONN_READY)
		{
			items[nitems].conn = conn;
			items[nitems++].sql = whole ? "ROLLBACK" : rollback_to;
		}
		if (whole)
			forget_xact(conn);
		else
		{
			conn->xact_depth = level - 1;
			conn->xact_failed = false;
			conn->xact_stale = false;
		}
	}
	rollback_all(items, nitems, deadline);
	pfree(items);
}

/*
 * Moves what was written in level to its parent, or forgets it: a node whose
 * writes were all rolled back takes no part in the commit.  In a transaction
 * with one snapshot it keeps its connection, since that has the snapshot.
 */
static void
end_level(int level, bool committed)
{
	ListCell   *lc;

	foreach(lc, writers)
	{
		ShardWriter *writer = lfirst(lc);
		ShardPool  *pool = shard_pool_get(writer->serverid, writer->userid);

		if (writer->level < level)
			continue;
		if (committed)
			writer->level = level - 1;
		else if (IsolationUsesXactSnapshot())
		{
			if (pool->writer)
				pool->writer->xact_wrote = false;
		}
		else
		{
			pool->writer = NULL;
			writers = foreach_delete_current(writers, lc);
		}
	}
}

/* The savepoint of the subtransaction of level arg becomes part of the one around it. */
static void
leave_savepoint(ShardConn *conn, void *arg)
{
	int			level = *(int *) arg;

	if (conn->xact_depth < level)
		return;
	conn->xact_depth = level - 1;
	conn->xact_stale = true;
}

static void
subxact_callback(SubXactEvent event, SubTransactionId mySubid,
				 SubTransactionId parentSubid, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_PRE_COMMIT_SUB && touched)
	{
		/* nothing is allocated: core keeps a used context of a subtransaction until the transaction ends */
		shard_pool_each(leave_savepoint, &level);
		end_level(level, true);
	}
	else if (event == SUBXACT_EVENT_ABORT_SUB && touched)
	{
		abort_sub(level);
		end_level(level, false);
	}
}

void
shard_txn_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}
