/*
 * create_plan.c
 *	  Makes the plans of remote relations: scans of shards and sharded tables, joins, and upper stages.
 *
 *	   sharded table	scanrelid 0; fdw_scan_tlist lists the columns that nodes return
 *	   join				the same
 *	   shard			scanrelid > 0; rows have the table's row type, columns that
 *						are not needed are NULL
 *	   upper stage		scanrelid 0; fdw_scan_tlist is the remote query's list
 *
 * Each of them becomes a ShardScanPlan (plan_private.h).
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "compat.h"
#include "deparse/partial_agg.h"
#include "deparse/query_clauses.h"
#include "deparse/remote_query.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/planmain.h"
#include "optimizer/prep.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "plan/plan_private.h"
#include "planner/path/cost.h"
#include "planner/path/early_stop.h"
#include "planner/path/fdw_planner.h"
#include "planner/path/key_filter.h"
#include "planner/path/late_lock.h"
#include "planner/path/node_query.h"
#include "planner/path/prune.h"
#include "planner/path/refusal.h"
#include "planner/path/relinfo.h"
#include "planner/path/remote_estimate.h"
#include "planner/path/scan_output.h"
#include "planner/path/sort_path.h"
#include "planner/rewrite/absorb.h"
#include "planner/system_column.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/*
 * Splits a scan's clauses into those that the remote query checks and those that the coordinator checks.  Both are
 * lists of bare expressions.
 */
static void
split_clauses(const ShardRelInfo *info, List *scan_clauses, List **remote, List **local)
{
	*remote = NIL;
	*local = NIL;
	foreach_node(RestrictInfo, rinfo, scan_clauses)
	{
		if (rinfo->pseudoconstant)
			continue;
		if (list_member_ptr(info->remote_conds, rinfo))
			*remote = lappend(*remote, rinfo->clause);
		else
			*local = lappend(*local, rinfo->clause);
	}
}

/* Fills the parts of the plan that depend on the table and its live shards. */
static void
fill_shards(PlannerInfo *root, const RelOptInfo *rel, const ShardRelInfo *info,
			ShardScanPlan *plan)
{
	int			shardno = -1;

	plan->all_shards = info->nlive == info->map->nshards;
	while (!plan->all_shards && (shardno = bms_next_member(info->live, shardno)) >= 0)
		plan->shards = lappend_oid(plan->shards, info->map->shards[shardno].relid);
	plan->rows_per_shard = info->rows / Max(info->nexpected, 1);
	plan->width = info->width;
	plan->check_as_user = rel->userid;
	if (info->sharded || info->kind != SHARD_REL_SCAN)
		plan->relations = shard_relinfo_name(root, info->from);
}

/*
 * Adds the conditions for pruning at execution start.  An aggregate without GROUP BY that a node computes completely
 * returns a row even for no input rows, so its shard must not be pruned.  Call this when the query is complete:
 * parameters that only pruning needs follow those of the query (see shard_param_count).
 */
static void
fill_prune_quals(const ShardRelInfo *info, ShardSelect *select, ShardScanPlan *plan)
{
	const ShardRemoteQuery *query = info->query;

	if (query != NULL && query->aggregated && query->group_exprs == NIL &&
		info->kind != SHARD_REL_PARTIAL_GROUP)
		return;
	foreach_ptr(Node, condition, info->prune_conds)
		plan->prune_quals = lappend(plan->prune_quals, shard_select_prune_clause(select, condition));
}

/* Finds the shard key's columns among those of the scan. */
static void
fill_key_columns(const ShardRelInfo *info, List *scan_tlist, ShardScanPlan *plan)
{
	foreach_ptr(const ShardDistKey, key, info->keys)
	{
		List	   *columns = NIL;

		if (key->nullable)
			continue;
		foreach_ptr(Expr, expr, key->exprs)
		{
			foreach_node(TargetEntry, entry, scan_tlist)
			{
				if (equal(entry->expr, expr))
				{
					columns = lappend_int(columns, entry->resno);
					break;
				}
			}
		}
		if (columns != NIL && list_length(columns) == list_length(key->exprs))
			plan->key_columns = lappend(plan->key_columns, columns);
	}
}

/* Copies the deparser's results to the plan. */
static void
fill_query(PlannerInfo *root, ShardSelect *select, ShardScanPlan *plan)
{
	plan->outputs = shard_scan_convert_outputs(select->outputs, &plan->noutputs);
	plan->relids = select->relids;
	plan->template = shard_select_finish(select);
	plan->shard_template = select->shard_template;

	/* a change of one of these aggregates invalidates the plan */
	foreach_oid(funcid, shard_partial_agg_functions(select->query))
		record_plan_function_dependency(root, funcid);
}

