/*
 * copy_stream.h
 *	  Sends rows to nodes by COPY FROM STDIN: many targets in parallel, one transaction per node,
 *	  bounded memory.
 *
 * A node has one writing connection (a load that is its whole transaction may have more, see
 * shard_copy_set_spread()), and a connection runs one COPY at a time.  So each target collects
 * bytes in its own buffer, and each node's connection serves its targets in turn, with a chunk (one
 * COPY statement) each:
 *
 *	 put --> target buffer --(chunk full)--> COPY t FROM STDIN, data, end --> next target
 *
 * While the buffers of the set have room, nothing waits.  All nodes work in parallel.
 */
#ifndef SHARDFDW_COPY_STREAM_H
#define SHARDFDW_COPY_STREAM_H

#include "postgres.h"

#include "remote/xact/txn.h"

typedef struct ShardCopySet ShardCopySet;	/* one load */
typedef struct ShardCopyTarget ShardCopyTarget; /* one remote table */

/*
 * Called before an error of a node is raised. lineno: input line (1-based, as passed to put; 0 =
 * unknown) of the row in question. place: the node's description of the place in it (", column a:
 * \"x\"", or ""; NULL = none).  If several nodes report errors, the error with the first line of
 * the input is raised.
 */
typedef void (*ShardCopyErrorHook) (void *arg, uint64 lineno, const char *place);

/* A row that a node refused, in a set with a refuse hook. */
typedef struct ShardCopyRefusal
{
	ShardCopyTarget *target;
	uint64		lineno;
	const char *source;			/* as passed to put_row, else the row as it was sent */
	size_t		source_bytes;
	int			sqlstate;		/* packed */
	const char *message;		/* the node's primary message */
	const char *column;			/* NULL: unknown */
	const char *node;
	const char *label;
	bool		duplicate;		/* refused by the target's merge command (see staging) */
} ShardCopyRefusal;

/* Processes the row, or raises.  On return the load continues. */
typedef void (*ShardCopyRefuseHook) (void *arg, const ShardCopyRefusal *refusal);

/*
 * Commands for a table in which COPY alone would find duplicates.  COPY fills a staging table, then a command moves its
 * rows.  The commands are in the order of use.  All but create and drop run once per chunk.
 */
typedef struct ShardCopyStaging
{
	const char *create_sql;
	const char *copy_sql;		/* COPY staging (...) FROM STDIN ... */
	const char *merge_sql;		/* moves the rows in their original order */
	const char *result_sql;		/* SELECT ordinal (1-based in the chunk) of each refused row; last row: (NULL, number of replaced rows) */
	const char *clear_sql;
	const char *drop_sql;
} ShardCopyStaging;

/* Commands before and after all rows of a target, in the same transaction. */
typedef struct ShardCopyFrame
{
	const char *first_sql;		/* before the first COPY */
	const char *last_sql;		/* after the last one, when the set has no rows any more */
} ShardCopyFrame;

/* Figures of a target while the load runs. */
typedef struct ShardCopyTargetStat
{
	uint64		nrows_sent;		/* passed to the connection, including refused ones */
	uint64		nbytes_sent;
	uint64		nbytes_buffered;
	uint64		nrefused;		/* without duplicates */
	uint64		nduplicates;
	uint64		nreplaced;
	int64		stalled_us;		/* time during which it had rows to send, but its connection was busy */
} ShardCopyTargetStat;

/* Memory: cxt; its reset drops what was not finished (only in abort). */
extern ShardCopySet *shard_copy_set_create(MemoryContext cxt, ShardCopyErrorHook hook, void *arg);

/*
 * Called before the first target is opened.
 *
 * user_lines: rows are lines as the user has written them (SHARD_SETTINGS_LINES).
 *
 * spread: up to nconns connections per node (limited by shardfdw.max_connections_per_node) share a
 * node's targets.  Only for a load that is its whole transaction, since other statements would not
 * see its rows.
 *
 * guard: a row that a node refuses is passed to hook, and all other rows are loaded.  Chunks run in
 * savepoints, and a failing chunk is narrowed down to the row.  Without on_error, this is done only
 * for rows that a merge command refuses; other errors are raised.
 */
