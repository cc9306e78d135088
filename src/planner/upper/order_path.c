/*
 * order_path.c
 *	  ORDER BY on the nodes: each remote query sorts its rows, and the scan merges the streams.
 *
 *	  rows, complete groups, windows, DISTINCT -> sorted by each remote query
 *											   -> merged by the scan (executor)
 */
#include "postgres.h"

#include <math.h>

#include "compat.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "planner/path/cost.h"
#include "planner/upper/upper.h"
#include "planner/upper/upper_tools.h"

/*
 * Removes columns that only expressions of ORDER BY need from the remote query.  The nodes compute these expressions.
 * The columns, such as documents and vectors, may be much wider than the expressions.
 */
static List *
leave_out_columns(const ShardRemoteQuery *query, const PathTarget *target)
{
	List	   *others = NIL;
	List	   *vars;
	List	   *tlist = NIL;

	foreach_ptr(Expr, expr, target->exprs)
	{
		bool		is_sorted = false;

		foreach_ptr(const ShardSort, sort, query->sort)
			is_sorted |= equal(sort->expr, expr);
		if (!is_sorted || IsA(expr, Var))
			others = lappend(others, expr);
	}
	vars = pull_var_clause((Node *) others, PVC_INCLUDE_PLACEHOLDERS);
	foreach_node(TargetEntry, entry, query->tlist)
	{
		if (!IsA(entry->expr, Var) || list_member(vars, entry->expr))
			tlist = lappend(tlist, makeTargetEntry(entry->expr, list_length(tlist) + 1, NULL, false));
	}
	return tlist;
}

void
shard_order_add_paths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel)
{
	const ShardRelInfo *input = input_rel->fdw_private;
	PathTarget *target = root->upper_targets[UPPERREL_ORDERED];
	ShardRelInfo *info = shard_upper_make_info(input, target->exprs);

	if (info == NULL)
	{
		(void) shard_upper_refuse("sort", "a column cannot travel");
		return;
	}
	info->query->sort = NIL;
	if (!shard_upper_add_sort(root, info, root->parse->sortClause, root->processed_tlist))
		return;
	if (input->query == NULL)
		info->query->tlist = leave_out_columns(info->query, target);
	info->width = target->width;
	if (info->query->sort != NIL)
		info->remote_cost += shard_upper_sort_cost(info) +
			info->rows * 2.0 * cpu_operator_cost * log2(Max(info->nexpected, 1));

	output_rel->fdw_private = info;
	add_path(output_rel, shard_upper_make_path(root, output_rel, target, root->sort_pathkeys));
}
