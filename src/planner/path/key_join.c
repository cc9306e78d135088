/*
 * key_join.c
 *	  Offers key joins: joins that send the keys of their outer side to the nodes, so that the nodes return only
 *	  inner rows that can match.
 *
 *	   Custom Scan (ShardKeyJoin)
 *		 -> outer: any path
 *		 -> inner: a copy of the inner relation's path, filtered by the keys; see
 *			key_filter.c
 *
 * For core, the keys are parameters of the statement that have no value (SHARD_KEYS_PARAM).
 * executor/scan/key_join_exec.c sets their values, batch by batch.  Nodes may also return rows that do not match: the
 * join itself checks all of its conditions.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/integer.h"
#include "catalog/pg_opfamily.h"
#include "compat.h"
#include "guc.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "plan/plan_private.h"
#include "planner/path/key_filter.h"
#include "planner/path/key_join.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

/* Rows of the first batch: if a LIMIT may end the join early, and otherwise. */
#define MIN_BATCH_ROWS 1000.0
#define MAX_BATCH_ROWS 50000.0

/* Growth factor from each batch to the next. */
#define BATCH_GROWTH 4.0

/*
 * If each outer row matches at least this many inner rows, most keys that match have a match in any quarter of the
 * shards.
 */
#define MIN_ROUND_ROWS 4.0

/* Maximum number of equalities of one key join: the size of the executor's arrays. */
#define MAX_KEYS INDEX_MAX_KEYS

static set_join_pathlist_hook_type prev_join_pathlist_hook = NULL;

/* ------------------------------------------------------------------------
 * Clauses
 * ------------------------------------------------------------------------ */

/*
 * The type of the values that are sent to the inner side: the type of the outer expression, except for integers of
 * another width. x = ANY (array) uses a hash table only if both types are the same.  Otherwise it compares each row
 * with each value.
 */
static Oid
value_type(const ShardKeyClause *key)
{
	Oid			outer = exprType((Node *) key->outer);
	Oid			inner = exprType((Node *) key->inner);

	return shard_integer_is_type(outer) && shard_integer_is_type(inner) && op_in_opfamily(key->opno, INTEGER_BTREE_FAM_OID) ? inner : outer;
}

/* The clause as a hashable equality between the sides, or NULL. */
static ShardKeyClause *
make_key_clause(RestrictInfo *rinfo, RelOptInfo *outerrel, RelOptInfo *innerrel)
{
	OpExpr	   *op = (OpExpr *) rinfo->clause;
	ShardKeyClause  *key;
	bool		outer_is_left;
	Oid			left_hash;
	Oid			right_hash;

	if (!rinfo->can_join || !OidIsValid(rinfo->hashjoinoperator) || !IsA(op, OpExpr) ||
		list_length(op->args) != 2)
		return NULL;
	if (bms_is_subset(rinfo->left_relids, outerrel->relids) &&
		bms_is_subset(rinfo->right_relids, innerrel->relids))
		outer_is_left = true;
	else if (bms_is_subset(rinfo->left_relids, innerrel->relids) &&
			 bms_is_subset(rinfo->right_relids, outerrel->relids))
		outer_is_left = false;
	else
		return NULL;
	if (!op_strict(op->opno) ||
		!get_op_hash_functions(rinfo->hashjoinoperator, &left_hash, &right_hash))
		return NULL;

	key = palloc0(sizeof(ShardKeyClause));
	key->rinfo = rinfo;
	key->outer = (Expr *) list_nth(op->args, outer_is_left ? 0 : 1);
	key->inner = (Expr *) list_nth(op->args, outer_is_left ? 1 : 0);
	key->opno = outer_is_left ? get_commutator(op->opno) : op->opno;
	key->collation = op->inputcollid;
	key->outer_hash = outer_is_left ? left_hash : right_hash;
	key->inner_hash = outer_is_left ? right_hash : left_hash;
	key->value_type = value_type(key);
	if (!OidIsValid(key->opno) || !OidIsValid(get_array_type(key->value_type)) ||
		contain_volatile_functions((Node *) rinfo->clause))
		return NULL;
	return key;
}

/* ------------------------------------------------------------------------
 * The plan
 * ------------------------------------------------------------------------ */

