/*
 * connection_send.c
 *	  Sends statements on a connection.
 *
 * A statement waits for a connection that is still being opened, so this file is a layer above connection_open.c.
 */
#include "postgres.h"

#include "remote/wire/comment.h"
#include "remote/wire/connection_private.h"
#include "remote/wire/error.h"

/* Makes conn ready for a statement, and records that it is sent. */
static void
prepare_to_send(ShardConn *conn, const char *sql, int nparams, const char *const *params)
{
	if (conn->state == SHARD_CONN_CONNECTING)
		shard_connection_finish(conn);
	while (!shard_connection_settle(conn))
		shard_connection_wait_input(conn, 0, false);
	conn->used = true;
	conn->preparing = NULL;
	shard_connection_note_sent(conn, sql, nparams, params);
}

/* Sends sql between the texts before and behind. */
static void
send_between(ShardConn *conn, const char *before, const char *sql, const char *behind)
{
	char	   *text = *before || *behind ? psprintf("%s%s%s", before, sql, behind) : NULL;

	prepare_to_send(conn, sql, 0, NULL);
	/* the error does not show sql, which may contain values of rows as literals */
	if (!PQsendQuery(conn->pg, text ? text : sql))
		shard_error_report(ERROR, NULL, conn, NULL, NULL);
	(void) PQsetSingleRowMode(conn->pg);
	shard_connection_flush(conn);
	if (text)
		pfree(text);
}

void
shard_connection_send(ShardConn *conn, const char *sql)
{
	bool		sampled;

	send_between(conn, shard_comment_trace(&sampled), sql, "");
}

void
shard_connection_send_statement(ShardConn *conn, const char *sql)
{
	bool		sampled;

	send_between(conn, shard_comment_trace(&sampled), sql, shard_comment_query_id());
}

bool
shard_connection_start_prepare(ShardConn *conn, const char *sql, int nparams)
{
	ShardPrepared *due;
	char		name[NAMEDATALEN];
	const char *id;
	char	   *text;
	bool		sampled;

	/* a sampled statement will be sent as text */
	(void) shard_comment_trace(&sampled);
	if (sampled)
		return false;
	due = shard_connection_find_due(conn, sql);
	if (!due)
		return false;
	prepare_to_send(conn, sql, 0, NULL);
	shard_connection_name_anew(due, name, sizeof(name));
	id = shard_comment_query_id();
	text = *id ? psprintf("%s%s", sql, id) : NULL;
	if (!PQsendPrepare(conn->pg, name, text ? text : sql, nparams, NULL))
		shard_error_report(ERROR, NULL, conn, NULL, sql);
	if (text)
		pfree(text);
	(void) PQsetSingleRowMode(conn->pg);
	shard_connection_flush(conn);
	conn->preparing = due;
	return true;
}

void
shard_connection_send_params(ShardConn *conn, const char *sql, int nparams,
							 const char *const *params, bool binary_result)
{
	char		name[NAMEDATALEN];
	bool		prepared = shard_connection_find_prepared(conn, sql, name, sizeof(name));
	bool		sampled;
	const char *trace = shard_comment_trace(&sampled);
	int			sent;

	prepare_to_send(conn, sql, nparams, params);
	/* a recorded trace is worth planning again: a prepared statement cannot show its trace */
	if (prepared && !sampled)
		sent = PQsendQueryPrepared(conn->pg, name, nparams, params, NULL, NULL, binary_result ? 1 : 0);
	else
	{
		const char *id = shard_comment_query_id();
		char	   *text = *trace || *id ? psprintf("%s%s%s", trace, sql, id) : NULL;

		sent = PQsendQueryParams(conn->pg, text ? text : sql, nparams, NULL, params, NULL, NULL, binary_result ? 1 : 0);
		if (text)
			pfree(text);
	}
	if (!sent)
		shard_error_report(ERROR, NULL, conn, NULL, sql);
	(void) PQsetSingleRowMode(conn->pg);
	shard_connection_flush(conn);
}
