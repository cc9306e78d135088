/*
 * txn.c
 *	  Transactions on nodes follow the local transaction: how they begin.
 *
 * A connection is outside a transaction (SHARD_XACT_NONE), or in a transaction that belongs to one
 * of these:
 *
 *	- This transaction's writes on the node (pool->writer), from the first write until the local
 *	  transaction ends.  There is a savepoint per local subtransaction in which the connection was
 *	  used.
 *	- The same writes, as an extra writer (conn->is_extra).  Only a transaction that is one
 *	  statement has extra writers: it distributes its rows over several connections of a node.
 *	- The snapshot of one statement (READ COMMITTED).  The first connection exports its snapshot,
 *	  the others import it.  All are READ ONLY.  When the statement's memory is freed, they are
 *	  ended without waiting.
 *	- The snapshot of the whole transaction (REPEATABLE READ and above).  The same, but they end
 *	  with the local transaction.  If the transaction writes to the node, one more connection, the
 *	  writer, imports the snapshot.
 *
 * A statement that needs only one stream of a node runs there without a transaction, unless the
 * session on the node must not keep settings (session_state off).  At SERIALIZABLE one connection
 * per node reads and writes: the node finds dangerous structures only within what it sees as one
 * transaction.
 *
 * BEGIN and SAVEPOINT are sent in one message with the statement that needs them.  The end of a
 * subtransaction sends nothing: its savepoint becomes "stale", and is released together with the
 * next statement.
 *
 * The list shard_txn_writers contains the nodes to which the transaction writes. txn_end.c has the
 * ends of transactions and subtransactions.
 *
 * Invariant: the local transaction commits only if every connection that was given out for writing
 * can commit.  A lost connection may vanish from its pool without a trace.  So the list says which
 * connections must exist: for each node the writer, and nextra connections with is_extra.  The flag
 * is_extra is set when a connection is given out (remote/pool/pool.c:shard_pool_start_extra()).
 * Only the end of the local transaction clears it (remote/xact/txn_end.c:end_on_conn()).  The end
 * of the remote transaction (1pc) and the loss of the connection must not clear it: the connection
 * would look free.
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "miscadmin.h"
#include "remote/wire/broadcast.h"
#include "remote/wire/error.h"
#include "remote/xact/txn_level.h"
#include "remote/xact/txn_private.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "version.h"

/* A statement that uses a snapshot. */
typedef struct SnapshotUse
{
	dlist_node	link;			/* in snapshot_uses */
	MemoryContext query_cxt;	/* of the statement; also contains this struct */
	ShardSnapshot *snapshot;	/* NULL: the transaction has ended */
	MemoryContextCallback callback;
} SnapshotUse;

/* Only at READ COMMITTED.  Innermost statements come first. */
static dlist_head snapshot_uses = DLIST_STATIC_INIT(snapshot_uses);
static ShardSnapshot *xact_snapshot = NULL; /* in TopTransactionContext */
List	   *shard_txn_writers = NIL;
bool		shard_txn_touched = false;
bool		shard_txn_has_written = false;
const ShardTxnUpcalls *shard_txn_upcalls = NULL;

static const char *
isolation_of_transaction(void)
{
	if (XactIsoLevel == XACT_SERIALIZABLE)
		return "SERIALIZABLE";
	if (XactIsoLevel == XACT_REPEATABLE_READ)
		return "REPEATABLE READ";
	return "READ COMMITTED";
}

void
shard_txn_forget(ShardConn *conn)
{
	memset(&conn->xact, 0, sizeof(conn->xact));
	shard_connection_forget_settings(conn);
}

void
shard_txn_reset(void)
{
	dlist_iter	iter;

	xact_snapshot = NULL;
	dlist_foreach(iter, &snapshot_uses)
		dlist_container(SnapshotUse, link, iter.cur)->snapshot = NULL;
	shard_txn_writers = NIL;
	shard_txn_touched = false;
	shard_txn_has_written = false;
}

/*
 * Snapshots
 */