/* Position (1-based) of var, a Var or PlaceHolderVar, in a target list, or 0.  Ignores varnullingrels. */
static int
find_column(List *tlist, const Node *var)
{
	foreach_node(TargetEntry, entry, tlist)
	{
		if (IsA(var, Var) && IsA(entry->expr, Var) &&
			((Var *) var)->varno == ((Var *) entry->expr)->varno &&
			((Var *) var)->varattno == ((Var *) entry->expr)->varattno)
			return entry->resno;
		if (IsA(var, PlaceHolderVar) && IsA(entry->expr, PlaceHolderVar) &&
			((PlaceHolderVar *) var)->phid == ((PlaceHolderVar *) entry->expr)->phid)
			return entry->resno;
	}
	return 0;
}

/*
 * Adds the columns that exprs need to scan_tlist, the columns of the scan slot.  *columns: the side and position from
 * which each column comes.
 */
static List *
add_scan_columns(List *scan_tlist, List *exprs, const Plan *outer, const Plan *inner,
				 List **columns)
{
	List	   *vars = pull_var_clause((Node *) exprs, PVC_INCLUDE_PLACEHOLDERS);

	foreach_ptr(Node, var, vars)
	{
		int			colno;

		if (find_column(scan_tlist, var) != 0)
			continue;
		colno = find_column(outer->targetlist, var);
		if (colno == 0)
			colno = -find_column(inner->targetlist, var);
		if (colno != 0)
		{
			scan_tlist = lappend(scan_tlist, makeTargetEntry(copyObject((Expr *) var),
															 list_length(scan_tlist) + 1, NULL, false));
			*columns = lappend_int(*columns, colno);
		}
		else if (IsA(var, PlaceHolderVar))
			scan_tlist = add_scan_columns(scan_tlist,
										  list_make1(((PlaceHolderVar *) var)->phexpr),
										  outer, inner, columns);
		else
			elog(ERROR, "key join finds no column for variable %d.%d",
				 ((Var *) var)->varno, ((Var *) var)->varattno);
	}
	return scan_tlist;
}

/*
 * Replaces the Vars of an expression by those of the scan slot's list, in a copy.  From 16 on, a column has another
 * Var (varnullingrels) above an outer join than in the join condition, and the list may have only one of them.
 */
static Node *
name_columns(Node *node, void *scan_tlist)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var) || IsA(node, PlaceHolderVar))
	{
		int			resno = find_column(scan_tlist, node);

		if (resno != 0)
			return copyObject((Node *) list_nth_node(TargetEntry, scan_tlist, resno - 1)->expr);
	}
	return expression_tree_mutator(node, name_columns, scan_tlist);
}

/* Fills the plan's keys, with their parameters. */
static void
fill_keys(PlannerInfo *root, ShardKeyJoinPlan *plan, List *keys)
{
	plan->nkeys = list_length(keys);
	plan->keys = palloc0(sizeof(ShardKeyJoinKey) * plan->nkeys);
	for (int i = 0; i < plan->nkeys; i++)
	{
		ShardKeyClause *key = list_nth(keys, i);

		plan->keys[i].paramid = shard_key_filter_param(root, key);
		plan->keys[i].outer_hash = key->outer_hash;
		plan->keys[i].inner_hash = key->inner_hash;
		plan->keys[i].collation = key->collation;
		plan->keys[i].value_type = key->value_type;
	}
	plan->change_param = plan->keys[0].paramid - SHARD_KEYS_PARAM;
}

