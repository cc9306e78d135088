/*
 * whole_insert.h
 *	  The rows of a shipped INSERT.
 */
#ifndef SHARDFDW_WHOLE_INSERT_H
#define SHARDFDW_WHOLE_INSERT_H

#include "postgres.h"

#include "deparse/whole_expr.h"
#include "nodes/parsenodes.h"

/* The target list of an INSERT, with NULL for each column of relid that it omits. */
extern List *shard_whole_insert_all(Oid relid, List *targets);

/*
 * Adapts the rows of the INSERT query to its target list.  Changes query in place. all_columns: afterwards the target
 * list has all columns, because the node's table may have other defaults.  Sets cxt->reason if a part cannot be
 * printed.
 */
extern void shard_whole_insert_fit(Query *query, bool all_columns, ShardWholeContext *cxt);

#endif
