/*
 * broadcast.c
 *	  One short command on each of many connections, in parallel.
 *
 *	 start:  send --> send --> ...          finish:  wait for any --> read its results --+
 *	                                                     ^                               |
 *	                                                     +---- some have not answered <--+
 *
 * It is used at the ends of transactions, where most callers must not raise errors.  So results are
 * returned without raising.  HURRY and IGNORE allocate nothing: room for one command per connection
 * is allocated when connections are opened.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "remote/wire/broadcast.h"
#include "remote/wire/error.h"
#include "remote/wire/wait.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* Time that nodes still have after the user has cancelled, in ms. */
#define HURRY_MS 600

#define FEW_ITEMS 16

static ShardWaitSet *wait_set = NULL;	/* for waits that may raise */

/* For waits that must not raise. */
static ShardBroadcast few_items[FEW_ITEMS];
static ShardWaitItem few_waits[FEW_ITEMS];
static ShardBroadcast *room_items = few_items;
static ShardWaitItem *room_waits = few_waits;
static int	nroom = FEW_ITEMS;

void
shard_broadcast_reserve(int n)
{
	ShardBroadcast *items;
	ShardWaitItem *waits;

	shard_wait_reserve(n);
	if (n <= nroom)
		return;
	n = pg_nextpower2_32(n);
	items = MemoryContextAlloc(TopMemoryContext, n * sizeof(ShardBroadcast));
	waits = MemoryContextAlloc(TopMemoryContext, n * sizeof(ShardWaitItem));
	if (nroom > FEW_ITEMS)
	{
		pfree(room_items);
		pfree(room_waits);
	}
	room_items = items;
	room_waits = waits;
	nroom = n;
}

ShardBroadcast *
shard_broadcast_room(void)
{
	memset(room_items, 0, nroom * sizeof(ShardBroadcast));
	return room_items;
}

static bool
send_command(ShardConn *conn, const char *sql, bool has_rows)
{
	if (conn->state != SHARD_CONN_READY)
		return false;
	shard_connection_note_sent(conn, sql, 0, NULL);
	if (!PQsendQuery(conn->pg, sql))
	{
		conn->state = SHARD_CONN_BROKEN;
		return false;
	}
	/* a node that sends endless rows must not fill memory */
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
		item->result = item->first = NULL;
		if (item->sql)
			item->sent = send_command(item->conn, item->sql, item->has_rows);
	}
}

/*
 * Reads what has arrived for item, without blocking.  Returns the socket events to wait for, or 0
 * when it has ended.
 */
static int
advance_item(ShardBroadcast *item)
{
	ShardConn  *conn = item->conn;
	bool		flushed = shard_connection_flush(conn);
	bool		alive = shard_connection_consume(conn);

	while (!PQisBusy(conn->pg))
	{
		PGresult   *res = shard_connection_take_result(conn);
		bool		nonsense;

		if (!res)
		{
			/* after a lost connection libpq returns its own error result, which is not an answer of the node */
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
			if (item->has_rows && item->first == NULL && item->result &&
				PQresultStatus(item->result) == PGRES_TUPLES_OK)
				item->first = item->result;
			else
				PQclear(item->result);
			item->result = res;
		}
		if (nonsense)
		{
			/* no caller sends a COPY; PQgetResult() would return the same result indefinitely */
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

/* Waits for one of items.  If the wait raises, frees their results, since no other function can. */
static void
wait_for_any(ShardBroadcast *items, ShardWaitItem *waits, int nitems, long timeout_ms, bool noerror)
{
	shard_wait_announce(SHARD_WAIT_TRANSACTION);
	if (noerror)
	{
		shard_wait_set_wait(NULL, waits, nitems, timeout_ms, true);
		return;
	}
	PG_TRY();
	{
		shard_wait_set_wait(wait_set, waits, nitems, timeout_ms, false);
	}
	PG_CATCH();
	{
		shard_broadcast_clear(items, nitems);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

bool
shard_broadcast_wait(ShardBroadcast *items, int nitems, long timeout_ms,
					 ShardBroadcastInterrupt interrupt)
{
	bool		may_raise = interrupt == SHARD_BROADCAST_RAISE;
	ShardWaitItem *waits = room_waits;
	TimestampTz deadline = 0;
	bool		ended = false;

	Assert(may_raise || nitems <= nroom);
	if (may_raise)
	{
		/* the wait may search for deadlocks, which calls this function again */
		waits = palloc0(nitems * sizeof(ShardWaitItem));
		if (!wait_set)
			wait_set = shard_wait_set_create(TopMemoryContext);
	}
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
		{
			ended = true;
			break;
		}

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
		wait_for_any(items, waits, nitems, left_ms, !may_raise);
	}

	if (may_raise)
		pfree(waits);
	return ended;
}

void
shard_broadcast_finish(ShardBroadcast *items, int nitems, long timeout_ms,
					   ShardBroadcastInterrupt interrupt)
{
	(void) shard_broadcast_wait(items, nitems, timeout_ms, interrupt);

	/* a connection without an answer cannot be used for anything else */
	for (int i = 0; i < nitems; i++)
		if (items[i].sent && !items[i].done)
			items[i].conn->state = SHARD_CONN_BROKEN;
}

void
shard_broadcast_clear(ShardBroadcast *items, int nitems)
{
	for (int i = 0; i < nitems; i++)
	{
		PQclear(items[i].result);
		PQclear(items[i].first);
		items[i].result = items[i].first = NULL;
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
	return item->done ? shard_error_sqlstate(item->result) : 0;
}
