/*
 * row_move.h
 *	  UPDATE of the partition key: moves rows from one shard to another.
 */
#ifndef SHARDFDW_ROW_MOVE_H
#define SHARDFDW_ROW_MOVE_H

#include "postgres.h"

#include "nodes/execnodes.h"

/* All rows that one UPDATE moves. */
typedef struct ShardRowMove ShardRowMove;

/*
 * Begins work on a result relation of an UPDATE.  Each begin needs an end; the last end inserts the rows in their new
 * shards.  Returns NULL if rows of rinfo cannot be moved: the UPDATE does not name the parent, or the parent's key has
 * expressions, or triggers would have to be fired.  If the old and the new shard are known already, locks them on their
 * nodes.  Memory: the query's.
 */
extern ShardRowMove *shard_row_move_begin(ModifyTableState *mtstate, ResultRelInfo *rinfo, Oid userid);

/*
 * Stores the new row (in the format of rinfo's relation), whose old version the caller has deleted.
 * Errors: no partition accepts it.
 */
extern void shard_row_move_put(ShardRowMove *move, ResultRelInfo *rinfo, TupleTableSlot *slot);

extern void shard_row_move_end(ShardRowMove *move);

#endif
