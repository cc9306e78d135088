/*
 * group_target.c
 *	  The columns of a grouping's remote query, and its target for core.
 */
#include "postgres.h"

#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "planner/upper/group_parts.h"
#include "planner/upper/upper_tools.h"

/*
 * Grouping expressions without columns (constants, parameters) are not fetched: the scan's projection computes them.
 * They must not be in the query's target list.  Otherwise core would find the scan's parameters there and read them
 * from a row.
 */
ShardRelInfo *
shard_group_make_info(const ShardRelInfo *input, ShardRelKind kind, List *group_exprs,
					  List *aggs)
{
	ShardRelInfo *info = palloc(sizeof(ShardRelInfo));
	ShardRemoteQuery *query = palloc0(sizeof(ShardRemoteQuery));

	*info = *input;
	info->kind = kind;
	info->query = query;
	query->from = input->from;
	query->driver = input->relid;
	query->aggregated = true;
	query->group_exprs = group_exprs;
	foreach_ptr(Node, expr, group_exprs)
	{
		if (contain_var_clause(expr))
			query->tlist = add_to_flat_tlist(query->tlist, list_make1(expr));
	}
	query->tlist = add_to_flat_tlist(query->tlist, aggs);
	return info;
}

PathTarget *
shard_group_make_target(PlannerInfo *root, PathTarget *target, List *group_exprs)
{
	PathTarget *result = create_empty_pathtarget();

	foreach_ptr(Expr, group_expr, group_exprs)
	{
		bool		found = false;
		int			i = 0;

		foreach_ptr(Expr, expr, target->exprs)
		{
			Index		ref = get_pathtarget_sortgroupref(target, i++);

			if (ref == 0 || !equal(expr, group_expr) ||
				get_sortgroupref_clause_noerr(ref, root->parse->groupClause) == NULL)
				continue;
			add_column_to_pathtarget(result, group_expr, ref);
			found = true;
		}
		if (!found)
			add_column_to_pathtarget(result, group_expr, 0);
	}
	return result;
}
