/*
 * window_print.c
 *	  Changes plans with remote window functions so that EXPLAIN can print them.
 *
 * The target list of a foreign scan has the WindowFuncs that nodes compute.  From 18 on, core looks for the WindowAgg
 * of each WindowFunc that it prints, and fails if there is none.  The list is never evaluated, and core does not need
 * the functions once it has set the references to them.  So in the finished plan they become plain function calls:
 * rank() instead of rank() OVER (...).  EXPLAIN's Remote SQL shows the whole call.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "compat.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "plan/plan_walk.h"
#include "planner/window_print.h"

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

static bool
replace_in_plan(Plan *plan, void *context)
{
	if (!IsA(plan, ForeignScan) || !shard_option_is_our_server(((ForeignScan *) plan)->fs_server))
		return false;
	foreach_node(TargetEntry, entry, ((ForeignScan *) plan)->fdw_scan_tlist)
	{
		if (IsA(entry->expr, WindowFunc))
			entry->expr = (Expr *) replace_mutator((Node *) entry->expr, NULL);
	}	return false;
}

void
shard_window_print_replace(PlannedStmt *stmt)
{
	(void) shard_plan_walk_statement(stmt, replace_in_plan, NULL);
}
