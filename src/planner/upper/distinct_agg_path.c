/*
 * distinct_agg_path.c
 *	  Aggregates with DISTINCT, such as count(DISTINCT x), over distinct rows.
 *
 *	  GroupAggregate: the unchanged aggregates, computed on the coordinator
 *		-> Sort
 *			-> Foreign Scan: SELECT g, x ... GROUP BY g, x
 *
 * The aggregate gets the same rows without most of the duplicates, which it would drop anyway: each remote query
 * removes duplicates among its own rows.  Arguments and FILTER are sent as values, so this works for any aggregate.
 * Aggregates whose result does not depend on duplicates (min(), max() and others) can be computed from the same rows,
 * if they need no other columns.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog_scan.h"
#include "compat.h"
#include "deparse/shippable/shippable.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "planner/path/cost.h"
#include "planner/upper/group_parts.h"
#include "planner/upper/upper_tools.h"
#include "utils/selfuncs.h"

static bool
refuse(const char *reason)
{
	return shard_upper_refuse("grouping of distinct rows", reason);
}

/* Built-in aggregates with a sort operator: their result is the value of one row (min, max, bool_and, ...). */
bool
shard_distinct_agg_ignores_duplicates(const Aggref *agg)
{
	HeapTuple	tuple;
	bool		result;

	if (agg->aggfnoid >= FirstGenbkiObjectId)
		return false;
	tuple = shard_catalog_row(AGGFNOID, agg->aggfnoid);
	result = OidIsValid(((Form_pg_aggregate) GETSTRUCT(tuple))->aggsortop);
	ReleaseSysCache(tuple);
	return result;
}

/*
 * The expressions from which the aggregate is computed: arguments and FILTER, except those that do not depend on
 * rows.
 */
static List *
pull_inputs(const Aggref *agg)
{
	List	   *result = NIL;

	foreach_node(TargetEntry, entry, agg->args)
	{
		Expr	   *arg = entry->expr;

		if (contain_var_clause((Node *) arg))
			result = lappend(result, arg);
	}
	if (agg->aggfilter != NULL && contain_var_clause((Node *) agg->aggfilter))
		result = lappend(result, agg->aggfilter);
	return result;
}

/* The inputs of all aggregates, without duplicates.  False if an aggregate needs every row. */
static bool
collect_inputs(List *aggs, List *group_exprs, List **inputs)
{
	*inputs = NIL;
	foreach_node(Aggref, agg, aggs)
	{
		foreach_node(SortGroupClause, clause, agg->aggdistinct)
		{
			if (clause->eqop >= FirstGenbkiObjectId)
				return refuse("the equality of a DISTINCT is not built in");
		}
		if (agg->aggdistinct != NIL)
			*inputs = list_concat_unique(*inputs, pull_inputs(agg));
		else if (!shard_distinct_agg_ignores_duplicates(agg))
			return refuse("an aggregate counts duplicates");
	}
	foreach_node(Aggref, agg, aggs)
	{
		if (agg->aggdistinct == NIL &&
			list_difference(list_difference(pull_inputs(agg), *inputs), group_exprs) != NIL)
			return refuse("an aggregate needs more columns");
	}
	return *inputs != NIL;
}

/* Adds the aggregates over path, which returns the distinct rows. */
static void
add_agg_path(PlannerInfo *root, RelOptInfo *output_rel, Path *path, List *having, double ngroups)
{
	List	   *group_clause = shard_group_clause(root);
	AggClauseCosts costs;

	MemSet(&costs, 0, sizeof(costs));
	get_agg_clause_costs(root, AGGSPLIT_SIMPLE, &costs);

	/* from 16 on, the aggregates rely on this order, too */
	if (root->group_pathkeys != NIL)
		path = (Path *) create_sort_path(root, output_rel, path, root->group_pathkeys, -1.0);
	add_path(output_rel, (Path *)
			 create_agg_path(root, output_rel, path, output_rel->reltarget,
							 root->parse->groupClause != NIL ? AGG_SORTED : AGG_PLAIN,
							 AGGSPLIT_SIMPLE, group_clause, having, &costs, ngroups));
}

bool
shard_distinct_agg_add_paths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel,
							 List *having, List *group_exprs, List *aggs, double ngroups)
{
	const ShardRelInfo *input = input_rel->fdw_private;
	PathTarget *target;
	ShardRelInfo *info;
	List	   *inputs;
	List	   *exprs;
	double		ndistinct;

	if (!collect_inputs(aggs, group_exprs, &inputs))
		return false;
	if (!grouping_is_sortable(shard_group_clause(root)))
		return refuse("groups cannot be sorted");
	foreach_ptr(Expr, expr, inputs)
	{
		if (!shard_shippable_group_expr(root, input->from->relids, expr))
			return refuse("an argument must be evaluated or compared on the coordinator");
	}

	target = shard_group_make_target(root, output_rel->reltarget, group_exprs);
	foreach_ptr(Expr, expr, list_difference(inputs, group_exprs))
		add_column_to_pathtarget(target, expr, 0);
	set_pathtarget_cost_width(root, target);

	exprs = list_concat_unique(list_copy(group_exprs), inputs);
	info = shard_group_make_info(input, SHARD_REL_UPPER, exprs, NIL);
	ndistinct = estimate_num_groups(root, exprs, input->rows, NULL, NULL);
	info->rows = shard_upper_grouped_rows(ndistinct, input->nexpected, input);
	info->width = target->width;
	shard_cost_group(target, input, input->rows, list_length(exprs), info);
	shard_upper_combine_on_nodes(info, input, ndistinct);

	add_agg_path(root, output_rel,
				 shard_upper_make_path(root, shard_upper_make_rel(output_rel, target, info),
									   target, NIL),
				 having, ngroups);
	return true;
}
