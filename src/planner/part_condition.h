/*
 * part_condition.h
 *	  Conditions on the rows that the parts of a statement (WITH) change.
 *
 * If two parts change rows of one table, the executor checks with these conditions that no row satisfies both
 * (executor/modify/cte_order.c).
 */
#ifndef SHARDFDW_PART_CONDITION_H
#define SHARDFDW_PART_CONDITION_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/*
 * Result: a list with one list of conditions for each part that core plans as ModifyTable, in the order of the
 * plans; NIL if the statement has a single part.  Call it before core plans the statement.
 */
extern List *shard_part_condition_collect(const Query *query);

/*
 * Stores the conditions in the finished plan, as the qual of each ModifyTable, which core does not use.  The
 * conditions are ANDed.  Their Vars have varno 1 and the attribute numbers of the table that the part names.
 */
extern void shard_part_condition_attach(PlannedStmt *stmt, List *conditions);

#endif
