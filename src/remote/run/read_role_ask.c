/*
 * read_role_ask.c
 *	  Sends a query to one server of a node, which may be unavailable.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catch.h"
#include "miscadmin.h"
#include "remote/run/read_role_private.h"
#include "remote/wire/broadcast.h"
#include "remote/wire/error.h"

static const ShardConnHolder asker = {NULL, NULL, NULL};

/* Does the error mean that the server is unavailable?  Other errors are a problem of this session. */
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
	ShardConn  *spare = shard_pool_start_spare(pool);

	if (spare != NULL)
		return spare;
	shard_pool_foreach(conn, pool)
	{
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

/* A query to the server of a pool. */
typedef struct Question
{
	ShardPool  *pool;
	const char *sql;			/* NULL: none */
	ShardConn  *conn;
	PGresult   *answer;
} Question;

/*
 * Runs step.  Returns an error that means that the server is unavailable, or NULL; raises any other.  A
 * wait that ends because of this session's cancel or termination raises such errors, too, but leaves
 * the flag set.
 */
static ErrorData *
catch_lost(ShardStep step, Question *question)
{
	ErrorData  *error = shard_catch_error(step, question);

	if (error == NULL)
		return NULL;
	/* its answer may be half read, and the end of an inner savepoint would not release it */
	if (question->conn)
		shard_pool_discard(question->conn);
	question->conn = NULL;
	if (!means_lost(error) || QueryCancelPending || ProcDiePending)
		ReThrowError(error);
	return error;
}

/* Runs the query of question over its connection, and releases that. */
static void
ask(Question *question)
{
	ShardConn  *conn = question->conn;

	shard_connection_finish(conn);
	if (question->sql)
	{
		shard_connection_send(conn, question->sql);
		question->answer = shard_broadcast_await(conn, NULL, question->sql, SHARD_BROADCAST_ROWS, SHARD_READ_ANSWER_MS)->result;
	}
	shard_connection_release(conn);
}

static void
ask_any(void *arg)
{
	Question   *question = arg;

	question->conn = take_connection(question->pool);
	ask(question);
}

static void
ask_spare(void *arg)
{
	Question   *question = arg;

	question->conn = shard_pool_start_spare(question->pool);
	if (question->conn)
		ask(question);
}

static void
warm(void *arg)
{
	shard_pool_warm(((Question *) arg)->pool);
}

bool
shard_read_ask(ShardPool *pool, const char *sql, int ncolumns, PGresult **answer, ShardConn **conn, char **reason)
{
	Question	question = {pool, sql};
	ErrorData  *error = catch_lost(ask_any, &question);

	if (error != NULL)
	{
		/* skip the message that it could not be connected to; if the server raised the error, the message counts */
		*reason = error->sqlerrcode == ERRCODE_SYSTEM_ERROR && error->detail ?
			error->detail : error->message;
		return false;
	}
	if (sql && (PQntuples(question.answer) != 1 || PQnfields(question.answer) != ncolumns))
		shard_error_protocol(question.conn, NULL, "number of rows or columns differs");
	*answer = question.answer;
	*conn = question.conn;
	return true;
}

void
shard_read_try(ShardPool *pool, const char *sql)
{
	Question	question = {pool, sql};

	(void) catch_lost(ask_spare, &question);
}

void
shard_read_warm(ShardPool *pool)
{
	Question	question = {pool};

	/* the query to the server will report the failure */
	(void) catch_lost(warm, &question);
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