static Plan *
plan_key_join(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
			  List *clauses, List *custom_plans)
{
	ShardKeyJoinPlan *plan = linitial(path->custom_private);
	List	   *keys = lsecond(path->custom_private);
	List	   *restrictlist = lthird(path->custom_private);
	CustomScan *scan = makeNode(CustomScan);
	List	   *join_clauses;
	List	   *other_clauses = NIL;
	List	   *outer_exprs = NIL;
	List	   *inner_exprs = NIL;
	List	   *needed;

	fill_keys(root, plan, keys);
	if (IS_OUTER_JOIN(plan->jointype))
		extract_actual_join_clauses(restrictlist, rel->relids, &join_clauses, &other_clauses);
	else
		join_clauses = extract_actual_clauses(restrictlist, false);
	foreach_ptr(ShardKeyClause, key, keys)
	{
		outer_exprs = lappend(outer_exprs, key->outer);
		inner_exprs = lappend(inner_exprs, key->inner);
	}

	/*
	 * tlist is empty if a projection above replaces it later by a list over the columns of the path's target.  These
	 * columns come first, because plans above refer to columns by the Vars of that target.
	 */
	needed = list_make5(path->path.pathtarget->exprs, tlist, join_clauses, other_clauses, outer_exprs);
	needed = lappend(needed, inner_exprs);
	scan->custom_scan_tlist = add_scan_columns(NIL, needed, linitial(custom_plans),
											   lsecond(custom_plans), &plan->columns);
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = (List *) name_columns((Node *) other_clauses, scan->custom_scan_tlist);
	scan->scan.scanrelid = 0;
	scan->flags = path->flags;
	scan->custom_plans = custom_plans;
	scan->custom_exprs = list_make3(name_columns((Node *) join_clauses, scan->custom_scan_tlist),
									name_columns((Node *) outer_exprs, scan->custom_scan_tlist),
									name_columns((Node *) inner_exprs, scan->custom_scan_tlist));
	scan->custom_private = shard_plan_private_pack(SHARD_PLAN_KEY_JOIN, plan);
	scan->methods = GetCustomScanMethods(SHARD_KEY_JOIN_NAME, false);
	return &scan->scan.plan;
}

static const CustomPathMethods path_methods = {
	.CustomName = SHARD_KEY_JOIN_NAME,
	.PlanCustomPath = plan_key_join
};

/* ------------------------------------------------------------------------
 * Paths
 * ------------------------------------------------------------------------ */

/* Chooses the outer path, and the join type with that side on the left.  Returns false if there is no such path. */
static bool
choose_outer(PlannerInfo *root, RelOptInfo *outerrel, JoinType *jointype,
			 JoinPathExtraData *extra, Path **outer)
{
	*outer = outerrel->cheapest_total_path;
	if (*jointype == JOIN_UNIQUE_OUTER)
	{
		*outer = shard_create_unique_path(root, outerrel, *outer, extra->sjinfo);
		*jointype = JOIN_INNER;
		return *outer != NULL && (*outer)->param_info == NULL;
	}
	return (*jointype == JOIN_INNER || *jointype == JOIN_LEFT || *jointype == JOIN_SEMI ||
			*jointype == JOIN_ANTI) &&
		*outer != NULL && (*outer)->param_info == NULL;
}

/* Does the security level of rinfo allow checking it together with the conditions of all tables of rel? */
static bool
security_allows(PlannerInfo *root, const RelOptInfo *rel, const RestrictInfo *rinfo)
{
	int			rti = -1;

	while ((rti = bms_next_member(rel->relids, rti)) >= 0)
	{
		RelOptInfo *base = rti < root->simple_rel_array_size ? root->simple_rel_array[rti] : NULL;

		/* relids also has numbers of outer joins, which are no base relations */
		if (base != NULL &&
			!shard_relinfo_security_allows(rinfo, base->baserestrict_min_security))
			return false;
	}
	return true;
}

/*
 * Fraction of rel's rows whose key is among the keys of the outer side.  It is the smaller of core's semijoin
 * selectivity and an estimate from the number of keys.
 */
static double
filtered_fraction(PlannerInfo *root, RelOptInfo *outerrel, double outer_rows,
				  RelOptInfo *innerrel, List *keys)
{
	SpecialJoinInfo sjinfo = {0};
	List	   *clauses = NIL;
	List	   *exprs = NIL;
	double		fraction;
	double		ndistinct;

	foreach_ptr(ShardKeyClause, key, keys)
	{
		/* pass the bare clause: a RestrictInfo caches one selectivity for both directions of the join */
		clauses = lappend(clauses, key->rinfo->clause);
		exprs = lappend(exprs, key->inner);
	}
	sjinfo.type = T_SpecialJoinInfo;
	sjinfo.min_lefthand = sjinfo.syn_lefthand = innerrel->relids;
	sjinfo.min_righthand = sjinfo.syn_righthand = outerrel->relids;
	sjinfo.jointype = JOIN_SEMI;
	fraction = clauselist_selectivity(root, clauses, 0, JOIN_SEMI, &sjinfo);
	ndistinct = estimate_num_groups(root, exprs, Max(innerrel->rows, 1), NULL, NULL);
	return Min(Min(fraction, outer_rows / Max(ndistinct, 1)), 1.0);
}

