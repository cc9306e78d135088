/*
 * stream_fetch.c
 *	  The bytes of a stream: how its statement is sent and its rows are read.
 *
 * COPY fetcher: one simple query, so that everything takes one round trip:
 *
 *	 SET ...; BEGIN ...; [SAVEPOINT;] COPY (sql) TO STDOUT; [RELEASE]
 *
 * Exception: a preamble that exports a snapshot for which other streams wait is sent separately.
 * In one message with the statement, the node would send the identifier only together with the
 * statement's first rows or its end.
 *
 * The rows are CopyData messages.  The first message begins with the header of the format (19
 * bytes, usually together with the first row).  Each further message is one row:
 *
 *	 int16 number of fields, per field int32 length (-1: NULL) and bytes; int16 -1 at the end
 *
 * Raw: the caller provides the statement, and a message is a row of one value.  Messages are copied
 * directly to the caller's buffer, many at a time, without a malloc for each.
 *
 * Query fetcher: the extended protocol with binary results, in chunks (libpq 17 and later) or
 * single rows.  A preamble, if any, is sent separately before it.  Its savepoint, if any, is
 * released when the next one is created.
 *
 * All data from a node are checked.  Anything unexpected is a protocol violation.
 */
#include "postgres.h"

#include "access/xact.h"
#include "byte_order.h"
#include "remote/run/stream_private.h"
#include "remote/wire/answer.h"
#include "remote/wire/comment.h"
#include "remote/wire/error.h"
#include "utils/timestamp.h"

#define CHUNK_ROWS 1000
#define HEADER_BYTES 19			/* signature, flags, length of the extension */

static const char signature[11] = {'P', 'G', 'C', 'O', 'P', 'Y', '\n', '\377', '\r', '\n', '\0'};

/* How the statement of a stream is sent. */
typedef struct ShardFetcher
{
	bool		takes_preamble; /* preamble and statement are sent in one message */
	void		(*send) (ShardStream *stream, const char *preamble);
} ShardFetcher;

static void send_copy(ShardStream *stream, const char *preamble);
static void send_query(ShardStream *stream, const char *preamble);
static void send_simple(ShardStream *stream, const char *preamble);

static const ShardFetcher copy_fetcher = {true, send_copy};
static const ShardFetcher query_fetcher = {false, send_query};
static const ShardFetcher simple_fetcher = {true, send_simple};

static const ShardFetcher *
fetcher_of(const ShardStream *stream)
{
	if (stream->spec.use_copy)
		return &copy_fetcher;
	/* a binary cursor determines the format itself, and a change without RETURNING has no rows */
	if (stream->spec.makes_cursor)
		return &simple_fetcher;
	if (stream->spec.as_writer && stream->spec.nparams == 0 && stream->spec.ncolumns == 0)
		return &simple_fetcher;
	return &query_fetcher;
}

/*
 * Inside a transaction the statement gets its own savepoint.  If it is cancelled because no more
 * rows are needed, the transaction continues.  Each savepoint has a new name.  ROLLBACK TO one that
 * was not created yet must fail.  It must not find the savepoint of an earlier statement, since the
 * transaction may have written after that.
 */
static void
append_guard(ShardStream *stream, StringInfo text)
{
	static uint32 last_guard = 0;
	ShardRemoteXact *xact = &stream->conn->xact;

	if (xact->guard != 0)
		appendStringInfo(text, "RELEASE SAVEPOINT shardfdw_stream_%u; ", xact->guard);
	xact->guard = 0;
	if (++last_guard == 0)
		last_guard++;
	stream->guard = last_guard;
	appendStringInfo(text, "SAVEPOINT shardfdw_stream_%u", stream->guard);
	xact->savepoint_sent = GetCurrentTimestamp();
}

static void
send_copy(ShardStream *stream, const char *preamble)
{
	StringInfoData text;

	stream->guard = 0;
	initStringInfo(&text);
	appendStringInfoString(&text, preamble);
	if (shard_connection_in_xact(stream->conn))
	{
		append_guard(stream, &text);
		appendStringInfoString(&text, "; ");
	}
	if (stream->spec.raw_copy)
		appendStringInfoString(&text, stream->spec.sql);
	else
		appendStringInfo(&text, "COPY (%s) TO STDOUT (FORMAT binary)", stream->spec.sql);
	appendStringInfoString(&text, shard_comment_query_id());
	if (stream->guard != 0)
		appendStringInfo(&text, "; RELEASE SAVEPOINT shardfdw_stream_%u", stream->guard);
	shard_connection_send(stream->conn, text.data);
	pfree(text.data);
}

