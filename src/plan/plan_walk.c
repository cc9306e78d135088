/*
 * plan/plan_walk.c
 *	  Visits all nodes of a finished plan.
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "plan/plan_walk.h"

static bool
walk_list(List *plans, ShardPlanVisit visit, void *context)
{
	foreach_ptr(Plan, plan, plans)
	{
		if (shard_plan_walk(plan, visit, context))
			return true;
	}
	return false;
}

/* Walks over the plans below a node, except its left and right tree. */
static bool
walk_others(Plan *plan, ShardPlanVisit visit, void *context)
{
	switch (nodeTag(plan))
	{
		case T_Append:
			return walk_list(((Append *) plan)->appendplans, visit, context);
		case T_MergeAppend:
			return walk_list(((MergeAppend *) plan)->mergeplans, visit, context);
		case T_BitmapAnd:
			return walk_list(((BitmapAnd *) plan)->bitmapplans, visit, context);
		case T_BitmapOr:
			return walk_list(((BitmapOr *) plan)->bitmapplans, visit, context);
		case T_SubqueryScan:
			return shard_plan_walk(((SubqueryScan *) plan)->subplan, visit, context);
		case T_CustomScan:
			return walk_list(((CustomScan *) plan)->custom_plans, visit, context);
		default:
			return false;
	}
}

bool
shard_plan_walk(Plan *plan, ShardPlanVisit visit, void *context)
{
	if (plan == NULL)
		return false;
	check_stack_depth();
	return visit(plan, context) ||
		walk_others(plan, visit, context) ||
		shard_plan_walk(plan->lefttree, visit, context) ||
		shard_plan_walk(plan->righttree, visit, context);
}

bool
shard_plan_walk_statement(const PlannedStmt *stmt, ShardPlanVisit visit, void *context)
{
	return shard_plan_walk(stmt->planTree, visit, context) ||
		walk_list(stmt->subplans, visit, context);
}
