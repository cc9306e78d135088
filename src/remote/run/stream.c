/*
 * stream.c
 *	  The steps of a stream: connection, statement, rows.
 *
 *	 QUEUED --> CONNECTING --> SETTLING --> SNAPSHOT --> [PREAMBLE] --> SENT --> DONE
 *	   ^  no free connection	earlier		 id not known			query  |
 *	   |						COMMIT								fetcher  +-- yield --> SPILLED --> DONE
 *	   +--- lost before it answered: once again, on a new connection
 *
 * Nothing here blocks, except making another stream yield.  The reader of a stream advances it
 * (next and wait).  A queued stream is also advanced by the stream that releases its connection.
 * stream_fetch.c reads the bytes of a stream. stream_wait.c contains what it waits for.
 * stream_open.c, the layer above, contains how it begins, yields and ends.
 *
 * Deadlocks: the reader of a queued stream may at present not read the streams that hold the
 * connections.  So the queued stream makes one of them yield.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "foreign/foreign.h"
#include "remote/run/stream_private.h"
#include "remote/wire/broadcast.h"
#include "remote/wire/error.h"
#include "remote/xact/txn_private.h"

/* ---------- beginning ---------- */

void
shard_stream_lost(ShardConn *conn, void *arg)
{
	ShardStream *stream = arg;

	/*
	 * Streams that wait for the identifier must learn that it will not arrive.  In an abort the
	 * snapshot of a statement may be freed already.  The snapshot of a transaction is still needed
	 * after the abort of a subtransaction.
	 */
	if (shard_stream_is_exporting(stream) && (IsTransactionState() || IsolationUsesXactSnapshot()))
	{
		shard_snapshot_give_up(conn);
		/* otherwise only the end of the local transaction would end it, and it may hold locks */
		shard_txn_end_reading(conn);
	}
	stream->conn = NULL;
	if (stream->state != STREAM_DONE && stream->state != STREAM_CLOSED)
		stream->state = STREAM_LOST;
}

ShardStream *
shard_stream_of_connection(ShardConn *conn)
{
	return conn->holder && conn->holder->lost == shard_stream_lost ? conn->holder->arg : NULL;
}

/* Releases the connection, and sets the state. */
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
 * Would stream lock or change rows for a subtransaction that was rolled back?  A cursor that
 * survives the rollback may have streams that have not begun.
 */
static bool
is_undone(const ShardStream *stream)
{
	return stream->spec.as_writer && stream->spec.level->undone;
}

/* Returns a connection for a queued stream, which leaves the queue; or NULL. */
static ShardConn *
find_connection(ShardStream *stream)
{
	ShardPool  *pool = stream->pool;
	ShardConn  *conn;

	if (stream->spec.as_writer && !pool->writer)
	{
		/* shard_txn_writer_start() starts all queued streams first, and this one must not be among them */
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
	bool		none[2];		/* no connection is free for streams that read (false) or write (true) */
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

/* Does a stream of the same statement use pool's writer at present, or wait for it? */
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
 * The node has a savepoint that was created after the statement began.  What is locked now stays
 * locked until that savepoint is rolled back.  Writes would be rolled back with it, too;
 * shard_stream_drain_below() ensures that there are none.
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

/* Raises if the standby is not the one that was checked, or has crashed since. */
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
			 errdetail("It was restarted, or its address points to several servers."),
			 errhint("Run the statement again.")));
}

/*
 * Over the writer, the node shows everything that the transaction has written.  Raises if that is
 * too much for the statement.
 */
static void
check_view(const ShardStream *stream)
{
	const ShardStreamView *view = stream->spec.view;

	if (view != NULL && stream->pool->writer == stream->conn && shard_txn_written_since(stream->conn, view->cid))
		view->refuse(view, stream->conn->node);
}

/* Sends the statement.  False if the snapshot is not known yet, or if the stream has ended. */
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
		/*
		 * A SELECT outside of a transaction takes its snapshot after its locks, so it needs no check.  COPY takes its
		 * snapshot before.  On a standby, the table may be too new for the map.
		 */
		if (stream->spec.check && (shard_connection_in_xact(conn) || stream->spec.use_copy || RecoveryInProgress()))
			appendStringInfoString(&text, stream->spec.check);
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
 * Is nothing lost with the connection that was used already?  That is the case if it was idle
 * before, its transaction began with this statement, and no row was returned.
 */
static bool
can_retry(ShardStream *stream)
{
	return stream->conn_was_used && !stream->retried && stream->reader != STREAM_READER_YIELD &&
		stream->nbytes == 0 && !stream->spec.as_writer && stream->began &&
		stream->export != STREAM_EXPORT_DONE;
}

/* Sends the statement once more, over another connection. */
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
	/* if the cancel arrived before the savepoint was created, this fails and the transaction stays aborted */
	snprintf(text, sizeof(text), "ROLLBACK TO SAVEPOINT shardfdw_stream_%u; RELEASE SAVEPOINT shardfdw_stream_%u",
			 stream->guard, stream->guard);
	(void) shard_broadcast_exec_noerror(conn, text, timeout_ms);
	if (conn->xact.guard == stream->guard)
		conn->xact.guard = 0;
}

/* The text of the query for errors; NULL: not shown. */
static const char *
shown_sql(const ShardStream *stream)
{
	return stream->spec.has_values ? NULL : stream->spec.sql;
}

/* The node does not have a table, which may have been dropped after a move. */
static void
raise_dropped(const ShardStream *stream, PGresult *error, const char *node)
{
	char	   *message = shard_error_clean_text(PQresultErrorField(error, PG_DIAG_MESSAGE_PRIMARY));

	PQclear(error);
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to a move of shard %s", stream->spec.label),
			 errdetail("Node \"%s\": %s.", node, message ? message : ""),
			 errhint("The transaction might succeed if retried.")));
}

/*
 * The node has reported an error.  If the connection turns out to be dead and nothing is lost with
 * it, it is replaced once.  Otherwise the error is raised.
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
		/* the other connections were probably lost, too, and the statement is not sent a third time */
		shard_pool_drop_idle(stream->pool);
		return;
	}

	if (lost)
		conn->state = SHARD_CONN_BROKEN;
	else
	{
		/* the local level in which the statement was sent may continue */
		if (stream->spec.level->level < GetCurrentTransactionNestLevel())
			shard_stream_undo(stream, CLOSE_TIMEOUT_MS);
		shard_stream_note_failure(stream, conn);
	}
	give_up(stream, STREAM_LOST);
	if (stream->spec.may_be_gone && shard_error_sqlstate(error) == ERRCODE_UNDEFINED_TABLE)
		raise_dropped(stream, error, conn->node);
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

/* stream's snapshot has shown data of the node, so it must not be replaced by another snapshot. */
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
			stream->drained = false;	/* read immediately, since rows may have arrived */
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
					continue;	/* once more, see retry() */
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
						 errmsg("statement has received more than %d rows from nodes", stream->spec.limit->max),
						 errhint("Add a condition, or raise the limit: SET shardfdw.max_rows_gathered = 0;")));
		}
		return status;
	}
}

/* Messages that a yield has spilled are returned one by one. */
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

	/* the streams that this one waited for have ended */
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
