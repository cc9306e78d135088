/*
 * broadcast.c
 *	  Runs one short command on each of many connections, in parallel.
 *
 *	 start:  send --> send --> ...          finish:  wait for any --> read its results --+
 *	                                                     ^                               |
 *	                                                     +---- some have not answered <--+
 *
 * It is used mainly at the ends of transactions, where most callers must not raise errors.  So results are returned
 * without raising.  Only RAISE allocates memory: room for one command per connection is allocated when connections are
 * opened.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "remote/wire/answer.h"
#include "remote/wire/broadcast.h"
#include "remote/wire/error.h"
#include "remote/wire/wait.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* Time that nodes still have after the user has cancelled, in ms. */
#define HURRY_MS 600

#define CANCEL_TIMEOUT_MS 600	/* for the answer of a node after a cancel request */

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

/* The memory of shard_broadcast_create(), in a separate context.  The items are a chunk of that context. */
typedef struct ItemMemory
{
	MemoryContextCallback callback;
	ShardBroadcast *items;
	int			nitems;
} ItemMemory;

static void
clear_in_reset(void *arg)
{
	const ItemMemory *memory = arg;

	shard_broadcast_clear(memory->items, memory->nitems);
}

ShardBroadcast *
shard_broadcast_create(int nitems)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw broadcast", ALLOCSET_SMALL_SIZES);
	ItemMemory *memory = MemoryContextAllocZero(cxt, sizeof(ItemMemory));

	memory->items = MemoryContextAllocZero(cxt, Max(nitems, 1) * sizeof(ShardBroadcast));
	memory->nitems = nitems;
	memory->callback.func = clear_in_reset;
	memory->callback.arg = memory;
	MemoryContextRegisterResetCallback(cxt, &memory->callback);
	return memory->items;
}

void
shard_broadcast_free(ShardBroadcast *items)
{
	MemoryContextDelete(GetMemoryChunkContext(items));
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
		item->result = item->first = item->rows = NULL;
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
		if (item->has_rows && !shard_answer_add_noerror(&item->rows, &res, SHARD_ANSWER_MANY_BYTES))
		{
			PQclear(res);
			conn->state = SHARD_CONN_BROKEN;
			return 0;
		}
		if (res == NULL)
			continue;
		item->done = item->starts_copy && shard_connection_is_copy(res);
		nonsense = !item->done && (shard_connection_is_copy(res) || PQresultStatus(res) == PGRES_SINGLE_TUPLE);
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
		if (item->done)
			return 0;
	}
	if (!alive)
	{
		conn->state = SHARD_CONN_BROKEN;
		return 0;
	}
	return WL_SOCKET_READABLE | (flushed ? 0 : WL_SOCKET_WRITEABLE);
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
		bool		is_encrypted = false;
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
			is_encrypted = is_encrypted || shard_connection_is_encrypted(items[i].conn);
		}
		if (nwaiting == 0)
		{
			ended = true;
			break;
		}

		if (interrupt == SHARD_BROADCAST_STOP && shard_wait_is_urged())
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
		if (is_encrypted && (left_ms < 0 || left_ms > SHARD_ENCRYPTED_WAIT_MS))
			left_ms = SHARD_ENCRYPTED_WAIT_MS;
		shard_wait_announce(items[0].sql ? SHARD_WAIT_TRANSACTION : SHARD_WAIT_NODE);
		shard_wait_set_wait(may_raise ? wait_set : NULL, waits, nitems, left_ms, !may_raise);
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

ErrorData *
shard_broadcast_wait_for_commits(ShardBroadcast *items, int nitems, ShardBroadcastInterrupt interrupt)
{
	ErrorData  *deadlock = NULL;

	for (long look_ms = DeadlockTimeout; !shard_broadcast_wait(items, nitems, look_ms, interrupt);
		 look_ms = Min(look_ms * 2, SHARD_WAIT_MAX_STALL_MS))
	{
		if (!shard_wait_is_urged())
			deadlock = shard_wait_find_deadlock();
		if (deadlock == NULL && !shard_wait_is_urged())
			continue;
		for (int i = 0; i < nitems; i++)
			if (items[i].sent && !items[i].done && items[i].conn->state == SHARD_CONN_READY)
				shard_connection_request_cancel(items[i].conn, CANCEL_TIMEOUT_MS / 2);
		(void) shard_broadcast_wait(items, nitems, CANCEL_TIMEOUT_MS, SHARD_BROADCAST_IGNORE);
		break;
	}
	return deadlock;
}

