/*
 * copy_lane.c
 *	  Lanes: the COPY statements of one connection, from their start to the count that the node
 *	  confirms.
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
 * If a chunk was sent and the same target has the most rows again, the COPY continues with them.
 * So a lane with one target has one long COPY.
 *
 * libpq: in nonblocking mode PQputCopyData() accepts any amount into its own buffer, and returns 0
 * only if the buffer cannot grow.  To limit that buffer, the next piece is put only when PQflush()
 * has sent the previous one.  While a COPY runs, libpq does not process what the node sends.  So
 * input on the socket makes the lane end this COPY early, and read the error.  If it was only a
 * notice, another COPY follows.
 */
#include "postgres.h"

#include "compat.h"
#include "remote/copy/copy_private.h"
#include "remote/wire/answer.h"
#include "remote/wire/error.h"
#include "remote/xact/txn_level.h"
#include "storage/latch.h"

/*
 * Size of one CopyData message.  With its header it is a multiple of libpq's 8 kB, so that no small
 * rest must be sent separately.  It is small enough to stay in the CPU's cache between filling and
 * sending.
 */
#define PIECE_BYTES (32 * 1024 - 5)
#define MAX_COPY_BYTES (32 * 1024 * 1024)	/* of one COPY; limits the memory for lines */
#define MAX_MIRRORED_BYTES (4 * 1024 * 1024)	/* the same if the rows are kept for mirrors until the COPY is confirmed */

static const char binary_header[] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0";
static const char binary_trailer[] = "\377\377";

#define BINARY_HEADER_BYTES 19
#define BINARY_TRAILER_BYTES 2

/* ---------- data to send ---------- */

/*
 * Number of bytes that make a target worth a COPY: any number if everything must be sent, or if the
 * buffers are full.
 */
static int
worth_bytes(const ShardCopyLane *lane)
{
	return lane->flushing || lane->set->full ? 1 : lane->set->chunk_bytes;
}

