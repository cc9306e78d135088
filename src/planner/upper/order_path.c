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
#include "planner/path/cost.h"
#include "planner/upper/upper.h"
#include "planner/upper/upper_tools.h"

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
		info->remote_cost += shard_upper_sort_cost(info) +
			info->rows * 2.0 * cpu_operator_cost * log2(Max(info->nexpected, 1));

	output_rel->fdw_private = info;
	add_path(output_rel, shard_upper_make_path(root, output_rel, target, root->sort_pathkeys));
}