static void
send_simple(ShardStream *stream, const char *preamble)
{
	if (preamble[0] == '\0')
		shard_connection_send_statement(stream->conn, stream->spec.sql);
	else
	{
		char	   *text = psprintf("%s%s", preamble, stream->spec.sql);

		shard_connection_send_statement(stream->conn, text);
		pfree(text);
	}
}

static void
send_query(ShardStream *stream, const char *preamble)
{
	if (stream->spec.is_prepared && stream->state == STREAM_SENT &&
		shard_connection_start_prepare(stream->conn, stream->spec.sql, stream->spec.nparams))
	{
		stream->state = STREAM_PREAMBLE;	/* comes back here after the answer */
		return;
	}
	shard_connection_send_params(stream->conn, stream->spec.sql, stream->spec.nparams,
								 stream->spec.params, true);
#ifdef LIBPQ_HAS_CHUNK_MODE
	if (!PQsetChunkedRowsMode(stream->conn->pg, CHUNK_ROWS))
		shard_error_protocol(stream->conn, stream->spec.label, "could not select row-by-row mode");
#endif
}

/*
 * Does the level of the statement continue if the statement fails or is cancelled?  This is the
 * case for a cursor that was opened before the savepoint in which it is first fetched from.
 */
static bool
is_outlived(const ShardStream *stream)
{
	return stream->spec.level->level < GetCurrentTransactionNestLevel() &&
		!stream->spec.as_writer && shard_connection_in_xact(stream->conn);
}

void
shard_fetch_send(ShardStream *stream, const char *preamble)
{
	const ShardFetcher *fetcher = fetcher_of(stream);

	/* no answer can have arrived before the node has read the statement */
	stream->drained = true;
	if ((preamble[0] != '\0' && (!fetcher->takes_preamble || stream->export == STREAM_EXPORT_AWAITED)) ||
		(stream->state == STREAM_SNAPSHOT && !fetcher->takes_preamble && is_outlived(stream)))
	{
		StringInfoData text;

		/*
		 * A savepoint takes no extra round trip here; send_copy() makes its own.  Statements that
		 * lock or change rows get none, since its rollback would unlock rows that were already
		 * returned.
		 */
		initStringInfo(&text);
		appendStringInfoString(&text, preamble);
		stream->guard = 0;
		if (shard_connection_in_xact(stream->conn) && !fetcher->takes_preamble && !stream->spec.as_writer)
		{
			append_guard(stream, &text);
			stream->conn->xact.guard = stream->guard;
		}
		shard_connection_send(stream->conn, text.data);
		pfree(text.data);
		stream->state = STREAM_PREAMBLE;
		return;
	}
	stream->state = STREAM_SENT;
	stream->sent_at = GetCurrentTimestamp();
	fetcher->send(stream, preamble);
}

/* ---------- memory of rows ---------- */

void
shard_fetch_free_kept(ShardStream *stream)
{
	PQfreemem(stream->kept_message);
	PQclear(stream->kept_result);
	stream->kept_message = NULL;
	stream->kept_result = NULL;
	stream->pinned = false;
}

void
shard_fetch_free_row(ShardStream *stream)
{
	if (stream->pinned && (stream->message || stream->result))
	{
		stream->kept_message = stream->message;
		stream->kept_result = stream->result;
		stream->pinned = false;
	}
	else
	{
		PQfreemem(stream->message);
		PQclear(stream->result);
	}
	stream->message = NULL;
	stream->message_len = stream->cursor = 0;
	stream->result = NULL;
	stream->rowno = 0;
}

/* ---------- rows ---------- */

static void
violation(ShardStream *stream, const char *what)
{
	shard_error_protocol(stream->conn, stream->spec.label, what);
}

