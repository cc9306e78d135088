/*
 * group_path.c
 *	  Groupings that nodes compute.
 *
 *	 complete	Every group lies on one shard: the shard key is grouped by, under the
 *				equality that partitions it, or there is only one shard.  The nodes
 *				return final groups.
 *	 partial	Otherwise each shard's query returns transition states for its
 *				groups, and core's Finalize Aggregate combines them:
 *
 *					Finalize HashAggregate (HAVING)
 *					  -> Foreign Scan: groups and partial states of all shards
 *
 * The remote query returns the grouping expressions and the aggregates of the target list and HAVING.  The
 * coordinator evaluates expressions over aggregates.  The query groups by all of its outputs that are not aggregates.
 */
#include "postgres.h"

#include "access/transam.h"
#include "compat.h"
#include "deparse/shippable/shippable.h"
#include "guc.h"
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
#include "planner/upper/grouping_sets.h"
#include "planner/upper/upper.h"
#include "planner/upper/upper_tools.h"
#include "utils/selfuncs.h"

static bool
refuse(const char *reason)
{
	return shard_upper_refuse("grouping", reason);
}

typedef struct CollectContext
{
	List	   *group_exprs;	/* grouping expressions; the walker does not look inside them */
	List	   *columns;		/* Vars outside of grouping expressions */
	List	   *aggs;
	bool		has_sets;		/* the level has grouping sets, so GROUPING() may differ between groups */
	List	   *groupings;
	bool		unknown;		/* found another type of node */
} CollectContext;

static bool
collect_walker(Node *node, CollectContext *cxt)
{
	if (node == NULL || list_member(cxt->group_exprs, node))
		return false;
	switch (nodeTag(node))
	{
		case T_Aggref:
			cxt->aggs = list_append_unique(cxt->aggs, node);
			return false;
		case T_Var:
			cxt->columns = list_append_unique(cxt->columns, node);
			return false;
		case T_GroupingFunc:
			cxt->unknown |= !cxt->has_sets;
			cxt->groupings = list_append_unique(cxt->groupings, node);
			return cxt->unknown;
		case T_PlaceHolderVar:
			cxt->unknown = true;
			return true;
		default:
			return expression_tree_walker(node, collect_walker, cxt);
	}
}

/*
 * Splits a grouping's target and HAVING into grouping expressions and aggregates, without duplicates.  Columns
 * outside of both depend functionally on the grouped columns (GROUP BY primary key).  So grouping by them, too, makes
 * the same groups.  Returns false if nodes cannot group by some of these expressions.
 */
static bool
collect_expressions(PlannerInfo *root, const ShardRelInfo *input, PathTarget *target, List *having,
					List **group_exprs, List **aggs, List **groupings)
{
	CollectContext cxt = {0};
	int			i = 0;
	ListCell   *lc;

	cxt.has_sets = root->parse->groupingSets != NIL;

	foreach(lc, target->exprs)
	{
		Index		sgref = get_pathtarget_sortgroupref(target, i++);
		SortGroupClause *clause = NULL;

		/* the clause as written: 16 and later remove redundant items from processed_groupClause */
		if (sgref != 0)
			clause = get_sortgroupref_clause_noerr(sgref, root->parse->groupClause);
		if (clause == NULL)
			continue;
		if (clause->eqop >= FirstGenbkiObjectId)
			return refuse("the equality of a grouping is not built in");
		cxt.group_exprs = list_append_unique(cxt.group_exprs, lfirst(lc));
	}

	(void) collect_walker((Node *) target->exprs, &cxt);
	(void) collect_walker((Node *) having, &cxt);
	if (cxt.unknown)
		return refuse("an expression belongs to an outer join");
	if (cxt.has_sets && cxt.columns != NIL)
		return refuse("a column depends on what sets are grouped by");

	*groupings = cxt.groupings;
	*group_exprs = list_concat(cxt.group_exprs, cxt.columns);
	*aggs = cxt.aggs;
	foreach(lc, *group_exprs)
	{
		if (!shard_shippable_group_expr(root, input->from->relids, lfirst(lc)))
			return refuse("a grouping expression must be evaluated on the coordinator");
	}
	return true;
}

/* Number of groups in nrows rows of the input. */
static double
estimate_groups(PlannerInfo *root, GroupPathExtraData *extra, double nrows)
{
	List	   *exprs;

	if (root->parse->groupClause == NIL)
		return 1;
	exprs = get_sortgrouplist_exprs(shard_group_clause(root), extra->targetList);
	if (exprs == NIL)
		return 1;
	return estimate_num_groups(root, exprs, nrows, NULL, NULL);
}