/* Adds FOR UPDATE or FOR SHARE as required by the command or its locking clause, unless rows are locked late. */
static void
add_row_lock(PlannerInfo *root, Index rtindex, ShardSelect *select, ShardScanPlan *plan)
{
	PlanRowMark *mark;

	if ((root->parse->commandType == CMD_UPDATE || root->parse->commandType == CMD_DELETE ||
		 root->parse->commandType == CMD_MERGE) &&
		bms_is_member(rtindex, root->all_result_relids))
	{
		shard_select_lock(select, LCS_FORUPDATE, LockWaitBlock);
		plan->locks_rows = true;
		return;
	}

	mark = get_plan_rowmark(root->rowMarks, rtindex);
	if (mark == NULL || mark->strength == LCS_NONE)
		return;
	plan->locks_rows = true;
	plan->locks_late = shard_late_lock_marks(root, rtindex);
	if (!plan->locks_late)
		shard_select_lock(select, mark->strength, mark->waitPolicy);
}

/* Plans the scan of a single shard, which is an ordinary foreign table. */
static ForeignScan *
plan_single(PlannerInfo *root, RelOptInfo *rel, const ShardRelInfo *info, const ForeignPath *path,
			List *tlist, List *scan_clauses, Plan *outer_plan)
{
	ShardScanPlan plan = {0};
	ShardSelect *select = shard_select_begin(info->rtindex, info->relid);
	Bitmapset  *columns = bms_copy(info->columns);
	Bitmapset  *named;
	List	   *remote;
	List	   *local;

	if (info->sample != NULL)
		shard_select_sample(select, info->sample);
	split_clauses(info, scan_clauses, &remote, &local);
	pull_varattnos((Node *) local, info->rtindex, &columns);
	named = bms_copy(columns);
	pull_varattnos((Node *) remote, info->rtindex, &named);
	shard_system_column_check_scan(root, info->rtindex, named);

	/*
	 * EvalPlanQual checks the remote conditions on the coordinator against an existing row, so it needs their columns
	 */
	if (root->rowMarks != NIL || root->parse->commandType != CMD_SELECT)
		pull_varattnos((Node *) remote, info->rtindex, &columns);

	add_row_lock(root, info->rtindex, select, &plan);
	/* true for rows that are changed or locked later by their ctid */
	shard_scan_fetch_columns(select, info->relid, columns,
							 shard_late_lock_checks(root, info->rtindex) ||
							 bms_is_member(info->rtindex, root->all_result_relids));
	shard_select_where(select, remote);
	shard_query_clauses_sort(select, select->level, shard_sort_clauses(root, rel, info, path->path.pathkeys));
	fill_shards(root, rel, info, &plan);
	plan.prune_quals = shard_prune_child_quals(root, info->rtindex, info, select, &plan.prune_parent);
	fill_query(root, select, &plan);

	return make_foreignscan(tlist, local, info->rtindex, select->params,
							shard_plan_private_pack(SHARD_PLAN_SCAN, &plan), NIL, remote, outer_plan);
}

/* Adds the Vars of relids in exprs (a list, possibly of TargetEntries) to a flat target list. */
static List *
add_own_vars(List *tlist, List *exprs, Relids relids)
{
	List	   *vars = pull_var_clause((Node *) exprs, PVC_RECURSE_PLACEHOLDERS);
	List	   *own = NIL;

	foreach_node(Var, var, vars)
	{
		if (bms_is_member(var->varno, relids))
			own = lappend(own, var);
	}
	return add_to_flat_tlist(tlist, own);
}

/* Plans the scan of a sharded table, or a join: nodes return only Vars, in the order of the list. */
static ForeignScan *
plan_sharded(PlannerInfo *root, RelOptInfo *rel, const ShardRelInfo *info, ForeignPath *path,
			 List *tlist, List *scan_clauses, Plan *outer_plan)
{
	ShardScanPlan plan = {0};
	ShardRemoteQuery query = {0};
	ShardSelect *select;
	List	   *scan_tlist;
	List	   *remote;
	List	   *local;

	if (info->kind == SHARD_REL_JOIN)
		local = extract_actual_clauses(info->local_conds, false);
	else
		split_clauses(info, scan_clauses, &remote, &local);

	/*
	 * For a base relation, tlist may be a physical target list, with every column of the table.  (For a path with
	 * lateral references, the references in tlist are already parameters, so tlist is kept.)
	 */
	if (tlist != NIL && path->path.param_info == NULL && info->kind == SHARD_REL_SCAN)
		tlist = make_tlist_from_pathtarget(path->path.pathtarget);

	/* a projection above may replace tlist by another list over the same pathtarget */
	scan_tlist = add_own_vars(NIL, path->path.pathtarget->exprs, info->from->relids);
	scan_tlist = add_own_vars(scan_tlist, tlist, info->from->relids);
	scan_tlist = add_own_vars(scan_tlist, local, info->from->relids);
	query.from = info->from;
	query.driver = info->relid;
	query.tlist = scan_tlist;
	query.per_node = !shard_key_filter_is_set(path) && shard_node_query_is_cheaper(info);
	query.has_params = !shard_key_filter_is_set(path) && shard_node_query_has_params(info, query.per_node);

	/* for a single foreign table, whose rows need no merging */
	if (!info->sharded && path->path.pathkeys != NIL)
	{
		query.sort = shard_sort_clauses(root, rel, info, path->path.pathkeys);
		if (query.sort == NIL)
			elog(ERROR, "an order that nodes do not give");
	}
	select = shard_remote_query_select(&query);
	fill_shards(root, rel, info, &plan);
	fill_prune_quals(info, select, &plan);
	fill_key_columns(info, scan_tlist, &plan);
	fill_query(root, select, &plan);
	plan.is_prepared = !shard_key_filter_is_set(path) && shard_node_query_is_kept(info, query.per_node);

	return make_foreignscan(tlist, local, 0, select->params,
							shard_plan_private_pack(SHARD_PLAN_SCAN, &plan), scan_tlist, NIL, outer_plan);
}

