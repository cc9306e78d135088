/*
 * autocommit.c
 *	  A change on one node that is a transaction by itself.
 *
 * A single statement that writes to one node and to nothing else needs neither BEGIN nor COMMIT:
 * the node commits it in one round trip.
 *
 *	 connection, settings, Parse --> statement sent --> answer --> local commit
 *	 may fail, can be interrupted	| interrupts are held from here on		  |
 *									+-- cancel: sent to the node, whose
 *										answer says if it was in time
 *
 * The local transaction has nothing to commit.  If an error occurred on the coordinator after the
 * node's answer, the local transaction would abort although the node has committed.  So interrupts
 * are held from the sending of the statement on.  A deadlock over several nodes also makes the
 * session send a cancel request.
 */
#include "postgres.h"

#include "access/xact.h"
#include "byte_order.h"
#include "fault.h"
#include "flush_commit.h"
#include "miscadmin.h"
#include "remote/pool/pool.h"
#include "remote/run/autocommit.h"
#include "remote/wire/connection_private.h"
#include "remote/wire/error.h"
#include "remote/wire/node_stat.h"
#include "remote/wire/wait.h"
#include "remote/xact/committed.h"
#include "remote/xact/fence.h"
#include "remote/xact/twophase.h"
#include "remote/xact/txn_private.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#define CANCEL_TIMEOUT_MS 600	/* for the answer of a node after a cancel request */

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
	PGresult   *failed = NULL;
	PGresult   *res;

	initStringInfo(&settings);
	shard_connection_sync_settings(conn, SHARD_SETTINGS_USER, -1, 0, &settings);
	if (settings.len > 0)
		shard_connection_exec(conn, settings.data);
	pfree(settings.data);
	if (command->nparams == 0 || command->for_values ||
		!shard_connection_start_prepare(conn, command->sql, command->nparams))
		return;
	while ((res = shard_connection_get_result(conn)) != NULL)
	{
		if (shard_connection_is_copy(res) || PQresultStatus(res) == PGRES_SINGLE_TUPLE)
		{
			PQclear(res);
			PQclear(failed);
			shard_connection_release(conn);
			shard_error_protocol(conn, command->label, "not the kind of result that was asked for");
		}
		if (failed == NULL && PQresultStatus(res) != PGRES_COMMAND_OK)
			failed = res;
		else
			PQclear(res);
	}
	if (failed != NULL)
	{
		shard_connection_release(conn);
		shard_error_report(ERROR, failed, conn, command->label, command->sql);
	}
}

static void
clear_rows(ShardAutocommitRows *rows)
{
	for (int i = 0; rows && i < rows->nresults; i++)
		PQclear(rows->results[i]);
	if (rows)
		rows->nresults = 0;
}

/* Keeps a row.  False: out of memory.  This must not raise, since the node may have committed already. */
static bool
keep_row(ShardAutocommitRows *rows, PGresult *res)
{
	SHARD_FAULT_POINT("autocommit_row");
	if (rows->nresults == rows->nmax)
	{
		int			nmax = Max(16, rows->nmax * 2);
		PGresult  **results = MemoryContextAllocExtended(CurrentMemoryContext, sizeof(PGresult *) * (Size) nmax, MCXT_ALLOC_NO_OOM | MCXT_ALLOC_HUGE);

		if (results == NULL)
			return false;
		if (rows->nresults > 0)
		{
			memcpy(results, rows->results, sizeof(PGresult *) * (Size) rows->nresults);
			pfree(rows->results);
		}
		rows->results = results;
		rows->nmax = nmax;
	}
	rows->results[rows->nresults++] = res;
	return true;
}

/*
 * Returns the statement's result, or the error of its commit.  NULL if the connection was lost
 * before either.  Interrupts are held. rows: NULL, or receives the returned rows. *deadlock: the
 * deadlock because of which the node was asked to cancel; NULL: it was not, or because of an
 * interrupt.
 */
static PGresult *
read_result(ShardConn *conn, ShardAutocommitRows *rows, ErrorData **deadlock)
{
	TimestampTz deadline = 0;
	long		look_ms = DeadlockTimeout;
	TimestampTz next_look = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), look_ms);
	PGresult   *result = NULL;
	PGresult   *res;

	*deadlock = NULL;
	for (;;)
	{
		while (!shard_connection_result_is_here(conn))
		{
			if (deadline == 0 && GetCurrentTimestamp() >= next_look)
			{
				*deadlock = shard_wait_find_deadlock();
				look_ms = Min(look_ms * 2, SHARD_WAIT_MAX_STALL_MS);
				next_look = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), look_ms);
			}
			if (deadline == 0 && (*deadlock != NULL || shard_wait_is_urged()))
			{
				deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), CANCEL_TIMEOUT_MS);
				shard_connection_request_cancel(conn, CANCEL_TIMEOUT_MS / 2);
			}
			if (!shard_connection_wait_input(conn, deadline != 0 ? deadline : next_look, true) && deadline != 0)
			{
				conn->state = SHARD_CONN_BROKEN;
				PQclear(result);
				return NULL;
			}
		}
		res = shard_connection_take_result(conn);
		if (res == NULL)
			return result;
		shard_connection_note_result(conn, res);
		if (rows != NULL && PQresultStatus(res) == PGRES_SINGLE_TUPLE && PQnfields(res) == rows->ncolumns && keep_row(rows, res))
			continue;
		if (shard_connection_is_copy(res) || PQresultStatus(res) == PGRES_SINGLE_TUPLE)
		{
			conn->state = SHARD_CONN_BROKEN;
			PQclear(res);
			PQclear(result);
			return NULL;
		}

		/* deferred constraints and triggers fail at the commit, after the statement's own result */
		if (result == NULL || (PQresultStatus(res) != PGRES_COMMAND_OK && PQresultStatus(res) != PGRES_TUPLES_OK))
		{
			PQclear(result);
			result = res;
		}
		else
			PQclear(res);
	}
}

