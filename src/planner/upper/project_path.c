/*
 * project_path.c
 *	  Expressions of the result that nodes compute.
 *
 *	  SELECT id, doc ->> 'name' FROM docs
 *		-> Foreign Scan: each remote query returns names instead of documents
 *
 * Core evaluates a target list above the scan.  This file offers paths in which nodes compute expressions of the
 * target list, if nodes compute them exactly.  So the nodes share the work, and results are transferred instead of
 * the columns from which they are computed.  The choice depends on the costs: a wide result of narrow columns is
 * cheaper on the coordinator.
 *
 * Core evaluates the expressions if there is a LIMIT, because only some of the rows are needed.  Core also evaluates
 * them above groups, windows and sorts, because their cost is small compared to these.
 */
#include "postgres.h"

#include "compat.h"
#include "deparse/shippable/shippable.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "planner/path/cost.h"
#include "planner/path/foreign_path.h"
#include "planner/upper/upper.h"
#include "planner/upper/upper_tools.h"
#include "tuple/type_io.h"

/* Is expr computed from columns, do nodes compute it as the coordinator does, and is its value transferred exactly? */
static bool
is_remote(PlannerInfo *root, const ShardRelInfo *input, Expr *expr)
{
	if (IsA(expr, Var) || IsA(expr, RelabelType) ||
		pull_var_clause((Node *) expr, PVC_INCLUDE_PLACEHOLDERS) == NIL)
		return false;
	return shard_type_io_binary_output(exprType((Node *) expr)) &&
		shard_shippable_expr(root, input->from->relids, expr);
}

/* The target of the remote query, with the widths and costs of its columns. */
static PathTarget *
make_remote_target(PlannerInfo *root, const ShardRemoteQuery *query)
{
	PathTarget *target = create_empty_pathtarget();

	foreach_node(TargetEntry, entry, query->tlist)
		add_column_to_pathtarget(target, entry->expr, 0);
	return set_pathtarget_cost_width(root, target);
}

void
shard_project_add_paths(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *output_rel)
{
	const ShardRelInfo *input = input_rel->fdw_private;
	PathTarget *target = root->upper_targets[UPPERREL_FINAL];
	PathTarget	local = *target;	/* only the expressions that the coordinator computes */
	PathTarget *remote;
	ShardRelInfo *info;
	List	   *remote_exprs = NIL;
	List	   *local_exprs = NIL;
	Cost		startup;
	Cost		total;

	if (root->parse->commandType != CMD_SELECT || root->parse->rowMarks != NIL ||
		root->parse->sortClause != NIL || input->query != NULL)
		return;
	foreach_ptr(Expr, expr, target->exprs)
	{
		if (is_remote(root, input, expr))
			remote_exprs = lappend(remote_exprs, expr);
		else
			local_exprs = lappend(local_exprs, expr);
	}
	if (remote_exprs == NIL)
		return;
	info = shard_upper_make_info(input, local_exprs);
	if (info == NULL)
		return;
	foreach_ptr(Expr, expr, remote_exprs)
		shard_upper_add_output(info->query, expr);

	remote = make_remote_target(root, info->query);
	info->width = remote->width;
	info->remote_cost += shard_cost_eval(info, remote);
	local.cost.startup = Max(target->cost.startup - remote->cost.startup, 0);
	local.cost.per_tuple = Max(target->cost.per_tuple - remote->cost.per_tuple, 0);
	shard_cost_path(root, info, &local, NIL, &startup, &total);

	output_rel->fdw_private = info;
	/* nodes return rows while the query runs */
	add_path(output_rel, shard_foreign_path_upper(root, output_rel, target, clamp_row_est(info->rows),
												  Max(startup - info->remote_cost, 0), total, NIL));
}
