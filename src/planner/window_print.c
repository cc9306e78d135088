/*
 * window_print.c
 *	  Makes plans with remote window functions ones that EXPLAIN can print.
 *
 * The list of what a foreign scan returns holds the WindowFuncs that nodes
 * compute.  From 18 on core looks for the WindowAgg of each WindowFunc that it
 * prints, and fails when there is none.  Nobody evaluates the list, and core
 * has no more use for the functions in it once the references to it are set;
 * so in the finished plan they become plain calls: rank() instead of rank()
 * OVER (...).  Remote SQL says what they are.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "planner/window_print.h"

static void replace_in_plan(Plan *plan);

static Node *
replace_mutator(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, WindowFunc))
	{
		WindowFunc *func = (WindowFunc *) node;

		return (Node *) makeFuncExpr(func->winfnoid, func->wintype,
									 (List *) replace_mutator((Node *) func->args, context),
									 func->wincollid, func->inputcollid, COERCE_EXPLICIT_CALL);
	}
	return expression_tree_mutator(node, replace_mutator, context);
}

static void
replace_in_plans(List *plans)
{
	ListCell   *lc;

	foreach(lc, plans)
		replace_in_plan(lfirst(lc));
}

static void
replace_in_scan(ForeignScan *scan)
{
	ListCell   *lc;

	if (!shard_option_is_our_server(scan->fs_server))
		return;
	foreach(lc, scan->fdw_scan_tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);

		if (IsA(entry->expr, WindowFunc))
			entry->expr = (Expr *) replace_mutator((Node *) entry->expr, NULL);
	}
}

static void
replace_in_plan(Plan *plan)
{
	if (plan == NULL)
		return;
	replace_in_plan(plan->lefttree);
	replace_in_plan(plan->righttree);
	switch (nodeTag(plan))
	{
		case T_ForeignScan:
			replace_in_scan((ForeignScan *) plan);
			break;
		case T_Append:
			replace_in_plans(((Append *) plan)->appendplans);
			break;
		case T_MergeAppend:
			replace_in_plans(((MergeAppend *) plan)->mergeplans);
			break;
		case T_SubqueryScan:
			replace_in_plan(((SubqueryScan *) plan)->subplan);
			break;
		case T_CustomScan:
			replace_in_plans(((CustomScan *) plan)->custom_plans);
			break;
		default:
			break;
	}
}

void
shard_window_print_replace(PlannedStmt *stmt)
{
	replace_in_plan(stmt->planTree);
	replace_in_plans(stmt->subplans);
}
