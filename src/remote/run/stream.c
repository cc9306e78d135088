/*
 * stream.c
 *	  The steps of a stream: connection, statement, rows.
 *
 *	 QUEUED --> CONNECTING --> SETTLING --> SNAPSHOT --> [PREAMBLE] --> SENT --> DONE
 *	   ^  no free connection	 earlier	  id not here	 query		 |
 *	   |						 COMMIT					   fetcher		 +-- yield --> SPILLED --> DONE
 *	   +--- found dead before it answered: once more, on a new connection
 *
 * Nothing here blocks, except making another stream yield.  A stream is moved on by
 * its reader (next and wait); a queued one also by the stream that gives its
 * connection up.  stream_fetch.c reads its bytes; stream_wait.c says what it waits
 * for; stream_open.c, above these, has how it begins, yields and ends.
 *
 * Deadlocks: a queued stream whose connections are held by streams that its
 * reader is not reading now makes one of them yield.
 */
#include "postgres.h"

#include "access/xact.h"
#include "foreign/foreign.h"
#include "remote/run/stream_private.h"
#include "remote/wire/error.h"
#include "remote/xact/txn_private.h"

/* ---------- beginning ---------- */

void
shard_stream_lost(ShardConn *conn, void *arg)
{
	ShardStream *stream = arg;

	/*
	 * Who waits for the identifier must know that it will not come.  In an abort a
	 * snapshot of the statement may be gone; that of the transaction is needed after
	 * the abort of a subtransaction.
	 */
	if (shard_stream_is_exporting(stream) && (IsTransactionState() || IsolationUsesXactSnapshot()))
		shard_snapshot_give_up(conn);
	stream->conn = NULL;
	if (stream->state != STREAM_DONE && stream->state != STREAM_CLOSED)
		stream->state = STREAM_LOST;
}

ShardStream *
shard_stream_of_connection(ShardConn *conn)
{
	return conn->holder && conn->holder->lost == shard_stream_lost ? conn->holder->arg : NULL;
}

/* Releases the connection; the stream is in state afterwards. */
static void
give_up(ShardStream *stream, ShardStreamState state)
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

/*
 * Would stream lock or change rows for a subtransaction that has been rolled back?  That
 * of a cursor which lives on still has streams that have not begun.
 */
static bool
is_undone(const ShardStream *stream)
{
	return stream->spec.as_writer && stream->spec.level->undone;
}

/* A connection for a queued stream, which leaves the queue; or NULL. */
static ShardConn *
find_connection(ShardStream *stream)
{
	ShardPool  *pool = stream->pool;
	ShardConn  *conn;

	if (stream->spec.as_writer && !pool->writer)
	{
		/* making a connection the writer starts all queued streams first, and must not find this one among them */
		dequeue(stream);
		return shard_txn_writer_start(stream->spec.serverid, stream->spec.userid, stream->spec.level->level);
	}
	if (stream->spec.as_writer)
		conn = pool->writer->holder ? NULL : pool->writer;
	else
		conn = shard_txn_acquire_reader(pool, stream->snapshot);
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

		if (is_undone(stream))
		{
			dequeue(stream);
			goto restart;
		}
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

void
shard_stream_begin(ShardStream *stream)
{
	if (stream->spec.as_writer && !writers_under_way(stream))
	{
		take_connection(stream, shard_txn_writer_start(stream->spec.serverid, stream->spec.userid,
													   stream->spec.level->level));
		(void) shard_stream_advance(stream);
	}
	else
	{
		enqueue(stream, false);
		shard_stream_start_queued(stream->pool, stream->snapshot);
	}
}

/*
 * The node has a savepoint that was set after the statement began, and what is locked
 * now is locked until that is undone.  What is written would be undone with it:
 * shard_stream_drain_below() is to see to it that nothing is.
 */
static void
join_savepoint(ShardStream *stream)
{
	if (!stream->spec.only_locks)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot run the rest of a statement on node \"%s\" within a savepoint that was set after it began",
						stream->conn->node)));
	stream->spec.level->level = stream->conn->xact.depth;
}

/* The standby may be another one than that which was looked at, or have crashed since. */
static void
check_standby(ShardPool *pool, ShardConn *conn)
{
	if (shard_connection_in_xact(conn) || shard_pool_is_proved(pool, conn))
		return;
	pool->proved_at = 0;
	conn->invalidated = true;
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("node \"%s\" is not as far as it was a moment ago", conn->node),
			 errdetail("It has been started anew, or its address leads to several servers."),
			 errhint("Run the statement again.")));
}