/* Returns the target, other than except, with the most rows waiting.  NULL if none has enough. */
static ShardCopyTarget *
fullest_target(const ShardCopyLane *lane, const ShardCopyTarget *except)
{
	ShardCopyTarget *best = NULL;
	int			best_bytes = worth_bytes(lane) - 1;

	foreach_ptr(ShardCopyTarget, target, lane->targets)
	{
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
	foreach_ptr(ShardCopyTarget, target, lane->targets)
		if (target->put_pos > 0)
			return true;
	return false;
}

/* Sets the bytes that are sent next. */
static void
set_span(ShardCopyLane *lane, const char *bytes, int nbytes, bool is_rows)
{
	lane->span = bytes;
	lane->span_bytes = nbytes;
	lane->span_is_rows = is_rows;
	lane->nsent = 0;
}

static inline void
swap_buffers(StringInfo a, StringInfo b)
{
	StringInfoData buf = *a;

	*a = *b;
	*b = buf;
}

/* Makes the rows of the COPY's target the next chunk. */
static void
take_chunk(ShardCopyLane *lane)
{
	ShardCopyTarget *target = lane->target;
	int64		charged_bytes = target->charged_bytes;
	int			ncomplete = target->put_pos;

	swap_buffers(&lane->chunk.data, &target->rows.data);
	if (lane->set->guarded)
	{
		swap_buffers(&lane->chunk.sizes, &target->rows.sizes);
		swap_buffers(&lane->chunk.sources, &target->rows.sources);
	}
	if (lane->chunk.nrows == 0)
		lane->chunk.base_line = target->rows.base_line;
	lane->chunk.nrows += target->rows.nrows;
	appendBinaryStringInfo(&lane->chunk.lines, target->rows.lines.data, target->rows.lines.len);
	if (target->mirrors != NIL)
	{
		appendBinaryStringInfo(&lane->mirrored, lane->chunk.data.data, ncomplete);
		lane->mirrored_line = target->last_line;
	}
	target->stat.nrows_sent += target->rows.nrows;
	target->stat.nbytes_sent += ncomplete;
	shard_copy_rows_reset_target(target);

	/* a row may be half appended, if the function that computes it has made the lane yield */
	appendBinaryStringInfo(&target->rows.data, lane->chunk.data.data + ncomplete,
						   lane->chunk.data.len - ncomplete);
	lane->chunk.data.len = ncomplete;
	if (lane->set->guarded)
		shard_copy_guard_begin(lane, charged_bytes);
}

/* Sets the rows of the chunk that are sent next: all, or in a guarded set the slice. */
static void
send_rows(ShardCopyLane *lane)
{
	int			from = 0;
	int			to;

	if (lane->set->guarded)
	{
		from = lane->guard.pos.data_pos;
		to = lane->guard.end.data_pos;
	}
	else
	{
		take_chunk(lane);
		to = lane->chunk.data.len;
	}
	set_span(lane, lane->chunk.data.data + from, to - from, true);
	lane->copy_bytes += to - from;
}

/*
 * The span was sent.  Chooses more rows for the same COPY, or its end.  False if there is nothing
 * to send, and no reason to end the COPY.
 */
static bool
choose_next_span(ShardCopyLane *lane)
{
	ShardCopyTarget *target = lane->target;
	int			own_bytes = target->put_pos;
	bool		end = false;

	if (lane->set->guarded)
		end = lane->copy_bytes > 0;
	else if (lane->copy_bytes > 0 || own_bytes == 0)
	{
		ShardCopyTarget *other = fullest_target(lane, target);

		end = lane->end_soon || lane->copy_bytes >= (target->mirrors != NIL ? MAX_MIRRORED_BYTES : MAX_COPY_BYTES) ||
			(other && other->put_pos > own_bytes) ||
			(lane->flushing && own_bytes == 0);
		if (!end && own_bytes < Min(worth_bytes(lane), PIECE_BYTES))
			return false;
	}
	if (!end)
		send_rows(lane);
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
		res = shard_connection_take_result(lane->conn);
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
 * Appends the command that makes the remote transaction usable after an error.  A guarded set goes
 * back to the last confirmed slice.  Other sets go back as far as needed, since the local
 * transaction is going to fail.
 */
static void
append_rollback(ShardCopyLane *lane, StringInfo sql)
{
	if (lane->guard.standing)
		appendStringInfoString(sql, "ROLLBACK TO SAVEPOINT " SHARD_COPY_SAVEPOINT "; ");
	else if (lane->set->level > 1)
		appendStringInfo(sql, "ROLLBACK TO SAVEPOINT s%d_%u; ", lane->set->level,
						 shard_txn_level_number(lane->set->level));
	else
	{
		appendStringInfoString(sql, "ROLLBACK; ");
		shard_txn_forget_doomed(lane->conn);
	}
	lane->aborted = false;
}

static void
reset_copy(ShardCopyLane *lane)
{
	set_span(lane, NULL, 0, false);
	lane->copy_bytes = 0;
	lane->end_soon = lane->trailed = false;
	lane->nconfirmed = 0;
	PQclear(lane->rows);
	PQclear(lane->partial);
	lane->rows = lane->partial = NULL;
}

/* Sends COPY for the lane's target, and everything that must precede it. */
static void
start_copy(ShardCopyLane *lane)
{
	bool		rolled_back = lane->aborted;
	StringInfoData sql;
	int			nbytes;

	reset_copy(lane);
	lane->mirroring = false;
	initStringInfo(&sql);
	if (lane->aborted)
		append_rollback(lane, &sql);
	else
		shard_txn_check_writer(lane->conn);
	nbytes = sql.len;
	shard_txn_writer_preamble(lane->conn, lane->set->level, false, &sql);
	shard_txn_note_written(lane->conn, lane->set->level, lane->set->cid);
	shard_connection_sync_settings(lane->conn, lane->set->user_lines ? SHARD_SETTINGS_LINES :
								   SHARD_SETTINGS_USER, -1, 0, &sql);
	if (lane->target->frame && !lane->target->framed)
	{
		appendStringInfo(&sql, "%s; ", lane->target->frame->first_sql);
		lane->target->framed = true;
	}
	if (lane->set->guarded)
		shard_copy_guard_append(lane, &sql, rolled_back, sql.len > nbytes);
	else if (lane->target->before != NULL)
		appendStringInfo(&sql, "%s; %s; %s", lane->target->before, lane->target->copy_sql, lane->target->after);
	else
		appendStringInfoString(&sql, lane->target->copy_sql);
	lane->state = COPY_STARTING;
	shard_connection_send_statement(lane->conn, sql.data);
	pfree(sql.data);
}

/* Removes the lane's staging tables, and ends its targets' frames. */
static void
start_completion(ShardCopyLane *lane)
{
	StringInfoData sql;

	reset_copy(lane);
	initStringInfo(&sql);
	if (lane->aborted)
		append_rollback(lane, &sql);
	else
		shard_txn_check_writer(lane->conn);
	shard_txn_writer_preamble(lane->conn, lane->set->level, false, &sql);
	shard_txn_note_written(lane->conn, lane->set->level, lane->set->cid);
	shard_copy_staging_append_drop(lane, &sql);
	foreach_ptr(ShardCopyTarget, target, lane->targets)
	{
		if (target->framed)
			appendStringInfo(&sql, "%s; ", target->frame->last_sql);
		target->framed = false;
	}
	lane->completing = false;
	lane->state = COPY_ENDING;
	shard_connection_send(lane->conn, sql.data);
	pfree(sql.data);
}

/* Rolls back a slice whose last row was refused, if no further COPY follows that would do so. */
static void
start_rollback(ShardCopyLane *lane)
{
	StringInfoData sql;

	reset_copy(lane);
	initStringInfo(&sql);
	append_rollback(lane, &sql);
	lane->state = COPY_ENDING;
	shard_connection_send(lane->conn, sql.data);
	pfree(sql.data);
}

/* Forgets the chunk, since none of its rows is being sent any more. */
static void
end_chunk(ShardCopyLane *lane)
{
	if (lane->set->guarded)
		shard_copy_guard_drop(lane);
	shard_copy_rows_reset(&lane->chunk, 0, 2 * lane->set->chunk_bytes);
	resetStringInfo(&lane->mirrored);
	lane->target = NULL;
}

/* The node has stored the rows of the COPY.  If the node said so, passes them to the target's mirrors. */
static void
mirror_rows(ShardCopyLane *lane)
{
	if (!lane->mirroring)
		return;
	foreach_ptr(ShardCopyTarget, mirror, lane->target->mirrors)
	{
		ShardCopyRows *rows = &mirror->rows;

		if (rows->nrows == 0)
			rows->base_line = lane->chunk.base_line;
		appendBinaryStringInfo(&rows->data, lane->mirrored.data, lane->mirrored.len);
		appendBinaryStringInfo(&rows->lines, lane->chunk.lines.data, lane->chunk.lines.len);
		rows->nrows += lane->chunk.nrows;
		mirror->last_line = lane->mirrored_line;
		mirror->put_pos = rows->data.len;
		mirror->charged_bytes += lane->mirrored.len;
		lane->set->nbytes += lane->mirrored.len;
	}
}

/* The node has confirmed the rows of the COPY. */
static void
confirm_rows(ShardCopyLane *lane)
{
	uint64		nsent = lane->chunk.nrows;

	if (lane->set->guarded)
		nsent = lane->guard.end.rowno - lane->guard.pos.rowno;
	if (lane->nconfirmed != nsent)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_ERROR),
				 errmsg("node \"%s\" stored " UINT64_FORMAT " of " UINT64_FORMAT " rows",
						lane->conn->node, lane->nconfirmed, nsent),
				 errdetail("Node \"%s\", shard %s.", lane->conn->node, lane->target->label),
				 errhint("A trigger on the node may have skipped rows.")));
	if (lane->set->guarded && !shard_copy_guard_confirm(lane))
		return;
	mirror_rows(lane);
	end_chunk(lane);
}

