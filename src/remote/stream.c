/*
 * stream.c
 *	  The life of a stream: connection, statement, rows, end.
 *
 *	 QUEUED --> CONNECTING --> SETTLING --> SNAPSHOT --> [PREAMBLE] --> SENT --> DONE
 *	   ^  no free connection	 earlier	  id not here	 query		 |
 *	   |						 COMMIT					   fetcher		 +-- yield --> SPILLED --> DONE
 *	   +--- found dead before it answered: once more, on a new connection
 *
 * Nothing here blocks but shard_stream_wait, yielding and (as shortly as
 * possible) closing.  Who moves a stream on: its reader, by next and wait; and
 * for a queued one also the stream that gives its connection up.  Its bytes are
 * read in stream_fetch.c; what it waits for is in stream_wait.c.
 *
 * Deadlocks: a queued stream whose connections are held by streams that its
 * reader is not reading now makes one of them yield.
 */
#include "postgres.h"

#include "access/xact.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "remote/error.h"
#include "remote/stream_private.h"
#include "remote/wait.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#define CLOSE_TIMEOUT_MS 1000	/* for the answer to a cancel request */
#define CLOSE_HURRY_MS 500		/* the same, when the user has cancelled */
#define SAVEPOINT_WAIT_MS 20	/* before one, for a node that is slow to begin */

static void stream_yield(ShardConn *conn, void *arg);
static void stream_lost(ShardConn *conn, void *arg);

/* ---------- beginning ---------- */

ShardStream *
shard_stream_of_connection(ShardConn *conn)
{
	return conn->holder && conn->holder->yield == stream_yield ? conn->holder->arg : NULL;
}

/* Its connection has been released, by whomever. */
static void
stream_lost(ShardConn *conn, void *arg)
{
	ShardStream *stream = arg;

	stream->conn = NULL;
	if (stream->state != STREAM_DONE)
		stream->state = STREAM_LOST;
}

/* Lets go of the connection; the stream is in state afterwards. */
static void
give_up_connection(ShardStream *stream, ShardStreamState state)
{
	ShardConn  *conn = stream->conn;

	if (conn)
		shard_connection_release(conn);
	stream->state = state;
}

/* Begins to use conn, which has no holder. */
static void
take_connection(ShardStream *stream, ShardConn *conn)
{
	shard_connection_hold(conn, &stream->holder);
	stream->conn = conn;
	stream->conn_id = conn;
	stream->conn_was_used = conn->used;
	stream->state = conn->state == SHARD_CONN_CONNECTING ? STREAM_CONNECTING : STREAM_SETTLING;
}

static void
enqueue(ShardStream *stream, bool first)
{
	stream->state = STREAM_QUEUED;
	if (first)
		dlist_push_head(&stream->pool->queue, &stream->queue_link);
	else
		dlist_push_tail(&stream->pool->queue, &stream->queue_link);
}

static void
dequeue(ShardStream *stream)
{
	dlist_delete(&stream->queue_link);
	stream->state = STREAM_LOST;
}

/* A connection for a queued stream, which leaves the queue; or NULL. */
static ShardConn *
find_connection(ShardStream *stream)
{
	ShardPool  *pool = stream->pool;
	ShardConn  *conn;

	if (stream->spec.as_writer && !pool->writer)
	{
		/* all that is queued gets started before there is a writer, but for this one */
		dequeue(stream);
		return shard_txn_writer_start(stream->spec.serverid, stream->spec.userid);
	}
	if (stream->spec.as_writer)
		conn = pool->writer->holder ? NULL : pool->writer;
	else
		conn = shard_pool_acquire_reader(pool, stream->snapshot);
	if (conn)
		dequeue(stream);
	return conn;
}

void
shard_stream_start_queued(ShardPool *pool, ShardSnapshot *snapshot)
{
	bool		none[2];		/* there is no connection for those that read, that write */
	dlist_iter	iter;

restart:
	none[false] = none[true] = false;
	dlist_foreach(iter, &pool->queue)
	{
		ShardStream *stream = dlist_container(ShardStream, queue_link, iter.cur);
		ShardConn  *conn;

		if (stream->snapshot != snapshot || none[stream->spec.as_writer])
			continue;
		conn = find_connection(stream);
		if (!conn)
		{
			none[stream->spec.as_writer] = true;
			continue;
		}
		take_connection(stream, conn);
		(void) shard_stream_advance(stream);
		goto restart;			/* the queue may have changed */
	}
}