void
shard_broadcast_clear(ShardBroadcast *items, int nitems)
{
	for (int i = 0; i < nitems; i++)
	{
		PQclear(items[i].result);
		PQclear(items[i].first);
		PQclear(items[i].rows);
		items[i].result = items[i].first = items[i].rows = NULL;
	}
}

bool
shard_broadcast_ok(const ShardBroadcast *item, const char *tag)
{
	if (!item->done || !item->result)
		return false;
	switch (PQresultStatus(item->result))
	{
		case PGRES_COMMAND_OK:
		case PGRES_TUPLES_OK:
		case PGRES_EMPTY_QUERY:
		case PGRES_COPY_IN:
		case PGRES_COPY_OUT:
		case PGRES_COPY_BOTH:
			break;
		default:
			return false;
	}
	return tag == NULL || strcmp(PQcmdStatus(item->result), tag) == 0;
}

int
shard_broadcast_sqlstate(const ShardBroadcast *item)
{
	return item->done ? shard_error_sqlstate(item->result) : 0;
}

/* ---------- one command ---------- */

bool
shard_broadcast_check(ShardBroadcast *item, const char *label, const char *sql)
{
	PGresult   *res = item->result;

	if (shard_broadcast_ok(item, NULL))
		return true;
	item->result = NULL;
	if (res && PQresultStatus(res) != PGRES_FATAL_ERROR)
	{
		bool		is_of_part = PQresultStatus(res) == PGRES_COMMAND_OK || PQresultStatus(res) == PGRES_TUPLES_OK;

		PQclear(res);
		if (!is_of_part)
			shard_error_protocol(item->conn, label, "not the kind of result that was asked for");
		res = NULL;
	}
	if (res || PQstatus(item->conn->pg) == CONNECTION_BAD)
		shard_error_report(ERROR, res, item->conn, label, sql);
	return false;
}

ShardBroadcast *
shard_broadcast_await(ShardConn *conn, const char *label, const char *sql, ShardBroadcastAnswer answer,
					  int timeout_ms)
{
	ShardBroadcast *item = shard_broadcast_create(1);

	item->conn = conn;
	item->has_rows = answer == SHARD_BROADCAST_ROWS;
	item->starts_copy = answer == SHARD_BROADCAST_COPY;
	item->sent = true;
	shard_broadcast_finish(item, 1, timeout_ms, SHARD_BROADCAST_RAISE);
	if (conn->notices)
		shard_connection_flush_notices(conn);
	if (shard_broadcast_check(item, label, sql))
		return item;
	if (timeout_ms < 0)
		shard_error_protocol(conn, label, "the command has no result");
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("node \"%s\" has not answered within %d ms", conn->node, timeout_ms)));
}

void
shard_broadcast_exec(ShardConn *conn, const char *sql)
{
	shard_connection_send(conn, sql);
	shard_broadcast_free(shard_broadcast_await(conn, NULL, sql, SHARD_BROADCAST_ROWS, -1));
}

bool
shard_broadcast_exec_noerror(ShardConn *conn, const char *sql, int timeout_ms)
{
	ShardBroadcast item = {.conn = conn, .sql = sql};
	bool		is_ok;

	if (!shard_connection_cancel_noerror(conn, timeout_ms))
		return false;
	shard_broadcast_start(&item, 1);
	shard_broadcast_finish(&item, 1, timeout_ms, SHARD_BROADCAST_IGNORE);
	is_ok = shard_broadcast_ok(&item, NULL);
	/* the message needs memory, which may be exhausted in an abort */
	if (!is_ok && item.done && message_level_is_interesting(DEBUG1))
	{
		shard_error_report(DEBUG1, item.result, conn, NULL, sql);
		item.result = NULL;
	}
	shard_broadcast_clear(&item, 1);
	return is_ok;
}