/* Over the connection that writes the node shows everything that the transaction has written. */
static void
check_view(const ShardStream *stream)
{
	const ShardStreamView *view = stream->spec.view;

	if (view != NULL && stream->pool->writer == stream->conn && shard_txn_written_since(stream->conn, view->cid))
		view->refuse(view, stream->conn->node);
}

/* Sends the statement; false when the snapshot is not known yet, or the stream has ended. */
static bool
send_statement(ShardStream *stream)
{
	ShardConn  *conn = stream->conn;
	StringInfoData xact;
	StringInfoData text;
	int			level = stream->spec.level->level;
	bool		exports = false;
	bool		ready = true;

	if (is_undone(stream))
	{
		give_up(stream, STREAM_LOST);
		return false;
	}
	if (conn->standby > 0)
		check_standby(stream->pool, conn);
	check_view(stream);
	stream->began = !shard_connection_in_xact(conn);
	initStringInfo(&xact);
	initStringInfo(&text);
	if (stream->spec.as_writer)
	{
		shard_txn_check_writer(conn);
		shard_txn_writer_preamble(conn, level, stream->spec.only_reads, &xact);
		if (conn->xact.depth > level)
			join_savepoint(stream);
		if (!stream->spec.only_reads && !stream->spec.only_locks && !stream->spec.keeps_rows)
			shard_txn_note_written(conn, level, stream->spec.level->cid);
	}
	else
		ready = shard_txn_reader_preamble(conn, stream->snapshot, level, &xact, &exports);
	if (ready)
	{
		if (exports)
			stream->export = shard_snapshot_is_shared(stream->snapshot, stream->spec.serverid, stream->spec.userid) ?
				STREAM_EXPORT_AWAITED : STREAM_EXPORT_PENDING;
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
			if (conn->opening.nrefused > 0 && !stream->spec.as_writer &&
				shard_pool_can_do_without(conn, stream->snapshot))
			{
				give_up(stream, STREAM_QUEUED);
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
		if (conn->state == SHARD_CONN_BROKEN && !shard_connection_in_xact(conn) && !stream->spec.as_writer)
		{
			/* the connection ended together with its last transaction: queue for another one */
			give_up(stream, STREAM_QUEUED);
			enqueue(stream, true);
			return false;
		}
	}
	if (stream->state == STREAM_SNAPSHOT)
		return send_statement(stream);
	return true;
}

/* ---------- reading ---------- */

void
shard_stream_note_failure(ShardStream *stream, ShardConn *conn)
{
	if (PQtransactionStatus(conn->pg) == PQTRANS_IDLE && stream->began && !stream->spec.as_writer)
		shard_txn_forget(conn);
}

/*
 * True when nothing that anybody has seen is lost with the connection: it was idle
 * before, and its transaction began with this statement.
 */
static bool
can_retry(ShardStream *stream)
{
	return stream->conn_was_used && !stream->retried && stream->reader != STREAM_READER_YIELD &&
		stream->nbytes == 0 && !stream->spec.as_writer && stream->began &&
		stream->export != STREAM_EXPORT_DONE;
}

/* The statement is sent once more, over another connection. */
static void
retry(ShardStream *stream)
{
	stream->retried = true;
	stream->drained = false;
	stream->guard = 0;
	stream->export = STREAM_EXPORT_NONE;
	stream->answer = STREAM_ANSWER_NONE;
	PQclear(stream->snapshot_rows);
	stream->snapshot_rows = NULL;
	give_up(stream, STREAM_QUEUED);
	enqueue(stream, true);
}

void
shard_stream_undo(ShardStream *stream, int timeout_ms)
{
	ShardConn  *conn = stream->conn;
	char		text[100];

	if (stream->guard == 0 || !shard_connection_in_xact(conn) ||
		conn->state != SHARD_CONN_READY || PQtransactionStatus(conn->pg) != PQTRANS_INERROR)
		return;
	/* where a cancel was faster than the savepoint there is none, and the transaction stays aborted */
	snprintf(text, sizeof(text), "ROLLBACK TO SAVEPOINT shardfdw_stream_%u; RELEASE SAVEPOINT shardfdw_stream_%u",
			 stream->guard, stream->guard);
	(void) shard_connection_exec_noerror(conn, text, timeout_ms);
	if (conn->xact.guard == stream->guard)
		conn->xact.guard = 0;
}

/* The text of the query as errors show it; NULL: not at all. */
static const char *
shown_sql(const ShardStream *stream)
{
	return stream->spec.has_values ? NULL : stream->spec.sql;
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
	if (!lost && stream->spec.is_prepared && shard_connection_is_stale(error))
	{
		shard_connection_forget_prepared(conn, stream->spec.sql);
		if (can_retry(stream) && PQtransactionStatus(conn->pg) == PQTRANS_IDLE)
		{
			PQclear(error);
			shard_stream_note_failure(stream, conn);
			retry(stream);
			return;
		}
	}
	if (lost && can_retry(stream))
	{
		PQclear(error);
		shard_txn_forget(conn);
		retry(stream);
		shard_pool_discard(conn);
		/* the others were most likely lost with it, and the statement is not sent a third time */
		shard_pool_drop_idle(stream->pool);
		return;
	}

	if (lost)
		conn->state = SHARD_CONN_BROKEN;
	else
	{
		/* the local level in which the statement was sent may go on */
		if (stream->spec.level->level < GetCurrentTransactionNestLevel())
			shard_stream_undo(stream, CLOSE_TIMEOUT_MS);
		shard_stream_note_failure(stream, conn);
	}
	give_up(stream, STREAM_LOST);
	shard_error_report(ERROR, error, conn, stream->spec.label, shown_sql(stream));
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
		give_up(stream, STREAM_LOST);
		shard_error_report(ERROR, NULL, conn, stream->spec.label, shown_sql(stream));
	}
	if (stream->answer != STREAM_ANSWER_COMPLETE)
		shard_error_protocol(conn, stream->spec.label,
							 stream->spec.use_copy ? "the COPY data have no end mark" : "the statement has no result");
	give_up(stream, STREAM_DONE);
	if (stream->reader != STREAM_READER_YIELD)
		shard_stream_start_queued(stream->pool, stream->snapshot);
}

