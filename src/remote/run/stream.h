/*
 * stream.h
 *	  The rows of one remote query, streamed without a cursor.
 *
 *	   open --> queued --> connecting --> sent --> rows ... --> done
 *	             (no free connection)      |  yield: rest goes to a spill file
 *
 * Two fetchers: COPY (query) TO STDOUT (FORMAT binary) for bulk; the extended
 * protocol with binary results (single or chunked rows) for small and
 * parameterised reads.  A raw stream runs the caller's own COPY ... TO STDOUT and
 * hands on the bytes as they are.  A stream knows servers and SQL, never shards.
 */
#ifndef SHARDFDW_STREAM_H
#define SHARDFDW_STREAM_H

#include "postgres.h"

#include "row.h"
#include "remote/xact/txn.h"
#include "remote/xact/txn_level.h"
#include "remote/wire/wait.h"

typedef struct ShardStream ShardStream;

/* As of which command a statement reads. */
typedef struct ShardStreamView
{
	CommandId	cid;			/* what it, or a later one, has written must not be seen */

	/* Called before the query is sent to a node that would show such writes: raises, unless they do not matter. */
	void		(*refuse) (const struct ShardStreamView *view, const char *node);
} ShardStreamView;

/* How many rows the streams of one plan node may bring. */
typedef struct ShardStreamLimit
{
	const char *reader;			/* the plan node, for the message */
	int			max;
	int64		nleft;
} ShardStreamLimit;

typedef struct ShardStreamSpec
{
	Oid			serverid;
	Oid			userid;
	const char *sql;			/* a SELECT (or DML with RETURNING when !use_copy) */
	bool		has_values;		/* sql has values of rows as literals: errors do not show it */
	const char *label;			/* what it reads, for messages: the shard's name */
	int			ncolumns;		/* columns of the result, checked */
	bool		use_copy;		/* COPY fetcher; needs nparams == 0 */
	bool		raw_copy;		/* with use_copy: sql is a COPY ... TO STDOUT by itself, each
								 * CopyData message is a row of one value; ncolumns = 1 */
	bool		as_writer;		/* on the transaction's writing connection (row locks, DML) */
	bool		portable_text;	/* the coordinator reads dates, intervals or floats of the result as
								 * SHARD_SETTINGS_PORTABLE */
	bool		only_locks;		/* as_writer for row locks */
	bool		keeps_rows;		/* as_writer: locks or looks at rows, and changes none */
	bool		only_reads;		/* as_writer for a cursor: the node needs no two-phase commit for it */
	bool		makes_cursor;	/* sql makes a binary cursor, and fetches from it: one simple message; nparams == 0 */
	const ShardStreamView *view;	/* of a query of the user that reads; NULL: it may see everything */
	ShardTxnLevel *level;		/* of the statement that reads, which began before its streams are opened;
								 * NULL: the current one, and always with only_locks */
	ShardStreamLimit *limit;	/* of its reader; NULL: none */
	int			workers;		/* max_parallel_workers_per_gather; -1 = node's own */
	int			cpu_factor;		/* the node gets this session's CPU costs times this; 0 = its own */
	bool		is_prepared;	/* the node keeps its plan when it comes up often; with parameters always, unless ... */
	bool		for_values;		/* ... it is to plan the query for their values each time */
	int			nparams;
	const char *const *params;	/* text, NULL for NULL; valid until the stream is closed */
} ShardStreamSpec;

typedef enum ShardStreamStatus
{
	SHARD_STREAM_ROW,
	SHARD_STREAM_WAIT,			/* nothing here yet */
	SHARD_STREAM_DONE
} ShardStreamStatus;

/*
 * Starts a query: sent at once when a connection is free, else queued.  Never
 * blocks.  Memory: in cxt, whose reset closes it.  spec is copied, but for
 * sql, label, params.
 */
extern ShardStream *shard_stream_open(MemoryContext cxt, ShardSnapshot *snapshot,
									  const ShardStreamSpec *spec);

/* Next row if one is here.  Never blocks.  Errors: the node's, naming node and label. */
extern ShardStreamStatus shard_stream_next(ShardStream *stream, ShardRow *row);

/*
 * For raw streams: the messages that have arrived, one behind the other, up to size
 * bytes.  *data is buf, or memory that is valid until the next call.  *torn: the last
 * message may be incomplete, and the next call returns its rest; until then the
 * caller must not write bytes of another stream.  (If that call returns none, the
 * message was complete.)  Must not be mixed with shard_stream_next() while torn.
 * Never blocks.
 */
extern ShardStreamStatus shard_stream_next_bytes(ShardStream *stream, char *buf, int size,
												 const char **data, int *len, bool *torn);

/*
 * Waits until at least one of the streams (NULLs skipped) may have made
 * progress.  A queued stream makes progress when another one of its node does;
 * if all that it waits for are streams which nobody will read now (they are
 * not among streams), their holders are asked to yield.  set may be NULL.
 */
extern void shard_stream_wait(ShardStream **streams, int nstreams, ShardWaitSet *set);

/* The next row, for which it waits.  False: there is none any more. */
static inline bool
shard_stream_next_row(ShardStream *stream, ShardRow *row)
{
	ShardStreamStatus status;

	while ((status = shard_stream_next(stream, row)) == SHARD_STREAM_WAIT)
		shard_stream_wait(&stream, 1, NULL);
	return status == SHARD_STREAM_ROW;
}

/*
 * For asynchronous Append, which waits by itself.  shard_stream_idle: next() can do
 * nothing now (never true while connecting).  shard_stream_socket: the socket that an
 * idle stream waits for, with its events; -1 when it waits for a connection or for
 * another stream's snapshot.  The answer is valid as long as nothing else uses the
 * node.  shard_stream_awake: makes next() read the socket again, because it is ready,
 * or because a TLS library may hold bytes back.
 */
extern bool shard_stream_idle(ShardStream *stream);
extern int	shard_stream_socket(ShardStream *stream, int *events);
extern void shard_stream_awake(ShardStream *stream, bool ready);

/* Is its connection being opened?  Then the caller must wait by shard_stream_wait(), which observes connect_timeout. */
extern bool shard_stream_connecting(const ShardStream *stream);

/* Rows changed or copied, from the command tag, after SHARD_STREAM_DONE (DML, raw). */
extern int64 shard_stream_affected(ShardStream *stream);

/* Has the node got its statement? */
extern bool shard_stream_is_sent(const ShardStream *stream);

extern uint64 shard_stream_rows(ShardStream *stream);
extern uint64 shard_stream_bytes(ShardStream *stream);
extern const void *shard_stream_conn_id(ShardStream *stream);	/* distinct per connection, for EXPLAIN */

/*
 * Ends it: an unfinished query is cancelled; never raises for that.  The remote
 * transaction it ran in, if any, stays usable.
 */
extern void shard_stream_close(ShardStream *stream);

/*
 * Before this transaction's first write on a node: starts the streams that are
 * queued for it and puts their rows aside, so that they do not see what their
 * own statement writes.  May block.  Called by transactions (ShardTxnUpcalls).
 */
extern void shard_stream_drain_queue(ShardPool *pool);

/*
 * Before something of a nesting level uses the node: the same, where streams of a
 * level further out are to write.  They would do so behind the savepoint of that
 * level, with which what they have written would be undone.
 */
extern void shard_stream_drain_below(ShardPool *pool, int level);

#endif
