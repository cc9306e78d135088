/*
 * jit.c
 *	  Decides whether JIT compilation pays for a plan whose cost is mostly on the nodes.
 *
 * Core decides by the total cost of a plan.  The cost of a foreign scan is mostly work of the nodes, which JIT
 * compilation on the coordinator does not speed up.  Compiling a Finalize Aggregate over a few groups would take
 * longer than running it.  So the decision is made again, with the cost of the coordinator's work only.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "jit/jit.h"
#include "plan/plan_walk.h"
#include "planner/jit.h"
#include "planner/path/cost.h"

/* Adds the cost of a foreign scan of ours to a Cost, without the cost of receiving its rows. */
static bool
add_remote_cost(Plan *plan, void *cost)
{
	if (IsA(plan, ForeignScan) && shard_option_is_our_server(((ForeignScan *) plan)->fs_server))
		*(Cost *) cost += Max(0, plan->total_cost - shard_cost_receive(plan->plan_rows));
	return false;
}

void
shard_jit_adjust(PlannedStmt *stmt)
{
	Cost		remote = 0;
	Cost		local;

	if (stmt->jitFlags == PGJIT_NONE || stmt->planTree == NULL)
		return;

	/* the costs of subplans are included in the costs of the plan nodes that call them */
	(void) shard_plan_walk_statement(stmt, add_remote_cost, &remote);
	local = stmt->planTree->total_cost - remote;
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