/* True when a stream of the same statement writes on pool's connection now, or waits to. */
static bool
writers_under_way(ShardStream *stream)
{
	ShardPool  *pool = stream->pool;
	dlist_iter	iter;
	ShardStream *other = pool->writer ? shard_stream_of_connection(pool->writer) : NULL;

	if (other && other->spec.as_writer && other->snapshot == stream->snapshot)
		return true;
	dlist_foreach(iter, &pool->queue)
	{
		other = dlist_container(ShardStream, queue_link, iter.cur);
		if (other->spec.as_writer && other->snapshot == stream->snapshot)
			return true;
	}
	return false;
}

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
	stream->snapshot = snapshot;
	stream->pool = shard_pool_get(spec->serverid, spec->userid);
	stream->values = MemoryContextAlloc(cxt, ncolumns * sizeof(char *));
	stream->lens = MemoryContextAlloc(cxt, ncolumns * sizeof(int));
	stream->holder.yield = stream_yield;
	stream->holder.lost = stream_lost;
	stream->holder.arg = stream;
	stream->callback.func = close_in_reset;
	stream->callback.arg = stream;

	/* from here on its end is sure */
	stream->state = STREAM_LOST;
	MemoryContextRegisterResetCallback(cxt, &stream->callback);

	if (spec->as_writer && !writers_under_way(stream))
	{
		take_connection(stream, shard_txn_writer_start(spec->serverid, spec->userid));
		(void) shard_stream_advance(stream);
	}
	else
	{
		enqueue(stream, false);
		shard_stream_start_queued(stream->pool, snapshot);
	}
	return stream;
}

/* Sends the statement; false when the snapshot is not known yet. */
static bool
send_statement(ShardStream *stream)
{
	ShardConn  *conn = stream->conn;
	StringInfoData xact;
	StringInfoData text;
	bool		ready = true;

	stream->began = conn->xact_depth == 0;
	initStringInfo(&xact);
	initStringInfo(&text);
	if (stream->spec.as_writer)
	{
		shard_txn_check_writer(conn);
		shard_txn_writer_preamble(conn, GetCurrentTransactionNestLevel(), &xact);
	}
	else
		ready = shard_txn_reader_preamble(conn, stream->snapshot, &xact, &stream->exporting);
	if (ready)
	{
		stream->exports = stream->exporting;
		stream->awaited = stream->exporting &&
			shard_txn_is_shared(stream->snapshot, stream->spec.serverid, stream->spec.userid);

		shard_connection_append_preamble(conn, stream->spec.portable_text ? SHARD_SETTINGS_PORTABLE :
										 SHARD_SETTINGS_USER,
										 stream->spec.workers, stream->spec.cpu_factor, &xact, &text);
		shard_fetch_send(stream, text.data);
	}
	pfree(xact.data);
	pfree(text.data);
	return ready;
}

bool
shard_stream_advance(ShardStream *stream)
{
	if (stream->state == STREAM_CONNECTING)
	{
		ShardConn  *conn = stream->conn;

		if (shard_connection_poll(conn) != 0)
		{
			if (conn->nrefused > 0 && !stream->spec.as_writer &&
				shard_pool_can_do_without(conn, stream->snapshot))
			{
				give_up_connection(stream, STREAM_QUEUED);
				enqueue(stream, true);
				conn->state = SHARD_CONN_BROKEN;	/* the pool closes it */
			}
			return false;
		}
		stream->state = STREAM_SETTLING;
	}
	if (stream->state == STREAM_SETTLING)
	{
		ShardConn  *conn = stream->conn;

		if (!shard_connection_settle(conn))
			return false;
		stream->state = STREAM_SNAPSHOT;
		if (conn->state == SHARD_CONN_BROKEN && conn->xact_depth == 0 && !stream->spec.as_writer)
		{
			/* it ended together with its last transaction: another one, please */
			give_up_connection(stream, STREAM_QUEUED);
			enqueue(stream, true);
			return false;
		}
	}
	if (stream->state == STREAM_SNAPSHOT)
		return send_statement(stream);
	return true;
}

