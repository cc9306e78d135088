/*
 * distinct_path.c
 *	  DISTINCT and DISTINCT ON computed by the nodes.
 *
 *	 complete	the shard key is among the expressions: duplicates are on one
 *				shard, and each remote query removes duplicates among its rows
 *	 partial	otherwise each remote query removes duplicates among its rows, and core's
 *				Unique or HashAggregate above the scan removes those of several shards
 *
 * DISTINCT is sent as GROUP BY of all columns.  So values are compared by the equality of their type, not by the
 * transfer form.  DISTINCT ON keeps the first row of an order: the nodes sort, each remote query keeps its first
 * rows, the scan merges, and core's Unique keeps the first of these.
 */
#include "postgres.h"

#include "access/transam.h"
#include "compat.h"
#include "deparse/shippable/shippable.h"
#include "guc.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/tlist.h"
#include "planner/path/cost.h"
#include "planner/upper/upper.h"
#include "planner/upper/upper_tools.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

static bool
refuse(const char *reason)
{
	return shard_upper_refuse("DISTINCT", reason);
}

/* Does the expression depend on rows?  Other expressions are computed above the scan, see shard_group_make_info(). */
static bool
depends_on_rows(Expr *expr)
{
	return pull_var_clause((Node *) expr, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_PLACEHOLDERS) != NIL;
}

/* Can nodes compare rows by these expressions as the coordinator does? */
static bool
exprs_ok(PlannerInfo *root, const ShardRelInfo *input, List *clauses, List *tlist)
{
	foreach_node(SortGroupClause, clause, clauses)
	{
		Expr	   *expr = (Expr *) get_sortgroupclause_expr(clause, tlist);
		Relids		relids = input->from->relids;

		if (clause->eqop >= FirstGenbkiObjectId)
			return refuse("an equality is not built in");
		if (contain_agg_clause((Node *) expr))
		{
			Oid			collation = exprCollation((Node *) expr);

			if (!shard_shippable_agg_expr(root, relids, expr) ||
				(OidIsValid(collation) && !get_collation_isdeterministic(collation)))
				return refuse("an aggregate must be compared on the coordinator");
		}
		else if (!shard_shippable_group_expr(root, relids, expr))
			return refuse("an expression must be evaluated on the coordinator");
	}
	return true;
}

/* Has the target only expressions that are in exprs?  The input may also have grouped columns that are not selected. */
static bool
target_ok(PathTarget *target, List *exprs)
{
	foreach_ptr(Expr, expr, target->exprs)
	{
		if (depends_on_rows(expr) && !list_member(exprs, expr))
			return refuse("it leaves out columns that are grouped by");
	}
	return true;
}

/* The info of SELECT DISTINCT exprs from input's rows, or from its groups. */
static ShardRelInfo *
make_distinct_info(const ShardRelInfo *input, List *exprs)
{
	ShardRelInfo *info = shard_upper_make_info(input, NIL);
	ShardRemoteQuery *query = info->query;

	query->tlist = NIL;
	foreach_ptr(Expr, expr, exprs)
	{
		if (depends_on_rows(expr))
			shard_upper_add_output(query, expr);
	}
	if (input->query != NULL)
		query->distinct = true;
	else
	{
		query->aggregated = true;
		query->group_exprs = exprs;
	}
	return info;
}

/*
 * The info of SELECT DISTINCT ON from input's rows.  The rows are sorted by the ORDER BY that determines the first
 * row, or by the ON expressions.
 */
static ShardRelInfo *
make_distinct_on_info(PlannerInfo *root, const ShardRelInfo *input, PathTarget *target,
					  List *exprs)
{
	const Query *parse = root->parse;
	List	   *order = list_length(parse->sortClause) > list_length(parse->distinctClause) ?
		parse->sortClause : parse->distinctClause;
	ShardRelInfo *info = shard_upper_make_info(input, target->exprs);

	if (info == NULL)
	{
		(void) refuse("a column cannot travel");
		return NULL;
	}
	if (!shard_upper_add_sort(root, info, order, root->processed_tlist))
		return NULL;
	foreach_ptr(Expr, expr, exprs)
	{
		if (depends_on_rows(expr))
			info->query->distinct_on = lappend(info->query->distinct_on, expr);
	}
	return info->query->distinct_on != NIL ? info : NULL;
}

