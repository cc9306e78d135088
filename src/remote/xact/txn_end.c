/*
 * txn_end.c
 *	  How transactions on nodes end with the local transaction and its subtransactions.
 *
 * End of the local transaction (PRE_COMMIT):
 *
 *	 readers --------------------------> COMMIT, not waited for (at SERIALIZABLE: waited for)
 *	 one connection wrote, nothing local
 *	   to commit ----------------------> COMMIT there, waited for
 *	 several wrote; or one connection
 *	   and the coordinator; or shards
 *	   with replicas were written --------> twophase.c
 *	 the same with commit_protocol
 *	   = '1pc', or in recovery --------> COMMIT on all in parallel, waited for (not if shards have replicas,
 *									 or another coordinator takes part)
 *
 * "Several" counts connections: to several nodes, or the writer and the extra writers of one node.
 * Each of them has a remote transaction, and all must end alike.  Shards with replicas include those
 * whose replicas are stale.
 *
 * "Nothing local to commit" means that the local transaction cannot fail any more after the node
 * has committed.  What PostgreSQL 15 to 19 still does after XACT_EVENT_PRE_COMMIT, in
 * CommitTransaction(), and why it cannot fail then:
 *
 *	 AtEOXact_Parallel				no parallel operation outlives its query
 *	 AfterTriggerEndXact			frees memory
 *	 PreCommit_on_commit_actions	ON COMMIT DELETE ROWS may fail: two phases, if temporary tables were
 *									used; ON COMMIT DROP: the session that created the table has an xid
 *	 smgrDoPendingSyncs				new files only: a session that has created one has an xid
 *	 AtEOXact_LargeObject			closes two relations; a session that has written has an xid
 *	 PreCommit_Notify				assigns an xid, waits for a lock, may find the queue full: two
 *									phases, if a notification is pending
 *	 PreCommit_CheckForSerializationFailure		fails only in sessions that have written here, which have an xid
 *	 RecordTransactionCommit		without an xid: flushes at most WAL of other sessions
 *
 * Interrupts are held from the node's answer until the local transaction has ended.  If a library
 * was loaded before this one, its transaction callbacks run after ours.  If one of them raises an
 * error, the local transaction is rolled back although the node has committed.
 *
 * An inner block may have caught the error with which the writer of a node was lost.  Then the
 * local transaction can no longer commit.  The list shard_txn_writers contains the connections that
 * have written; it is compared with those that still exist.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catch.h"
#include "commands/async.h"
#include "compat.h"
#include "fault.h"
#include "flush_commit.h"
#include "guc.h"
#include "miscadmin.h"
#include "remote/wire/broadcast.h"
#include "remote/wire/error.h"
#include "remote/wire/node_stat.h"
#include "remote/wire/wait.h"
#include "remote/xact/committed.h"
#include "remote/xact/fence.h"
#include "remote/xact/twophase.h"
#include "remote/xact/txn_level.h"
#include "remote/xact/txn_private.h"
#include "utils/memutils.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

/*
 * How long an abort waits for nodes, in ms.
 *
 * ABORT_TIMEOUT: if a node finds its connection closed, it rolls back the whole transaction by
 * itself.  So this wait is short.
 *
 * ABORT_SUB_TIMEOUT: with the connection the savepoint is lost, too.  So the wait for ROLLBACK TO
 * is longer.
 *
 * HURRY: if the user has cancelled, perhaps because of that node, both waits take less than a
 * second.
 *
 * LEAST: if one node has used up the time, the other nodes still get this much.
 */
#define ABORT_TIMEOUT_MS 3000
#define ABORT_SUB_TIMEOUT_MS 10000
#define ABORT_HURRY_MS 500
#define ABORT_LEAST_MS 1000
#define ABORT_LEAST_HURRY_MS 100	/* also for COMMITs of readers */


/* Nodes have committed: interrupts are held until the local transaction has ended. */
static bool holding_interrupts = false;