/* Is the transaction that exported node's snapshot still open? */
static bool
exporter_alive(ShardSnapshot *snapshot, ShardNodeSnapshot *node)
{
	ShardPool  *pool;

	if (node->state == SHARD_SNAPSHOT_NONE)
		return false;
	pool = shard_pool_get_standby(node->serverid, node->exporter_userid, node->standby);
	shard_pool_foreach(conn, pool)
	{
		if (conn != node->exporter)
			continue;
		return conn->state == SHARD_CONN_READY && conn->xact.snapshot == snapshot &&
			!shard_connection_is_aborted(conn) &&
			(node->state == SHARD_SNAPSHOT_EXPORTED || conn->holder != NULL);
	}
	return false;
}

void
shard_txn_end_reading(ShardConn *conn)
{
	Assert(conn->xact.snapshot == NULL);
	if (conn->holder != NULL || conn->state != SHARD_CONN_READY || conn->xact.state != SHARD_XACT_READS)
		return;

	/*
	 * A stream that could not be ended keeps the connection busy.  Then the next user of the
	 * connection, or the end of the local transaction, ends the read transaction.
	 */
	if (PQtransactionStatus(conn->pg) == PQTRANS_ACTIVE)
		return;
	if (shard_broadcast_send(conn, "COMMIT"))
	{
		conn->end_pending = true;
		shard_txn_forget(conn);
	}
}

/* The same, if the read transaction of conn belongs to the snapshot arg. */
static void
end_read_transaction(ShardConn *conn, void *arg)
{
	if (conn->xact.snapshot == NULL || conn->xact.snapshot != (ShardSnapshot *) arg)
		return;
	Assert(conn->xact.state == SHARD_XACT_READS);
	conn->xact.snapshot = NULL;
	shard_txn_end_reading(conn);
}

static void
end_use(void *arg)
{
	SnapshotUse *use = arg;
	ShardSnapshot *snapshot = use->snapshot;

	dlist_delete(&use->link);
	if (snapshot == NULL || --snapshot->nuses > 0)
		return;
	shard_pool_each(end_read_transaction, snapshot);
	MemoryContextDelete(snapshot->cxt);
}

static ShardSnapshot *
create_snapshot(void)
{
	MemoryContext cxt = AllocSetContextCreate(TopTransactionContext, "shardfdw snapshot", ALLOCSET_SMALL_SIZES);
	ShardSnapshot *snapshot = MemoryContextAllocZero(cxt, sizeof(ShardSnapshot));

	snapshot->cxt = cxt;
	return snapshot;
}

/*
 * Finds the snapshot that a running statement has shared with statements that use the same active
 * snapshot, such as the queries of its STABLE functions.  NULL: none.
 */
static ShardSnapshot *
find_shared(void)
{
	dlist_iter	iter;

	if (!ActiveSnapshotSet())
		return NULL;
	dlist_foreach(iter, &snapshot_uses)
	{
		ShardSnapshot *snapshot = dlist_container(SnapshotUse, link, iter.cur)->snapshot;

		if (snapshot != NULL && snapshot->shared_as == GetActiveSnapshot())
			return snapshot;
	}
	return NULL;
}

/* If shardfdw.snapshot is 'cluster', takes the new snapshot on all nodes in parallel. */
static void
take_cut(ShardSnapshot *snapshot)
{
	if (shard_guc_snapshot != SHARD_SNAPSHOT_CLUSTER)
		return;
	shard_txn_upcalls->take_cut(snapshot);
	snapshot->cut = true;
}

ShardSnapshot *
shard_txn_snapshot(MemoryContext query_cxt)
{
	ShardSnapshot *snapshot;
	SnapshotUse *use;
	dlist_iter	iter;

	shard_txn_touched = true;
	if (IsolationUsesXactSnapshot())
	{
		if (!xact_snapshot)
		{
			snapshot = create_snapshot();
			take_cut(snapshot);
			xact_snapshot = snapshot;
		}
		return xact_snapshot;
	}

	dlist_foreach(iter, &snapshot_uses)
	{
		use = dlist_container(SnapshotUse, link, iter.cur);
		if (use->query_cxt == query_cxt)
			return use->snapshot;
	}
	use = MemoryContextAllocZero(query_cxt, sizeof(SnapshotUse));
	snapshot = find_shared();
	use->snapshot = snapshot ? snapshot : create_snapshot();
	use->snapshot->nuses++;
	use->query_cxt = query_cxt;
	use->callback.func = end_use;
	use->callback.arg = use;
	dlist_push_head(&snapshot_uses, &use->link);
	MemoryContextRegisterResetCallback(query_cxt, &use->callback);
	if (snapshot == NULL)
		take_cut(use->snapshot);
	return use->snapshot;
}