/* ---------- reading ---------- */

/*
 * After an error or a cancel: what became of the remote transaction.  When it
 * struck before the BEGIN in front of the statement there is none at all.
 */
static void
note_failed_transaction(ShardStream *stream, ShardConn *conn)
{
	PGTransactionStatusType status = PQtransactionStatus(conn->pg);

	if (status == PQTRANS_INERROR)
		conn->xact_failed = true;
	else if (status == PQTRANS_IDLE && stream->began && !stream->spec.as_writer)
	{
		conn->xact_depth = 0;
		conn->snapshot = NULL;
	}
}

/*
 * True when a lost connection takes nothing with it that anybody has seen: it
 * was idle before, and its transaction began with this statement.
 */
static bool
can_retry(ShardStream *stream)
{
	return stream->conn_was_used && !stream->retried && !stream->yielding &&
		stream->nbytes == 0 && !stream->spec.as_writer && stream->began &&
		!(stream->exports && !stream->exporting);
}

/*
 * The node failed.  A connection that turns out to be dead is replaced once,
 * when nothing is lost with it; else the error is raised.
 */
static void
handle_error(ShardStream *stream)
{
	ShardConn  *conn = stream->conn;
	PGresult   *error = stream->error;
	bool		lost = shard_connection_is_lost(conn, error);

	stream->error = NULL;
	if (!lost && stream->spec.nparams > 0 && shard_connection_is_stale(error))
	{
		shard_connection_forget_prepared(conn, stream->spec.sql);
		if (can_retry(stream) && PQtransactionStatus(conn->pg) == PQTRANS_IDLE)
		{
			PQclear(error);
			stream->retried = true;
			note_failed_transaction(stream, conn);
			give_up_connection(stream, STREAM_QUEUED);
			enqueue(stream, true);
			return;
		}
	}
	if (lost && can_retry(stream))
	{
		PQclear(error);
		stream->retried = true;
		stream->exporting = stream->drained = stream->guarded = false;
		PQclear(stream->snapshot_rows);
		stream->snapshot_rows = NULL;
		conn->xact_depth = 0;
		conn->snapshot = NULL;
		give_up_connection(stream, STREAM_QUEUED);
		enqueue(stream, true);
		shard_pool_discard(conn);
		return;
	}

	if (lost)
		conn->state = SHARD_CONN_BROKEN;
	else
		note_failed_transaction(stream, conn);
	give_up_connection(stream, STREAM_LOST);
	shard_error_report(ERROR, error, conn, stream->spec.label, stream->spec.sql);
}

/* The node has answered completely. */
static void
finish(ShardStream *stream)
{
	ShardConn  *conn = stream->conn;

	if (stream->error)
	{
		handle_error(stream);
		return;
	}
	if (PQstatus(conn->pg) == CONNECTION_BAD)
	{
		conn->state = SHARD_CONN_BROKEN;
		give_up_connection(stream, STREAM_LOST);
		shard_error_report(ERROR, NULL, conn, stream->spec.label, stream->spec.sql);
	}
	if (!stream->trailer_seen)
		shard_error_protocol(conn, stream->spec.label,
							 stream->spec.use_copy ? "the COPY data have no end mark" : "the statement has no result");
	give_up_connection(stream, STREAM_DONE);
	if (!stream->yielding)
		shard_stream_start_queued(stream->pool, stream->snapshot);
}

ShardStreamStatus
shard_stream_read_node(ShardStream *stream, ShardRow *row)
{
	for (;;)
	{
		ShardFetchStatus status = shard_fetch_next(stream, row);

		if (status == FETCH_ROW)
			return SHARD_STREAM_ROW;
		if (stream->conn->notices)
			shard_connection_flush_notices(stream->conn);
		if (status == FETCH_WAIT)
		{
			stream->drained = true;
			return SHARD_STREAM_WAIT;
		}
		if (stream->state == STREAM_PREAMBLE && !stream->error &&
			PQstatus(stream->conn->pg) == CONNECTION_OK)
		{
			shard_fetch_send(stream, "");
			stream->drained = false;	/* it is read at once, and a row may come of that */
			continue;
		}
		finish(stream);
		return stream->state == STREAM_DONE ? SHARD_STREAM_DONE : SHARD_STREAM_WAIT;
	}
}

