/*
 * window_path.c
 *	  Window functions computed by the nodes.
 *
 * If the shard key is among the PARTITION BY columns of a window, each partition of the window lies on one shard.  So
 * each node computes the windows over its own rows, or over its complete groups.  Nodes compute all windows of the
 * level or none.
 *
 * Core may move conditions on a window function from above into the window (rank() <= 3, to stop early).  The
 * coordinator checks these above the scan.
 */
#include "postgres.h"

#include "compat.h"
#include "deparse/shippable/shippable.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "planner/path/cost.h"
#include "planner/upper/upper.h"
#include "planner/upper/upper_tools.h"

static bool
refuse(const char *reason)
{
	return shard_upper_refuse("window", reason);
}

/* The window functions in exprs, without duplicates. columns: also the columns and aggregates outside of them. */
static List *
pull_leaves(List *exprs, bool columns)
{
	List	   *result = NIL;

	foreach_ptr(Node, leaf, pull_var_clause((Node *) exprs, PVC_INCLUDE_WINDOWFUNCS | PVC_INCLUDE_AGGREGATES |
								PVC_INCLUDE_PLACEHOLDERS))
	{
		if (columns || IsA(leaf, WindowFunc))
			result = list_append_unique(result, leaf);
	}
	return result;
}

/* The windows of the functions.  NIL if the coordinator must compute one of them. */
static List *
usable_windows(PlannerInfo *root, const ShardRelInfo *input, List *funcs)
{
	List	   *windows = NIL;

	foreach_node(WindowFunc, func, funcs)
	{
		if (!shard_shippable_window_expr(root, input->from->relids, (Expr *) func))
		{
			(void) refuse("a window function must be computed on the coordinator");
			return NIL;
		}
		foreach_node(WindowClause, clause, root->parse->windowClause)
		{
			if (clause->winref == func->winref)
				windows = list_append_unique_ptr(windows, clause);
		}
	}
	foreach_node(WindowClause, window, windows)
	{
		if (!shard_upper_has_key(input, window->partitionClause, root->processed_tlist))
		{
			(void) refuse("a window is not partitioned by the shard key");
			return NIL;
		}
	}
	return windows;
}

/*
 * Turns the conditions that core checks within the windows into conditions of the scan.  False if a condition uses a
 * function that the query does not return.
 */
static bool
add_run_conditions(ShardRelInfo *info, List *funcs)
{
	foreach_node(WindowClause, window, info->query->windows)
	{
		List	   *conditions = shard_window_run_conditions(window, funcs);

		foreach_ptr(Expr, leaf, pull_leaves(conditions, true))
		{
			if (!list_member(funcs, leaf))
				return refuse("a condition is over what does not travel");
		}
		info->local_having = list_concat(info->local_having, conditions);
	}
	return true;
}

void
shard_window_add_paths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel)
{
	const ShardRelInfo *input = input_rel->fdw_private;
	PathTarget *target = root->upper_targets[UPPERREL_WINDOW];
	List	   *leaves = pull_leaves(target->exprs, true);
	List	   *funcs = pull_leaves(target->exprs, false);
	List	   *windows;
	ShardRelInfo *info;
	ListCell   *lc;

	if (input->local_having != NIL)
	{
		(void) refuse("groups are tested on the coordinator before");
		return;
	}
	windows = usable_windows(root, input, funcs);
	if (windows == NIL)
		return;
	info = shard_upper_make_info(input, list_difference(leaves, funcs));
	if (info == NULL)
	{
		(void) refuse("a column cannot travel");
		return;
	}
	info->query->windows = windows;
	info->query->window_tlist = root->processed_tlist;
	foreach(lc, funcs)
		shard_upper_add_output(info->query, lfirst(lc));
	if (!add_run_conditions(info, funcs))
		return;

	info->width = target->width;
	foreach(lc, windows)
		info->remote_cost += shard_upper_sort_cost(info);

	output_rel->fdw_private = info;
	add_path(output_rel, shard_upper_make_path(root, output_rel, target, NIL));
}
