/*
 * row_sink.h
 *	  Rows of one statement into shards by COPY: INSERT, and COPY FROM that core
 *	  has parsed and routed.
 */
#ifndef SHARDFDW_ROW_SINK_H
#define SHARDFDW_ROW_SINK_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "remote/copy/copy_stream.h"
#include "tuple/encode.h"

typedef struct ShardRowSink ShardRowSink;
typedef struct ShardRowTarget ShardRowTarget;	/* one shard */

/*
 * The sink of the statement that estate belongs to: all of its shards share
 * it, so that they are in flight together.  from_copy: the rows are those of
 * core's COPY FROM, and errors of nodes get its line numbers.  Each get needs
 * a release; the last one sends what is left and waits until all nodes have
 * taken it.
 * Memory: lives in estate's query context, whose reset drops what was not
 * sent (only in abort).
 */
extern ShardRowSink *shard_row_sink_get(EState *estate, bool from_copy);
extern void shard_row_sink_release(ShardRowSink *sink);

/* Does a load want to know which rows nodes refuse?  From the first row on. */
extern bool shard_row_sink_is_guarded(ShardRowSink *sink);

/*
 * Target for rows of the foreign table rel (columns attnos, an IntList).
 * Nothing is sent before its first row.
 */
extern ShardRowTarget *shard_row_sink_open(ShardRowSink *sink, Relation rel,
										   Oid userid, List *attnos);

/* One row.  Needs no memory in the current context. */
extern void shard_row_sink_put(ShardRowTarget *target, EState *estate, TupleTableSlot *slot);

#endif