/* Chooses the target of the next COPY.  False if none is worth one. */
static bool
choose_target(ShardCopyLane *lane)
{
	lane->target = fullest_target(lane, NULL);
	if (lane->target && lane->set->guarded)
		take_chunk(lane);
	return lane->target != NULL;
}

/* The statement has ended. */
static void
finish_results(ShardCopyLane *lane)
{
	bool		chunk_done = true;

	if (PQstatus(lane->conn->pg) != CONNECTION_OK)
		shard_copy_lane_raise_lost(lane);
	if (lane->error)
	{
		if (!lane->set->guarded || lane->target == NULL || !shard_copy_guard_fail(lane, &chunk_done))
		{
			if (lane->set->guarded)
				shard_connection_note_result(lane->conn, lane->error);
			shard_copy_error_take(lane);
		}
		if (chunk_done)
			end_chunk(lane);
	}
	else if (lane->state == COPY_STARTING)
		shard_error_protocol(lane->conn, lane->target->label, "COPY did not start");
	else if (lane->target)
		confirm_rows(lane);
	shard_connection_flush_notices(lane->conn);
	lane->state = COPY_IDLE;
}

/* Processes one result of the lane's statement, and takes ownership of it.  True: COPY has started. */
static bool
take_result(ShardCopyLane *lane, PGresult *res)
{
	const char *label = lane->target ? lane->target->label : NULL;
	ExecStatusType status;
	bool		copy;

	/* a guarded set sends settings before the savepoint to which it goes back after an error */
	if (!lane->set->guarded)
		shard_connection_note_result(lane->conn, res);
	else if (PQresultStatus(res) != PGRES_FATAL_ERROR)
		shard_connection_count_result(lane->conn, res);
	res = shard_answer_add(&lane->partial, res, lane->state == COPY_ENDING ? SHARD_ANSWER_MANY_BYTES : SHARD_ANSWER_BYTES,
						   lane->conn, label);
	if (!res)
		return false;
	status = PQresultStatus(res);
	copy = shard_connection_is_copy(res);
	if (status == PGRES_COPY_IN && lane->state == COPY_STARTING)
	{
		PQclear(res);
		lane->state = COPY_SENDING;
		if (lane->target->binary)
			set_span(lane, binary_header, BINARY_HEADER_BYTES, false);
		else if (lane->target->header)
			set_span(lane, lane->target->header, strlen(lane->target->header), false);
		return true;
	}
	if (lane->state == COPY_ENDING && status == PGRES_COMMAND_OK &&
		strncmp(PQcmdStatus(res), "COPY ", 5) == 0)
		lane->nconfirmed = strtoull(PQcmdTuples(res), NULL, 10);
	/* the last one answers the query that precedes the COPY, see shard_copy_target_mirror() */
	if (lane->state == COPY_STARTING && status == PGRES_TUPLES_OK && lane->target->mirrors != NIL &&
		PQntuples(res) == 1 && PQnfields(res) == 1)
		lane->mirroring = strcmp(PQgetvalue(res, 0, 0), "on") == 0;

	if (status == PGRES_FATAL_ERROR && !lane->error)
		lane->error = res;
	else if (lane->state == COPY_ENDING && status == PGRES_TUPLES_OK && !lane->rows)
		lane->rows = res;
	else
		PQclear(res);
	if (copy)
		shard_error_protocol(lane->conn, label, "a COPY that was not asked for");
	return false;
}

