/*
 * plan/plan_walk.h
 *	  Looks at all nodes of a finished plan.
 */
#ifndef SHARDFDW_PLAN_WALK_H
#define SHARDFDW_PLAN_WALK_H

#include "postgres.h"

#include "nodes/plannodes.h"

/* Looks at one node. True: that is enough, no other is looked at. */
typedef bool (*ShardPlanVisit) (Plan *plan, void *context);

/*
 * Calls visit for plan (NULL: no call), then for all plans below it.  Sub-plans that
 * expressions call are not below it (shard_plan_walk_statement() has them).
 * Returns whether a call returned true.
 */
extern bool shard_plan_walk(Plan *plan, ShardPlanVisit visit, void *context);

/* The same for the plan of a statement and those of its sub-selects and WITH queries. */
extern bool shard_plan_walk_statement(const PlannedStmt *stmt, ShardPlanVisit visit, void *context);

#endif