static ShardStreamStatus
read_aside(ShardStream *stream, ShardRow *row)
{
	if (shard_fetch_next_aside(stream, row))
		return SHARD_STREAM_ROW;
	shard_spill_close(stream->spill);
	stream->spill = NULL;
	stream->state = STREAM_DONE;
	return SHARD_STREAM_DONE;
}

ShardStreamStatus
shard_stream_next(ShardStream *stream, ShardRow *row)
{
	ShardStreamStatus status = SHARD_STREAM_WAIT;

	shard_fetch_free_kept(stream);
	for (;;)
	{
		switch (stream->state)
		{
			case STREAM_QUEUED:
				shard_stream_start_queued(stream->pool, stream->snapshot);
				if (stream->state == STREAM_QUEUED)
					return SHARD_STREAM_WAIT;
				continue;
			case STREAM_CONNECTING:
			case STREAM_SETTLING:
			case STREAM_SNAPSHOT:
				if (!shard_stream_advance(stream) && stream->state != STREAM_QUEUED)
					return SHARD_STREAM_WAIT;
				continue;
			case STREAM_PREAMBLE:
			case STREAM_SENT:
				if (stream->drained)
					return SHARD_STREAM_WAIT;
				status = shard_stream_read_node(stream, row);
				if (stream->state == STREAM_QUEUED)
					continue;	/* once more */
				break;
			case STREAM_SPILLED:
				status = read_aside(stream, row);
				break;
			case STREAM_DONE:
				return SHARD_STREAM_DONE;
			case STREAM_LOST:
				ereport(ERROR,
						(errcode(ERRCODE_CONNECTION_FAILURE),
						 errmsg("rows of a node are no longer available"),
						 errdetail("Its connection was closed or taken away.")));
		}
		if (status == SHARD_STREAM_ROW)
			stream->nrows++;
		return status;
	}
}

/* Messages that a yield has put aside come one by one. */
ShardStreamStatus
shard_stream_next_bytes(ShardStream *stream, char *buf, int size,
						const char **data, int *len, bool *torn)
{
	ShardStreamStatus status;
	ShardRow	row = {0};

	Assert(stream->spec.raw_copy);
	stream->bulk = buf;
	stream->bulk_size = size;
	stream->bulk_len = 0;
	stream->bulk_torn = false;
	status = shard_stream_next(stream, &row);
	stream->bulk = NULL;

	*torn = stream->bulk_torn;
	*data = stream->bulk_len > 0 || row.ncols == 0 ? buf : row.values[0];
	*len = stream->bulk_len > 0 || row.ncols == 0 ? stream->bulk_len : row.lens[0];
	return status;
}

/* ---------- yielding ---------- */

/*
 * Reads the rest of the rows into a spill, so that the connection is free.  The
 * caller's current row stays valid.
 */
static void
stream_yield(ShardConn *conn, void *arg)
{
	ShardStream *stream = arg;
	int			ncolumns = Max(stream->spec.ncolumns, 1);
	ShardRow	row;

	Assert(stream->conn == conn);

	/* A statement that has not begun must still see what it would have seen. */
	while (!shard_stream_advance(stream))
	{
		if (stream->conn != conn)
			return;				/* it was lost */
		shard_stream_wait(&stream, 1, NULL);
	}

	/* The reader may hold a row that lies in these. */
	stream->values = MemoryContextAlloc(stream->cxt, ncolumns * sizeof(char *));
	stream->lens = MemoryContextAlloc(stream->cxt, ncolumns * sizeof(int));
	stream->pinned = true;
	if (!stream->spill)
		stream->spill = shard_spill_create(stream->cxt, stream->owner);

	stream->yielding = true;
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
	}
	PG_FINALLY();
	{
		stream->yielding = false;
	}
	PG_END_TRY();
	if (stream->state == STREAM_DONE)
	{
		shard_spill_rewind(stream->spill);
		stream->state = STREAM_SPILLED;
	}
}

