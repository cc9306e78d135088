/*
 * stream_private.h
 *	  What the parts of stream*.c share.  From below: stream_fetch.c (its bytes),
 *	  stream.c (its steps), stream_wait.c (waiting), stream_open.c (beginning, end).
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
	STREAM_SETTLING,			/* an earlier COMMIT on the connection has not ended */
	STREAM_SNAPSHOT,			/* another connection is exporting the snapshot */
	STREAM_PREAMBLE,			/* what precedes the statement was sent by itself */
	STREAM_SENT,				/* the statement was sent; results are read */
	STREAM_SPILLED,				/* its connection was given up, rows come from the spill */
	STREAM_DONE,
	STREAM_LOST,				/* its connection was taken away, or it failed */
	STREAM_CLOSED
} ShardStreamState;

/* Whether a stream's preamble exports the snapshot of its statement. */
typedef enum ShardStreamExport
{
	STREAM_EXPORT_NONE,
	STREAM_EXPORT_PENDING,		/* the identifier has not come */
	STREAM_EXPORT_AWAITED,		/* the same, and other streams wait for it */
	STREAM_EXPORT_DONE
} ShardStreamExport;

/* How much of a statement's answer has arrived. */
typedef enum ShardStreamAnswer
{
	STREAM_ANSWER_NONE,
	STREAM_ANSWER_COPY,			/* CopyOut */
	STREAM_ANSWER_ROWS,			/* the COPY format's header, a raw message, or rows of a query */
	STREAM_ANSWER_TRAILER,		/* the COPY format's end mark */
	STREAM_ANSWER_COPY_OVER,	/* the COPY has ended without end mark; in a raw stream the command tag follows */
	STREAM_ANSWER_COMPLETE		/* all of it */
} ShardStreamAnswer;

/* Who reads a stream's answer. */
typedef enum ShardStreamReader
{
	STREAM_READER_CALLER,
	STREAM_READER_YIELD,		/* puts the rows aside */
	STREAM_READER_EXPORT		/* wants the snapshot's identifier only, for other streams */
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
	ResourceOwner owner;		/* of the spill's file */
	ShardStreamSpec spec;
	ShardSnapshot *snapshot;
	ShardPool *pool;
	dlist_node	queue_link;		/* in pool->queue while STREAM_QUEUED */

	ShardStreamState state;
	ShardConn  *conn;			/* held, or NULL */
	ShardConnHolder holder;
	const void *conn_id;		/* conn, also after it was released */
	ShardStreamExport export;
	ShardStreamReader reader;
	bool		conn_was_used;	/* conn is from before this stream */
	bool		began;			/* conn was in no transaction before */
	bool		retried;		/* sent once more, on another connection */
	bool		shown;			/* it has shown something: see ShardNodeSnapshot */
	uint32		guard;			/* runs inside a savepoint "shardfdw_stream_n" of its own; 0: no */
	bool		drained;		/* nothing to read until the socket is ready */
	TimestampTz sent_at;		/* STREAM_SENT: since when */
	uint64		wait_no;		/* last wait that it took part in */

	/* reading (stream_fetch.c) */
	ShardStreamAnswer answer;
	PGresult   *snapshot_rows;	/* what has come of the preamble's pg_export_snapshot() */
	char	   *message;		/* CopyData of the current row */
	int			message_len;
	int			cursor;
	PGresult   *result;			/* rows of the current chunk */
	int			rowno;
	bool		pinned;			/* the caller's row lies in message or result: keep that */
	char	   *kept_message;
	PGresult   *kept_result;
	const char **values;		/* spec.ncolumns each */
	int		   *lens;
	PGresult   *error;			/* first failure of the node */
	char	   *bulk;			/* during shard_stream_next_bytes: where messages go */
	int			bulk_size;
	int			bulk_len;
	bool		bulk_torn;		/* the last one may go on */

	ShardSpill *spill;
	uint64		nrows;
	uint64		nbytes;
	int64		affected;
};

/* Is the identifier of a snapshot that stream exports still to come? */
static inline bool
shard_stream_is_exporting(const ShardStream *stream)
{
	return stream->export == STREAM_EXPORT_PENDING || stream->export == STREAM_EXPORT_AWAITED;
}

/*
 * Starts queued streams of one statement on pool, in order, while there are
 * connections.  Streams that write need the writing connection, and those that read
 * need not queue behind them.  (Streams of other statements are not read now and
 * would only take connections from those that are.)
 */
extern void shard_stream_start_queued(ShardPool *pool, ShardSnapshot *snapshot);

/*
 * Moves stream on until its statement is sent; false when it has to wait, or
 * has lost its connection and is queued again.
 */
extern bool shard_stream_advance(ShardStream *stream);

/*
 * Next row from the node.  After WAIT the state may be another one.  Errors: the
 * node's.
 */
extern ShardStreamStatus shard_stream_read_node(ShardStream *stream, ShardRow *row);

/* A new stream takes a connection and moves on as far as it can, or is queued. */
extern void shard_stream_begin(ShardStream *stream);

/* Makes some stream of the pool of a queued one yield.  May block. */
extern void shard_stream_make_room(ShardStream *queued);

/* The stream that holds conn; NULL when nobody does, or somebody else. */
extern ShardStream *shard_stream_of_connection(ShardConn *conn);

/* Takes conn, whose statement has failed, back to the savepoint that the stream has set, if there is one. */
extern void shard_stream_undo(ShardStream *stream, int timeout_ms);

/* lost() of a stream as a holder: its connection was released, by the stream or by others. */
extern void shard_stream_lost(ShardConn *conn, void *arg);

/*
 * After an error or a cancel: notes what became of the remote transaction.  If the
 * failure came before the BEGIN in front of the statement, there is none.
 */
extern void shard_stream_note_failure(ShardStream *stream, ShardConn *conn);

/*
 * Sends the statement, preamble in front of it, and sets the state; when they
 * cannot go together, or the preamble's answer is needed at once, the preamble
 * only (STREAM_PREAMBLE).
 */
extern void shard_fetch_send(ShardStream *stream, const char *preamble);

/* Next row out of libpq; reads the socket only when nothing complete is there. Never blocks. */
extern ShardFetchStatus shard_fetch_next(ShardStream *stream, ShardRow *row);

/* Puts row aside; returns the next row that was put aside. */
extern void shard_fetch_put_aside(ShardStream *stream, const ShardRow *row);
extern bool shard_fetch_next_aside(ShardStream *stream, ShardRow *row);

/* Frees what rows lie in: the current one, or all but a pinned one. */
extern void shard_fetch_free_row(ShardStream *stream);
extern void shard_fetch_free_kept(ShardStream *stream);

#endif
