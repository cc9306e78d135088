/*
 * copy_lane.c
 *	  The COPY statements of one connection: the steps from its start to the
 *	  count that the node confirms.
 *
 *	   target's rows                connection
 *	 +----------+  chunk   connecting --> idle <----------------------------+
 *	 | rows     |--swap--+                 | the fullest target is chosen   |
 *	 +----------+        |              starting (BEGIN..., COPY ... sent)  |
 *	 | rows     |        |                 | node answers CopyInResponse    |
 *	 +----------+        +-----------> sending --chunk out--> next chunk    |
 *	                                       | other targets are fuller       |
 *	                                    ending --count confirmed------------+
 *
 * When a chunk is out and the same target has the most rows again, the COPY
 * goes on with them, so a lane with one target has one long COPY.
 *
 * libpq: in nonblocking mode PQputCopyData takes any amount into its own buffer
 * and returns 0 only when that cannot grow, so what bounds it is that the next
 * piece is put only when PQflush has sent the last one.  While a COPY runs
 * libpq does not look at what the node sends; input on the socket is therefore
 * taken as a sign to end this COPY early, and then to read the error, or, if it
 * was only a notice, to go on with another COPY.
 */
#include "postgres.h"

#include "remote/copy_private.h"
#include "remote/error.h"
#include "remote/txn_private.h"
#include "storage/latch.h"

/* With the message's header a multiple of libpq's 8 kB: nothing is left over to be sent by itself. */
#define PIECE_BYTES (64 * 1024 - 5)
#define MAX_COPY_BYTES (32 * 1024 * 1024)	/* of one COPY, bounds the memory for lines */

static const char binary_header[] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0";
static const char binary_trailer[] = "\377\377";

#define BINARY_HEADER_BYTES 19
#define BINARY_TRAILER_BYTES 2

/* ---------- what there is to send ---------- */

/*
 * Bytes that make a target worth a COPY.  Anything is when it has to go out or
 * when the buffers are full.
 */
static int
worth_bytes(const ShardCopyLane *lane)
{
	return lane->flushing || lane->set->full ? 1 : lane->set->chunk_bytes;
}

/* The target with the most rows waiting, other than except; NULL when none has enough. */
static ShardCopyTarget *
fullest_target(const ShardCopyLane *lane, const ShardCopyTarget *except)
{
	ShardCopyTarget *best = NULL;
	int			best_bytes = worth_bytes(lane) - 1;
	ListCell   *lc;

	foreach(lc, lane->targets)
	{
		ShardCopyTarget *target = lfirst(lc);

		if (target != except && target->put_pos > best_bytes)
		{
			best = target;
			best_bytes = target->put_pos;
		}
	}
	return best;
}

bool
shard_copy_lane_has_rows(const ShardCopyLane *lane)
{
	ListCell   *lc;

	foreach(lc, lane->targets)
		if (((ShardCopyTarget *) lfirst(lc))->put_pos > 0)
			return true;
	return false;
}

/* The target's buffer is empty from now on. */
static void
reset_target(ShardCopyTarget *target)
{
	shard_copy_rows_reset(&target->rows, target->last_line);
	target->put_pos = 0;
	target->charged_bytes = 0;
}

void
shard_copy_lane_drop_rows(ShardCopyTarget *target)
{
	target->set->nbytes -= target->charged_bytes;
	reset_target(target);
}

/* Sends bytes next. */
static void
set_span(ShardCopyLane *lane, const char *bytes, int nbytes, bool is_rows)
{
	lane->span = bytes;
	lane->span_bytes = nbytes;
	lane->span_is_rows = is_rows;
	lane->nsent = 0;
}

/* Makes the rows of the COPY's target its next chunk. */
static void
take_chunk(ShardCopyLane *lane)
{
	ShardCopyTarget *target = lane->target;
	StringInfoData data = lane->chunk.data;
	int			ncomplete = target->put_pos;

	lane->chunk.data = target->rows.data;
	target->rows.data = data;
	if (lane->chunk.nrows == 0)
		lane->chunk.base_line = target->rows.base_line;
	lane->chunk.nrows += target->rows.nrows;
	appendBinaryStringInfo(&lane->chunk.lines, target->rows.lines.data, target->rows.lines.len);
	target->stat.nrows_sent += target->rows.nrows;
	target->stat.nbytes_sent += ncomplete;
	reset_target(target);

	/* a row may be in the middle of being appended, by a function that made the lane yield */
	appendBinaryStringInfo(&target->rows.data, lane->chunk.data.data + ncomplete,
						   lane->chunk.data.len - ncomplete);
	lane->chunk.data.len = ncomplete;

	set_span(lane, lane->chunk.data.data, lane->chunk.data.len, true);
	lane->copy_bytes += lane->chunk.data.len;
}

