/*
 * multi_assign.h
 *	  Multi-column assignments as one sub-select for each column.
 */
#ifndef SHARDFDW_MULTI_ASSIGN_H
#define SHARDFDW_MULTI_ASSIGN_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * targets, a target list of UPDATE, with (a, b) = (SELECT x, y ...) as a = (SELECT x ...), b = (SELECT y ...).
 * NIL when that cannot be: a volatile function would be called once for each column, or the sub-select is a UNION or
 * the like, all of whose columns count.  Result: a new list; targets is not changed.
 */
extern List *shard_multi_assign_split(List *targets);

#endif
