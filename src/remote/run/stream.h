/*
 * stream.h
 *	  The rows of one remote query, streamed without a cursor.
 *
 *	   open --> queued --> connecting --> sent --> rows ... --> done
 *				(no free connection)		|  yield: the rest goes to a spill file
 *
 * There are two fetchers: COPY (query) TO STDOUT (FORMAT binary) for bulk reads, and the extended
 * protocol with binary results (single or chunked rows) for small reads and reads with parameters.
 * A raw stream runs the caller's own COPY ...  TO STDOUT and returns the bytes unchanged.  A stream
 * handles servers and SQL, never shards.
 */
#ifndef SHARDFDW_STREAM_H
#define SHARDFDW_STREAM_H

#include "postgres.h"

#include "row.h"
#include "remote/xact/txn.h"
#include "remote/xact/txn_level.h"
#include "remote/wire/wait.h"

typedef struct ShardStream ShardStream;

/* The command as of which a statement reads. */
typedef struct ShardStreamView
{
	CommandId	cid;			/* writes of this command and later ones must not be visible */

	/* Called before the query is sent to a node that would show such writes.  Raises, unless they do not matter. */
	void		(*refuse) (const struct ShardStreamView *view, const char *node);
} ShardStreamView;

/* How many rows the streams of one statement may bring. */
typedef struct ShardStreamLimit
{
	int			max;
	int64		nleft;
} ShardStreamLimit;

typedef struct ShardStreamSpec
{
	Oid			serverid;
	Oid			userid;
	const char *sql;			/* a SELECT (or DML with RETURNING when !use_copy) */
	bool		has_values;		/* sql contains values of rows as literals, so errors do not show it */
	const char *check;			/* commands that must run before sql in the same transaction, if it has several statements; NULL: none */
	bool		may_be_gone;	/* the map is old: a table that does not exist has moved */
	const char *label;			/* what it reads, for messages: name of the shard */
	int			ncolumns;		/* number of columns of the result, checked */
	bool		use_copy;		/* uses the COPY fetcher; requires nparams == 0 */
	bool		raw_copy;		/* with use_copy: sql is a COPY ... TO STDOUT of one column: each CopyData message is a row */
	bool		as_writer;		/* on the transaction's writer (row locks, DML) */
	bool		portable_text;	/* the coordinator parses dates, intervals or floats of the result, see SHARD_SETTINGS_PORTABLE */
	bool		only_locks;		/* as_writer for row locks */
	bool		keeps_rows;		/* as_writer: locks or reads rows, and changes none */
	bool		only_reads;		/* as_writer for a cursor, which needs no two-phase commit on the node */
	bool		makes_cursor;	/* sql opens a binary cursor and fetches from it: one simple message; nparams == 0 */
	const ShardStreamView *view;	/* of a user's query that reads; NULL: it may see everything */
	ShardTxnLevel *level;		/* when the reading statement began; NULL: the current one (always with only_locks) */
	ShardStreamLimit *limit;	/* of the statement; NULL: none */
	int			workers;		/* max_parallel_workers_per_gather; -1 = node's own */
	int			cpu_factor;		/* the node gets this session's CPU costs multiplied by this; 0 = its own */
	bool		is_prepared;	/* the node keeps the plan after some uses; always so with parameters, unless ... */
	bool		for_values;		/* ... the node must plan the query for their values each time */
	int			nparams;
	const char *const *params;	/* text, NULL for NULL; valid until the stream is closed */
} ShardStreamSpec;

typedef enum ShardStreamStatus
{
	SHARD_STREAM_ROW,
	SHARD_STREAM_WAIT,			/* no row has arrived yet */
	SHARD_STREAM_DONE
} ShardStreamStatus;

/*
 * Starts a query.  It is sent immediately if a connection is free, otherwise queued.  Never blocks.
 * Memory: cxt, whose reset closes the stream. spec is copied, except sql, check, label and params.
 */
extern ShardStream *shard_stream_open(MemoryContext cxt, ShardSnapshot *snapshot,
									  const ShardStreamSpec *spec);

/* Returns the next row that has arrived.  Never blocks.  Errors: the node's, with node and label. */
extern ShardStreamStatus shard_stream_next(ShardStream *stream, ShardRow *row);

/*
 * For raw streams: returns the messages that have arrived, one after the other, up to size bytes.
 * *data is buf, or memory that is valid until the next call.
 *
 * *torn: the last message may be incomplete, and the next call returns its rest. (If that call
 * returns nothing, the message was complete.)  While torn is set, the caller must not write bytes
 * of another stream, nor call shard_stream_next().  Never blocks.
 */
extern ShardStreamStatus shard_stream_next_bytes(ShardStream *stream, char *buf, int size,
												 const char **data, int *len, bool *torn);

/*
 * Waits until at least one of the streams (NULLs are skipped) may have made progress.  A queued
 * stream makes progress when another stream of its node does.  If it waits only for streams that
 * are not in streams, and thus are not being read, their holders are asked to yield. set may be
 * NULL.
 */
extern void shard_stream_wait(ShardStream **streams, int nstreams, ShardWaitSet *set);

/* Returns the next row, and waits for it.  False: there are no more rows. */
static inline bool
shard_stream_next_row(ShardStream *stream, ShardRow *row)
{
	ShardStreamStatus status;

	while ((status = shard_stream_next(stream, row)) == SHARD_STREAM_WAIT)
		shard_stream_wait(&stream, 1, NULL);
	return status == SHARD_STREAM_ROW;
}

/*
 * For asynchronous Append, which has its own wait loop.
 *
 * idle: next() can do nothing now.  Never true while connecting.
 *
 * socket: the socket and events that an idle stream waits for; -1 if it waits for a connection or
 * for another stream's snapshot.  Valid until the node is used otherwise.
 *
 * awake: makes next() read the socket again, because it is ready, or because a TLS library may have
 * buffered bytes.
 */
extern bool shard_stream_idle(ShardStream *stream);
extern int	shard_stream_socket(ShardStream *stream, int *events);
extern void shard_stream_awake(ShardStream *stream, bool ready);

/*
 * Is its connection being opened?  Then the caller must wait with shard_stream_wait(), which
 * observes connect_timeout.
 */
extern bool shard_stream_connecting(const ShardStream *stream);

/* Rows changed or copied, from the command tag, after SHARD_STREAM_DONE (DML, raw). */
extern int64 shard_stream_affected(ShardStream *stream);

/* Has the statement been sent to the node? */
extern bool shard_stream_is_sent(const ShardStream *stream);

extern uint64 shard_stream_rows(ShardStream *stream);
extern uint64 shard_stream_bytes(ShardStream *stream);
extern const void *shard_stream_conn_id(ShardStream *stream);	/* distinct per connection, for EXPLAIN */

/*
 * Ends the stream.  An unfinished query is cancelled; that never raises.  If the stream ran in a
 * remote transaction, the transaction stays usable.
 */
extern void shard_stream_close(ShardStream *stream);

/*
 * Called before this transaction's first write to a node.  Starts the streams that are queued for
 * the node, and spills their rows, so that they do not see what their own statement writes.  May
 * block.  Called by transactions (ShardTxnUpcalls).
 */
extern void shard_stream_drain_queue(ShardPool *pool);

/*
 * Called before a statement of nesting level level uses the node.  Does the same if streams of an
 * outer level are queued that will write.  They would write after the inner level's savepoint was
 * created, and its rollback would undo their writes.
 */
extern void shard_stream_drain_below(ShardPool *pool, int level);

#endif
