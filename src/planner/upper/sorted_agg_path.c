/*
 * sorted_agg_path.c
 *	  Aggregates with ORDER BY over rows that the nodes have sorted.
 *
 *	  GroupAggregate: agg(x ORDER BY y) GROUP BY g, computed on the coordinator
 *		-> Foreign Scan: SELECT g, x, y ... ORDER BY g, y; streams merged
 *
 * The nodes sort in parallel.  From 16 on, core makes the order of the aggregates part of the order of the grouping,
 * and does not sort again.  On 15 an aggregate still sorts the rows of its group.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_aggregate.h"
#include "compat.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "planner/path/cost.h"
#include "planner/path/sort_path.h"
#include "planner/upper/group_parts.h"
#include "planner/upper/upper_tools.h"

static bool
has_order(List *aggs)
{
	foreach_node(Aggref, agg, aggs)
	{
		if (agg->aggkind == AGGKIND_NORMAL && (agg->aggorder != NIL || agg->aggdistinct != NIL))
			return true;
	}
	return false;
}

bool
shard_sorted_agg_add_paths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel,
						   List *having, List *aggs, double ngroups)
{
	PathTarget *target = input_rel->reltarget;
	List	   *group_clause = shard_group_clause(root);
	ShardRelInfo *info;
	AggClauseCosts costs;
	Path	   *path;

	if (root->group_pathkeys == NIL || !has_order(aggs) || !grouping_is_sortable(group_clause))
		return false;
	info = shard_upper_make_info(input_rel->fdw_private, target->exprs);
	if (info == NULL)
		return shard_upper_refuse("sorted grouping", "a column cannot travel");
	info->query->sort = shard_sort_clauses(root, input_rel, info, root->group_pathkeys);
	if (info->query->sort == NIL)
		return shard_upper_refuse("sorted grouping", "the order of an expression may be another one on nodes");
	foreach_ptr(ShardSort, sort, info->query->sort)
		shard_upper_add_output(info->query, sort->expr);
	info->width = target->width;
	info->remote_cost += shard_upper_sort_cost(info) +
		info->rows * 2.0 * cpu_operator_cost * log2(Max(info->nexpected, 1));

	MemSet(&costs, 0, sizeof(costs));
	get_agg_clause_costs(root, AGGSPLIT_SIMPLE, &costs);
	path = shard_upper_make_path(root, shard_upper_make_rel(output_rel, target, info), target,
								 root->group_pathkeys);
	add_path(output_rel, (Path *)
			 create_agg_path(root, output_rel, path, output_rel->reltarget,
							 root->parse->groupClause != NIL ? AGG_SORTED : AGG_PLAIN,
							 AGGSPLIT_SIMPLE, group_clause, having, &costs, ngroups));
	return true;
}