/* Fills the sort order of each remote query's rows, by attributes of the scan's slot. */
static void
fill_sort(const ShardRemoteQuery *query, ShardScanPlan *plan)
{
	foreach_ptr(const ShardSort, sort, query->sort)
	{
		TargetEntry *entry = tlist_member(sort->expr, query->tlist);

		if (entry == NULL)
			elog(ERROR, "a sort expression is not in the remote query's target list");
		plan->sort_columns = lappend_int(plan->sort_columns, entry->resno);
		plan->sort_operators = lappend_oid(plan->sort_operators, sort->sortop);
		plan->sort_collations = lappend_oid(plan->sort_collations,
											exprCollation((Node *) sort->expr));
		plan->sort_nulls_first = lappend_int(plan->sort_nulls_first, sort->nulls_first ? 1 : 0);
	}
}

static bool
is_writing_function(Oid funcid, void *context)
{
	return funcid >= FirstNormalObjectId && func_volatile(funcid) == PROVOLATILE_VOLATILE;
}

static bool
calls_writing_function(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (check_functions_in_node(node, is_writing_function, NULL))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, calls_writing_function, context, 0);
	return expression_tree_walker(node, calls_writing_function, context);
}

/* May a function that the statement calls, at any query level, write to a table? */
static bool
statement_may_write(PlannerInfo *root)
{
	for (PlannerInfo *level = root; level != NULL; level = level->parent_root)
	{
		if (calls_writing_function((Node *) level->parse, NULL))
			return true;
	}
	foreach_node(PlannerInfo, subroot, root->glob->subroots)
	{
		if (calls_writing_function((Node *) subroot->parse, NULL))
			return true;
	}
	return false;
}

/* Plans complete and partial groups, and other upper stages. */
static ForeignScan *
plan_upper(PlannerInfo *root, const RelOptInfo *rel, const ShardRelInfo *info, List *tlist,
		   Plan *outer_plan)
{
	ShardScanPlan plan = {0};
	ShardSelect *select;

	/* for partial groups, the planner has decided this when it estimated their number */
	if (info->kind != SHARD_REL_PARTIAL_GROUP && shard_node_query_is_cheaper(info))
		info->query->per_node = true;
	info->query->has_params = shard_node_query_has_params(info, info->query->per_node);
	select = shard_remote_query_select(info->query);
	plan.at_once = statement_may_write(root);
	plan.first_parts = info->first_parts;
	plan.parts_descending = info->parts_descending;
	fill_sort(info->query, &plan);
	fill_shards(root, rel, info, &plan);
	fill_key_columns(info, info->query->tlist, &plan);
	fill_prune_quals(info, select, &plan);
	fill_query(root, select, &plan);
	plan.is_prepared = shard_node_query_is_kept(info, info->query->per_node);
	plan.for_values = shard_early_stop_of_remote(info->query);

	return make_foreignscan(tlist, info->local_having, 0, select->params,
							shard_plan_private_pack(SHARD_PLAN_SCAN, &plan), info->query->tlist, NIL, outer_plan);
}

ForeignScan *
shardGetForeignPlan(PlannerInfo *root, RelOptInfo *rel, Oid foreigntableid,
					ForeignPath *best_path, List *tlist, List *scan_clauses,
					Plan *outer_plan)
{
	const ShardRelInfo *info = shard_key_filter_info(root, best_path, rel->fdw_private);

	ForeignScan *scan;

	shard_absorb_release(root, info->from);
	if (info->query != NULL)
		scan = plan_upper(root, rel, info, tlist, outer_plan);
	else if (info->sharded || info->kind == SHARD_REL_JOIN ||
			 (best_path->path.pathkeys != NIL && !shard_late_lock_marks(root, info->rtindex)) ||
			 shard_key_filter_is_set(best_path))
		scan = plan_sharded(root, rel, info, best_path, tlist, scan_clauses, outer_plan);
	else
		scan = plan_single(root, rel, info, best_path, tlist, scan_clauses, outer_plan);
	shard_refusal_add_scan(root, rel, scan);
	return scan;
}
