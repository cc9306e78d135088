/*
 * multi_assign.h
 *	  Splits multi-column assignments into one sub-select for each column.
 */
#ifndef SHARDFDW_MULTI_ASSIGN_H
#define SHARDFDW_MULTI_ASSIGN_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * Replaces (a, b) = (SELECT x, y ...) in targets, the target list of an UPDATE, by a = (SELECT x ...), b = (SELECT y
 * ...).  Returns a new list; targets is not changed.  Returns NIL if the assignment cannot be split: a volatile
 * function would be called once for each column, or the sub-select is a UNION or similar, in which every column
 * affects the result.
 */
extern List *shard_multi_assign_split(List *targets);

#endif