/* The connection was lost after the statement was sent and before the node answered, so the outcome is unknown. */
static void
report_unknown(ShardConn *conn)
{
	bool		canceled = shard_wait_is_urged();
	/*
	 * if there was no memory for a row, the connection is given up although it works; then there is
	 * none for a text, either
	 */
	char	   *reason = canceled || PQstatus(conn->pg) == CONNECTION_OK ? NULL : shard_error_clean_text(PQerrorMessage(conn->pg));

	shard_committed_doubt();

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

/* Sends the statement and reads its result.  True if it was executed. rows, deadlock: see read_result(). */
static bool
run_once(ShardConn *conn, const ShardCommand *command, ShardAutocommitRows *rows, ErrorData **deadlock, PGresult **result)
{
	ExecStatusType good = rows != NULL ? PGRES_TUPLES_OK : PGRES_COMMAND_OK;

	CHECK_FOR_INTERRUPTS();
	HOLD_INTERRUPTS();
	if (command->nparams > 0)
		shard_connection_send_params(conn, command->sql, command->nparams, command->params, rows != NULL);
	else
		shard_connection_send_statement(conn, command->sql);
	*result = read_result(conn, rows, deadlock);
	if (PQstatus(conn->pg) != CONNECTION_OK)
		conn->state = SHARD_CONN_BROKEN;
	return *result != NULL && PQresultStatus(*result) == good && conn->state == SHARD_CONN_READY;
}

/* Do the returned rows say that the transaction has done nothing? */
typedef bool (*NothingDone) (const ShardAutocommitRows *rows);

static bool
run(const ShardCommand *command, ShardAutocommitRows *rows, NothingDone nothing_done, int64 *affected)
{
	ShardConn  *conn = shard_pool_acquire_free(shard_pool_get(command->serverid, command->userid));
	PGresult   *result;
	ErrorData  *deadlock = NULL;
	bool		again = true;

	Assert(rows == NULL || command->nparams > 0);	/* others return text */

	if (conn->stateless)
	{
		shard_connection_release(conn);
		return false;
	}
	shard_twophase_require_coordinator(&conn, 1);
	get_ready(conn, command);
	shard_flush_commit_all();
	shard_fence_pass();
	while (!run_once(conn, command, rows, &deadlock, &result))
	{
		bool		stale = result != NULL && command->nparams > 0 && shard_connection_is_stale(result);

		RESUME_INTERRUPTS();
		clear_rows(rows);
		if (stale)
			shard_connection_forget_prepared(conn, command->sql);
		if (stale && again && conn->state == SHARD_CONN_READY)
		{
			PQclear(result);
			again = false;
			continue;
		}
		shard_connection_release(conn);
		if (result == NULL || PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK ||
			PQresultErrorField(result, PG_DIAG_SQLSTATE) == NULL)
		{
			/* this is libpq's own error, not the node's answer; the statement may have succeeded */
			PQclear(result);
			report_unknown(conn);
		}
		if (shard_wait_is_urged() || deadlock != NULL)
		{
			PQclear(result);
			result = NULL;
			CHECK_FOR_INTERRUPTS();
			if (deadlock != NULL)
				ReThrowError(deadlock);
		}
		shard_error_report(ERROR, result, conn, command->label, command->sql);
	}

	*affected = strtoi64(PQcmdTuples(result), NULL, 10);
	if (nothing_done != NULL && nothing_done(rows))
	{
		PQclear(result);
		RESUME_INTERRUPTS();	/* held by run_once() */
		shard_connection_release(conn);
		return true;
	}

	/* it is committed from here on */
	shard_txn_hold_interrupts();
	shard_node_stat_add(conn->stat_node, SHARD_NODE_COMMITS, 1);
	RESUME_INTERRUPTS();		/* held by run_once() */
	shard_fence_pass_noerror();
	shard_txn_drop_cancel();
	PQclear(result);
	shard_connection_release(conn);
	shard_committed_note(conn->serverid, conn);
	if (conn->notices)
		shard_connection_flush_notices(conn);
	return true;
}

bool
shard_autocommit_run(const ShardCommand *command, int64 *affected)
{
	return run(command, NULL, NULL, affected);
}

bool
shard_autocommit_returning(const ShardCommand *command, ShardAutocommitRows *rows)
{
	int64		affected;

	return run(command, rows, NULL, &affected);
}

/* The number in column colno of the only row; -1: there is no such row. */
static int64
number_of(const ShardAutocommitRows *rows, int colno)
{
	PGresult   *res = rows->nresults == 1 ? rows->results[0] : NULL;

	if (res == NULL || PQgetlength(res, 0, colno) != sizeof(int64))
		return -1;
	return (int64) shard_get_uint64(PQgetvalue(res, 0, colno));
}

static bool
found_nothing(const ShardAutocommitRows *rows)
{
	return number_of(rows, 0) == 0;
}

bool
shard_autocommit_take(const ShardCommand *command, int64 *found, int64 *affected)
{
	ShardAutocommitRows rows = {.ncolumns = 2};

	if (!run(command, &rows, found_nothing, affected))
		return false;
	*found = number_of(&rows, 0);
	*affected = number_of(&rows, 1);
	clear_rows(&rows);
	if (*found < 0 || *affected < 0)
		elog(ERROR, "a node has not said how many rows it has changed");
	return true;
}
