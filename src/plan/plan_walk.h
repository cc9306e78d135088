/*
 * plan/plan_walk.h
 *	  Visits all nodes of a finished plan.
 */
#ifndef SHARDFDW_PLAN_WALK_H
#define SHARDFDW_PLAN_WALK_H

#include "postgres.h"

#include "nodes/plannodes.h"

/* Visits one node.  True ends the walk. */
typedef bool (*ShardPlanVisit) (Plan *plan, void *context);

/*
 * Calls visit for plan (NULL: no call), then for all plans below it, except subplans that expressions call (see
 * shard_plan_walk_statement()).  Returns whether a call returned true.
 */
extern bool shard_plan_walk(Plan *plan, ShardPlanVisit visit, void *context);

/* The same for the plan of a statement, including its sub-selects and WITH queries. */
extern bool shard_plan_walk_statement(const PlannedStmt *stmt, ShardPlanVisit visit, void *context);

#endif