/*
 * Reads the node's answers to COPY or to its end.  Returns the events to wait for, or 0 when the
 * state has changed.
 */
static int
read_results(ShardCopyLane *lane)
{
	PGconn	   *pg = lane->conn->pg;
	bool		flushed = shard_connection_flush(lane->conn);
	bool		alive = shard_connection_consume(lane->conn);

	while (!PQisBusy(pg))
	{
		PGresult   *res = shard_connection_take_result(lane->conn);

		if (!res)
		{
			finish_results(lane);
			return 0;
		}
		if (take_result(lane, res))
			return 0;
	}
	if (!alive)
		shard_copy_lane_raise_lost(lane);
	return WL_SOCKET_READABLE | (flushed ? 0 : WL_SOCKET_WRITEABLE);
}

/* Sends as much as the socket accepts.  Returns the events to wait for, or 0 if there is nothing to wait for. */
static int
send_data(ShardCopyLane *lane)
{
	const int	blocked = WL_SOCKET_WRITEABLE | (lane->end_soon ? 0 : WL_SOCKET_READABLE);
	PGconn	   *pg = lane->conn->pg;

	for (;;)
	{
		int			nleft = lane->span_bytes - lane->nsent;
		int			rc;

		/* libpq has not sent all of the last piece */
		if (!shard_connection_flush(lane->conn))
			return blocked;
		if (nleft > 0)
		{
			int			nbytes = Min(nleft, PIECE_BYTES);

			rc = PQputCopyData(pg, lane->span + lane->nsent, nbytes);
			if (rc > 0)
			{
				lane->nsent += nbytes;
				lane->conn->traffic.bytes_sent += nbytes;
				if (lane->span_is_rows && !lane->set->guarded)
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
		return blocked;			/* libpq accepted nothing; tried again when there is room */
	}
}

static void
take_steps(ShardCopyLane *lane)
{
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
				if (lane->target || choose_target(lane))
					start_copy(lane);
				else if (lane->completing)
					start_completion(lane);
				else if (lane->aborted && lane->set->guarded && lane->set->first.res == NULL)
					start_rollback(lane);
				else
					return;
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

/* Does target have rows that could be sent if the lane were not busy? */
static bool
is_stalled(const ShardCopyLane *lane, const ShardCopyTarget *target)
{
	return (target == lane->target && lane->state == COPY_SENDING) || target->put_pos >= worth_bytes(lane);
}

/* Adds the time since the last call to the targets that wait. */
static void
count_stalled(ShardCopyLane *lane, TimestampTz now)
{
	foreach_ptr(ShardCopyTarget, target, lane->targets)
	{
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