extern void shard_copy_set_user_lines(ShardCopySet *set);
extern void shard_copy_set_spread(ShardCopySet *set, int nconns);
extern void shard_copy_set_guard(ShardCopySet *set, bool on_error, ShardCopyRefuseHook hook, void *arg);

/*
 * Opens a target for a remote table. copy_sql: "COPY public.t_07 (a, b) FROM STDIN (FORMAT
 * binary)". binary adds the format's header and trailer to each chunk.
 */
extern ShardCopyTarget *shard_copy_target_open(ShardCopySet *set, Oid serverid, Oid userid,
											   const char *copy_sql, bool binary,
											   const char *label);

/*
 * Called before the first row. copy_sql has HEADER, and header is the line that it skips.  From one
 * line a node learns how lines end.  So it counts line breaks within values in the right way from
 * the first row on, as core does for the whole input.
 */
extern void shard_copy_target_set_header(ShardCopyTarget *target, const char *header);

/*
 * Sends rows to further servers, when the node has stored them, chunk by chunk.  The tables there have the same name,
 * and the same mapping is used.  So errors come from this node, and sessions that wait for each other do so there.
 * Call it before the first row, after the header. before, after: commands around each COPY on the further servers. ask,
 * after: commands around each COPY on this node; ask returns 'on' if the rows of this COPY must be sent on.  Not for
 * guarded sets.
 */
extern void shard_copy_target_mirror(ShardCopyTarget *target, const Oid *servers, int nservers, const char *ask, const char *before,
									 const char *after);

/*
 * Returns the buffer to which one encoded row must be appended.  Then call shard_copy_target_put,
 * which may send (and waits only if the set's memory is full).
 */
extern StringInfo shard_copy_target_buffer(ShardCopyTarget *target);
extern void shard_copy_target_put(ShardCopyTarget *target, uint64 lineno);

/*
 * The same for a row with nlines lines of text (CSV with line breaks in values).  lineno is the
 * number of the last one.
 *
 * source: the bytes of the input from which it was made, which a guarded set keeps for the refuse
 * hook (NULL: the row itself).
 */
extern void shard_copy_target_put_row(ShardCopyTarget *target, uint64 lineno, uint32 nlines,
									  const char *source, size_t source_bytes);

/* The same for nrows rows of one line each, with lines lineno, lineno + 1, ...  Not for guarded sets. */
extern void shard_copy_target_put_rows(ShardCopyTarget *target, uint64 lineno, uint32 nrows);

/*
 * From now on, if COPY finds a duplicate (SQLSTATE 23505, 23P01), the chunk is sent through
 * staging.  Only for guarded sets.
 */
extern void shard_copy_target_set_staging(ShardCopyTarget *target, const ShardCopyStaging *staging);

/* Called before the first row. */
extern void shard_copy_target_set_frame(ShardCopyTarget *target, const ShardCopyFrame *frame);

extern void shard_copy_target_stat(const ShardCopyTarget *target, ShardCopyTargetStat *stat);

/* hook is called while the set sends or waits (at most every 100 ms).  It must not raise. */
extern void shard_copy_set_on_progress(ShardCopySet *set, void (*hook) (void *arg), void *arg);

/* Sends what can be sent without waiting.  True: there are still rows that wait for a node. */
extern bool shard_copy_set_pump(ShardCopySet *set);

extern ShardCopySet *shard_copy_target_get_set(const ShardCopyTarget *target);

/* True if an error was raised or a connection was lost.  Then there is nothing to flush any more. */
extern bool shard_copy_set_is_lost(const ShardCopySet *set);

/* Sends everything and waits until all nodes have accepted it.  Then this transaction can see the rows. */
extern void shard_copy_set_flush(ShardCopySet *set);

/*
 * The same, and ends what surrounds the rows (frames, staging tables), on all nodes in parallel.
 * No rows may follow.
 */
extern void shard_copy_set_complete(ShardCopySet *set);

/* Completes, then frees. */
extern void shard_copy_set_finish(ShardCopySet *set);

#endif
