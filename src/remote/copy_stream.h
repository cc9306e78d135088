/*
 * copy_stream.h
 *	  Rows into nodes by COPY FROM STDIN: many targets at once, one transaction
 *	  per node, bounded memory.
 *
 * A node has one writing connection, and a connection runs one COPY at a time.
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

#include "remote/txn.h"

typedef struct ShardCopySet ShardCopySet;	/* one load */
typedef struct ShardCopyTarget ShardCopyTarget; /* one remote table */

/*
 * Called before an error of a node is raised: input line (1-based, as given to
 * put; 0 = not known) of the row the node complained about.
 */
typedef void (*ShardCopyErrorHook) (void *arg, uint64 lineno);

/* Memory: in cxt; its reset drops what was not finished (only in abort). */
extern ShardCopySet *shard_copy_set_create(MemoryContext cxt, ShardCopyErrorHook hook, void *arg);

/*
 * A remote table.  copy_sql: "COPY public.t_07 (a, b) FROM STDIN (FORMAT binary)";
 * binary adds the format's header and trailer to each chunk.
 */
extern ShardCopyTarget *shard_copy_target_open(ShardCopySet *set, Oid serverid, Oid userid,
											   const char *copy_sql, bool binary,
											   const char *label);

/*
 * The buffer to append one encoded row to; after appending call
 * shard_copy_target_put, which may send (and waits only when the set's memory
 * is full).
 */
extern StringInfo shard_copy_target_buffer(ShardCopyTarget *target);
extern void shard_copy_target_put(ShardCopyTarget *target, uint64 lineno);

/* Sends everything and waits until all nodes have taken it: their rows are visible to this transaction. */
extern void shard_copy_set_flush(ShardCopySet *set);

/* Flushes, then frees. */
extern void shard_copy_set_finish(ShardCopySet *set);

extern uint64 shard_copy_target_rows(ShardCopyTarget *target);	/* rows nodes confirmed */

#endif