/*
 * The span is out: more rows of the same COPY, or its end?  False when there
 * is nothing to send, and no reason to end the COPY.
 */
static bool
choose_next_span(ShardCopyLane *lane)
{
	ShardCopyTarget *target = lane->target;
	ShardCopyTarget *other = fullest_target(lane, target);
	int			own_bytes = target->put_pos;
	bool		first = lane->copy_bytes == 0 && own_bytes > 0;
	bool		end = lane->end_soon || lane->copy_bytes >= MAX_COPY_BYTES ||
		(other && other->put_pos > own_bytes && !first) ||
		(lane->flushing && own_bytes == 0);

	if (!end && !first && own_bytes < Min(worth_bytes(lane), PIECE_BYTES))
		return false;
	if (!end)
		take_chunk(lane);
	else
	{
		lane->trailed = true;
		set_span(lane, binary_trailer, target->binary ? BINARY_TRAILER_BYTES : 0, false);
	}
	return true;
}

/* ---------- the steps ---------- */

void
shard_copy_lane_raise_lost(ShardCopyLane *lane)
{
	PGresult   *res = lane->error;

	lane->error = NULL;
	if (!res && !PQisBusy(lane->conn->pg))
		res = PQgetResult(lane->conn->pg);
	if (res && PQresultStatus(res) != PGRES_FATAL_ERROR)
	{
		PQclear(res);
		res = NULL;
	}
	lane->conn->state = SHARD_CONN_BROKEN;
	lane->error = res;
	shard_copy_error_raise(lane);
}

/*
 * Appends the end of a remote transaction that an error has aborted, as far as
 * it takes to go on.  The local one is going to fail.
 */
static void
append_rollback(ShardCopyLane *lane, StringInfo sql)
{
	if (lane->set->level > 1)
		appendStringInfo(sql, "ROLLBACK TO SAVEPOINT s%d; ", lane->set->level);
	else
	{
		appendStringInfoString(sql, "ROLLBACK; ");
		shard_txn_forget(lane->conn);
	}
	lane->aborted = false;
}

/* Sends COPY for target, with all that has to precede it. */
static void
start_copy(ShardCopyLane *lane, ShardCopyTarget *target)
{
	StringInfoData sql;

	if (!lane->aborted)
		shard_txn_check_writer(lane->conn);
	lane->target = target;
	shard_copy_rows_reset(&lane->chunk, 0);
	set_span(lane, NULL, 0, false);
	lane->copy_bytes = 0;
	lane->end_soon = lane->trailed = false;
	lane->nconfirmed = 0;

	initStringInfo(&sql);
	if (lane->aborted)
		append_rollback(lane, &sql);
	shard_txn_writer_preamble(lane->conn, lane->set->level, &sql);
	shard_connection_sync_settings(lane->conn, -1, &sql);
	appendStringInfoString(&sql, target->copy_sql);
	lane->state = COPY_STARTING;
	shard_connection_send(lane->conn, sql.data);
	pfree(sql.data);
}

/* The statement has ended. */
static void
finish_results(ShardCopyLane *lane)
{
	if (lane->error && PQstatus(lane->conn->pg) == CONNECTION_OK)
		shard_copy_error_take(lane);
	else if (lane->error || PQstatus(lane->conn->pg) != CONNECTION_OK)
		shard_copy_lane_raise_lost(lane);
	else if (lane->state == COPY_STARTING)
		shard_error_protocol(lane->conn, lane->target->label, "COPY did not start");
	else if (lane->nconfirmed != lane->chunk.nrows)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_ERROR),
				 errmsg("node \"%s\" stored " UINT64_FORMAT " of " UINT64_FORMAT " rows",
						lane->conn->node, lane->nconfirmed, lane->chunk.nrows),
				 errdetail("Node \"%s\", shard %s.", lane->conn->node, lane->target->label),
				 errhint("A trigger on the node may have skipped rows.")));
	else
		lane->target->nconfirmed += lane->nconfirmed;
	shard_connection_flush_notices(lane->conn);
	lane->target = NULL;
	shard_copy_rows_reset(&lane->chunk, 0);
	lane->state = COPY_IDLE;
}

/*
 * Reads the node's answers to COPY or to its end.  Returns the events to wait
 * for, 0 when the state has changed.
 */