ShardPool *
shard_txn_reader_pool(ShardSnapshot *snapshot, Oid serverid, Oid userid)
{
	return shard_pool_get_standby(serverid, userid, snapshot ? shard_snapshot_node(snapshot, serverid, userid)->standby : 0);
}

bool
shard_txn_is_exported(ShardSnapshot *snapshot, Oid serverid, Oid userid)
{
	ShardNodeSnapshot *node = shard_snapshot_node(snapshot, serverid, userid);

	/* if the exporting stream were closed before it has read the identifier, the snapshot would be lost */
	if (node->state == SHARD_SNAPSHOT_EXPORTING && exporter_alive(snapshot, node))
		shard_connection_yield(node->exporter);
	return node->state == SHARD_SNAPSHOT_EXPORTED && exporter_alive(snapshot, node);
}

bool
shard_txn_uses_writer(ShardPool *pool, ShardSnapshot *snapshot)
{
	ShardNodeSnapshot *node;

	if (!pool->writer)
		return false;
	if (IsolationUsesXactSnapshot() || !snapshot)
		return true;
	node = shard_snapshot_node(snapshot, pool->key_serverid, pool->key_userid);
	return node->state != SHARD_SNAPSHOT_EXPORTED || !exporter_alive(snapshot, node);
}

ShardConn *
shard_txn_acquire_reader(ShardPool *pool, ShardSnapshot *snapshot)
{
	ShardConn  *conn;

	if (shard_txn_uses_writer(pool, snapshot))
	{
		conn = pool->writer;
		if (conn->holder)
			return NULL;
		if (conn->state != SHARD_CONN_CONNECTING && !shard_connection_usable(conn))
			ereport(ERROR,
					(errcode(ERRCODE_SYSTEM_ERROR),
					 errmsg("lost connection to node \"%s\"", conn->node),
					 errdetail("The transaction has written there.")));
		return conn;
	}
	conn = shard_pool_acquire_reader(pool, snapshot);

	/* the node must see one transaction, or it cannot find dangerous structures */
	if (conn && IsolationIsSerializable())
		pool->writer = conn;
	return conn;
}

bool
shard_txn_is_fixed(Oid serverid, Oid userid)
{
	ShardPool  *pool;

	if (!IsolationUsesXactSnapshot())
		return false;
	pool = shard_pool_get(serverid, userid);
	return (pool->writer != NULL && shard_connection_in_xact(pool->writer)) ||
		(xact_snapshot != NULL && shard_snapshot_node(xact_snapshot, serverid, userid)->state != SHARD_SNAPSHOT_NONE);
}

/*
 * Beginning
 */

/*
 * Appends SAVEPOINTs until conn has one per local nesting level.  Each name is new in this
 * transaction.  If a savepoint was not created in the end, ROLLBACK TO it must fail.  It must not
 * find the savepoint of a subtransaction that has committed.
 */
static void
append_savepoints(ShardConn *conn, int level, StringInfo buf)
{
	ShardRemoteXact *xact = &conn->xact;

	if (xact->stale_savepoint)
	{
		appendStringInfo(buf, "RELEASE SAVEPOINT s%d_%u; ", xact->depth + 1, xact->stale_savepoint);
		xact->stale_savepoint = 0;
		xact->guard = 0;
	}
	if (xact->depth < level && xact->guard != 0)
	{
		appendStringInfo(buf, "RELEASE SAVEPOINT shardfdw_stream_%u; ", xact->guard);
		xact->guard = 0;
	}
	while (xact->depth < level)
	{
		xact->depth++;
		appendStringInfo(buf, "SAVEPOINT s%d_%u; ", xact->depth, shard_txn_level_new_savepoint(xact->depth));
		xact->savepoint_sent = GetCurrentTimestamp();
		shard_txn_append_constraints(xact->depth, xact->depth, buf);
	}
}

