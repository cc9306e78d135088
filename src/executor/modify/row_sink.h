/*
 * row_sink.h
 *	  Sends rows of one statement to shards by COPY: INSERT, and COPY FROM whose rows core has
 *	  parsed and routed.
 */
#ifndef SHARDFDW_ROW_SINK_H
#define SHARDFDW_ROW_SINK_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "remote/copy/copy_stream.h"
#include "tuple/encode.h"

typedef struct ShardRowSink ShardRowSink;
typedef struct ShardRowTarget ShardRowTarget;	/* rows for one shard */

/*
 * Returns the sink of estate's statement.  All of its shards share it, so that they are loaded in
 * parallel. from_copy: the rows come from core's COPY FROM, and errors of nodes get its line
 * numbers.  Each get needs a release.  The last one sends the remaining rows, and waits until all
 * nodes have accepted them.  Memory: estate's query context.  Its reset drops unsent rows, which
 * happens only in abort.
 */
extern ShardRowSink *shard_row_sink_get(EState *estate, bool from_copy);
extern void shard_row_sink_release(ShardRowSink *sink);

/* Does a load handle rows that nodes refuse?  Known from the first row on. */
extern bool shard_row_sink_is_guarded(ShardRowSink *sink);

/*
 * Opens a target for rows of the foreign table rel (columns attnos, an IntList).  Sends nothing
 * before its first row.
 */
extern ShardRowTarget *shard_row_sink_open(ShardRowSink *sink, Relation rel,
										   Oid userid, List *attnos);

/* Adds one row.  Allocates nothing in the current context. */
extern void shard_row_sink_put(ShardRowTarget *target, EState *estate, TupleTableSlot *slot);

#endif
