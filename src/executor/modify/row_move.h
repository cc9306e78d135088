/*
 * row_move.h
 *	  UPDATE of the partition key: rows that leave one shard for another.
 */
#ifndef SHARDFDW_ROW_MOVE_H
#define SHARDFDW_ROW_MOVE_H

#include "postgres.h"

#include "nodes/execnodes.h"

/* All rows that one UPDATE moves. */
typedef struct ShardRowMove ShardRowMove;

/*
 * For a result relation of an UPDATE.  Each begin needs an end; the last one
 * inserts the rows in their new shards.  NULL when rows of rinfo cannot be
 * moved: it was not updated through its parent, or the parent's key holds
 * expressions, or triggers would have to be fired.
 * Where the old and the new shard are known now, they are locked on their nodes.  Memory: the query's.
 */
extern ShardRowMove *shard_row_move_begin(ModifyTableState *mtstate, ResultRelInfo *rinfo, Oid userid);

/*
 * Puts aside the new row (in the form of rinfo's relation), whose old version
 * the caller has deleted.  Errors: no partition takes it.
 */
extern void shard_row_move_put(ShardRowMove *move, ResultRelInfo *rinfo, TupleTableSlot *slot);

extern void shard_row_move_end(ShardRowMove *move);

#endif