/*
 * conn only reads.  Releases savepoints that are deeper than level, and appends those missing up to
 * level.  Rows read at level must survive the deeper savepoints, and a reader has nothing to roll
 * back there.
 */
static void
append_reader_savepoints(ShardConn *conn, int level, StringInfo buf)
{
	ShardRemoteXact *xact = &conn->xact;

	if (xact->depth > level)
	{
		appendStringInfo(buf, "RELEASE SAVEPOINT s%d_%u; ", level + 1, shard_txn_level_number(level + 1));
		xact->depth = level;
		xact->stale_savepoint = 0;
		xact->guard = 0;
	}
	append_savepoints(conn, level, buf);
}

/* If conn is in a read transaction, appends the end of that transaction. */
static void
append_end_of_reading(ShardConn *conn, StringInfo buf)
{
	if (shard_connection_in_xact(conn))
		appendStringInfoString(buf, "COMMIT; ");
	shard_txn_forget(conn);
}

/* Appends BEGIN of a transaction of kind state. conn must be outside a transaction. */
static void
append_begin(ShardConn *conn, ShardXactState state, const char *isolation, bool read_only, StringInfo buf)
{
	bool		deferrable = XactDeferrable && XactReadOnly && IsolationIsSerializable();

	read_only |= conn->standby > 0;
	/* the session's defaults were set when connecting; a session that keeps no settings gets all of them here */
	appendStringInfo(buf, "BEGIN ISOLATION LEVEL %s%s%s; ", isolation,
					 read_only ? " READ ONLY" : conn->stateless ? " READ WRITE" : "",
					 deferrable ? " DEFERRABLE" : conn->stateless ? " NOT DEFERRABLE" : "");
	Assert(!shard_connection_in_xact(conn));
	conn->xact.state = state;
	conn->xact.depth = 1;
}

/*
 * Compares what is known of both servers.  The identifier and the timeline are unknown (0) if the
 * role has no right to read them.
 */
static bool
may_be_same_server(const ShardConnServer *left, const ShardConnServer *right)
{
	return (left->system_identifier == 0 || right->system_identifier == 0 || left->system_identifier == right->system_identifier) &&
		(left->timeline == 0 || right->timeline == 0 || left->timeline == right->timeline) &&
		strcmp(NameStr(left->started), NameStr(right->started)) == 0;
}

/* Appends the command that makes the transaction use node's snapshot; belongs after BEGIN. */
static void
append_import(ShardConn *conn, const ShardNodeSnapshot *node, StringInfo buf)
{
	/* the options of the server may have changed, or an address may point to several servers */
	if (!may_be_same_server(&conn->server, &node->exported_on))
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("connections to node \"%s\" go to different servers", conn->node),
				 errdetail("The snapshot that is to be read was taken on another one.")));
	appendStringInfo(buf, "SET TRANSACTION SNAPSHOT '%s'; ", node->id);
	conn->xact.import = SHARD_IMPORT_SENT;
}

ShardWriter *
shard_txn_find_writer(Oid serverid, Oid userid)
{
	foreach_ptr(ShardWriter, writer, shard_txn_writers)
	{
		if (writer->serverid == serverid && writer->userid == userid)
			return writer;
	}
	return NULL;
}

/* The subtransaction of level writes to conn's node. */
static void
note_writer(ShardConn *conn, int level)
{
	ShardWriter *writer = shard_txn_find_writer(conn->serverid, conn->userid);
	MemoryContext oldcxt;

	shard_txn_has_written = true;
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
	writer->nextra = 0;
	writer->written = NIL;
	shard_txn_writers = lappend(shard_txn_writers, writer);
	MemoryContextSwitchTo(oldcxt);
}