/* Adds the path of a complete grouping: nodes return final groups. */
static bool
add_whole_grouping(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel,
			   GroupPathExtraData *extra, List *group_exprs, List *aggs)
{
	const ShardRelInfo *input = input_rel->fdw_private;
	List	   *having = (List *) extra->havingQual;
	ShardRelInfo *info;
	double		ngroups;

	foreach_ptr(Expr, agg, aggs)
	{
		if (!shard_shippable_agg_expr(root, input->from->relids, agg))
			return refuse("an aggregate must be computed on the coordinator");
	}

	info = shard_group_make_info(input, SHARD_REL_GROUP, group_exprs, aggs);
	foreach_ptr(Expr, condition, having)
	{
		if (shard_shippable_agg_expr(root, input->from->relids, condition))
			info->query->having = lappend(info->query->having, condition);
		else
			info->local_having = lappend(info->local_having, condition);
	}

	ngroups = estimate_groups(root, extra, input->rows);
	info->rows = shard_upper_grouped_rows(ngroups, 1, input) *
		clauselist_selectivity(root, info->query->having, 0, JOIN_INNER, NULL);
	info->width = output_rel->reltarget->width;
	shard_cost_group(output_rel->reltarget, input, input->rows,
					 list_length(group_exprs), info);
	output_rel->fdw_private = info;
	add_path(output_rel, shard_upper_make_path(root, output_rel, output_rel->reltarget, NIL));
	return true;
}

/*
 * The target of the remote query for partial grouping: group_exprs, the column that distinguishes grouping sets, and
 * the partial aggregates.
 */
static PathTarget *
make_partial_target(PlannerInfo *root, PathTarget *target, List *group_exprs, List *aggs,
					const ShardGroupingSets *sets)
{
	PathTarget *partial = shard_group_make_target(root, target, group_exprs);

	foreach_ptr(Expr, column, sets ? sets->columns : NIL)
		add_column_to_pathtarget(partial, column,
								 foreach_current_index(column) == 0 ? sets->sgref : 0);

	foreach_node(Aggref, original, aggs)
	{
		Aggref	   *agg = makeNode(Aggref);

		/* a flat copy, because the original aggregate is still used */
		*agg = *original;
		mark_partial_aggref(agg, AGGSPLIT_INITIAL_SERIAL);
		add_column_to_pathtarget(partial, (Expr *) agg, 0);
	}
	return set_pathtarget_cost_width(root, partial);
}

/*
 * Adds Finalize Aggregate over path with every possible strategy.  Grouping sets can only be hashed: path keys
 * describe the columns before the sets set them to NULL.
 */
static void
add_finalize_paths(PlannerInfo *root, RelOptInfo *output_rel, Path *path, List *having,
				   double ngroups, const ShardGroupingSets *sets)
{
	List	   *group_clause = sets ? sets->clauses : shard_group_clause(root);
	AggClauseCosts costs;

	MemSet(&costs, 0, sizeof(costs));
	if (root->parse->hasAggs)
		get_agg_clause_costs(root, AGGSPLIT_FINAL_DESERIAL, &costs);

	if (root->parse->groupClause == NIL && sets == NULL)
	{
		add_path(output_rel, (Path *)
				 create_agg_path(root, output_rel, path, output_rel->reltarget, AGG_PLAIN,
								 AGGSPLIT_FINAL_DESERIAL, NIL, having, &costs, 1));
		return;
	}

	if (group_clause != NIL && grouping_is_hashable(group_clause))
		add_path(output_rel, (Path *)
				 create_agg_path(root, output_rel, path, output_rel->reltarget, AGG_HASHED,
								 AGGSPLIT_FINAL_DESERIAL, group_clause, having, &costs, ngroups));

	if (sets == NULL && grouping_is_sortable(group_clause))
	{
		if (root->group_pathkeys != NIL)
			path = (Path *) create_sort_path(root, output_rel, path, root->group_pathkeys, -1.0);
		add_path(output_rel, (Path *)
				 create_agg_path(root, output_rel, path, output_rel->reltarget, AGG_SORTED,
								 AGGSPLIT_FINAL_DESERIAL, group_clause, having, &costs, ngroups));
	}
}

/*
 * Makes info's query group by sets.  The set without columns has a row even if there are no input rows, so at least
 * one shard must run the query.
 */
static void
add_sets(ShardRelInfo *info, const ShardGroupingSets *sets)
{
	info->query->grouping_sets = sets->sets;
	foreach_ptr(Expr, column, sets->columns)
		shard_upper_add_output(info->query, column);
	if (sets->has_empty)
		info->prune_conds = NIL;
}

/* Can nodes return the partial states of all these aggregates of input's rows? */
static bool
can_split(PlannerInfo *root, const ShardRelInfo *input, List *aggs)
{
	if (!shard_guc_enable_partial_aggregate)
		return refuse("shardfdw.enable_partial_aggregate is off");
	if (root->hasNonPartialAggs || root->hasNonSerialAggs)
		return refuse("an aggregate has no partial mode");
	foreach_node(Aggref, agg, aggs)
	{
		if (!shard_shippable_partial_agg(input->map, agg))
			return refuse("nodes cannot compute the partial state of an aggregate");
		if (!shard_shippable_partial_args(root, input->from->relids, agg))
			return refuse("an aggregate's argument must be evaluated on the coordinator");
	}
	return true;
}

