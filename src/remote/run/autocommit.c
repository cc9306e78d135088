/*
 * autocommit.c
 *	  A change on one node that is a transaction by itself.
 *
 * A single statement that writes to one node and to nothing else needs neither
 * BEGIN nor COMMIT: the node commits it, in one round trip.
 *
 *	 connection, settings, Parse --> statement sent --> answer --> local commit
 *	 may fail, answers interrupts	 |	interrupts are held from here on  |
 *									 +-- cancel: asked of the node, whose
 *										 answer says if it came in time
 *
 * The local transaction has nothing of its own to commit.  Only an error on the
 * coordinator after the node's answer could make the two end differently, so
 * interrupts are held from the sending of the statement on.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "remote/pool/pool.h"
#include "remote/run/autocommit.h"
#include "remote/wire/connection_private.h"
#include "remote/wire/error.h"
#include "remote/wire/node_stat.h"
#include "remote/wire/wait.h"
#include "remote/xact/committed.h"
#include "remote/xact/fence.h"
#include "remote/xact/txn_private.h"
#include "utils/timestamp.h"

#define CANCEL_TIMEOUT_MS 600	/* for the answer of a node that was asked to cancel */

bool
shard_autocommit_possible(void)
{
	return !IsTransactionBlock() && GetCurrentTransactionNestLevel() == 1 &&
		!IsolationUsesXactSnapshot() && !XactReadOnly && shard_txn_writers == NIL &&
		shard_txn_is_remote_only();
}

/* Brings the session in line, and prepares the statement when it is time for that. */
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
	if (command->nparams == 0 ||
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

/* The number in column colno of the row that a command has returned, as text. */
static int64
number_of(PGresult *row, int colno)
{
	return strtoi64(PQgetvalue(row, 0, colno), NULL, 10);
}

/*
 * The statement's result, or what went wrong at its commit; NULL when the
 * connection was lost before either.  Interrupts are held.  row: the row of a
 * command that returns one; NULL: it returns none.
 */
static PGresult *
read_result(ShardConn *conn, PGresult **row)
{
	TimestampTz deadline = 0;
	PGresult   *result = NULL;
	PGresult   *res;

	for (;;)
	{
		while (!shard_connection_result_is_here(conn))
		{
			if (deadline == 0 && shard_wait_is_urged())
			{
				deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), CANCEL_TIMEOUT_MS);
				shard_connection_request_cancel(conn, CANCEL_TIMEOUT_MS / 2);
			}
			if (!shard_connection_wait_input(conn, deadline, true))
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
		if (row != NULL && *row == NULL && PQresultStatus(res) == PGRES_SINGLE_TUPLE && PQnfields(res) == 2)
		{
			*row = res;
			continue;
		}
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

/* The connection was lost after the statement was sent and before the node answered: its outcome is not known. */
static void
report_unknown(ShardConn *conn)
{
	bool		canceled = shard_wait_is_urged();
	char	   *reason = canceled ? NULL : shard_error_clean_text(PQerrorMessage(conn->pg));

	shard_committed_doubt();

	QueryCancelPending = false;
	if (shard_wait_is_urged())
		CHECK_FOR_INTERRUPTS(); /* the session ends */
	ereport(ERROR,
			(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			 errmsg("node \"%s\" did not confirm the commit", conn->node),
			 canceled ?
			 errdetail("The statement was canceled, and the node did not answer. Whether it has committed there is not known.") :
			 errdetail("%s\nWhether the statement has committed there is not known.", reason ? reason : "")));
}

/* Sends the statement and takes its result; true when it was carried out.  row: as in read_result(). */
static bool
run_once(ShardConn *conn, const ShardCommand *command, PGresult **row, PGresult **result)
{
	ExecStatusType good = row != NULL ? PGRES_TUPLES_OK : PGRES_COMMAND_OK;

	CHECK_FOR_INTERRUPTS();
	HOLD_INTERRUPTS();
	if (command->nparams > 0)
		shard_connection_send_params(conn, command->sql, command->nparams, command->params, false);
	else
		shard_connection_send_statement(conn, command->sql);
	*result = read_result(conn, row);
	if (PQstatus(conn->pg) != CONNECTION_OK)
		conn->state = SHARD_CONN_BROKEN;
	return *result != NULL && PQresultStatus(*result) == good && (row == NULL || *row != NULL) &&
		conn->state == SHARD_CONN_READY;
}

/* Runs command; found: NULL, or it returns how many rows it has found and changed. */
static bool
run(const ShardCommand *command, int64 *found, int64 *affected)
{
	ShardConn  *conn = shard_pool_acquire_free(shard_pool_get(command->serverid, command->userid));
	PGresult   *result;
	PGresult   *row = NULL;
	bool		again = true;

	if (conn->stateless)
	{
		shard_connection_release(conn);
		return false;
	}
	get_ready(conn, command);
	shard_fence_pass();
	while (!run_once(conn, command, found != NULL ? &row : NULL, &result))
	{
		bool		stale = result != NULL && command->nparams > 0 && shard_connection_is_stale(result);

		RESUME_INTERRUPTS();
		PQclear(row);
		row = NULL;
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
			/* this is libpq's own error, not an answer of the node: the statement may have succeeded */
			PQclear(result);
			report_unknown(conn);
		}
		if (shard_wait_is_urged())
		{
			PQclear(result);
			result = NULL;
			CHECK_FOR_INTERRUPTS();
		}
		shard_error_report(ERROR, result, conn, command->label, command->sql);
	}

	if (found != NULL)
	{
		*found = number_of(row, 0);
		*affected = number_of(row, 1);
		PQclear(row);
		if (*found == 0)
		{
			PQclear(result);
			RESUME_INTERRUPTS();	/* run_once()'s */
			shard_connection_release(conn);
			return true;
		}
	}
	else
		*affected = strtoi64(PQcmdTuples(result), NULL, 10);

	/* from here on it is committed */
	shard_txn_hold_interrupts();
	shard_node_stat_add(conn->stat_node, SHARD_NODE_COMMITS, 1);
	RESUME_INTERRUPTS();		/* run_once()'s */
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
	return run(command, NULL, affected);
}

bool
shard_autocommit_take(const ShardCommand *command, int64 *found, int64 *affected)
{
	return run(command, found, affected);
}
