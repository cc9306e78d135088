/*
 * autocommit.c
 *	  Runs a change on one node that is a transaction by itself.
 *
 * A single statement that writes to one node and to nothing else needs neither BEGIN nor COMMIT: the node commits it in
 * one round trip.
 *
 *	 connection, settings, Parse --> statement sent --> answer --> local commit
 *	 may fail, can be interrupted	| interrupts are held from here on		  |
 *									+-- cancel: sent to the node, whose
 *										answer says if it was in time
 *
 * The local transaction has nothing to commit.  If an error occurred on the coordinator after the node's answer, the
 * local transaction would abort although the node has committed.  So interrupts are held from the sending of the
 * statement on.  A deadlock over several nodes also makes the session send a cancel request.
 */
#include "postgres.h"

#include "access/xact.h"
#include "byte_order.h"
#include "fault.h"
#include "flush_commit.h"
#include "miscadmin.h"
#include "remote/pool/pool.h"
#include "remote/run/autocommit.h"
#include "remote/wire/broadcast.h"
#include "remote/wire/error.h"
#include "remote/wire/node_stat.h"
#include "remote/wire/wait.h"
#include "remote/xact/committed.h"
#include "remote/xact/fence.h"
#include "remote/xact/twophase.h"
#include "remote/xact/txn_private.h"

bool
shard_autocommit_possible(void)
{
	return !IsTransactionBlock() && GetCurrentTransactionNestLevel() == 1 &&
		!IsolationUsesXactSnapshot() && !XactReadOnly && shard_txn_writers == NIL &&
		!shard_txn_upcalls->may_have_replicas() && shard_txn_is_remote_only();
}

/* Sends the session's settings, and prepares the statement if it is due. */
static void
get_ready(ShardConn *conn, const ShardCommand *command)
{
	StringInfoData settings;

	initStringInfo(&settings);
	shard_connection_sync_settings(conn, SHARD_SETTINGS_USER, -1, 0, &settings);
	if (settings.len > 0)
		shard_broadcast_exec(conn, settings.data);
	pfree(settings.data);
	if (command->nparams > 0 && !command->for_values &&
		shard_connection_start_prepare(conn, command->sql, command->nparams))
		shard_broadcast_free(shard_broadcast_await(conn, command->label, command->sql, SHARD_BROADCAST_COMMAND, -1));
}

/* The connection was lost after the statement was sent and before the node answered, so the outcome is unknown. */
static void
report_unknown(ShardConn *conn)
{
	bool		canceled = shard_wait_is_urged();
	/*
	 * If there was no memory for a row, the connection is given up although it works.  Then there is no memory for a
	 * text, either.
	 */
	char	   *reason = canceled || PQstatus(conn->pg) == CONNECTION_OK ? NULL : shard_error_clean_text(PQerrorMessage(conn->pg));

	shard_committed_doubt(conn->serverid);

	QueryCancelPending = false;
	if (shard_wait_is_urged())
		CHECK_FOR_INTERRUPTS(); /* the session ends */
	ereport(ERROR,
			(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			 errmsg("node \"%s\" did not confirm the commit", conn->node),
			 canceled ?
			 errdetail("The statement was canceled, and the node did not answer. Whether it has committed there is not known.") :
			 reason ? errdetail("%s\nWhether the statement has committed there is not known.", reason) :
			 errdetail("Whether the statement has committed there is not known.")));
}

/*
 * Sends the statement of item, and waits for its end.  Interrupts are held from here on.  True if the
 * node has committed it. *deadlock: the deadlock because of which the node was asked to cancel; NULL:
 * it was not, or because of an interrupt.
 */