void
shard_stream_make_room(ShardStream *queued)
{
	ShardPool  *pool = queued->pool;
	ShardConn  *victim = NULL;
	dlist_iter	iter;

	if (pool->writer && pool->writer->holder &&
		(queued->spec.as_writer || shard_txn_uses_writer(pool, queued->snapshot)))
		victim = pool->writer;
	dlist_foreach(iter, &pool->conns)
	{
		ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

		if (!victim && shard_stream_of_connection(conn))
			victim = conn;
	}

	/* the ones that the query waited for are gone by now */
	if (!victim)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("lost connection to node \"%s\"",
						GetForeignServer(queued->spec.serverid)->servername)));
	shard_connection_yield(victim);
	shard_stream_start_queued(pool, queued->snapshot);
}

/* Starts all queued streams of pool, making room for them. */
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
		dlist_iter	iter;

		start_all(pool);

		/* Those that were started may still wait for a connection to open, and be queued again. */
		dlist_foreach(iter, &pool->conns)
		{
			ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);
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

/* ---------- figures ---------- */

int64
shard_stream_affected(ShardStream *stream)
{
	return stream->affected;
}

uint64
shard_stream_rows(ShardStream *stream)
{
	return stream->nrows;
}

uint64
shard_stream_bytes(ShardStream *stream)
{
	return stream->nbytes;
}

const void *
shard_stream_conn_id(ShardStream *stream)
{
	return stream->conn_id;
}

/* ---------- end ---------- */

/*
 * Frees the connection of a stream whose statement is under way.  A statement
 * in a transaction without a savepoint of its own is read to its end, unless
 * everything is to be rolled back anyway: cancelled, it would take the
 * transaction with it.
 */
static void
end_statement(ShardStream *stream)
{
	ShardConn  *conn = stream->conn;
	bool		in_xact = conn->xact_depth > 0 && IsTransactionState();
	bool		guarded = stream->guarded;
	int			timeout_ms;

	/* What precedes the statement makes the savepoint, and does not take long. */
	if (stream->state == STREAM_PREAMBLE)
		guarded = false;
	else if (guarded && in_xact && stream->spec.use_copy && !stream->copying && stream->nbytes == 0)
	{
		/* in one message with the statement; a sign of life says that it has been made */
		shard_connection_flush(conn);
		(void) shard_wait_socket(PQsocket(conn->pg), WL_SOCKET_READABLE, SAVEPOINT_WAIT_MS, true);
	}
	timeout_ms = shard_wait_interrupted ? CLOSE_HURRY_MS : CLOSE_TIMEOUT_MS;
	if (guarded || !in_xact || !shard_connection_drain_noerror(conn))
		(void) shard_connection_cancel_noerror(conn, timeout_ms);

	if (conn->state != SHARD_CONN_READY)
		return;
	if (PQtransactionStatus(conn->pg) == PQTRANS_INERROR && in_xact && stream->guarded)
		(void) shard_connection_exec_noerror(conn, "ROLLBACK TO SAVEPOINT shardfdw_stream; "
											 "RELEASE SAVEPOINT shardfdw_stream", timeout_ms);
	if (conn->state == SHARD_CONN_READY)
		note_failed_transaction(stream, conn);
}

void
shard_stream_close(ShardStream *stream)
{
	ShardConn  *conn = stream->conn;

	if (stream->closed)
		return;
	stream->closed = true;
	if (stream->state == STREAM_QUEUED)
		dlist_delete(&stream->queue_link);
	if (conn)
	{
		ShardStreamState state = stream->state;

		if (state == STREAM_PREAMBLE || state == STREAM_SENT)
			end_statement(stream);
		else if (state == STREAM_SETTLING)
		{
			/* a COMMIT that was waited for in vain is not left to the next one who reads here */
			(void) shard_connection_cancel_noerror(conn, shard_wait_interrupted ? CLOSE_HURRY_MS : CLOSE_TIMEOUT_MS);
		}
		if (stream->exporting && IsTransactionState())
			shard_txn_export_given_up(conn);
		give_up_connection(stream, STREAM_DONE);
		if (state == STREAM_CONNECTING)
			shard_connection_pause(conn);
	}
	stream->state = STREAM_DONE;

	shard_fetch_free_kept(stream);
	shard_fetch_free_row(stream);
	PQclear(stream->error);
	stream->error = NULL;
	PQclear(stream->snapshot_rows);
	stream->snapshot_rows = NULL;

	/* in abort the file is gone already, with its resource owner */
	if (stream->spill && IsTransactionState())
		shard_spill_close(stream->spill);
	stream->spill = NULL;
}