typedef struct ShardConnList
{
	ShardConn **conns;
	int			nconns;
	int			maxconns;
} ShardConnList;

/* Connections on which PREPARE was sent.  Set until the end of the local transaction. */
static ShardConnList prepared = {NULL, 0, 0};

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

/* Returns all connections of this backend.  Memory: current context. */
static ShardConnList
all_conns(void)
{
	ShardConnList list = {NULL, 0, 0};

	shard_pool_each(add_conn, &list);
	return list;
}

/*
 * Commit
 */

void
shard_txn_hold_interrupts(void)
{
	if (!holding_interrupts)
		HOLD_INTERRUPTS();
	holding_interrupts = true;
}

void
shard_txn_drop_cancel(void)
{
	/* a timeout that stays pending would be raised after the client was told of the commit */
	QueryCancelPending = false;
	(void) get_timeout_indicator(LOCK_TIMEOUT, true);
	(void) get_timeout_indicator(STATEMENT_TIMEOUT, true);
}

/*
 * Called after all COMMITs have ended.  Raises an error if one of items has not committed.
 * deadlock: why some were cancelled, or NULL.
 */
static void
check_committed(ShardBroadcast *items, int nitems, bool wrote, ErrorData *deadlock)
{
	int			ncommitted = 0;

	for (int i = 0; i < nitems; i++)
		if (shard_broadcast_ok(&items[i], "COMMIT"))
			ncommitted++;
	if (wrote && ncommitted > 0 && ncommitted < nitems)
		ereport(WARNING,
				(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
				 errmsg("the transaction has committed over %d of %d connections to nodes", ncommitted, nitems),
				 errhint("Set shardfdw.commit_protocol to '2pc' to commit on all nodes or on none.")));

	for (int i = 0; i < nitems; i++)
	{
		ShardBroadcast *item = &items[i];
		bool		canceled = shard_broadcast_sqlstate(item) == ERRCODE_QUERY_CANCELED;

		if (shard_broadcast_ok(item, "COMMIT"))
			continue;
		if (canceled)
			CHECK_FOR_INTERRUPTS();
		if (canceled && deadlock != NULL)
			ReThrowError(deadlock);
		if (item->done)
			(void) shard_broadcast_check(item, NULL, NULL);
		if (!item->sent)
			ereport(ERROR,
					(errcode(ERRCODE_SYSTEM_ERROR),
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

/* Sends COMMIT on all conns in parallel, and waits. */
static void
commit_now(ShardConn **conns, int nconns, bool wrote, bool holds_fence)
{
	ShardBroadcast *items = shard_broadcast_create(nconns);
	ErrorData  *deadlock = NULL;

	/* on a standby nothing was written, so an error (a conflict with recovery) may end the wait */
	ShardBroadcastInterrupt interrupt = RecoveryInProgress() ? SHARD_BROADCAST_RAISE : SHARD_BROADCAST_HURRY;

	for (int i = 0; i < nconns; i++)
	{
		items[i].conn = conns[i];
		items[i].sql = "COMMIT";
	}
	shard_broadcast_start(items, nconns);
	if (holds_fence)
	{
		(void) shard_broadcast_wait(items, nconns, SHARD_FENCE_HOLD_MS, interrupt);
		shard_fence_let_go();
	}
	if (interrupt == SHARD_BROADCAST_HURRY)
		deadlock = shard_broadcast_wait_for_commits(items, nconns, interrupt);
	shard_broadcast_finish(items, nconns, interrupt == SHARD_BROADCAST_HURRY ? 0 : -1, interrupt);
	for (int i = 0; i < nconns; i++)
	{
		if (items[i].done)
			shard_txn_forget(conns[i]);
		if (wrote && shard_broadcast_ok(&items[i], "COMMIT"))
		{
			shard_node_stat_add(conns[i]->stat_node, SHARD_NODE_COMMITS, 1);
			shard_committed_note(conns[i]->serverid, conns[i]);
		}
		else if (wrote && items[i].sent && !items[i].done)
			shard_committed_doubt(conns[i]->serverid);
	}
	check_committed(items, nconns, wrote, deadlock);
	shard_broadcast_free(items);
}

/* Ends the transactions of readers.  At SERIALIZABLE such a COMMIT may fail, so it is waited for. */
static void
commit_readers(ShardConnList *readers)
{
	if (IsolationIsSerializable())
	{
		commit_now(readers->conns, readers->nconns, false, false);
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
		shard_txn_forget(conn);
	}
}

/* Returns a connection that writes to the node of pool and has a holder; NULL: none. */
static ShardConn *
held_writer(ShardPool *pool)
{
	if (pool->writer && pool->writer->holder)
		return pool->writer;
	shard_pool_foreach(conn, pool)
	{
		if (conn->is_extra && conn->holder)
			return conn;
	}
	return NULL;
}

/* Lets holders of writing connections finish.  Raises if anything that was written is lost. */
static void
settle_writers(void)
{
	foreach_ptr(ShardWriter, writer, shard_txn_writers)
	{
		ShardPool  *pool = shard_pool_get(writer->serverid, writer->userid);
		ShardConn  *conn;

		/* while a holder yields, connections of other holders may be lost */
		shard_txn_check_not_lost(writer);
		while ((conn = held_writer(pool)) != NULL)
		{
			shard_connection_yield(conn);
			shard_txn_check_not_lost(writer);
		}
		shard_pool_foreach(writing, pool)
		{
			if (writing == pool->writer || writing->is_extra)
				shard_txn_check_writer(writing);
		}
	}
}

/* Does this transaction send notifications, or did it execute LISTEN? */
static bool
has_notifications(void)
{
	/* AtPrepare_Notify() raises exactly in this case; core has no other function to ask */
	return !shard_catch_noerror(AtPrepare_Notify);
}

bool
shard_txn_is_remote_only(void)
{
	return !TransactionIdIsValid(GetTopTransactionIdIfAny()) &&
		(MyXactFlags & XACT_FLAGS_ACCESSEDTEMPNAMESPACE) == 0 && !has_notifications();
}

/*
 * Sends COMMIT to all conns and waits.  After that the local transaction must not fail, so
 * interrupts are held.  There are several conns only with '1pc' or in recovery.  Then the snapshot
 * barrier is held as in a two-phase commit, so that no cluster snapshot sees only some of them
 * committed (for SHARD_FENCE_HOLD_MS at most).
 */
static void
commit_in_one_phase(ShardConn **conns, int nconns)
{
	shard_flush_commit_all();
	if (nconns > 1)
		shard_fence_hold();
	else
		shard_fence_pass();
	commit_now(conns, nconns, true, nconns > 1);
	shard_txn_hold_interrupts();
	shard_fence_pass_noerror();
	shard_txn_drop_cancel();
}

static void
pre_commit(void)
{
	ShardConnList all;
	ShardConnList readers = {NULL, 0, 0};
	ShardConnList written = {NULL, 0, 0};
	bool		has_replicas;
	bool		has_coordinators = false;

	settle_writers();
	has_replicas = shard_txn_upcalls->apply_replicas();
	if (has_replicas)
		settle_writers();
	all = all_conns();
	for (int i = 0; i < all.nconns; i++)
	{
		ShardConn  *conn = all.conns[i];

		if (!shard_connection_in_xact(conn))
			continue;
		if (conn->holder)
			shard_connection_yield(conn);
		if (conn->xact.state == SHARD_XACT_WROTE)
		{
			add_conn(conn, &written);
			has_coordinators |= conn->is_coordinator;
		}
		else
			add_conn(conn, &readers);
	}
	if (readers.nconns > 0)
		commit_readers(&readers);
	if (written.nconns == 0)
		return;
	if (!RecoveryInProgress())
		shard_twophase_require_coordinator(written.conns, written.nconns);

	/* in recovery no log row can be written; the transactions on nodes are READ ONLY then */
	if ((shard_guc_commit_protocol == SHARD_COMMIT_1PC && !has_replicas && !has_coordinators) || RecoveryInProgress() ||
		(written.nconns == 1 && !has_replicas && shard_txn_is_remote_only()))
		commit_in_one_phase(written.conns, written.nconns);
	else
	{
		/* filled before the first PREPARE, since an abort reads it */
		MemoryContext oldcxt = MemoryContextSwitchTo(TopTransactionContext);

		for (int i = 0; i < written.nconns; i++)
			add_conn(written.conns[i], &prepared);
		MemoryContextSwitchTo(oldcxt);
		shard_twophase_prepare(prepared.conns, prepared.nconns, has_replicas);
		shard_fence_hold();
	}
}

/* Removes from conn everything that points to the transaction. */
static void
end_on_conn(ShardConn *conn, void *arg)
{
	shard_pool_of(conn)->writer = NULL;
	conn->is_extra = false;
	conn->extra_tables = NIL;
	shard_txn_forget(conn);
	if (conn->state == SHARD_CONN_BROKEN)
		shard_pool_discard(conn);
}

static void
tell_nodes(void)
{
	shard_twophase_commit(prepared.conns, prepared.nconns);
}

/*
 * Sends COMMIT PREPARED to the nodes.  An error from here on would be a PANIC, since a committed
 * transaction cannot be aborted.  Our code raises none, but a WARNING runs code of other libraries
 * (emit_log_hook), which may raise one.  Then recovery commits on the nodes.
 */
static void
finish_commit(void)
{
	ErrorContextCallback *callers = error_context_stack;

	/* error context callbacks would allocate memory */
	error_context_stack = NULL;
	if (!shard_catch_noerror(tell_nodes))
		shard_twophase_leave(prepared.conns, prepared.nconns);
	error_context_stack = callers;
}

/* The local transaction has ended.  Forgets what belonged to it. */
static void
end_of_xact(void)
{
	shard_pool_each(end_on_conn, NULL);
	memset(&prepared, 0, sizeof(prepared));
	shard_wait_interrupted = false;
	shard_txn_reset();
}

/*
 * Abort
 */

static int
left_ms(TimestampTz deadline)
{
	return Max(shard_wait_interrupted ? ABORT_LEAST_HURRY_MS : ABORT_LEAST_MS,
			   TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline));
}

static TimestampTz
abort_deadline(int timeout_ms)
{
	return TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
									   shard_wait_interrupted ? ABORT_HURRY_MS : timeout_ms);
}

/*
 * The statement on conn does not end, or a savepoint is missing.  Closes the connection, which
 * makes the node roll back.
 */
static void
give_up(ShardConn *conn)
{
	conn->state = SHARD_CONN_BROKEN;
	ereport(WARNING,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("connection to node \"%s\" is closed, since it could not be rolled back",
					conn->node)));
}

/* Runs items in parallel.  Gives up the connections on which that fails. */
static void
rollback_all(ShardBroadcast *items, int nitems, TimestampTz deadline)
{
	if (nitems == 0)
		return;
	shard_broadcast_start(items, nitems);
	shard_broadcast_finish(items, nitems, left_ms(deadline), SHARD_BROADCAST_HURRY);
	for (int i = 0; i < nitems; i++)
		if (!shard_broadcast_ok(&items[i], NULL))
			give_up(items[i].conn);
	shard_broadcast_clear(items, nitems);
}

/* Takes conn from its holder, and cancels the statement that runs there. */
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

/* The commands to send at the end of an abort. */
typedef struct AbortPlan
{
	TimestampTz deadline;
	TimestampTz settle_deadline;
	int			level;			/* of the subtransaction */
	const char *rollback_to;
	ShardBroadcast *items;		/* room for all connections */
	int			nitems;
} AbortPlan;

static void
plan_command(AbortPlan *plan, ShardConn *conn, const char *sql)
{
	plan->items[plan->nitems].conn = conn;
	plan->items[plan->nitems++].sql = sql;
}

static void
release_unprepared(ShardConn *conn, void *arg)
{
	if (conn->holder && conn->xact.prepared_gid == NULL)
		shard_connection_release(conn);
}

static void
abort_on_conn(ShardConn *conn, void *arg)
{
	AbortPlan  *plan = arg;

	if (conn->xact.prepared_gid != NULL)
		return;
	/* no savepoint is needed any more, so a cancel request need not wait until one surely exists */
	conn->xact.savepoint_sent = 0;
	stop_running(conn, plan->deadline);
	/*
	 * The COMMIT of a read transaction is usually sent shortly before, when its snapshot is released.  If the user has
	 * cancelled, the session may have been waiting for just this answer.
	 */
	if (shard_wait_interrupted && !shard_connection_settle_noerror(conn, plan->settle_deadline))
		conn->state = SHARD_CONN_BROKEN;
	if (conn->state != SHARD_CONN_READY || conn->end_pending)
		return;
	if (PQtransactionStatus(conn->pg) == PQTRANS_INTRANS ||
		PQtransactionStatus(conn->pg) == PQTRANS_INERROR)
		plan_command(plan, conn, "ROLLBACK");
}

static void
abort_all(void)
{
	AbortPlan	plan = {0};

	/* an abort may wait for nodes, and cluster snapshots must not wait for the abort */
	shard_fence_let_go();
	SHARD_FAULT_POINT("abort");
	plan.deadline = abort_deadline(ABORT_TIMEOUT_MS);
	plan.settle_deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ABORT_LEAST_HURRY_MS);
	plan.items = shard_broadcast_room();

	/* all loads are told to fail before the first one is waited for */
	shard_pool_each(release_unprepared, NULL);
	shard_pool_each(abort_on_conn, &plan);
	rollback_all(plan.items, plan.nitems, plan.deadline);

	if (prepared.nconns > 0)
		shard_twophase_abort(prepared.conns, prepared.nconns);
}

