/*
 * async_subplan.c
 *	  Finds the scans that core must not run asynchronously.
 *
 *	 Append
 *	   -> Async Foreign Scan on t_0		Filter: NOT (hashed SubPlan 1)
 *	   -> Async Foreign Scan on t_1		Filter: NOT (hashed SubPlan 1)
 *
 * The scans share the plan of the sub-select, but each scan has a separate hash table for it.  If a parameter of the
 * sub-select (from an outer query) has changed, the first scan that needs its hash table builds it again.  That clears
 * the mark (chgParam) that tells the other scans to do so, too: see ExecHashSubPlan() and ExecReScan().  If the scans
 * run one after the other, this is harmless, because each scan sets the mark again when it begins.  Asynchronous scans
 * have all begun before, so they use hash tables of an earlier value.  (Seen on 15 with scans of ours, on 18 and 19
 * with scans of postgres_fdw.)
 *
 * Asynchronous scans compute a row each before Append returns the first one.  But a volatile function that reads tables
 * must see the changes for earlier rows: UPDATE t SET a = f() writes a row before it computes the next one.  So
 * statements that call such functions have no asynchronous scans.  The same is true for conditions with a sub-select
 * that depends on the row and locks rows: the sub-select leaves out rows that the statement has changed already.
 *
 * A hashed sub-select that locks rows must run only once, as for a plain table.  So its rows are kept (Material) for
 * the hash tables of all scans.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "compat.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "plan/plan_functions.h"
#include "plan/plan_walk.h"
#include "planner/async_subplan.h"

static Plan *
plan_of(const SubPlan *subplan, const PlannedStmt *stmt)
{
	return list_nth(stmt->subplans, subplan->plan_id - 1);
}

static bool
is_lock_rows(Plan *plan, void *context)
{
	return IsA(plan, LockRows);
}

/*
 * Finds a hashed sub-select that depends on outer parameters, or a sub-select that depends on the row and locks rows
 * for a statement that writes.
 */
static bool
find_dependent(Node *node, void *context)
{
	const PlannedStmt *stmt = context;

	if (node == NULL)
		return false;
	if (IsA(node, SubPlan))
	{
		const SubPlan *subplan = (const SubPlan *) node;
		Plan	   *plan = plan_of(subplan, stmt);

		if (subplan->useHashTable && plan != NULL && !bms_is_empty(plan->extParam))
			return true;
		if (subplan->parParam != NIL && (stmt->commandType != CMD_SELECT || stmt->hasModifyingCTE) &&
			shard_plan_walk(plan, is_lock_rows, NULL))
			return true;
	}
	return expression_tree_walker(node, find_dependent, context);
}

static bool
uses_dependent(const Plan *scan, PlannedStmt *stmt)
{
	return find_dependent((Node *) scan->qual, stmt) ||
		find_dependent((Node *) scan->targetlist, stmt);
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

	if (!IsA(plan, Append) || append->nasyncplans == 0)
		return false;
	foreach_ptr(Plan, child, append->appendplans)
	{
		if (child->async_capable && (adjust->in_step ? is_ours(child) : uses_dependent(child, adjust->stmt)))
			scans = lappend(scans, child);
	}
	foreach_ptr(Plan, scan, scans)
		any_ours |= is_ours(scan);
	if (any_ours)
	{
		foreach_ptr(Plan, scan, scans)
			scan->async_capable = false;
		append->nasyncplans -= list_length(scans);
	}
	return false;
}

/* Returns a plan that keeps the rows of lower, which is finished. */
static Plan *
keep_rows(Plan *lower)
{
	Material   *material = makeNode(Material);

	foreach_node(TargetEntry, entry, lower->targetlist)
	{
		Var		   *var = makeVarFromTargetEntry(OUTER_VAR, (TargetEntry *) entry);

		material->plan.targetlist = lappend(material->plan.targetlist,
											makeTargetEntry((Expr *) var, entry->resno, entry->resname, entry->resjunk));
	}
	material->plan.startup_cost = lower->startup_cost;
	material->plan.total_cost = lower->total_cost;
	material->plan.plan_rows = lower->plan_rows;
	material->plan.plan_width = lower->plan_width;
	material->plan.plan_node_id = lower->plan_node_id;
	material->plan.extParam = bms_copy(lower->extParam);
	material->plan.allParam = bms_copy(lower->allParam);
	material->plan.lefttree = lower;
	return &material->plan;
}

/* Makes hashed sub-selects of an expression that lock rows run only once. */
static bool
keep_locked_walker(Node *node, void *context)
{
	PlannedStmt *stmt = context;

	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) && ((SubPlan *) node)->useHashTable)
	{
		const SubPlan *subplan = (const SubPlan *) node;
		ListCell   *cell = list_nth_cell(stmt->subplans, subplan->plan_id - 1);

		if (lfirst(cell) != NULL && !IsA(lfirst(cell), Material) && shard_plan_walk(lfirst(cell), is_lock_rows, NULL))
		{
			lfirst(cell) = keep_rows(lfirst(cell));
			stmt->rewindPlanIDs = bms_add_member(stmt->rewindPlanIDs, subplan->plan_id);
		}
	}
	return expression_tree_walker(node, keep_locked_walker, context);
}

static bool
keep_locked(Plan *plan, void *context)
{
	return keep_locked_walker((Node *) plan->qual, context) || keep_locked_walker((Node *) plan->targetlist, context);
}

void
shard_async_subplan_adjust(PlannedStmt *stmt)
{
	AsyncAdjust adjust = {stmt, (shard_plan_functions_of_statement(stmt) & SHARD_FUNCTIONS_VOLATILE) != 0};

	(void) shard_plan_walk_statement(stmt, adjust_append, &adjust);
	if (stmt->rowMarks != NIL && stmt->subplans != NIL)
		(void) shard_plan_walk_statement(stmt, keep_locked, stmt);
}
