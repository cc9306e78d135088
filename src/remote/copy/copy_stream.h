/*
 * copy_stream.h
 *	  Rows into nodes by COPY FROM STDIN: many targets at once, one transaction
 *	  per node, bounded memory.
 *
 * A node has one writing connection (a load that is all its transaction does may
 * have more, see shard_copy_set_spread()), and a connection runs one COPY at a time.
 * So each target collects bytes in a buffer of its own, and each node's
 * connection serves its targets in turn, a chunk (one COPY statement) each:
 *
 *	 put --> target buffer --(chunk full)--> COPY t FROM STDIN, data, end --> next target
 *
 * No wait happens while the buffers of the set have room; all nodes work at
 * the same time.
 */
#ifndef SHARDFDW_COPY_STREAM_H
#define SHARDFDW_COPY_STREAM_H

#include "postgres.h"

#include "remote/xact/txn.h"

typedef struct ShardCopySet ShardCopySet;	/* one load */
typedef struct ShardCopyTarget ShardCopyTarget; /* one remote table */

/*
 * Called before an error of a node is raised: input line (1-based, as given to
 * put; 0 = not known) of the row the node complained about, and what the node
 * said of the place within it (", column a: \"x\"", or ""; NULL = nothing).
 * When several nodes complain, the error of the first line of the input is raised.
 */
typedef void (*ShardCopyErrorHook) (void *arg, uint64 lineno, const char *place);

/* A row that a node refused, in a set with a refuse hook. */
typedef struct ShardCopyRefusal
{
	ShardCopyTarget *target;
	uint64		lineno;
	const char *source;			/* as given to put_row, else the row as it was sent */
	size_t		source_bytes;
	int			sqlstate;		/* packed */
	const char *message;		/* the node's primary message */
	const char *column;			/* NULL: not known */
	const char *node;
	const char *label;
	bool		duplicate;		/* refused by the target's merge command (see staging) */
} ShardCopyRefusal;

/* Takes note of the row, or raises; the load goes on when it returns. */
typedef void (*ShardCopyRefuseHook) (void *arg, const ShardCopyRefusal *refusal);

/*
 * How rows get into a table when COPY alone would meet duplicates: COPY into a
 * staging table, then a command that moves its rows on.  Texts in the order of
 * use; all but create and drop once per chunk.
 */
typedef struct ShardCopyStaging
{
	const char *create_sql;
	const char *copy_sql;		/* COPY staging (...) FROM STDIN ... */
	const char *merge_sql;		/* moves the rows in the order in which they came */
	const char *result_sql;		/* SELECT ordinal (1-based in the chunk) of each refused row, and as its
								 * last row (NULL, number of rows replaced) */
	const char *clear_sql;
	const char *drop_sql;
} ShardCopyStaging;

/* What surrounds all rows of a target, in the transaction that has them. */
typedef struct ShardCopyFrame
{
	const char *first_sql;		/* ahead of the first COPY */
	const char *last_sql;		/* behind the last one, when the set has no rows any more */
} ShardCopyFrame;

/* What is known of a target while the load runs. */
typedef struct ShardCopyTargetStat
{
	uint64		nrows_sent;		/* handed to the connection, refused ones included */
	uint64		nbytes_sent;
	uint64		nbytes_buffered;
	uint64		nrefused;		/* duplicates not included */
	uint64		nduplicates;
	uint64		nreplaced;
	int64		stalled_us;		/* rows of it waited, and its connection could not take any */
} ShardCopyTargetStat;

/* Memory: in cxt; its reset drops what was not finished (only in abort). */
extern ShardCopySet *shard_copy_set_create(MemoryContext cxt, ShardCopyErrorHook hook, void *arg);

/*
 * All before the first target is opened.
 *
 * user_lines: rows are lines as the user has written them (SHARD_SETTINGS_LINES).
 *
 * spread: up to nconns connections per node (bounded by
 * shardfdw.max_connections_per_node) share a node's targets.  Only for a load
 * that is all its transaction does: nothing else would see its rows.
 *
 * guard: a row that a node refuses is handed to hook, and all other rows are
 * loaded: chunks run in savepoints, and a failing chunk is narrowed down to the
 * row.  Without on_error only rows that a merge command refuses; other errors are raised.
 */
