/*
 * whole_insert.h
 *	  The rows of a shipped INSERT.
 */
#ifndef SHARDFDW_WHOLE_INSERT_H
#define SHARDFDW_WHOLE_INSERT_H

#include "postgres.h"

#include "deparse/whole_expr.h"
#include "nodes/parsenodes.h"

/*
 * Makes the rows that the INSERT query takes fit its target list; changes query
 * in place.  Sets cxt->reason when something cannot be printed.
 */
extern void shard_whole_insert_fit(Query *query, ShardWholeContext *cxt);

#endif