/*
 * Raises if the snapshot of a node was lost with its connection but must stay the same.  A new
 * snapshot would show another state.
 */
static void
check_snapshot_kept(ShardSnapshot *snapshot, ShardNodeSnapshot *node)
{
	if (node->state == SHARD_SNAPSHOT_EXPORTED && !exporter_alive(snapshot, node))
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 IsolationUsesXactSnapshot() ?
				 errmsg("the snapshot of this transaction on node \"%s\" was lost with its connection",
						GetForeignServer(node->serverid)->servername) :
				 errmsg("the snapshot of this statement on node \"%s\" was lost with its connection",
						GetForeignServer(node->serverid)->servername),
				 IsolationUsesXactSnapshot() ? errhint("Roll back the transaction and try again.") : 0));
}

/* Appends the commands that must precede a statement on the node's writer. */
static void
append_writer_begin(ShardConn *conn, int level, StringInfo buf)
{
	bool		whole = IsolationUsesXactSnapshot();

	/* of an earlier statement, or of this transaction's readers */
	if (conn->xact.state == SHARD_XACT_READS || (conn->xact.state == SHARD_XACT_FOLLOWS && !whole))
		append_end_of_reading(conn, buf);
	if (!shard_connection_in_xact(conn))
	{
		append_begin(conn, SHARD_XACT_FOLLOWS, isolation_of_transaction(), XactReadOnly, buf);
		if (whole && xact_snapshot)
		{
			ShardNodeSnapshot *node = shard_snapshot_node(xact_snapshot, conn->serverid, conn->userid);

			check_snapshot_kept(xact_snapshot, node);
			if (node->state == SHARD_SNAPSHOT_EXPORTED)
				append_import(conn, node, buf);
		}
		shard_txn_append_constraints(1, 1, buf);
	}
	append_savepoints(conn, level, buf);
}

void
shard_txn_writer_preamble(ShardConn *conn, int level, bool only_reads, StringInfo buf)
{
	bool		was_reader = shard_connection_in_xact(conn) && conn->xact.state < SHARD_XACT_LOOKED;

	append_writer_begin(conn, level, buf);
	if (was_reader)
		shard_txn_append_constraints(1, level, buf);
	if (!only_reads)
		conn->xact.state = SHARD_XACT_WROTE;
	else
		conn->xact.state = Max(conn->xact.state, SHARD_XACT_LOOKED);
	note_writer(conn, level);
}

/*
 * node belongs to another user than the one who took the cluster snapshot (the owner of a view, for
 * example).  Makes it use the snapshot that was taken on the same node.
 */
static void
share_export(ShardSnapshot *snapshot, ShardNodeSnapshot *node)
{
	if (node->state != SHARD_SNAPSHOT_NONE)
		return;
	foreach_ptr(ShardNodeSnapshot, other, snapshot->nodes)
	{
		if (other->serverid != node->serverid || other->state != SHARD_SNAPSHOT_EXPORTED)
			continue;
		node->state = SHARD_SNAPSHOT_EXPORTED;
		node->id = other->id;
		node->exporter = other->exporter;
		node->exporter_userid = other->exporter_userid;
		node->exported_on = other->exported_on;
		return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("node \"%s\" is not part of the snapshot over all nodes",
					GetForeignServer(node->serverid)->servername),
			 errdetail("It is read as a user other than the current one, who has no mapping for it or has written to it."),
			 errhint("Set shardfdw.snapshot to 'node'.")));
}

