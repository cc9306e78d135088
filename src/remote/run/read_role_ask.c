/*
 * read_role_ask.c
 *	  A question to one server of a node, which may be away.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "remote/run/read_role_private.h"
#include "remote/wire/connection_private.h"
#include "remote/wire/error.h"
#include "utils/timestamp.h"

/*
 * Reads the answer to a question, one row of ncolumns, into *row.  False: the server does not
 * answer in time, or with something else; then conn is broken.  *failed: its error.
 */
static bool
read_row(ShardConn *conn, int ncolumns, PGresult *volatile *row, PGresult *volatile *failed)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), SHARD_READ_ANSWER_MS);
	bool		nonsense = false;
	PGresult   *res;

	for (;;)
	{
		ExecStatusType status;

		if (!shard_connection_next_result(conn, deadline, false, &res))
			break;
		if (res == NULL)
			return *row != NULL || *failed != NULL;
		status = PQresultStatus(res);
		nonsense = status != PGRES_SINGLE_TUPLE && status != PGRES_TUPLES_OK && status != PGRES_FATAL_ERROR;
		if (status == PGRES_SINGLE_TUPLE && *row == NULL && PQnfields(res) == ncolumns)
			*row = res;
		else if (status == PGRES_FATAL_ERROR && *failed == NULL)
			*failed = res;
		else
			PQclear(res);
		if (nonsense)
			break;				/* a COPY would go on for ever */
	}
	conn->state = SHARD_CONN_BROKEN;
	return false;
}

/* As shard_read_ask(), over conn.  Memory: caller clears it.  Errors: the server's, or that it does not answer. */
static PGresult *
ask(ShardConn *conn, const char *sql, int ncolumns)
{
	PGresult   *volatile row = NULL;
	PGresult   *volatile failed = NULL;
	volatile bool answered = false;

	shard_connection_send(conn, sql);
	PG_TRY();
	{
		answered = read_row(conn, ncolumns, &row, &failed);
	}
	PG_CATCH();
	{
		PQclear(row);
		PQclear(failed);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (answered && failed == NULL)
		return row;
	PQclear(row);
	if (failed != NULL)
		shard_error_report(ERROR, failed, conn, NULL, sql);
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("node \"%s\" has not answered within %d ms", conn->node, SHARD_READ_ANSWER_MS)));
}

static void
refuse_yield(ShardConn *conn, void *arg)
{
	elog(ERROR, "connection to node \"%s\" is in use by a question", conn->node);
}

static const ShardConnHolder asker = {refuse_yield, NULL, NULL};

/* Is error about the server's being away, rather than about this session? */
static bool
means_lost(const ErrorData *error)
{
	switch (ERRCODE_TO_CATEGORY(error->sqlerrcode))
	{
		case ERRCODE_CONNECTION_EXCEPTION:
		case ERRCODE_OPERATOR_INTERVENTION:
			return error->sqlerrcode != ERRCODE_QUERY_CANCELED;
		default:
			return error->sqlerrcode == ERRCODE_TOO_MANY_CONNECTIONS;
	}
}

/*
 * A connection to put a question over: an idle one; one that reads, in whose transaction the
 * question does no harm, as what others of this session hold must not be waited for; or a new one.
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

		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		/* its answer may be half read, and the end of an inner savepoint would not release it */
		if (taken)
			shard_pool_discard(taken);
		taken = NULL;
		/* our own cancel and termination come as the same errors */
		if (!means_lost(error) || QueryCancelPending || ProcDiePending)
			PG_RE_THROW();
		FlushErrorState();
		/* that it could not be connected to goes without saying; an error of the server is a message */
		*reason = error->sqlerrcode == ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION && error->detail ?
			error->detail : error->message;
	}
	PG_END_TRY();
	*conn = taken;
	return answered;
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
		ErrorData  *error;

		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		if (!means_lost(error) || QueryCancelPending || ProcDiePending)
			PG_RE_THROW();
		FlushErrorState();		/* it will be met again when the server is asked */
	}
	PG_END_TRY();
}

bool
shard_read_has_connection(ShardPool *pool)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pool->conns)
	{
		ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

		if (conn->state == SHARD_CONN_READY && !conn->invalidated &&
			(conn->holder || shard_connection_in_xact(conn) ? shard_connection_is_alive(conn) : shard_connection_usable(conn)))
			return true;
	}
	return false;
}