void
shard_txn_pre_commit(void)
{
	if (shard_txn_touched)
		pre_commit();
}

void
shard_txn_pre_prepare(void)
{
	if (shard_txn_touched)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has used nodes of shardfdw")));
}

void
shard_txn_end(XactEvent event)
{
	if (event == XACT_EVENT_COMMIT)
	{
		if (holding_interrupts)
			RESUME_INTERRUPTS();
		holding_interrupts = false;
		if (prepared.nconns > 0)
			finish_commit();
		shard_fence_let_go();
		if (shard_txn_touched)
			end_of_xact();
	}
	else if (event == XACT_EVENT_ABORT)
	{
		holding_interrupts = false; /* core's error handling has already reset InterruptHoldoffCount */
		/* also if no node was touched: a statement outside any transaction may be running */
		abort_all();
		end_of_xact();
	}
	shard_txn_reset_constraints();
}

/*
 * Subtransactions
 */

/* Did this transaction write over conn only in nesting level level or deeper? */
static bool
wrote_only_below(ShardConn *conn, int level)
{
	ShardWriter *writer = shard_txn_find_writer(conn->serverid, conn->userid);

	return writer && writer->level >= level && shard_pool_of(conn)->writer == conn;
}

/*
 * If conn has a savepoint of level, rolls back to it.  If the remote transaction did nothing else,
 * rolls back all of it.
 */