/* Checks the header of the binary format, and moves the cursor past it. */
static void
parse_header(ShardStream *stream)
{
	const char *p = stream->message;
	uint32		extension;

	if (stream->message_len < HEADER_BYTES || memcmp(p, signature, sizeof(signature)) != 0)
		violation(stream, "no header of the binary COPY format");
	if ((shard_get_uint32(p + 11) & 0xffff0000) != 0)
		violation(stream, "flags of the binary COPY format are not known");
	extension = shard_get_uint32(p + 15);
	if (extension > (uint32) (stream->message_len - HEADER_BYTES))
		violation(stream, "header of the binary COPY format is longer than its message");
	stream->cursor = HEADER_BYTES + (int) extension;
	stream->answer = STREAM_ANSWER_ROWS;
}

/*
 * Parses one row at *p, which ends at end, and moves *p past it.  Returns NULL, or the problem.
 * *trailer: it was the end mark.
 */
static const char *
parse_row(ShardStream *stream, const char **p, const char *end, bool *trailer)
{
	const char *c = *p;
	int			ncolumns = stream->spec.ncolumns;
	int			nfields;

	if (end - c < 2)
		return "row is too short";
	nfields = (int16) shard_get_uint16(c);
	c += 2;
	*trailer = nfields == -1;
	if (*trailer)
	{
		*p = c;
		return NULL;
	}
	if (nfields != ncolumns)
		return "number of columns differs";
	for (int i = 0; i < ncolumns; i++)
	{
		int32		len;

		if (end - c < 4)
			return "row is too short";
		len = (int32) shard_get_uint32(c);
		c += 4;
		if (len < -1 || len > end - c)
			return "length of a column does not fit into its row";
		stream->values[i] = c;
		stream->lens[i] = len;
		if (len > 0)
			c += len;
	}
	*p = c;
	return NULL;
}

static void
set_row(ShardStream *stream, ShardRow *row)
{
	row->ncols = stream->spec.ncolumns;
	row->values = stream->values;
	row->lens = stream->lens;
}

/* Returns the row at the cursor of message; false if it was the end mark. */
static bool
next_copy_row(ShardStream *stream, ShardRow *row)
{
	const char *p = stream->message + stream->cursor;
	const char *problem;
	bool		trailer;

	if (stream->answer == STREAM_ANSWER_TRAILER)
		violation(stream, "row after the end of the COPY data");
	problem = parse_row(stream, &p, stream->message + stream->message_len, &trailer);
	if (problem)
		violation(stream, problem);
	stream->cursor = p - stream->message;
	if (trailer)
	{
		stream->answer = STREAM_ANSWER_TRAILER;
		return false;
	}
	set_row(stream, row);
	return true;
}

/* Returns the whole message as a row. */
static void
next_raw_row(ShardStream *stream, ShardRow *row)
{
	stream->values[0] = stream->message;
	stream->lens[0] = stream->message_len;
	stream->cursor = stream->message_len;
	set_row(stream, row);
}

static void
next_result_row(ShardStream *stream, ShardRow *row)
{
	int			rowno = stream->rowno++;

	for (int i = 0; i < stream->spec.ncolumns; i++)
	{
		if (PQgetisnull(stream->result, rowno, i))
		{
			stream->values[i] = NULL;
			stream->lens[i] = -1;
		}
		else
		{
			stream->values[i] = PQgetvalue(stream->result, rowno, i);
			stream->lens[i] = PQgetlength(stream->result, rowno, i);
			stream->nbytes += stream->lens[i];
		}
	}
	set_row(stream, row);
}

/* ---------- results ---------- */

static void
check_columns(ShardStream *stream, PGresult *res)
{
	const char *problem = NULL;

	if (PQnfields(res) != stream->spec.ncolumns)
		problem = "number of columns differs";
	else if (stream->answer == STREAM_ANSWER_NONE)
	{
		for (int i = 0; i < stream->spec.ncolumns; i++)
			if (PQfformat(res, i) != 1)
				problem = "a column is not in binary format";
		stream->answer = STREAM_ANSWER_ROWS;
	}
	if (problem)
	{
		PQclear(res);
		violation(stream, problem);
	}
}

/*
 * Reads the number of affected rows from the command tag.  In chunked mode libpq puts the tag into
 * the last chunk with rows, or into the empty result after it.
 */
static void
note_affected(ShardStream *stream, PGresult *res)
{
	const char *count = PQcmdTuples(res);

	if (count[0] != '\0')
		stream->affected = strtoll(count, NULL, 10);
}

