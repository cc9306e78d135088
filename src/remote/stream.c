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
 * for a queued one also the stream that gives its connection up.
 *
 * A stream waits for the socket only when a read of it has just brought
 * nothing complete ("drained"); it reads the socket only when no complete row
 * is in memory.  So memory stays bounded and no bytes are forgotten inside
 * libpq.
 *
 * Deadlocks: a queued stream whose connections are held by streams that its
 * reader is not reading now makes one of them yield.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "remote/error.h"
#include "remote/stream_private.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#define CLOSE_TIMEOUT_MS 1000	/* for the answer to a cancel request */
#define SAVEPOINT_WAIT_MS 20	/* before one, for a node that is slow to begin */
#define ENCRYPTED_WAIT_MS 1000	/* a TLS library may hold bytes back */

static uint64 wait_counter = 0;

static void stream_yield(ShardConn *conn, void *arg);
static void stream_lost(ShardConn *conn, void *arg);
static bool advance(ShardStream *stream);

/* ---------- beginning ---------- */

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

/*
 * Starts queued streams of one statement on pool, in order, while there are
 * connections: those that write need the one that does, and others need not
 * queue behind them.  (Streams of other statements are not read now and would
 * only take connections from those that are.)
 */
static void
start_queued(ShardPool *pool, ShardSnapshot *snapshot)
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
		(void) advance(stream);
		goto restart;			/* the queue may have changed */
	}
}

/* True when a stream of the same statement writes on pool's connection now, or waits to. */
static bool
writers_under_way(ShardStream *stream)
{
	ShardPool  *pool = stream->pool;
	dlist_iter	iter;

	if (pool->writer && pool->writer->holder && pool->writer->holder->yield == stream_yield)
	{
		ShardStream *other = pool->writer->holder->arg;

		if (other->spec.as_writer && other->snapshot == stream->snapshot)
			return true;
	}
	dlist_foreach(iter, &pool->queue)
	{
		ShardStream *other = dlist_container(ShardStream, queue_link, iter.cur);

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
		(void) advance(stream);
	}
	else
	{
		enqueue(stream, false);
		start_queued(stream->pool, snapshot);
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

		/* settings first: they do not take a snapshot, and hold before the query */
		shard_connection_sync_settings(conn, stream->spec.workers, &text);
		appendBinaryStringInfo(&text, xact.data, xact.len);
		shard_fetch_send(stream, text.data);
	}
	pfree(xact.data);
	pfree(text.data);
	return ready;
}

/*
 * Moves stream on until its statement is sent; false when it has to wait, or
 * has lost its connection and is queued again.
 */
static bool
advance(ShardStream *stream)
{
	if (stream->state == STREAM_CONNECTING)
	{
		if (shard_connection_poll(stream->conn) != 0)
			return false;
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
	if (stream->spec.use_copy && !stream->trailer_seen)
		shard_error_protocol(conn, stream->spec.label, "the COPY data have no end mark");
	give_up_connection(stream, STREAM_DONE);
	if (!stream->yielding)
		start_queued(stream->pool, stream->snapshot);
}

/* Next row from the node.  After WAIT the state may be another one. */
static ShardStreamStatus
read_node(ShardStream *stream, ShardRow *row)
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
				start_queued(stream->pool, stream->snapshot);
				if (stream->state == STREAM_QUEUED)
					return SHARD_STREAM_WAIT;
				continue;
			case STREAM_CONNECTING:
			case STREAM_SETTLING:
			case STREAM_SNAPSHOT:
				if (!advance(stream) && stream->state != STREAM_QUEUED)
					return SHARD_STREAM_WAIT;
				continue;
			case STREAM_PREAMBLE:
			case STREAM_SENT:
				if (stream->drained)
					return SHARD_STREAM_WAIT;
				status = read_node(stream, row);
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
	while (!advance(stream))
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
			ShardStreamStatus status = read_node(stream, &row);

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

/* Makes some stream of the pool of a queued one yield. */
static void
make_room(ShardStream *queued)
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

		if (!victim && conn->holder && conn->holder->yield == stream_yield)
			victim = conn;
	}
	if (!victim)
		elog(ERROR, "no connection to wait for");
	shard_connection_yield(victim);
	start_queued(pool, queued->snapshot);
}

void
shard_stream_drain_queue(ShardPool *pool)
{
	while (!dlist_is_empty(&pool->queue))
	{
		ShardStream *stream = dlist_container(ShardStream, queue_link, dlist_head_node(&pool->queue));

		start_queued(pool, stream->snapshot);
		if (stream->state == STREAM_QUEUED)
			make_room(stream);
	}

	/* Those that were started just now may still wait for a connection to open. */
	for (;;)
	{
		ShardStream *unsent = NULL;
		dlist_iter	iter;

		dlist_foreach(iter, &pool->conns)
		{
			ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);
			ShardStream *stream;

			if (!conn->holder || conn->holder->yield != stream_yield)
				continue;
			stream = conn->holder->arg;
			if (!advance(stream))
				unsent = stream;
		}
		if (!unsent)
			break;
		shard_stream_wait(&unsent, 1, NULL);
	}
}