/* Adds core's nodes (Unique, HashAggregate) over path, which returns the distinct rows of each remote query. */
static void
add_final_paths(PlannerInfo *root, RelOptInfo *output_rel, Path *path, double ngroups)
{
	List	   *clause = shard_distinct_clause(root);

	if (grouping_is_sortable(clause))
	{
		Path	   *sorted = path;

		if (!pathkeys_contained_in(root->distinct_pathkeys, path->pathkeys))
			sorted = (Path *) create_sort_path(root, output_rel, path,
											   list_length(root->sort_pathkeys) >
											   list_length(root->distinct_pathkeys) ?
											   root->sort_pathkeys : root->distinct_pathkeys,
											   -1.0);
		add_path(output_rel, (Path *)
				 shard_create_upper_unique_path(root, output_rel, sorted,
										  list_length(root->distinct_pathkeys), ngroups));
	}
	if (!root->parse->hasDistinctOn && enable_hashagg && grouping_is_hashable(clause))
		add_path(output_rel, (Path *)
				 create_agg_path(root, output_rel, path, path->pathtarget, AGG_HASHED,
								 AGGSPLIT_SIMPLE, clause, NIL, NULL, ngroups));
}

void
shard_distinct_add_paths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel)
{
	const ShardRelInfo *input = input_rel->fdw_private;
	const Query *parse = root->parse;
	PathTarget *target = root->upper_targets[UPPERREL_DISTINCT];
	List	   *clauses = parse->distinctClause;
	List	   *exprs;
	ShardRelInfo *info;
	double		ngroups;
	bool		whole;
	List	   *pathkeys = NIL;

	/* nothing to compare: core returns one row */
	if (shard_distinct_clause(root) == NIL)
		return;
	if (input->local_having != NIL || (input->query != NULL && input->query->windows != NIL))
	{
		(void) refuse("rows are computed or tested on the coordinator before");
		return;
	}
	if (!exprs_ok(root, input, clauses, root->processed_tlist))
		return;
	exprs = get_sortgrouplist_exprs(clauses, root->processed_tlist);
	whole = shard_upper_has_key(input, clauses, root->processed_tlist);
	if (!whole && !shard_guc_enable_partial_aggregate)
	{
		(void) refuse("shardfdw.enable_partial_aggregate is off");
		return;
	}

	if (parse->hasDistinctOn)
	{
		info = make_distinct_on_info(root, input, target, exprs);
		if (info == NULL)
			return;
		pathkeys = list_length(root->sort_pathkeys) > list_length(root->distinct_pathkeys) ?
			root->sort_pathkeys : root->distinct_pathkeys;
	}
	else if (target_ok(target, exprs))
		info = make_distinct_info(input, exprs);
	else
		return;

	ngroups = estimate_num_groups(root, exprs, input->rows, NULL, NULL);
	info->rows = shard_upper_grouped_rows(ngroups, whole ? 1 : input->nexpected, input);
	info->width = target->width;
	shard_cost_group(target, input, input->rows, list_length(exprs), info);
	if (!whole && info->query->aggregated && !info->query->distinct)
		shard_upper_combine_on_nodes(info, input, ngroups);

	if (whole)
	{
		output_rel->fdw_private = info;
		add_path(output_rel, shard_upper_make_path(root, output_rel, target, pathkeys));
	}
	else
		add_final_paths(root, output_rel,
						shard_upper_make_path(root,
											  shard_upper_make_rel(output_rel, target, info),
											  target, pathkeys),
						Min(ngroups, info->rows));
}