bool
shard_txn_reader_preamble(ShardConn *conn, ShardSnapshot *snapshot, int level,
						  StringInfo buf, bool *exports)
{
	bool		whole = IsolationUsesXactSnapshot();
	ShardNodeSnapshot *node;

	*exports = false;
	shard_txn_touched = true;
	if (whole)
		snapshot = shard_txn_snapshot(NULL);
	if (shard_pool_of(conn)->writer == conn)
	{
		append_writer_begin(conn, level, buf);
		return true;
	}
	if (conn->xact.snapshot == snapshot && snapshot != NULL)
	{
		if (whole)
			append_reader_savepoints(conn, level, buf);
		return true;
	}

	if (shard_snapshot_is_single(snapshot, conn->serverid, conn->userid))
	{
		append_end_of_reading(conn, buf);
		/* the locks of shard_table_check() are held until the statement ends */
		if (conn->stateless || RecoveryInProgress())
		{
			append_begin(conn, SHARD_XACT_READS, "READ COMMITTED", XactReadOnly, buf);
			conn->xact.snapshot = snapshot;
		}
		return true;
	}

	node = shard_snapshot_node(snapshot, conn->serverid, conn->userid);
	if (snapshot->cut)
		share_export(snapshot, node);
	if (whole || snapshot->cut || node->shown)
		check_snapshot_kept(snapshot, node);
	if (!exporter_alive(snapshot, node))
		node->state = SHARD_SNAPSHOT_NONE;

	/* nothing may change before it is certain that buf will be sent */
	if (node->state == SHARD_SNAPSHOT_EXPORTING)
		return false;
	append_end_of_reading(conn, buf);

	if (node->state == SHARD_SNAPSHOT_EXPORTED)
	{
		append_begin(conn, SHARD_XACT_READS, IsolationIsSerializable() ? "SERIALIZABLE" : "REPEATABLE READ",
					 true, buf);
		append_import(conn, node, buf);
	}
	else
	{
		append_begin(conn, SHARD_XACT_READS, whole ? isolation_of_transaction() : "REPEATABLE READ", true, buf);
		appendStringInfoString(buf, "SELECT pg_catalog.pg_export_snapshot(); ");
		node->state = SHARD_SNAPSHOT_EXPORTING;
		node->exporter = conn;
		node->exporter_userid = conn->userid;
		*exports = true;
	}
	conn->xact.snapshot = snapshot;
	if (whole)
		append_savepoints(conn, level, buf);
	return true;
}

void
shard_txn_take_export(ShardSnapshot *snapshot, ShardConn *conn, const char *id)
{
	conn->xact.depth = 1;
	if (IsolationIsSerializable())
	{
		conn->xact.state = SHARD_XACT_FOLLOWS;
		shard_pool_of(conn)->writer = conn;
		return;
	}
	conn->xact.state = SHARD_XACT_READS;
	conn->xact.snapshot = snapshot;
	shard_snapshot_exported(conn, id);
}

void
shard_txn_check_not_lost(ShardWriter *writer)
{
	ShardPool  *pool = shard_pool_get(writer->serverid, writer->userid);

	if (pool->writer == NULL || !shard_connection_is_alive(pool->writer) ||
		shard_pool_count_extra(pool) != writer->nextra)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("connection to node \"%s\" was lost after this transaction had written there",
						writer->node),
				 errhint("Roll back the transaction and try again.")));
}

