/*
 * read_role_ask.c
 *	  Sends a query to one server of a node, which may be unavailable.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "remote/run/read_role_private.h"
#include "remote/wire/connection_private.h"
#include "remote/wire/error.h"
#include "utils/timestamp.h"

/* The answer of a server. */
typedef struct Answer
{
	PGresult   *row;			/* its only row */
	PGresult   *failed;			/* or its error */
} Answer;

/*
 * Reads an answer to its end.  Errors: the server does not answer in time, or violates the
 * protocol.  Then conn is broken.
 */
static void
read_answer(ShardConn *conn, volatile Answer *answer)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), SHARD_READ_ANSWER_MS);
	PGresult   *res;

	for (;;)
	{
		ExecStatusType status;

		if (!shard_connection_next_result(conn, deadline, false, &res))
		{
			conn->state = SHARD_CONN_BROKEN;
			ereport(ERROR,
					(errcode(ERRCODE_SYSTEM_ERROR),
					 errmsg("node \"%s\" has not answered within %d ms", conn->node, SHARD_READ_ANSWER_MS)));
		}
		if (res == NULL)
			return;
		status = PQresultStatus(res);
		if (status == PGRES_SINGLE_TUPLE && answer->row == NULL)
			answer->row = res;
		else if (status == PGRES_FATAL_ERROR && answer->failed == NULL)
			answer->failed = res;
		else
			PQclear(res);
		/* a COPY would not end */
		if (status != PGRES_SINGLE_TUPLE && status != PGRES_TUPLES_OK && status != PGRES_FATAL_ERROR)
			shard_error_protocol(conn, NULL, "not the kind of result that was asked for");
	}
}

static void
clear_answer(volatile Answer *answer)
{
	PQclear(answer->row);
	PQclear(answer->failed);
	answer->row = answer->failed = NULL;
}

/* Like shard_read_ask(), over conn.  Memory: the caller clears it. */
static PGresult *
ask(ShardConn *conn, const char *sql, int ncolumns)
{
	volatile Answer answer = {NULL, NULL};

	shard_connection_send(conn, sql);
	PG_TRY();
	{
		read_answer(conn, &answer);
		if (answer.failed != NULL)
			shard_error_report(ERROR, answer.failed, conn, NULL, sql);
		if (answer.row == NULL || PQnfields(answer.row) != ncolumns)
			shard_error_protocol(conn, NULL, "number of rows or columns differs");
	}
	PG_CATCH();
	{
		clear_answer(&answer);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return answer.row;
}

static const ShardConnHolder asker = {NULL, NULL, NULL};

/* Does error mean that the server is unavailable, and not a problem of this session? */
static bool
means_lost(const ErrorData *error)
{
	switch (ERRCODE_TO_CATEGORY(error->sqlerrcode))
	{
		case ERRCODE_CONNECTION_EXCEPTION:
		case ERRCODE_OPERATOR_INTERVENTION:
			return error->sqlerrcode != ERRCODE_QUERY_CANCELED;
		default:
			return error->sqlerrcode == ERRCODE_SYSTEM_ERROR || error->sqlerrcode == ERRCODE_TOO_MANY_CONNECTIONS;
	}
}

/*
 * Returns a connection for a query: an idle one, or one that reads, whose transaction the query
 * does not disturb (other holders of this session must not be waited for), or a new one.
 */
static ShardConn *
take_connection(ShardPool *pool)
{
	ShardConn  *conn = shard_pool_start_spare(pool);
	dlist_iter	iter;

	if (conn != NULL)
		return conn;
	dlist_foreach(iter, &pool->conns)
	{
		conn = dlist_container(ShardConn, link, iter.cur);
		if (conn->state != SHARD_CONN_READY || !shard_connection_in_xact(conn) || shard_connection_is_aborted(conn))
			continue;
		if (conn->holder != NULL)
			shard_connection_yield(conn);
		if (conn->state == SHARD_CONN_READY && !shard_connection_is_aborted(conn))
		{
			shard_connection_hold(conn, &asker);
			return conn;
		}
		break;
	}
	return shard_pool_start_free(pool);
}

/*
 * Called in PG_CATCH().  If the error means that the server is unavailable, returns it; raises any
 * other again.  A wait that ends because of this session's cancel or termination raises such
 * errors, too, but leaves the flag set.
 */
static ErrorData *
catch_lost(MemoryContext cxt)
{
	ErrorData  *error;

	MemoryContextSwitchTo(cxt);
	error = CopyErrorData();
	if (!means_lost(error) || QueryCancelPending || ProcDiePending)
		PG_RE_THROW();
	FlushErrorState();
	return error;
}

bool
shard_read_ask(ShardPool *pool, const char *sql, int ncolumns, PGresult **answer, ShardConn **conn, char **reason)
{
	MemoryContext cxt = CurrentMemoryContext;
	ShardConn  *volatile taken = NULL;
	volatile bool answered = false;

	PG_TRY();
	{
		taken = take_connection(pool);
		shard_connection_finish(taken);
		*answer = sql ? ask(taken, sql, ncolumns) : NULL;
		shard_connection_release(taken);
		answered = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		/* its answer may be half read, and the end of an inner savepoint would not release it */
		if (taken)
			shard_pool_discard(taken);
		taken = NULL;
		error = catch_lost(cxt);
		/* skip the message that it could not be connected to; if the server raised the error, the message counts */
		*reason = error->sqlerrcode == ERRCODE_SYSTEM_ERROR && error->detail ?
			error->detail : error->message;
	}
	PG_END_TRY();
	*conn = taken;
	return answered;
}

void
shard_read_try(ShardPool *pool, const char *sql)
{
	MemoryContext cxt = CurrentMemoryContext;
	ShardConn  *volatile taken = NULL;
	volatile Answer answer = {NULL, NULL};

	PG_TRY();
	{
		taken = shard_pool_start_spare(pool);
		if (taken)
		{
			shard_connection_finish(taken);
			shard_connection_send(taken, sql);
			read_answer(taken, &answer);
			shard_connection_release(taken);
		}
	}
	PG_CATCH();
	{
		if (taken)
			shard_pool_discard(taken);
		clear_answer(&answer);
		(void) catch_lost(cxt);
	}
	PG_END_TRY();
	clear_answer(&answer);
}

void
shard_read_warm(ShardPool *pool)
{
	MemoryContext cxt = CurrentMemoryContext;

	PG_TRY();
	{
		shard_pool_warm(pool);
	}
	PG_CATCH();
	{
		(void) catch_lost(cxt); /* the query to the server will report the failure */
	}
	PG_END_TRY();
}

bool
shard_read_has_connection(ShardPool *pool)
{
	shard_pool_foreach(conn, pool)
	{
		if (conn->state == SHARD_CONN_READY && !conn->invalidated &&
			(conn->holder || shard_connection_in_xact(conn) ? shard_connection_is_alive(conn) : shard_connection_usable(conn)))
			return true;
	}
	return false;
}
