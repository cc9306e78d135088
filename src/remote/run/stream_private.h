/*
 * stream_private.h
 *	  Internals of stream*.c.  From bottom to top: stream_fetch.c (bytes), stream.c (steps),
 *	  stream_wait.c (waiting), stream_open.c (beginning and end).
 */
#ifndef SHARDFDW_STREAM_PRIVATE_H
#define SHARDFDW_STREAM_PRIVATE_H

#include "datatype/timestamp.h"
#include "remote/run/stream.h"
#include "remote/wire/spill.h"

#define CLOSE_TIMEOUT_MS 1000	/* for a node's answer when a statement ends */

typedef enum ShardStreamState
{
	STREAM_QUEUED,				/* waits for a connection */
	STREAM_CONNECTING,
	STREAM_SETTLING,			/* waits for the end of an earlier COMMIT on the connection */
	STREAM_SNAPSHOT,			/* another connection is exporting the snapshot */
	STREAM_PREAMBLE,			/* the commands that precede the statement were sent separately */
	STREAM_SENT,				/* the statement was sent; results are read */
	STREAM_SPILLED,				/* its connection was released, rows come from the spill */
	STREAM_DONE,
	STREAM_LOST,				/* it failed, or its connection was taken away */
	STREAM_CLOSED
} ShardStreamState;

/* Does the preamble of a stream export the snapshot of its statement? */
typedef enum ShardStreamExport
{
	STREAM_EXPORT_NONE,
	STREAM_EXPORT_PENDING,		/* the identifier has not arrived */
	STREAM_EXPORT_AWAITED,		/* the same, and other streams wait for it */
	STREAM_EXPORT_DONE
} ShardStreamExport;

/* How much of a statement's answer has arrived. */
typedef enum ShardStreamAnswer
{
	STREAM_ANSWER_NONE,
	STREAM_ANSWER_COPY,			/* after CopyOut */
	STREAM_ANSWER_ROWS,			/* after the header of the COPY format, a raw message, or rows of a query */
	STREAM_ANSWER_TRAILER,		/* after the end mark of the COPY format */
	STREAM_ANSWER_COPY_OVER,	/* the COPY has ended without an end mark; in a raw stream the command tag follows */
	STREAM_ANSWER_COMPLETE		/* complete */
} ShardStreamAnswer;

/* The reader of a stream's answer. */
typedef enum ShardStreamReader
{
	STREAM_READER_CALLER,
	STREAM_READER_YIELD,		/* spills the rows */
	STREAM_READER_EXPORT		/* needs only the snapshot identifier, for other streams */
} ShardStreamReader;

typedef enum ShardFetchStatus
{
	FETCH_ROW,
	FETCH_WAIT,
	FETCH_END					/* the node has answered completely; see error */
} ShardFetchStatus;

struct ShardStream
{
	MemoryContext cxt;
	MemoryContextCallback callback;
	ResourceOwner owner;		/* owns the file of the spill */
	ShardStreamSpec spec;
	ShardSnapshot *snapshot;
	ShardPool *pool;
	dlist_node	queue_link;		/* in pool->queue while STREAM_QUEUED */

	ShardStreamState state;
	ShardConn  *conn;			/* held, or NULL */
	ShardConnHolder holder;
	const void *conn_id;		/* conn, kept after it was released */
	ShardStreamExport export;
	ShardStreamReader reader;
	bool		conn_was_used;	/* conn existed before this stream */
	bool		began;			/* conn was in no transaction before */
	bool		retried;		/* was sent once more, on another connection */
	bool		shown;			/* has returned data: see ShardNodeSnapshot */
	uint32		guard;			/* runs inside its own savepoint "shardfdw_stream_n"; 0: no */
	bool		drained;		/* nothing to read until the socket is ready */
	TimestampTz sent_at;		/* when STREAM_SENT began */
	uint64		wait_no;		/* last wait that it took part in */

	/* reading (stream_fetch.c) */
	ShardStreamAnswer answer;
	PGresult   *snapshot_rows;	/* rows of the preamble's pg_export_snapshot() */
	char	   *message;		/* CopyData message of the current row */
	int			message_len;
	int			cursor;
	PGresult   *result;			/* rows of the current chunk */
	int			rowno;
	bool		pinned;			/* the caller's row is in message or result, which must be kept */
	char	   *kept_message;
	PGresult   *kept_result;
	const char **values;		/* spec.ncolumns each */
	int		   *lens;
	PGresult   *error;			/* first error of the node */
	char	   *bulk;			/* during shard_stream_next_bytes: buffer for messages */
	int			bulk_size;
	int			bulk_len;
	bool		bulk_torn;		/* the last message may continue */

	ShardSpill *spill;
	uint64		nrows;
	uint64		nbytes;
	int64		affected;
};

/* Does stream export a snapshot whose identifier has not arrived yet? */
static inline bool
shard_stream_is_exporting(const ShardStream *stream)
{
	return stream->export == STREAM_EXPORT_PENDING || stream->export == STREAM_EXPORT_AWAITED;
}

/*
 * Starts queued streams of one statement on pool, in order, while connections are available.
 * Streams that write need the writer; streams that read do not queue behind them. (Streams of other
 * statements are not being read now, and would only take connections from those that are.)
 */
extern void shard_stream_start_queued(ShardPool *pool, ShardSnapshot *snapshot);

/*
 * Advances stream until its statement is sent.  False if it must wait, or has lost its connection
 * and is queued again.
 */
extern bool shard_stream_advance(ShardStream *stream);

/*
 * Returns the next row from the node.  After WAIT the state may have changed.  Errors: the node's.
 */
extern ShardStreamStatus shard_stream_read_node(ShardStream *stream, ShardRow *row);

/* A new stream takes a connection and advances as far as possible, or is queued. */
extern void shard_stream_begin(ShardStream *stream);

/* Makes a stream of queued's pool yield.  May block. */
extern void shard_stream_make_room(ShardStream *queued);

/* Returns the stream that holds conn; NULL if it has no holder, or another kind of holder. */
extern ShardStream *shard_stream_of_connection(ShardConn *conn);

/* If the stream has created a savepoint, rolls conn, whose statement has failed, back to it. */
extern void shard_stream_undo(ShardStream *stream, int timeout_ms);

/* The holder callback lost(): the connection was released, by the stream or otherwise. */
extern void shard_stream_lost(ShardConn *conn, void *arg);

/*
 * Called after an error or a cancel.  Records the state of the remote transaction.  If the failure
 * occurred before the BEGIN that preceded the statement, there is no transaction.
 */
extern void shard_stream_note_failure(ShardStream *stream, ShardConn *conn);

/*
 * Sends the statement with preamble, and sets the state.  If they cannot be sent together, or the
 * preamble's answer is needed immediately, sends only the preamble (STREAM_PREAMBLE).
 */
extern void shard_fetch_send(ShardStream *stream, const char *preamble);

/* Returns the next row from libpq.  Reads the socket only if libpq has nothing complete.  Never blocks. */
extern ShardFetchStatus shard_fetch_next(ShardStream *stream, ShardRow *row);

/* shard_fetch_put_aside() spills row.  The second function returns the next spilled row. */
extern void shard_fetch_put_aside(ShardStream *stream, const ShardRow *row);
extern bool shard_fetch_next_aside(ShardStream *stream, ShardRow *row);

/* Frees the memory of rows: of the current one, or of the pinned one. */
extern void shard_fetch_free_row(ShardStream *stream);
extern void shard_fetch_free_kept(ShardStream *stream);

#endif
