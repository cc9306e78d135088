/*
 * stream_open.c
 *	  How a stream is opened, releases its connection, and ends.
 *
 * Nothing here blocks, except yielding and (for as short a time as possible) closing.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "remote/run/stream_private.h"
#include "remote/wire/wait.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define CLOSE_HURRY_MS 500		/* the same, if the user has cancelled */

/*
 * A small query is not cancelled before it has run for this time.  A cancel request needs a new
 * connection and a process on both sides, which takes some milliseconds of work.
 */
#define SMALL_QUERY_MS 5

/* ---------- releasing the connection ---------- */

/*
 * Waits a moment for the end of a small query.  The streams of one statement are sent together, so
 * they share that moment.
 */
static bool
ends_soon(ShardStream *stream)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz until = TimestampTzPlusMilliseconds(stream->sent_at, SMALL_QUERY_MS);

	return now < until && !shard_wait_interrupted &&
		shard_connection_drain_noerror(stream->conn, (int) TimestampDifferenceMilliseconds(now, until));
}

/*
 * Ends a stream's running statement, so that its connection is free.  If the statement runs in a
 * transaction and has no savepoint, cancelling it would abort the transaction, so it is read to its
 * end.  Exceptions: everything is about to be rolled back, or that takes longer than drain_ms (0:
 * no limit).
 */
static void
end_statement(ShardStream *stream, ShardStreamState state, int drain_ms)
{
	ShardConn  *conn = stream->conn;
	bool		in_xact = shard_connection_in_xact(conn) && IsTransactionState();
	bool		guarded = stream->guard != 0;
	int			timeout_ms;

	/* what precedes the statement creates the savepoint, and is short */
	if (state == STREAM_PREAMBLE)
		guarded = false;
	timeout_ms = shard_wait_interrupted ? CLOSE_HURRY_MS : CLOSE_TIMEOUT_MS;
	if (guarded || !in_xact)
	{
		if (state != STREAM_SENT || stream->spec.use_copy || !ends_soon(stream))
			(void) shard_connection_cancel_noerror(conn, timeout_ms);
	}
	else if (!shard_connection_drain_noerror(conn, drain_ms))
		(void) shard_connection_cancel_noerror(conn, timeout_ms);

	if (conn->state != SHARD_CONN_READY)
		return;
	if (in_xact)
		shard_stream_undo(stream, timeout_ms);
	if (conn->state == SHARD_CONN_READY)
		shard_stream_note_failure(stream, conn);
}

/*
 * Ends the statement of stream, whose state was state, and releases its connection.  Never raises.
 * drain_ms: see end_statement().
 */
static void
leave_connection(ShardStream *stream, ShardStreamState state, int drain_ms)
{
	ShardConn  *conn = stream->conn;

	if (state == STREAM_PREAMBLE || state == STREAM_SENT)
		end_statement(stream, state, drain_ms);
	else if (state == STREAM_SETTLING)
	{
		/* the next user of the connection must not wait for the COMMIT for which this stream has waited in vain */
		(void) shard_connection_cancel_noerror(conn, shard_wait_interrupted ? CLOSE_HURRY_MS : CLOSE_TIMEOUT_MS);
	}
	shard_connection_release(conn);
	if (state == STREAM_CONNECTING)
		shard_connection_pause(conn);
}

/* ---------- yielding ---------- */

/*
 * The rest of the rows could not be spilled.  The spilled rows cannot be returned in order with the
 * rows still to come.  So all are lost, even if the reader catches the error.  The spill's file is
 * left to its resource owner, since closing it would write to it.  If the error is a timeout, it is
 * raised only once.  So a statement that waits for another session's lock must not be waited for
 * any more.
 */
static void
fail_yield(ShardStream *stream)
{
	stream->reader = STREAM_READER_CALLER;
	stream->spill = NULL;
	if (stream->conn)
		leave_connection(stream, stream->state, CLOSE_TIMEOUT_MS);
	stream->state = STREAM_LOST;
}

/*
 * Reads the rest of the rows into a spill, so that the connection is free.  The caller's current
 * row stays valid.
 */