static void
abort_sub_on_conn(ShardConn *conn, void *arg)
{
	AbortPlan  *plan = arg;
	bool		whole = !IsolationUsesXactSnapshot() && wrote_only_below(conn, plan->level);

	/*
	 * a transaction with one snapshot keeps its writer, which may still be connecting although no statement waits for
	 * it
	 */
	shard_connection_pause(conn);
	if (conn->xact.depth < plan->level && !(whole && shard_connection_in_xact(conn)))
		return;
	stop_running(conn, plan->deadline);
	/* if it was stopped early enough, the transaction has not begun on the node */
	if (conn->state == SHARD_CONN_READY &&
		!(whole && PQtransactionStatus(conn->pg) == PQTRANS_IDLE))
		plan_command(plan, conn, whole ? "ROLLBACK" : plan->rollback_to);
	if (whole)
		shard_txn_forget(conn);
	else
	{
		conn->xact.depth = plan->level - 1;
		conn->xact.stale_savepoint = 0;
		conn->xact.guard = 0;
	}
}

static void
abort_sub(int level)
{
	AbortPlan	plan = {0};
	char		rollback_to[80];

	SHARD_FAULT_POINT("abort_sub");
	snprintf(rollback_to, sizeof(rollback_to),
			 "ROLLBACK TO SAVEPOINT s%d_%u; RELEASE SAVEPOINT s%d_%u",
			 level, shard_txn_level_number(level), level, shard_txn_level_number(level));
	plan.deadline = abort_deadline(ABORT_SUB_TIMEOUT_MS);
	plan.level = level;
	plan.rollback_to = rollback_to;
	plan.items = shard_broadcast_room();
	shard_pool_each(abort_sub_on_conn, &plan);
	rollback_all(plan.items, plan.nitems, plan.deadline);
}

