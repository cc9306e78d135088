/*
 * upper_tools.c
 *	  Functions that the upper stages (upper_dispatch.c) share.
 *
 * Remote queries return the columns and aggregates of which a target consists.  The coordinator evaluates the
 * expressions over them, unless the nodes need those expressions.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/collation.h"
#include "compat.h"
#include "deparse/shippable/shippable.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "planner/path/cost.h"
#include "planner/path/foreign_path.h"
#include "planner/path/node_query.h"
#include "planner/path/refusal.h"
#include "planner/upper/upper_tools.h"
#include "utils/lsyscache.h"

/* If a query per node saves fewer rows than this, planning it on the nodes costs more than it saves. */
#define MIN_ROWS_SAVED 1000

bool
shard_upper_refuse(const char *stage, const char *reason)
{
	return shard_refusal_of_stage(stage, reason);
}

bool
shard_upper_has_key(const ShardRelInfo *input, List *clauses, List *tlist)
{
	List	   *exprs = NIL;
	List	   *eqops = NIL;

	if (input->nlive == 1)
		return true;
	foreach_node(SortGroupClause, clause, clauses)
	{
		exprs = lappend(exprs, get_sortgroupclause_expr(clause, tlist));
		eqops = lappend_oid(eqops, clause->eqop);
	}
	return shard_relinfo_has_key(input, exprs, eqops);
}

void
shard_upper_add_output(ShardRemoteQuery *query, Expr *expr)
{
	query->tlist = add_to_flat_tlist(query->tlist, list_make1(expr));
}

ShardRelInfo *
shard_upper_make_info(const ShardRelInfo *input, List *exprs)
{
	ShardRelInfo *info = palloc(sizeof(ShardRelInfo));

	*info = *input;
	info->kind = SHARD_REL_UPPER;
	info->query = palloc0(sizeof(ShardRemoteQuery));
	if (input->query != NULL)
	{
		*info->query = *input->query;
		info->query->tlist = list_copy(input->query->tlist);
		return info;
	}

	info->query->from = input->from;
	info->query->driver = input->relid;
	foreach_ptr(Var, var, pull_var_clause((Node *) exprs, PVC_INCLUDE_PLACEHOLDERS))
	{
		if (!IsA(var, Var) || var->varattno < 0)
			return NULL;
		shard_upper_add_output(info->query, (Expr *) var);
	}
	return info;
}

/*
 * Rows in another order would be a wrong result, so nodes must surely sort as the coordinator does: see
 * shard_shippable_sort_expr().  Constants are left out: they do not change the order, and an integer in ORDER BY
 * would be a column's position.
 */
bool
shard_upper_add_sort(PlannerInfo *root, ShardRelInfo *info, List *clauses, List *tlist)
{
	foreach_node(SortGroupClause, clause, clauses)
	{
		Expr	   *expr = (Expr *) get_sortgroupclause_expr(clause, tlist);
		ShardSort  *sort;

		if (pull_var_clause((Node *) expr, PVC_INCLUDE_AGGREGATES | PVC_INCLUDE_WINDOWFUNCS |
							PVC_INCLUDE_PLACEHOLDERS) == NIL &&
			!contain_volatile_functions((Node *) expr))
			continue;
		if (!shard_shippable_sort_expr(root, info->from->relids, expr, clause->sortop,
									   shard_collation_same_default(info->map)))
			return shard_upper_refuse("sort", "the order of an expression may be another one on nodes");

		sort = palloc0(sizeof(ShardSort));
		sort->expr = expr;
		sort->sortop = clause->sortop;
		sort->eqop = clause->eqop;
		sort->nulls_first = clause->nulls_first;
		info->query->sort = lappend(info->query->sort, sort);
		shard_upper_add_output(info->query, expr);
	}
	return true;
}

RelOptInfo *
shard_upper_make_rel(const RelOptInfo *like, PathTarget *target, ShardRelInfo *info)
{
	RelOptInfo *rel = makeNode(RelOptInfo);

	rel->reloptkind = RELOPT_UPPER_REL;
	rel->relids = like->relids;
	rel->reltarget = target;
	rel->serverid = like->serverid;
	rel->userid = like->userid;
	rel->useridiscurrent = like->useridiscurrent;
	rel->fdwroutine = like->fdwroutine;
	rel->fdw_private = info;
	return rel;
}

Path *
shard_upper_make_path(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, List *pathkeys)
{
	const ShardRelInfo *info = rel->fdw_private;
	double		rows = info->rows;
	Cost		startup;
	Cost		total;

	shard_cost_path(root, info, target, info->local_having, &startup, &total);
	if (info->local_having != NIL)
		rows *= clauselist_selectivity(root, info->local_having, 0, JOIN_INNER, NULL);
	return shard_foreign_path_upper(root, rel, target, clamp_row_est(rows), startup, total, pathkeys);
}

Cost
shard_upper_sort_cost(const ShardRelInfo *info)
{
	double		nqueries = Max(info->nexpected, 1);
	double		nparallel = Min(nqueries, 2.0 * Max(info->map->nnodes, 1));

	return info->rows / nparallel * 2.0 * cpu_operator_cost *
		log2(Max(info->rows / nqueries, 2.0));
}

/*
 * After selective conditions, and always without statistics, estimates often say that each row is a group.  If the
 * estimate is right, grouping on the nodes costs little more.  If it is wrong, fetching all rows costs much more.  So
 * the estimate assumes that grouping saves at least a quarter of the rows, or most of them if there are no
 * statistics.
 */
double
shard_upper_grouped_rows(double ngroups, int nqueries, const ShardRelInfo *input)
{
	return clamp_row_est(Min(ngroups * Max(nqueries, 1), input->rows * (input->analyzed ? 0.75 : 0.1)));
}

/*
 * Queries per node return fewer rows.  But each grouped row passes through an Append, and a node runs one stream
 * instead of one for each of its shards.  The node may use parallel workers, which make up for most of that.
 */
void
shard_upper_combine_on_nodes(ShardRelInfo *info, const ShardRelInfo *input, double ngroups)
{
	double		rows = shard_upper_grouped_rows(ngroups, Min(input->map->nnodes, input->nexpected), input);
	double		saved = info->rows - rows;
	double		slower;
	Cost		append;

	if (!shard_node_query_pays(info, saved < MIN_ROWS_SAVED ? 0 : shard_cost_receive(saved) +
							   saved * cpu_operator_cost * list_length(info->query->tlist),
							   &slower, &append))
		return;
	info->query->per_node = true;
	info->remote_cost = info->remote_cost * slower + append;
	info->rows = rows;
}