static void
take_snapshot_id(ShardStream *stream, PGresult *res)
{
	char	   *id;

	if (PQntuples(res) != 1 || PQnfields(res) != 1 || PQgetisnull(res, 0, 0) ||
		PQgetlength(res, 0, 0) >= NAMEDATALEN ||
		strspn(PQgetvalue(res, 0, 0), "0123456789ABCDEFabcdef-") != PQgetlength(res, 0, 0))
	{
		PQclear(res);
		violation(stream, "not a snapshot identifier");
	}
	id = pstrdup(PQgetvalue(res, 0, 0));
	PQclear(res);
	stream->export = STREAM_EXPORT_DONE;
	shard_snapshot_exported(stream->conn, id);
	pfree(id);
}

/* Processes one result of PQgetResult().  Takes ownership of res. */
static void
take_result(ShardStream *stream, PGresult *res)
{
	shard_connection_note_result(stream->conn, res);
	if (shard_stream_is_exporting(stream) && PQresultStatus(res) != PGRES_COMMAND_OK)
	{
		res = shard_answer_add(&stream->snapshot_rows, res, SHARD_ANSWER_BYTES, stream->conn, stream->spec.label);
		if (!res)
			return;
		if (PQresultStatus(res) == PGRES_TUPLES_OK)
		{
			take_snapshot_id(stream, res);
			return;
		}
	}
	switch (PQresultStatus(res))
	{
		case PGRES_TUPLES_OK:
			if (stream->spec.use_copy || stream->state == STREAM_PREAMBLE)
				break;
			check_columns(stream, res);
			note_affected(stream, res);
			stream->answer = STREAM_ANSWER_COMPLETE;	/* the empty result that follows the last row */
			stream->result = res;
			return;
		case PGRES_SINGLE_TUPLE:
#ifdef LIBPQ_HAS_CHUNK_MODE
		case PGRES_TUPLES_CHUNK:
#endif
			if (stream->spec.use_copy || stream->state == STREAM_PREAMBLE)
				break;
			check_columns(stream, res);
			note_affected(stream, res);
			stream->result = res;
			return;
		case PGRES_COMMAND_OK:
			/* of the preamble, of COPY, or of a change */
			note_affected(stream, res);
			if ((stream->spec.raw_copy ? stream->answer == STREAM_ANSWER_COPY_OVER :
				 !stream->spec.use_copy && stream->spec.ncolumns == 0) && PQcmdTuples(res)[0] != '\0')
				stream->answer = STREAM_ANSWER_COMPLETE;	/* raw bytes, and changes without rows, have no other end mark */
			PQclear(res);
			return;
		case PGRES_COPY_OUT:
			if (!stream->spec.use_copy || stream->answer != STREAM_ANSWER_NONE ||
				(!stream->spec.raw_copy && !PQbinaryTuples(res)))
				break;
			if (!stream->spec.raw_copy && PQnfields(res) != stream->spec.ncolumns)
			{
				PQclear(res);
				violation(stream, "number of columns differs");
			}
			stream->answer = STREAM_ANSWER_COPY;
			PQclear(res);
			return;
		case PGRES_FATAL_ERROR:
			if (stream->error)
				PQclear(res);
			else
				stream->error = res;
			return;
		case PGRES_EMPTY_QUERY:
			PQclear(res);
			return;
		default:
			break;
	}
	PQclear(res);
	violation(stream, "not the kind of result that was asked for");
}

/* Between the node's CopyOut and CopyDone messages? */
static bool
is_copying(const ShardStream *stream)
{
	return stream->answer >= STREAM_ANSWER_COPY && stream->answer <= STREAM_ANSWER_TRAILER && stream->spec.use_copy;
}

static void
end_copy(ShardStream *stream)
{
	stream->answer = stream->answer == STREAM_ANSWER_TRAILER ? STREAM_ANSWER_COMPLETE : STREAM_ANSWER_COPY_OVER;
}

/* Reads the next CopyData message; false if none is complete. */
static bool
next_copy_message(ShardStream *stream)
{
	int			len = PQgetCopyData(stream->conn->pg, &stream->message, 1);

	if (len > 0)
	{
		stream->message_len = len;
		stream->cursor = 0;
		stream->nbytes += len;
		stream->conn->traffic.bytes_received += len;
		if (stream->spec.raw_copy)
			stream->answer = STREAM_ANSWER_ROWS;
		else if (stream->answer == STREAM_ANSWER_COPY)
			parse_header(stream);
		return true;
	}
	stream->message = NULL;
	/* the end, or an error that PQgetResult() returns */
	if (len < 0 || PQstatus(stream->conn->pg) == CONNECTION_BAD)
	{
		end_copy(stream);
		return true;
	}
	return false;
}

