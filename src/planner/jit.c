/*
 * jit.c
 *	  Whether compiling expressions pays for a plan whose cost lies mostly on nodes.
 *
 * Core decides by the total cost of a plan.  That of a foreign scan is what its
 * nodes do, where JIT compilation here has nothing to speed up; a Finalize
 * Aggregate over a few groups would be compiled for longer than it runs.  So
 * the decision is made again with the cost of what is left for this server.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "jit/jit.h"
#include "nodes/pg_list.h"
#include "planner/cost.h"
#include "planner/jit.h"

static Cost remote_cost(Plan *plan);

static Cost
remote_cost_of_list(List *plans)
{
	Cost		cost = 0;
	ListCell   *lc;

	foreach(lc, plans)
		cost += remote_cost(lfirst(lc));
	return cost;
}

/* Cost of foreign scans in a plan tree, but for receiving their rows. */
static Cost
remote_cost(Plan *plan)
{
	Cost		cost;

	if (plan == NULL)
		return 0;

	cost = remote_cost(plan->lefttree) + remote_cost(plan->righttree);
	switch (nodeTag(plan))
	{
		case T_ForeignScan:
			if (shard_option_is_our_server(((ForeignScan *) plan)->fs_server))
				cost += Max(0, plan->total_cost - shard_cost_receive(plan->plan_rows));
			break;
		case T_Append:
			cost += remote_cost_of_list(((Append *) plan)->appendplans);
			break;
		case T_MergeAppend:
			cost += remote_cost_of_list(((MergeAppend *) plan)->mergeplans);
			break;
		case T_CustomScan:
			cost += remote_cost_of_list(((CustomScan *) plan)->custom_plans);
			break;
		case T_SubqueryScan:
			cost += remote_cost(((SubqueryScan *) plan)->subplan);
			break;
		default:
			break;
	}
	return cost;
}

void
shard_jit_adjust(PlannedStmt *stmt)
{
	Cost		local;

	if (stmt->jitFlags == PGJIT_NONE || stmt->planTree == NULL)
		return;

	/* the subplans' costs are part of the nodes' that call them */
	local = stmt->planTree->total_cost - remote_cost(stmt->planTree) -
		remote_cost_of_list(stmt->subplans);
	if (local <= jit_above_cost)
		stmt->jitFlags = PGJIT_NONE;
	else
	{
		if (jit_optimize_above_cost >= 0 && local <= jit_optimize_above_cost)
			stmt->jitFlags &= ~PGJIT_OPT3;
		if (jit_inline_above_cost >= 0 && local <= jit_inline_above_cost)
			stmt->jitFlags &= ~PGJIT_INLINE;
	}
}