void
shard_txn_forget_doomed(ShardConn *conn)
{
	shard_txn_forget(conn);
	if (xact_snapshot)
		shard_snapshot_node(xact_snapshot, conn->serverid, conn->userid)->state = SHARD_SNAPSHOT_NONE;
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
 * Returns a connection to write with, which is not yet in a remote transaction of this local one.
 * In order of preference: a free connection, a connection that has read for a statement and need
 * not keep a snapshot exported, a connection that is being opened.  If there is none, opens one
 * more, even above the limit: taking the connection of a reader would lose its snapshot.
 */
static ShardConn *
pick_writer(ShardPool *pool)
{
	ShardConn  *leftover = NULL;
	ShardConn  *opened;

	shard_pool_foreach(conn, pool)
	{
		if (conn->holder != NULL || conn->is_extra || conn->invalidated ||
			conn->state != SHARD_CONN_READY || !shard_connection_usable(conn))
			continue;
		if (!shard_connection_in_xact(conn))
			return conn;
		if (!shard_snapshot_is_exporter(conn))
			leftover = conn;
	}
	if (leftover)
		return leftover;

	shard_pool_warm(pool);
	shard_pool_foreach(conn, pool)
	{
		if (conn->holder == NULL && !conn->is_extra && !conn->invalidated &&
			conn->state == SHARD_CONN_CONNECTING)
			return conn;
	}
	opened = shard_pool_acquire_free(pool);
	shard_connection_release(opened);
	return opened;
}

/* Does a stream of this transaction's snapshot read over conn? */
static bool
is_held_reader(const ShardConn *conn, const ShardPool *pool)
{
	return conn != pool->writer && conn->holder != NULL && conn->xact.snapshot == xact_snapshot;
}

/*
 * Ends the transactions of this transaction's idle readers on the node of pool.  Skips readers that
 * have a holder.  If there is such a holder, the exporter is skipped, too: an import of its
 * snapshot may have been sent, but not run yet.
 */
static void
end_idle_readers(ShardPool *pool)
{
	bool		importing = false;

	shard_pool_foreach(conn, pool)
	{
		if (is_held_reader(conn, pool))
			importing = true;
	}
	shard_pool_foreach(conn, pool)
	{
		if (conn != pool->writer && conn->holder == NULL &&
			!(importing && shard_snapshot_is_exporter(conn)))
			end_read_transaction(conn, xact_snapshot);
	}
}

void
shard_txn_end_readers(ShardPool *pool)
{
	bool		again = xact_snapshot != NULL;

	while (again)
	{
		again = false;
		shard_pool_foreach(conn, pool)
		{
			if (!is_held_reader(conn, pool))
				continue;
			shard_connection_yield(conn);	/* may close other connections */
			again = true;
			break;
		}
	}
	if (xact_snapshot)
		end_idle_readers(pool);
}

/*
 * In a transaction with a single snapshot: makes the new writer of pool import the snapshot, and
 * waits for that.  Then ends the readers' transactions on the node, since the writer could wait for
 * their locks indefinitely.
 */
static void
take_over_snapshot(ShardPool *pool, int level)
{
	StringInfoData buf;

	shard_connection_finish(pool->writer);
	initStringInfo(&buf);
	append_writer_begin(pool->writer, level, &buf);
	if (buf.len > 0)
		shard_broadcast_exec(pool->writer, buf.data);
	pfree(buf.data);
	end_idle_readers(pool);
}

ShardConn *
shard_txn_writer_start(Oid serverid, Oid userid, int level)
{
	ShardPool  *pool = shard_pool_get(serverid, userid);
	ShardWriter *writer = shard_txn_find_writer(serverid, userid);
	ShardConn  *conn;
	bool		takes_over = false;

	shard_version_check();
	shard_txn_touched = true;
	/* the writer's view of this node is part of the transaction's cluster snapshot, too */
	if (IsolationUsesXactSnapshot() && shard_guc_snapshot == SHARD_SNAPSHOT_CLUSTER)
		(void) shard_txn_snapshot(NULL);
	if (writer)
		shard_txn_check_not_lost(writer);

	/*
	 * Streams of this statement that have not started (queued, or still connecting) must not see
	 * what the statement writes.
	 */
	shard_txn_upcalls->drain_queue(pool);

	conn = pool->writer;
	if (!conn && xact_snapshot)
	{
		ShardNodeSnapshot *node = shard_snapshot_node(xact_snapshot, serverid, userid);

		if (node->standby > 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot use the primary of node \"%s\" in a transaction whose snapshot is that of a standby",
							GetForeignServer(serverid)->servername),
					 errhint("Roll back, and set shardfdw.read_from to 'primary' before the transaction is run again.")));
		check_snapshot_kept(xact_snapshot, node);

		/*
		 * A transaction that has exported its snapshot cannot be prepared.  So the writer is
		 * another connection, which imports the snapshot.
		 */
		if (node->state == SHARD_SNAPSHOT_EXPORTING && exporter_alive(xact_snapshot, node))
			shard_connection_yield(node->exporter);
		takes_over = node->state == SHARD_SNAPSHOT_EXPORTED;
	}
	if (!conn)
		conn = pick_writer(pool);
	if (conn->holder)
		shard_connection_yield(conn);

	pool->writer = conn;
	note_writer(conn, level);
	if (takes_over)
		take_over_snapshot(pool, level);
	return conn;
}