static int
read_results(ShardCopyLane *lane)
{
	PGconn	   *pg = lane->conn->pg;
	bool		flushed = shard_connection_flush(lane->conn);
	bool		alive = shard_connection_consume(lane->conn);

	while (!PQisBusy(pg))
	{
		PGresult   *res = PQgetResult(pg);

		if (!res)
		{
			finish_results(lane);
			return 0;
		}
		shard_connection_note_result(lane->conn, res);
		if (PQresultStatus(res) == PGRES_COPY_IN && lane->state == COPY_STARTING)
		{
			PQclear(res);
			lane->state = COPY_SENDING;
			if (lane->target->binary)
				set_span(lane, binary_header, BINARY_HEADER_BYTES, false);
			return 0;
		}
		if (PQresultStatus(res) == PGRES_FATAL_ERROR && !lane->error)
		{
			lane->error = res;
			continue;
		}
		if (PQresultStatus(res) == PGRES_COMMAND_OK && lane->state == COPY_ENDING)
			lane->nconfirmed = strtoull(PQcmdTuples(res), NULL, 10);
		PQclear(res);
	}
	if (!alive)
		shard_copy_lane_raise_lost(lane);
	return WL_SOCKET_READABLE | (flushed ? 0 : WL_SOCKET_WRITEABLE);
}

/* Sends what the socket takes.  Returns the events to wait for, 0 when there is nothing to wait for. */
static int
send_data(ShardCopyLane *lane)
{
	const int	blocked = WL_SOCKET_WRITEABLE | (lane->end_soon ? 0 : WL_SOCKET_READABLE);
	PGconn	   *pg = lane->conn->pg;

	for (;;)
	{
		int			nleft = lane->span_bytes - lane->nsent;
		int			rc;

		/* libpq still has some of the last piece */
		if (!shard_connection_flush(lane->conn))
			return blocked;
		if (nleft > 0)
		{
			int			nbytes = Min(nleft, PIECE_BYTES);

			rc = PQputCopyData(pg, lane->span + lane->nsent, nbytes);
			if (rc > 0)
			{
				lane->nsent += nbytes;
				if (lane->span_is_rows)
					lane->set->nbytes -= nbytes;
				continue;
			}
		}
		else if (lane->trailed)
		{
			rc = PQputCopyEnd(pg, NULL);
			if (rc > 0)
			{
				lane->state = COPY_ENDING;
				return 0;
			}
		}
		else if (choose_next_span(lane))
			continue;
		else
			return 0;
		if (rc < 0)
			shard_copy_lane_raise_lost(lane);
		return blocked;			/* not taken at all: the same again when there is room */
	}
}

static void
take_steps(ShardCopyLane *lane)
{
	ShardCopyTarget *target;

	lane->events = 0;
	while (lane->conn)
	{
		switch (lane->state)
		{
			case COPY_CONNECTING:
				lane->events = shard_connection_poll(lane->conn);
				if (lane->events == 0 && !shard_connection_settle(lane->conn))
					lane->events = WL_SOCKET_READABLE;
				if (lane->events != 0)
					return;
				lane->state = COPY_IDLE;
				break;
			case COPY_IDLE:
				target = fullest_target(lane, NULL);
				if (!target)
					return;
				start_copy(lane, target);
				break;
			case COPY_SENDING:
				lane->events = send_data(lane);
				if (lane->state == COPY_SENDING)
					return;
				break;
			case COPY_STARTING:
			case COPY_ENDING:
				lane->events = read_results(lane);
				if (lane->events != 0)
					return;
				break;
		}
	}
}

/* Rows of target wait, and could go if the lane were not busy. */
static bool
is_stalled(const ShardCopyLane *lane, const ShardCopyTarget *target)
{
	return (target == lane->target && lane->state == COPY_SENDING) || target->put_pos >= worth_bytes(lane);
}

/* Adds the time since the last look to the targets that wait. */
static void
count_stalled(ShardCopyLane *lane, TimestampTz now)
{
	ListCell   *lc;

	foreach(lc, lane->targets)
	{
		ShardCopyTarget *target = lfirst(lc);

		if (is_stalled(lane, target))
			target->stat.stalled_us += now - lane->stalled_since;
	}
}

void
shard_copy_lane_advance(ShardCopyLane *lane)
{
	TimestampTz now = 0;

	if (lane->stalled_since != 0)
	{
		now = GetCurrentTimestamp();
		count_stalled(lane, now);
	}
	take_steps(lane);
	if (lane->events == 0)
		lane->stalled_since = 0;
	else
		lane->stalled_since = now ? now : GetCurrentTimestamp();
}
