/*
 * broadcast.c
 *	  One short command on each of many connections, at the same time.
 *
 *	 start:  send --> send --> ...          finish:  wait for any --> read its results --+
 *	                                                     ^                               |
 *	                                                     +---- some have not answered <--+
 *
 * It serves the ends of transactions, where most of the callers must not raise
 * errors, so results are handed out, not judged.  Its wait set lives as long as
 * the session: no allocation may fail after the local commit.
 */
#include "postgres.h"

#include "guc.h"
#include "miscadmin.h"
#include "remote/broadcast.h"
#include "remote/wait.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* Time left to the nodes after the user asked to cancel, in ms. */
#define HURRY_MS 600

static ShardWaitSet *wait_set = NULL;

static bool
send_command(ShardConn *conn, const char *sql, bool has_rows)
{
	if (conn->state != SHARD_CONN_READY)
		return false;
	if (shard_guc_log_remote_sql)
		ereport(LOG,
				(errmsg("remote SQL on node \"%s\": %s", conn->node, sql),
				 errhidestmt(true), errhidecontext(true)));
	if (!PQsendQuery(conn->pg, sql))
	{
		conn->state = SHARD_CONN_BROKEN;
		return false;
	}
	/* a node that sends rows, and more of them, is not to fill memory */
	if (!has_rows)
		(void) PQsetSingleRowMode(conn->pg);
	(void) shard_connection_flush(conn);
	return true;
}

bool
shard_broadcast_send(ShardConn *conn, const char *sql)
{
	return send_command(conn, sql, false);
}

void
shard_broadcast_start(ShardBroadcast *items, int nitems)
{
	for (int i = 0; i < nitems; i++)
	{
		ShardBroadcast *item = &items[i];

		item->sent = item->done = false;
		item->result = NULL;
		if (item->sql)
			item->sent = send_command(item->conn, item->sql, item->has_rows);
	}
}

/*
 * Reads what has come for item without blocking.  Returns the socket events to
 * wait for, 0 when it has ended.
 */
static int
advance_item(ShardBroadcast *item)
{
	ShardConn  *conn = item->conn;
	bool		flushed = shard_connection_flush(conn);
	bool		alive = shard_connection_consume(conn);

	while (!PQisBusy(conn->pg))
	{
		PGresult   *res = PQgetResult(conn->pg);
		bool		nonsense;

		if (!res)
		{
			/* a lost connection leaves an error result of libpq's own: no answer of the node */
			if (PQstatus(conn->pg) == CONNECTION_BAD)
				conn->state = SHARD_CONN_BROKEN;
			item->done = conn->state == SHARD_CONN_READY;
			return 0;
		}
		if (conn->settings)		/* a connection made for a single command has none */
			shard_connection_note_result(conn, res);
		nonsense = shard_connection_is_copy(res) || PQresultStatus(res) == PGRES_SINGLE_TUPLE;
		if (item->result && PQresultStatus(item->result) == PGRES_FATAL_ERROR)
			PQclear(res);
		else
		{
			PQclear(item->result);
			item->result = res;
		}
		if (nonsense)
		{
			/* nobody sends such a command this way; do not go round in it */
			conn->state = SHARD_CONN_BROKEN;
			return 0;
		}
	}
	if (!alive)
	{
		conn->state = SHARD_CONN_BROKEN;
		return 0;
	}
	return WL_SOCKET_READABLE | (flushed ? 0 : WL_SOCKET_WRITEABLE);
}

/* Waits for one of items; when that raises, their results are freed, since nobody else knows them. */
static void
wait_for_any(ShardBroadcast *items, ShardWaitItem *waits, int nitems, long timeout_ms, bool noerror)
{
	PG_TRY();
	{
		shard_wait_set_wait(wait_set, waits, nitems, timeout_ms, noerror);
	}
	PG_CATCH();
	{
		shard_broadcast_clear(items, nitems);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

void
shard_broadcast_finish(ShardBroadcast *items, int nitems, long timeout_ms,
					   ShardBroadcastInterrupt interrupt)
{
	ShardWaitItem *waits = palloc0(nitems * sizeof(ShardWaitItem));
	TimestampTz deadline = 0;

	if (!wait_set)
		wait_set = shard_wait_set_create(TopMemoryContext);
	if (timeout_ms >= 0)
		deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);

	for (;;)
	{
		int			nwaiting = 0;
		long		left_ms = -1;

		for (int i = 0; i < nitems; i++)
		{
			waits[i].events = 0;
			if (!items[i].sent || items[i].done || items[i].conn->state != SHARD_CONN_READY)
				continue;
			waits[i].events = advance_item(&items[i]);
			waits[i].fd = PQsocket(items[i].conn->pg);
			if (waits[i].events != 0)
				nwaiting++;
		}
		if (nwaiting == 0)
			break;

		if (interrupt == SHARD_BROADCAST_HURRY && shard_wait_is_urged())
		{
			TimestampTz soon = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), HURRY_MS);

			if (deadline == 0 || deadline > soon)
				deadline = soon;
			interrupt = SHARD_BROADCAST_IGNORE;
		}
		if (deadline != 0)
		{
			left_ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
			if (left_ms <= 0)
				break;
		}
		wait_for_any(items, waits, nitems, left_ms, interrupt != SHARD_BROADCAST_RAISE);
	}

	/* what has not answered cannot be used for anything else */
	for (int i = 0; i < nitems; i++)
		if (items[i].sent && !items[i].done)
			items[i].conn->state = SHARD_CONN_BROKEN;
	pfree(waits);
}

void
shard_broadcast_clear(ShardBroadcast *items, int nitems)
{
	for (int i = 0; i < nitems; i++)
	{
		PQclear(items[i].result);
		items[i].result = NULL;
	}
}

bool
shard_broadcast_ok(const ShardBroadcast *item, const char *tag)
{
	if (!item->done || !item->result)
		return false;
	if (PQresultStatus(item->result) != PGRES_COMMAND_OK &&
		PQresultStatus(item->result) != PGRES_TUPLES_OK)
		return false;
	return tag == NULL || strcmp(PQcmdStatus(item->result), tag) == 0;
}

int
shard_broadcast_sqlstate(const ShardBroadcast *item)
{
	const char *state = item->result ? PQresultErrorField(item->result, PG_DIAG_SQLSTATE) : NULL;

	if (!item->done || !state || strlen(state) != 5)
		return 0;
	return MAKE_SQLSTATE(state[0], state[1], state[2], state[3], state[4]);
}