/* The equalities whose keys can be sent.  For an outer join: only those of ON condition. */
static List *
find_keys(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
		  JoinType jointype, List *restrictlist)
{
	List	   *keys = NIL;

	foreach_node(RestrictInfo, rinfo, restrictlist)
	{
		ShardKeyClause  *key;

		if (rinfo->pseudoconstant)
			return NIL;
		if ((IS_OUTER_JOIN(jointype) && RINFO_IS_PUSHED_DOWN(rinfo, joinrel->relids)) ||
			list_length(keys) >= MAX_KEYS ||
			!security_allows(root, innerrel, rinfo))
			continue;
		key = make_key_clause(rinfo, outerrel, innerrel);
		if (key != NULL)
			keys = lappend(keys, key);
	}
	return keys;
}

/* The cheapest inner path that some of the keys can filter. keys: in, candidates; out, the keys used. */
static bool
choose_inner(PlannerInfo *root, RelOptInfo *outerrel, double outer_rows, RelOptInfo *innerrel,
			 List **keys, ShardKeyedPath *best)
{
	List	   *usable = NIL;

	best->path = NULL;
	foreach_ptr(ShardKeyClause, key, *keys)
	{
		bool		found = false;

		foreach_ptr(Path, path, innerrel->pathlist)
		{
			ShardKeyedPath	keyed = {.fraction = 1, .nkeys = outer_rows};

			if (shard_key_filter_path(root, path, list_make1(key), list_make1(key->inner),
						 &keyed) != NULL)
			{
				found = true;
				break;
			}
		}
		if (found)
			usable = lappend(usable, key);
	}
	if (usable == NIL)
		return false;

	best->fraction = filtered_fraction(root, outerrel, outer_rows, innerrel, usable);
	foreach_ptr(Path, path, innerrel->pathlist)
	{
		ShardKeyedPath	keyed = {.fraction = best->fraction, .nkeys = outer_rows};
		List	   *exprs = NIL;

		foreach_ptr(ShardKeyClause, clause, usable)
			exprs = lappend(exprs, clause->inner);
		keyed.path = shard_key_filter_path(root, path, usable, exprs, &keyed);
		if (keyed.path != NULL &&
			(best->path == NULL || keyed.path->total_cost < best->path->total_cost))
			*best = keyed;
	}
	*keys = usable;
	return best->path != NULL;
}

/* Rows of the first batch. */
static double
first_batch_rows(PlannerInfo *root)
{
	/* with a LIMIT, the join may need few of them */
	if (root->limit_tuples >= 0)
		return MIN_BATCH_ROWS;
	return MAX_BATCH_ROWS;
}

/*
 * Is it enough for most keys to query a part of the shards first?  Then the other shards are queried only for keys
 * without a match so far.
 */
static bool
runs_in_rounds(JoinType jointype, const Path *outer, const ShardKeyedPath *inner)
{
	return (jointype == JOIN_SEMI || jointype == JOIN_ANTI) &&
		IsA(inner->path, ForeignPath) && !inner->splits &&
		inner->path->rows >= outer->rows * MIN_ROUND_ROWS;
}

/* The number of batches for outer_rows rows of this width. */
static double
count_batches(double first_rows, double outer_rows, int width)
{
	double		max_rows = Max(get_hash_memory_limit() / (double) (width + 100), MIN_BATCH_ROWS);
	double		limit = Min(first_rows, max_rows);
	double		batches = 0;

	max_rows = Min(max_rows, MAX_BATCH_ROWS);
	while (outer_rows > 0 && limit < max_rows)
	{
		outer_rows -= limit;
		limit *= BATCH_GROWTH;
		batches++;
	}
	if (outer_rows > 0)
		batches += ceil(outer_rows / max_rows);
	return Max(batches, 1);
}