/* Adds the path of a partial grouping: nodes return partial states, which the coordinator combines. */
static bool
add_partial_grouping(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel,
				 GroupPathExtraData *extra, List *group_exprs, List *aggs,
				 const ShardGroupingSets *sets)
{
	const ShardRelInfo *input = input_rel->fdw_private;
	PathTarget *target;
	ShardRelInfo *info;
	List	   *partial_aggs = NIL;
	double		ngroups;
	Path	   *path;

	if (!can_split(root, input, aggs))
		return false;
	target = make_partial_target(root, output_rel->reltarget, group_exprs, aggs, sets);
	foreach_ptr(Expr, expr, target->exprs)
	{
		if (IsA(expr, Aggref))
			partial_aggs = lappend(partial_aggs, expr);
	}
	info = shard_group_make_info(input, SHARD_REL_PARTIAL_GROUP, group_exprs, partial_aggs);
	if (sets != NULL)
		add_sets(info, sets);

	ngroups = sets ? sets->ngroups : estimate_groups(root, extra, input->rows);
	info->rows = shard_upper_grouped_rows(ngroups, input->nexpected, input);
	info->width = target->width;
	shard_cost_group(target, input, input->rows,
					 sets ? sets->ncolumns : list_length(group_exprs), info);
	if (sets == NULL || !sets->per_shard)
		shard_upper_combine_on_nodes(info, input, ngroups);
	path = shard_upper_make_path(root, shard_upper_make_rel(output_rel, target, info), target, NIL);
	add_finalize_paths(root, output_rel, path, (List *) extra->havingQual, ngroups, sets);
	return true;
}

void
shard_group_add_paths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel,
					  GroupPathExtraData *extra)
{
	const ShardRelInfo *input = input_rel->fdw_private;
	ShardGroupingSets *sets = NULL;
	List	   *group_exprs = NIL;
	List	   *aggs = NIL;
	List	   *groupings = NIL;

	/* shard_group_add_share_paths() makes the partial states of a partition, in a later stage */
	if (input->query != NULL || extra->patype == PARTITIONWISE_AGGREGATE_PARTIAL)
		return;
	if (!collect_expressions(root, input, output_rel->reltarget, (List *) extra->havingQual,
							 &group_exprs, &aggs, &groupings))
		return;

	if (root->parse->groupingSets != NIL)
	{
		if (extra->patype == PARTITIONWISE_AGGREGATE_NONE && input->sharded)
			sets = shard_grouping_sets_make(root, input, output_rel->reltarget, group_exprs,
											groupings);
		if (sets != NULL)
			(void) add_partial_grouping(root, input_rel, output_rel, extra, group_exprs, aggs, sets);
		return;
	}

	if (shard_upper_has_key(input, root->parse->groupClause, root->processed_tlist) &&
		add_whole_grouping(root, input_rel, output_rel, extra, group_exprs, aggs))
		return;
	if (!input->sharded ||
		add_partial_grouping(root, input_rel, output_rel, extra, group_exprs, aggs, NULL))
		return;
	if (root->numOrderedAggs > 0 &&
		shard_distinct_agg_add_paths(root, input_rel, output_rel, (List *) extra->havingQual,
									 group_exprs, aggs, estimate_groups(root, extra, input->rows)))
		return;
	if (extra->patype == PARTITIONWISE_AGGREGATE_NONE)
		(void) shard_sorted_agg_add_paths(root, input_rel, output_rel, (List *) extra->havingQual,
										  aggs, estimate_groups(root, extra, input->rows));
}

/*
 * Adds the path of one partition's part of a grouping that core combines over partitions
 * (enable_partitionwise_aggregate).  The parent is not a sharded table, because it has local partitions or further
 * levels.
 */
void
shard_group_add_share_paths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel,
							GroupPathExtraData *extra)
{
	const ShardRelInfo *input = input_rel->fdw_private;
	PathTarget *target = output_rel->reltarget;
	List	   *group_exprs = NIL;
	List	   *aggs = NIL;
	List	   *groupings = NIL;
	ShardRelInfo *info;

	if (input->query != NULL || input->sharded || extra->patype != PARTITIONWISE_AGGREGATE_PARTIAL ||
		!collect_expressions(root, input, target, NIL, &group_exprs, &aggs, &groupings) ||
		!can_split(root, input, aggs))
		return;

	info = shard_group_make_info(input, SHARD_REL_PARTIAL_GROUP, group_exprs, aggs);
	info->rows = shard_upper_grouped_rows(estimate_groups(root, extra, input->rows), 1, input);
	info->width = target->width;
	shard_cost_group(target, input, input->rows, list_length(group_exprs), info);
	output_rel->fdw_private = info;
	add_path(output_rel, shard_upper_make_path(root, output_rel, target, NIL));
}