/*
 * Fills bulk with messages; false if there is none. libpq returns a message only if it has arrived
 * completely, so the rest of a torn one is never waited for.
 */
static bool
next_copy_messages(ShardStream *stream)
{
	int			nmessages = 0;

	stream->bulk_torn = false;
	while (stream->bulk_len < stream->bulk_size)
	{
		int			room = stream->bulk_size - stream->bulk_len;
		int			len = PQgetlineAsync(stream->conn->pg, stream->bulk + stream->bulk_len, room);

		if (len <= 0)
		{
			/* the end, or an error that PQgetResult() returns */
			if (len < 0 || PQstatus(stream->conn->pg) == CONNECTION_BAD)
				end_copy(stream);
			break;
		}
		stream->bulk_len += len;
		stream->bulk_torn = len == room;
		if (!stream->bulk_torn)
			nmessages++;
	}
	if (stream->bulk_len == 0)
		return false;
	if (is_copying(stream))
		stream->answer = STREAM_ANSWER_ROWS;
	stream->nbytes += stream->bulk_len;
	stream->conn->traffic.bytes_received += stream->bulk_len;
	stream->nrows += nmessages - 1; /* the caller counts one */
	return true;
}

ShardFetchStatus
shard_fetch_next(ShardStream *stream, ShardRow *row)
{
	ShardConn  *conn = stream->conn;
	bool		dry = false;	/* the socket has just been read */

	for (;;)
	{
		if (stream->cursor < stream->message_len)
		{
			if (stream->spec.raw_copy)
			{
				next_raw_row(stream, row);
				return FETCH_ROW;
			}
			if (next_copy_row(stream, row))
				return FETCH_ROW;
			continue;
		}
		if (stream->result && stream->rowno < PQntuples(stream->result))
		{
			next_result_row(stream, row);
			return FETCH_ROW;
		}
		shard_fetch_free_row(stream);

		if (is_copying(stream) && stream->bulk)
		{
			if (next_copy_messages(stream))
				return FETCH_ROW;
			if (!is_copying(stream))
				continue;
		}
		else if (is_copying(stream))
		{
			if (next_copy_message(stream))
				continue;
		}
		else if (PQstatus(conn->pg) == CONNECTION_BAD || !PQisBusy(conn->pg))
		{
			PGresult   *res = shard_connection_take_result(conn);

			if (!res)
				return FETCH_END;
			take_result(stream, res);
			if (stream->reader == STREAM_READER_EXPORT && !shard_stream_is_exporting(stream) && stream->state != STREAM_PREAMBLE)
				return FETCH_WAIT;
			continue;
		}

		if (dry)
			return FETCH_WAIT;
		shard_connection_flush(conn);
		shard_connection_consume(conn); /* PQstatus shows a failure */
		dry = true;
	}
}

/* ---------- spilled rows ---------- */

static void
append_uint32(StringInfo buf, uint32 value)
{
	value = pg_hton32(value);
	appendBinaryStringInfo(buf, (char *) &value, sizeof(value));
}

/* A row has the format of binary COPY. */
void
shard_fetch_put_aside(ShardStream *stream, const ShardRow *row)
{
	StringInfoData buf;
	uint16		nfields = pg_hton16((uint16) row->ncols);

	initStringInfo(&buf);
	appendBinaryStringInfo(&buf, (char *) &nfields, sizeof(nfields));
	for (int i = 0; i < row->ncols; i++)
	{
		append_uint32(&buf, (uint32) row->lens[i]);
		if (row->lens[i] > 0)
			appendBinaryStringInfo(&buf, row->values[i], row->lens[i]);
	}
	shard_spill_put(stream->spill, buf.data, buf.len);
	pfree(buf.data);
}

bool
shard_fetch_next_aside(ShardStream *stream, ShardRow *row)
{
	uint32		len;
	const char *record = shard_spill_next(stream->spill, &len);
	bool		trailer;

	if (!record)
		return false;
	if (parse_row(stream, &record, record + len, &trailer) != NULL || trailer)
		elog(ERROR, "row put aside is damaged");
	set_row(stream, row);
	return true;
}