extern void shard_copy_set_user_lines(ShardCopySet *set);
extern void shard_copy_set_spread(ShardCopySet *set, int nconns);
extern void shard_copy_set_guard(ShardCopySet *set, bool on_error, ShardCopyRefuseHook hook, void *arg);

/*
 * A remote table.  copy_sql: "COPY public.t_07 (a, b) FROM STDIN (FORMAT binary)";
 * binary adds the format's header and trailer to each chunk.
 */
extern ShardCopyTarget *shard_copy_target_open(ShardCopySet *set, Oid serverid, Oid userid,
											   const char *copy_sql, bool binary,
											   const char *label);

/*
 * Before the first row: copy_sql has HEADER, and header is the line that it skips.
 * A node that has seen one line knows how lines end, and counts line breaks
 * within values by that from the first row on, as core does for the whole input.
 */
extern void shard_copy_target_set_header(ShardCopyTarget *target, const char *header);

/*
 * Before the first row, after the header: the rows that the node has stored go on to tables of the same name on further servers, by
 * the same mapping, chunk by chunk.  So errors are those of this node, and those who wait for each other do so there.
 * before, after: commands around each COPY there, and here ask, after: ask answers 'on' if the rows of this COPY are to go on.
 * Not for guarded sets.
 */
extern void shard_copy_target_mirror(ShardCopyTarget *target, const Oid *servers, int nservers, const char *ask, const char *before,
									 const char *after);

/*
 * The buffer to append one encoded row to; after appending call
 * shard_copy_target_put, which may send (and waits only when the set's memory
 * is full).
 */
extern StringInfo shard_copy_target_buffer(ShardCopyTarget *target);
extern void shard_copy_target_put(ShardCopyTarget *target, uint64 lineno);

/*
 * The same for a row of nlines lines of text (CSV with line breaks in values;
 * lineno is that of the last one), with the bytes of the input it was made of,
 * which a guarded set keeps for the refuse hook (NULL: the row itself).
 */
extern void shard_copy_target_put_row(ShardCopyTarget *target, uint64 lineno, uint32 nlines,
									  const char *source, size_t source_bytes);

/* The same for nrows rows of a line each, of lines lineno, lineno + 1, ...  Not for guarded sets. */
extern void shard_copy_target_put_rows(ShardCopyTarget *target, uint64 lineno, uint32 nrows);

/* From now on, where COPY finds a duplicate (SQLSTATE 23505, 23P01), the chunk goes by way of staging.  Guarded sets only. */
extern void shard_copy_target_set_staging(ShardCopyTarget *target, const ShardCopyStaging *staging);

/* Before the first row. */
extern void shard_copy_target_set_frame(ShardCopyTarget *target, const ShardCopyFrame *frame);

extern void shard_copy_target_stat(const ShardCopyTarget *target, ShardCopyTargetStat *stat);

/* Called now and then while the set sends or waits (at most every 100 ms); must not raise. */
extern void shard_copy_set_on_progress(ShardCopySet *set, void (*hook) (void *arg), void *arg);

/* Sends what can be sent without waiting.  True: rows are left that wait for a node. */
extern bool shard_copy_set_pump(ShardCopySet *set);

extern ShardCopySet *shard_copy_target_get_set(const ShardCopyTarget *target);

/* True once an error was raised or a connection lost: there is nothing to flush any more. */
extern bool shard_copy_set_is_lost(const ShardCopySet *set);

/* Sends everything and waits until all nodes have taken it: their rows are visible to this transaction. */
extern void shard_copy_set_flush(ShardCopySet *set);

/* The same, and ends what surrounds the rows (frames, staging tables), on all nodes at once.  No rows may follow. */
extern void shard_copy_set_complete(ShardCopySet *set);

/* Completes, then frees. */
extern void shard_copy_set_finish(ShardCopySet *set);

#endif