static bool
run_once(ShardBroadcast *item, const ShardCommand *command, ErrorData **deadlock)
{
	CHECK_FOR_INTERRUPTS();
	HOLD_INTERRUPTS();
	if (command->nparams > 0)
		shard_connection_send_params(item->conn, command->sql, command->nparams, command->params, item->has_rows);
	else
		shard_connection_send_statement(item->conn, command->sql);
	item->sent = true;
	SHARD_FAULT_POINT("autocommit_row");
	*deadlock = shard_broadcast_wait_for_commits(item, 1, SHARD_BROADCAST_STOP);
	shard_broadcast_finish(item, 1, 0, SHARD_BROADCAST_IGNORE);
	return shard_broadcast_ok(item, NULL) &&
		PQresultStatus(item->result) == (item->has_rows ? PGRES_TUPLES_OK : PGRES_COMMAND_OK);
}

/* Does the result say that the transaction has done nothing? */
typedef bool (*NothingDone) (const PGresult *res);

/* Returns the result, or NULL if the statement was not run. */
static PGresult *
run(const ShardCommand *command, bool has_rows, NothingDone nothing_done)
{
	ShardConn  *conn = shard_pool_acquire_free(shard_pool_get(command->serverid, command->userid));
	ShardBroadcast *item;
	ErrorData  *deadlock;
	bool		again = true;

	Assert(!has_rows || command->nparams > 0);	/* others return text */

	if (conn->stateless)
	{
		shard_connection_release(conn);
		return NULL;
	}
	shard_twophase_require_coordinator(&conn, 1);
	get_ready(conn, command);
	shard_flush_commit_all();
	shard_fence_pass();
	item = shard_broadcast_create(1);
	item->conn = conn;
	item->has_rows = has_rows;
	while (!run_once(item, command, &deadlock))
	{
		bool		is_stale = item->done && command->nparams > 0 && item->result && shard_connection_is_stale(item->result);

		RESUME_INTERRUPTS();
		if (is_stale)
			shard_connection_forget_prepared(conn, command->sql);
		if (is_stale && again)
		{
			shard_broadcast_clear(item, 1);
			again = false;
			continue;
		}
		shard_connection_release(conn);
		/* an error without SQLSTATE is of libpq, not the node's answer; the statement may have succeeded */
		if (shard_broadcast_sqlstate(item) == 0)
			report_unknown(conn);
		CHECK_FOR_INTERRUPTS();
		if (deadlock != NULL)
			ReThrowError(deadlock);
		(void) shard_broadcast_check(item, command->label, command->sql);
	}

	if (nothing_done != NULL && nothing_done(item->result))
	{
		RESUME_INTERRUPTS();	/* held by run_once() */
		shard_connection_release(conn);
		return item->result;
	}

	/* it is committed from here on */
	shard_txn_hold_interrupts();
	shard_node_stat_add(conn->stat_node, SHARD_NODE_COMMITS, 1);
	RESUME_INTERRUPTS();		/* held by run_once() */
	shard_fence_pass_noerror();
	shard_txn_drop_cancel();
	shard_connection_release(conn);
	shard_committed_note(conn->serverid, conn);
	if (conn->notices)
		shard_connection_flush_notices(conn);
	return item->result;
}

bool
shard_autocommit_run(const ShardCommand *command, int64 *affected)
{
	PGresult   *res = run(command, false, NULL);

	if (res != NULL)
		*affected = strtoi64(PQcmdTuples(res), NULL, 10);
	return res != NULL;
}

PGresult *
shard_autocommit_returning(const ShardCommand *command)
{
	return run(command, true, NULL);
}

/* The number in column colno of the only row; -1: there is no such row. */
static int64
number_of(const PGresult *res, int colno)
{
	if (PQntuples(res) != 1 || PQnfields(res) != 2 || PQgetlength(res, 0, colno) != sizeof(int64))
		return -1;
	return (int64) shard_get_uint64(PQgetvalue(res, 0, colno));
}

static bool
found_nothing(const PGresult *res)
{
	return number_of(res, 0) == 0;
}

bool
shard_autocommit_take(const ShardCommand *command, int64 *found, int64 *affected)
{
	PGresult   *res = run(command, true, found_nothing);

	if (res == NULL)
		return false;
	*found = number_of(res, 0);
	*affected = number_of(res, 1);
	if (*found < 0 || *affected < 0)
		elog(ERROR, "a node has not said how many rows it has changed");
	return true;
}
