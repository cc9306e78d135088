/*
 * async_subplan.c
 *	  Scans that core must not run asynchronously.
 *
 *	 Append
 *	   -> Async Foreign Scan on t_0		Filter: NOT (hashed SubPlan 1)
 *	   -> Async Foreign Scan on t_1		Filter: NOT (hashed SubPlan 1)
 *
 * The scans share the plan of the sub-select, but each scan has a separate hash table for it.  If a parameter of the
 * sub-select (from an outer query) has changed, the first scan that needs its hash table builds it again.  That
 * clears the mark (chgParam) that tells the other scans to do so, too: see ExecHashSubPlan() and ExecReScan().  If
 * the scans run one after the other, this is harmless, because each scan sets the mark again when it begins.
 * Asynchronous scans have all begun before, so they use hash tables of an earlier value.  (Seen on 15 with scans of
 * ours, on 18 and 19 with scans of postgres_fdw.)
 *
 * Asynchronous scans compute a row each before Append returns the first one.  But a volatile function that reads
 * tables must see the changes for earlier rows: UPDATE t SET a = f() writes a row before it computes the next one.
 * So statements that call such functions have no asynchronous scans.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "plan/plan_functions.h"
#include "plan/plan_walk.h"
#include "planner/async_subplan.h"

/* Finds a hashed sub-select that depends on outer parameters.  Its plan is in the statement's list of subplans. */
static bool
find_changing_hash(Node *node, void *stmt)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) && ((SubPlan *) node)->useHashTable)
	{
		Plan	   *plan = list_nth(((PlannedStmt *) stmt)->subplans, ((SubPlan *) node)->plan_id - 1);

		if (plan != NULL && !bms_is_empty(plan->extParam))
			return true;
	}
	return expression_tree_walker(node, find_changing_hash, stmt);
}

static bool
uses_changing_hash(const Plan *scan, PlannedStmt *stmt)
{
	return find_changing_hash((Node *) scan->qual, stmt) ||
		find_changing_hash((Node *) scan->targetlist, stmt);
}

static bool
is_ours(const Plan *plan)
{
	return IsA(plan, ForeignScan) && shard_option_is_our_server(((const ForeignScan *) plan)->fs_server);
}

/* The statement whose plans are adjusted. */
typedef struct AsyncAdjust
{
	PlannedStmt *stmt;
	bool		in_step;		/* no scan of ours may be asynchronous */
} AsyncAdjust;

/*
 * Makes the scans of an Append synchronous if one of them is ours, including scans of other wrappers, which share the
 * sub-select.
 */
static bool
adjust_append(Plan *plan, void *context)
{
	const AsyncAdjust *adjust = context;
	Append	   *append = (Append *) plan;
	List	   *scans = NIL;
	bool		any_ours = false;
	ListCell   *lc;

	if (!IsA(plan, Append) || append->nasyncplans == 0)
		return false;
	foreach_ptr(Plan, child, append->appendplans)
	{
		if (child->async_capable && (adjust->in_step ? is_ours(child) : uses_changing_hash(child, adjust->stmt)))
			scans = lappend(scans, child);
	}
	foreach(lc, scans)
		any_ours |= is_ours(lfirst(lc));
	if (any_ours)
	{
		foreach(lc, scans)
			((Plan *) lfirst(lc))->async_capable = false;
		append->nasyncplans -= list_length(scans);
	}
	return false;
}

void
shard_async_subplan_adjust(PlannedStmt *stmt)
{
	AsyncAdjust adjust = {stmt, (shard_plan_functions_of_statement(stmt) & SHARD_FUNCTIONS_VOLATILE) != 0};

	(void) shard_plan_walk_statement(stmt, adjust_append, &adjust);
}