/* ---------- waiting ---------- */

/* What one wait is about. */
typedef struct StreamWait
{
	ShardWaitItem *items;
	ShardStream **owners;		/* of the items */
	int			nitems;
	int			maxitems;
	long		timeout_ms;		/* -1: none */
	ShardStream *queued;		/* some stream that has no connection */
} StreamWait;

static void
limit_timeout(StreamWait *wait, long timeout_ms)
{
	if (wait->timeout_ms < 0 || timeout_ms < wait->timeout_ms)
		wait->timeout_ms = timeout_ms;
}

static void
add_item(StreamWait *wait, ShardStream *stream, int events)
{
	if (stream->wait_no == wait_counter)
		return;					/* is there already */
	if (wait->nitems == wait->maxitems)
	{
		wait->maxitems = Max(16, wait->maxitems * 2);
		if (wait->items)
		{
			wait->items = repalloc(wait->items, wait->maxitems * sizeof(ShardWaitItem));
			wait->owners = repalloc(wait->owners, wait->maxitems * sizeof(ShardStream *));
		}
		else
		{
			wait->items = palloc(wait->maxitems * sizeof(ShardWaitItem));
			wait->owners = palloc(wait->maxitems * sizeof(ShardStream *));
		}
	}
	stream->wait_no = wait_counter;
	wait->items[wait->nitems].fd = PQsocket(stream->conn->pg);
	wait->items[wait->nitems].events = events;
	wait->items[wait->nitems].revents = 0;
	wait->owners[wait->nitems++] = stream;
}

static int
reading_events(ShardStream *stream)
{
	return WL_SOCKET_READABLE | (shard_connection_flush(stream->conn) ? 0 : WL_SOCKET_WRITEABLE);
}

static bool
is_encrypted(ShardStream *stream)
{
	return stream->conn && (PQsslInUse(stream->conn->pg) || PQgssEncInUse(stream->conn->pg));
}

static void
add_reading(StreamWait *wait, ShardStream *stream)
{
	add_item(wait, stream, reading_events(stream));
	if (is_encrypted(stream))
		limit_timeout(wait, ENCRYPTED_WAIT_MS);
}

/* Adds the stream that exports the snapshot which stream waits for. */
static void
add_exporter(StreamWait *wait, ShardStream *stream)
{
	bool		found = false;
	dlist_iter	iter;

	dlist_foreach(iter, &stream->pool->conns)
	{
		ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);
		ShardStream *other;

		if (!conn->holder || conn->holder->yield != stream_yield)
			continue;
		other = conn->holder->arg;
		if (other->exporting)
		{
			add_reading(wait, other);
			found = true;
		}
	}
	if (!found)
		limit_timeout(wait, 10);	/* it is about to be asked for anew */
}

/*
 * Notes what stream waits for; true when it need not wait.
 */
static bool
add_stream(StreamWait *wait, ShardStream *stream)
{
	switch (stream->state)
	{
		case STREAM_QUEUED:
			start_queued(stream->pool, stream->snapshot);
			if (stream->state != STREAM_QUEUED)
				return true;
			wait->queued = stream;
			return false;
		case STREAM_CONNECTING:
			add_item(wait, stream, stream->conn->connect_events);
			if (stream->conn->connect_deadline)
				limit_timeout(wait, 1 + TimestampDifferenceMilliseconds(GetCurrentTimestamp(),
																		stream->conn->connect_deadline));
			return false;
		case STREAM_SETTLING:
			add_reading(wait, stream);
			return false;
		case STREAM_SNAPSHOT:
			if (advance(stream))
				return true;
			add_exporter(wait, stream);
			return false;
		case STREAM_PREAMBLE:
		case STREAM_SENT:
			if (!stream->drained)
				return true;
			add_reading(wait, stream);
			return false;
		default:
			return true;
	}
}

/*
 * Reads what an exporting stream has got, for the sake of those that wait for
 * its snapshot; its rows are left alone.
 */
static void
pump_export(ShardStream *stream)
{
	ShardRow	row;

	stream->pumping = true;
	while (stream->exporting && !stream->drained &&
		   (stream->state == STREAM_SENT || stream->state == STREAM_PREAMBLE))
	{
		/* no row can come before the identifier has */
		if (read_node(stream, &row) == SHARD_STREAM_ROW)
			shard_error_protocol(stream->conn, stream->spec.label, "rows instead of a snapshot identifier");
	}
	stream->pumping = false;
	if (!stream->exporting)
		stream->drained = false;	/* rows may be here already */
}