/*
 * Moves the writes of level to its parent, or forgets them.  If all writes to a node were rolled
 * back, the node takes no part in the commit.  In a transaction with a single snapshot it keeps its
 * connection, which has the snapshot.
 */
static void
end_level(int level, bool committed)
{
	ListCell   *lc;

	foreach(lc, shard_txn_writers)
	{
		ShardWriter *writer = lfirst(lc);
		ShardPool  *pool = shard_pool_get(writer->serverid, writer->userid);

		shard_txn_end_written(writer, level, committed);
		if (writer->level < level)
			continue;
		if (committed)
			writer->level = level - 1;
		else if (IsolationUsesXactSnapshot())
		{
			if (pool->writer && pool->writer->xact.state == SHARD_XACT_WROTE)
				pool->writer->xact.state = SHARD_XACT_FOLLOWS;
		}
		else
		{
			pool->writer = NULL;
			shard_txn_writers = foreach_delete_current(shard_txn_writers, lc);
		}
	}
}

/* The savepoint of the subtransaction of level *arg becomes part of the parent's. */
static void
leave_savepoint(ShardConn *conn, void *arg)
{
	int			level = *(int *) arg;

	if (conn->xact.depth < level)
		return;
	conn->xact.depth = level - 1;
	conn->xact.stale_savepoint = shard_txn_level_number(level);
}

/*
 * conn was opened although its node may have lost changes, because this transaction had changed the
 * noted positions of the node (node_position.h).  If that change was rolled back, closes conn.
 */
static void
break_unchecked(ShardConn *conn, void *arg)
{
	if (TransactionIdIsValid(conn->unchecked_by) && !TransactionIdIsCurrentTransactionId(conn->unchecked_by))
		conn->state = SHARD_CONN_BROKEN;
}

void
shard_txn_end_level(int level, bool committed)
{
	shard_txn_end_constraints(level, committed);
	if (committed && shard_txn_touched)
	{
		shard_pool_each(leave_savepoint, &level);
		end_level(level, true);
	}
	else if (shard_txn_touched)
	{
		abort_sub(level);
		end_level(level, false);
		shard_wait_interrupted = false;
		SHARD_FAULT_END();
	}
	if (!committed)
		shard_pool_each(break_unchecked, NULL);
	shard_txn_level_end(level, committed);
}

void
shard_txn_init(const ShardTxnUpcalls *upcalls)
{
	shard_txn_upcalls = upcalls;
}