static void
stream_yield(ShardConn *conn, void *arg)
{
	ShardStream *stream = arg;
	int			ncolumns = Max(stream->spec.ncolumns, 1);
	ShardRow	row;

	Assert(stream->conn == conn);

	/* a statement that has not begun must still see what it would have seen */
	while (!shard_stream_advance(stream))
	{
		if (stream->conn != conn)
			return;				/* it was lost */
		shard_stream_wait(&stream, 1, NULL);
	}

	/* new arrays, since the reader may still use a row in the old ones */
	stream->values = MemoryContextAlloc(stream->cxt, ncolumns * sizeof(char *));
	stream->lens = MemoryContextAlloc(stream->cxt, ncolumns * sizeof(int));
	stream->pinned = true;
	if (!stream->spill)
		stream->spill = shard_spill_create(stream->cxt, stream->owner);

	stream->reader = STREAM_READER_YIELD;
	PG_TRY();
	{
		for (;;)
		{
			ShardStreamStatus status = shard_stream_read_node(stream, &row);

			if (status == SHARD_STREAM_ROW)
			{
				shard_fetch_put_aside(stream, &row);
				CHECK_FOR_INTERRUPTS();
			}
			else if (status == SHARD_STREAM_DONE || stream->state == STREAM_QUEUED)
				break;
			else
				shard_stream_wait(&stream, 1, NULL);
			stream->drained = false;
		}
		if (stream->state == STREAM_DONE)
		{
			/* writes the last rows */
			shard_spill_rewind(stream->spill);
			stream->state = STREAM_SPILLED;
		}
	}
	PG_CATCH();
	{
		fail_yield(stream);
		PG_RE_THROW();
	}
	PG_END_TRY();
	stream->reader = STREAM_READER_CALLER;
}

/* ---------- before a write ---------- */

/* Starts all queued streams of pool, and makes room for them. */
static void
start_all(ShardPool *pool)
{
	while (!dlist_is_empty(&pool->queue))
	{
		ShardStream *stream = dlist_container(ShardStream, queue_link, dlist_head_node(&pool->queue));

		shard_stream_start_queued(pool, stream->snapshot);
		if (stream->state == STREAM_QUEUED)
			shard_stream_make_room(stream);
	}
}

void
shard_stream_drain_queue(ShardPool *pool)
{
	for (;;)
	{
		ShardStream *unsent = NULL;

		start_all(pool);

		/* streams that were started may still wait for a connection to open, and be queued again */
		shard_pool_foreach(conn, pool)
		{
			ShardStream *stream = shard_stream_of_connection(conn);

			if (stream && !shard_stream_advance(stream))
				unsent = stream;
		}
		if (unsent)
			shard_stream_wait(&unsent, 1, NULL);
		else if (dlist_is_empty(&pool->queue))
			break;
	}
}

void
shard_stream_drain_below(ShardPool *pool, int level)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pool->queue)
	{
		ShardStream *stream = dlist_container(ShardStream, queue_link, iter.cur);

		if (stream->spec.as_writer && stream->spec.level->level < level)
		{
			shard_stream_drain_queue(pool);
			return;
		}
	}
}

/* ---------- beginning ---------- */

static void
close_in_reset(void *arg)
{
	shard_stream_close(arg);
}

ShardStream *
shard_stream_open(MemoryContext cxt, ShardSnapshot *snapshot, const ShardStreamSpec *spec)
{
	ShardStream *stream = MemoryContextAllocZero(cxt, sizeof(ShardStream));
	int			ncolumns = Max(spec->ncolumns, 1);

	Assert(!spec->use_copy || spec->nparams == 0);
	Assert(!spec->raw_copy || (spec->use_copy && spec->ncolumns == 1));
	stream->cxt = cxt;
	stream->owner = CurrentResourceOwner;
	stream->spec = *spec;
	if (spec->nparams > 0)
		stream->spec.is_prepared = !spec->for_values;
	if (stream->spec.level == NULL)
		stream->spec.level = shard_txn_level_create(cxt);
	stream->spec.level->has_locks |= spec->only_locks;
	stream->snapshot = snapshot;
	stream->pool = spec->as_writer ? shard_pool_get(spec->serverid, spec->userid) :
		shard_txn_reader_pool(snapshot, spec->serverid, spec->userid);
	stream->values = MemoryContextAlloc(cxt, ncolumns * sizeof(char *));
	stream->lens = MemoryContextAlloc(cxt, ncolumns * sizeof(int));
	stream->holder.yield = stream_yield;
	stream->holder.lost = shard_stream_lost;
	stream->holder.arg = stream;
	stream->callback.func = close_in_reset;
	stream->callback.arg = stream;

	/* from here on the reset of cxt closes it */
	stream->state = STREAM_LOST;
	MemoryContextRegisterResetCallback(cxt, &stream->callback);

	shard_stream_drain_below(stream->pool, stream->spec.level->level);
	shard_stream_begin(stream);
	return stream;
}

/* ---------- end ---------- */

void
shard_stream_close(ShardStream *stream)
{
	ShardStreamState state = stream->state;

	stream->state = STREAM_CLOSED;
	if (state == STREAM_CLOSED)
		return;
	if (state == STREAM_QUEUED)
		dlist_delete(&stream->queue_link);
	if (stream->conn)
		leave_connection(stream, state, 0);

	shard_fetch_free_kept(stream);
	shard_fetch_free_row(stream);
	PQclear(stream->error);
	stream->error = NULL;
	PQclear(stream->snapshot_rows);
	stream->snapshot_rows = NULL;

	/* in abort the resource owner has removed the file already */
	if (stream->spill && IsTransactionState())
		shard_spill_close(stream->spill);
	stream->spill = NULL;
}