/* Something that stream's snapshot shows of the node is known: from now on it must not be another snapshot. */
static void
note_shown(ShardStream *stream)
{
	if (stream->shown || stream->snapshot == NULL || stream->spec.as_writer)
		return;
	stream->shown = true;
	shard_snapshot_node(stream->snapshot, stream->spec.serverid, stream->spec.userid)->shown = true;
}

ShardStreamStatus
shard_stream_read_node(ShardStream *stream, ShardRow *row)
{
	for (;;)
	{
		ShardFetchStatus status = shard_fetch_next(stream, row);

		if (status == FETCH_ROW)
		{
			note_shown(stream);
			return SHARD_STREAM_ROW;
		}
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
		if (stream->state != STREAM_DONE)
			return SHARD_STREAM_WAIT;
		note_shown(stream);
		return SHARD_STREAM_DONE;
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
						(errcode(ERRCODE_SYSTEM_ERROR),
						 errmsg("rows of a node are no longer available"),
						 errdetail("Its connection was closed or taken away.")));
				break;
			case STREAM_CLOSED:
				elog(ERROR, "a closed stream is read");
		}
		if (status == SHARD_STREAM_ROW)
		{
			stream->nrows++;
			if (stream->spec.limit != NULL && --stream->spec.limit->nleft < 0)
				ereport(ERROR,
						(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						 errmsg("%s has received more than %d rows from nodes", stream->spec.limit->reader, stream->spec.limit->max),
						 errhint("Add a condition, or raise the limit: SET shardfdw.max_rows_gathered = 0;")));
		}
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

/* ---------- making room ---------- */

void
shard_stream_make_room(ShardStream *queued)
{
	ShardPool  *pool = queued->pool;
	ShardConn  *victim = NULL;

	if (pool->writer && pool->writer->holder &&
		(queued->spec.as_writer || shard_txn_uses_writer(pool, queued->snapshot)))
		victim = pool->writer;
	shard_pool_foreach(conn, pool)
	{
		if (!victim && shard_stream_of_connection(conn))
			victim = conn;
	}

	/* the ones that the query waited for are gone by now */
	if (!victim)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("lost connection to node \"%s\"",
						GetForeignServer(queued->spec.serverid)->servername)));
	shard_connection_yield(victim);
	shard_stream_start_queued(pool, queued->snapshot);
}

/* ---------- figures ---------- */

int64
shard_stream_affected(ShardStream *stream)
{
	return stream->affected;
}

bool
shard_stream_is_sent(const ShardStream *stream)
{
	return stream->state == STREAM_SENT || stream->state == STREAM_SPILLED || stream->state == STREAM_DONE;
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
