/*
 * order_path.c
 *	  ORDER BY on the nodes: each sorts its rows, the scan merges the streams.
 *
 *	  rows, whole groups, windows, DISTINCT -> sorted by each remote query
 *											-> merged by the scan (executor)
 */
#include "postgres.h"

#include <math.h>

#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "planner/cost.h"
#include "planner/upper.h"

/* Elapsed time of sorting rows by the nodes, all at a time, and of merging them here. */
static void
cost_sorted_streams(ShardRelInfo *info)
{
	double		nqueries = Max(info->nexpected, 1);
	double		compare = 2.0 * cpu_operator_cost;

	info->remote_cost += info->rows / Min(nqueries, 2.0 * Max(info->map->nnodes, 1)) *
		compare * log2(Max(info->rows / nqueries, 2.0));
	info->remote_cost += info->rows * compare * log2(nqueries + 1);
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
	info->width = target->width;
	if (info->query->sort != NIL)
		cost_sorted_streams(info);

	output_rel->fdw_private = info;
	add_path(output_rel, shard_upper_make_path(root, output_rel, target, root->sort_pathkeys));
}