static void
set_costs(CustomPath *path, RelOptInfo *joinrel, const Path *outer,
		  const ShardKeyedPath *inner, double first_rows, int nclauses)
{
	double		batches = count_batches(first_rows, outer->rows, outer->pathtarget->width);
	double		first_part = Min(1.0, first_rows / Max(outer->rows, 1));
	Cost		cpu;

	/* hashing on both sides, checking each pair that matches, forming rows */
	cpu = outer->rows * (cpu_operator_cost * nclauses + cpu_tuple_cost) +
		inner->path->rows * cpu_operator_cost * (nclauses + 1) +
		joinrel->rows * (cpu_operator_cost * nclauses + cpu_tuple_cost +
						 joinrel->reltarget->cost.per_tuple);
	path->path.rows = joinrel->rows;
	path->path.startup_cost = outer->startup_cost +
		(outer->total_cost - outer->startup_cost) * first_part +
		inner->path->startup_cost + joinrel->reltarget->cost.startup;
	path->path.total_cost = outer->total_cost + inner->path->total_cost +
		(batches - 1) * inner->rescan + cpu + joinrel->reltarget->cost.startup;
	shard_path_disabled_nodes(&path->path, outer, inner->path);
}

static void
add_key_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
			 JoinType jointype, JoinPathExtraData *extra)
{
	Path	   *outer;
	ShardKeyedPath	inner;
	List	   *keys;
	ShardKeyJoinPlan *plan;
	CustomPath *path;

	if (!choose_outer(root, outerrel, &jointype, extra, &outer))
		return;
	keys = find_keys(root, joinrel, outerrel, innerrel, jointype, extra->restrictlist);
	if (keys == NIL || !choose_inner(root, outerrel, outer->rows, innerrel, &keys, &inner))
		return;

	plan = palloc0(sizeof(ShardKeyJoinPlan));
	plan->jointype = jointype;
	plan->first_rows = first_batch_rows(root);
	plan->in_rounds = runs_in_rounds(jointype, outer, &inner);

	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = joinrel;
	path->path.pathtarget = joinrel->reltarget;
	path->path.parallel_safe = false;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make2(outer, inner.path);
	path->custom_private = list_make3(plan, keys, extra->restrictlist);
	path->methods = &path_methods;
	set_costs(path, joinrel, outer, &inner, plan->first_rows,
			  list_length(extra->restrictlist));
	add_path(joinrel, &path->path);
}

/* Can nodes return rows of the relation by keys?  A relation of reference tables only is local. */
static bool
is_remote(const RelOptInfo *rel)
{
	return rel->fdw_private != NULL && shard_relinfo_is_ours(rel) &&
		!((ShardRelInfo *) rel->fdw_private)->reference &&
		/* each batch of keys would read another sample */
		((ShardRelInfo *) rel->fdw_private)->sample == NULL;
}

static void
key_join_pathlist(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
				  RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra)
{
	if (prev_join_pathlist_hook)
		prev_join_pathlist_hook(root, joinrel, outerrel, innerrel, jointype, extra);

	/* if the level marks rows, the join may run again within EvalPlanQual: left to core */
	if (!shard_guc_enable_key_join || root->rowMarks != NIL ||
		(root->parse->commandType != CMD_SELECT && root->parse->commandType != CMD_INSERT) ||
		IS_OTHER_REL(joinrel) || shard_rel_is_grouped(joinrel) ||
		!bms_is_empty(joinrel->lateral_relids))
		return;
	if (!is_remote(innerrel) && innerrel->rtekind != RTE_SUBQUERY)
		return;

	/*
	 * A join that nodes compute returns at most the rows that a key join would fetch.  It does not depend on the
	 * actual number of outer rows.  But a remote join with a reference table reads that table once per shard.  The
	 * coordinator may find the few reference rows itself.
	 *
	 */
	if (is_remote(joinrel) && (is_remote(outerrel) || !is_remote(innerrel)))
		return;
	add_key_join(root, joinrel, outerrel, innerrel, jointype, extra);
}

void
shard_key_join_init(void)
{
	prev_join_pathlist_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = key_join_pathlist;
}