/* alone: it is about one stream; then the set that outlives the statement is the best one */
static void
wait_for_items(StreamWait *wait, ShardWaitSet *set, bool alone)
{
	if (wait->nitems == 1 && (alone || !set))
		wait->items[0].revents = shard_wait_socket(wait->items[0].fd, wait->items[0].events,
												   wait->timeout_ms, false);
	else if (set)
		shard_wait_set_wait(set, wait->items, wait->nitems, wait->timeout_ms, false);
	else
	{
		MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw wait",
												  ALLOCSET_SMALL_SIZES);

		shard_wait_set_wait(shard_wait_set_create(cxt), wait->items, wait->nitems,
							wait->timeout_ms, false);
		MemoryContextDelete(cxt);
	}
}

void
shard_stream_wait(ShardStream **streams, int nstreams, ShardWaitSet *set)
{
	StreamWait	wait = {0};
	bool		go = false;

	wait.timeout_ms = -1;
	wait_counter++;
	for (int i = 0; i < nstreams && !go; i++)
		if (streams[i])
			go = add_stream(&wait, streams[i]);

	if (!go && wait.nitems > 0)
	{
		wait_for_items(&wait, set, nstreams == 1);
		for (int i = 0; i < wait.nitems; i++)
		{
			ShardStream *stream = wait.owners[i];

			/* a TLS library may have something that the socket does not show */
			if (wait.items[i].revents || is_encrypted(stream))
				stream->drained = false;
		}
		for (int i = 0; i < wait.nitems; i++)
			if (wait.owners[i]->exporting)
				pump_export(wait.owners[i]);
	}
	else if (!go && wait.queued)
		make_room(wait.queued);
	else if (!go && wait.timeout_ms >= 0)
		(void) shard_wait_socket(-1, 0, wait.timeout_ms, false);

	if (wait.items)
	{
		pfree(wait.items);
		pfree(wait.owners);
	}
}

bool
shard_stream_connecting(const ShardStream *stream)
{
	return stream->state == STREAM_CONNECTING;
}

bool
shard_stream_idle(ShardStream *stream)
{
	switch (stream->state)
	{
		case STREAM_QUEUED:
			start_queued(stream->pool, stream->snapshot);
			return stream->state == STREAM_QUEUED;
		case STREAM_SETTLING:
		case STREAM_SNAPSHOT:
			return !advance(stream) && stream->state != STREAM_QUEUED;
		case STREAM_PREAMBLE:
		case STREAM_SENT:
			return stream->drained;
		default:
			return false;
	}
}

int
shard_stream_socket(ShardStream *stream, int *events)
{
	switch (stream->state)
	{
		case STREAM_SETTLING:
		case STREAM_PREAMBLE:
		case STREAM_SENT:
			*events = reading_events(stream);
			return PQsocket(stream->conn->pg);
		default:
			return -1;
	}
}

void
shard_stream_awake(ShardStream *stream, bool ready)
{
	/* a TLS library may have something that the socket does not show */
	if (ready || is_encrypted(stream))
		stream->drained = false;
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

	/* What precedes the statement makes the savepoint, and does not take long. */
	if (stream->state == STREAM_PREAMBLE)
		guarded = false;
	else if (guarded && in_xact && stream->spec.use_copy && !stream->copying && stream->nbytes == 0)
	{
		/* in one message with the statement; a sign of life says that it has been made */
		shard_connection_flush(conn);
		(void) shard_wait_socket(PQsocket(conn->pg), WL_SOCKET_READABLE, SAVEPOINT_WAIT_MS, true);
	}
	if (guarded || !in_xact || !shard_connection_drain_noerror(conn))
		(void) shard_connection_cancel_noerror(conn, CLOSE_TIMEOUT_MS);

	if (conn->state != SHARD_CONN_READY)
		return;
	if (PQtransactionStatus(conn->pg) == PQTRANS_INERROR && in_xact && stream->guarded)
		(void) shard_connection_exec_noerror(conn, "ROLLBACK TO SAVEPOINT shardfdw_stream; "
											 "RELEASE SAVEPOINT shardfdw_stream", CLOSE_TIMEOUT_MS);
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
		if (stream->exporting && IsTransactionState())
			shard_txn_export_given_up(conn);
		give_up_connection(stream, STREAM_DONE);
		/* nobody would move it on, and its time would run out */
		if (state == STREAM_CONNECTING)
			shard_pool_discard(conn);
	}
	stream->state = STREAM_DONE;

	shard_fetch_free_kept(stream);
	shard_fetch_free_row(stream);
	PQclear(stream->error);
	stream->error = NULL;

	/* in abort the file is gone already, with its resource owner */
	if (stream->spill && IsTransactionState())
		shard_spill_close(stream->spill);
	stream->spill = NULL;
}
