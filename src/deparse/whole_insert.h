/*
 * whole_insert.h
 *	  The rows of a shipped INSERT.
 */
#ifndef SHARDFDW_WHOLE_INSERT_H
#define SHARDFDW_WHOLE_INSERT_H

#include "postgres.h"

#include "deparse/whole_expr.h"
#include "nodes/parsenodes.h"

/* The target list of an INSERT with NULL for each column of relid that it does not name. */
extern List *shard_whole_insert_all(Oid relid, List *targets);

/*
 * Makes the rows that the INSERT query takes fit its target list; changes query
 * in place.  all_columns: the target list names all columns afterwards, as the node's table
 * may have other defaults.  Sets cxt->reason when something cannot be printed.
 */
extern void shard_whole_insert_fit(Query *query, bool all_columns, ShardWholeContext *cxt);

#endif
