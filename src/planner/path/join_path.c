/*
 * join_path.c
 *	  Joins that nodes compute, shard by shard.
 *
 * Core offers each pair of relations of the cluster.  D is a sharded relation, R a relation of reference tables only.
 * A join can be pushed down if each remote query finds two things on its shard and in the reference tables.  The
 * first is all rows that a result row is made of.  The second is all rows that decide whether there is such a result
 * row:
 *
 *	   R any R		all rows are on every node, but also on the coordinator: no path
 *	   D INNER R, D LEFT R, D SEMI R, D ANTI R
 *					each row of D is joined with all of R
 *	   R LEFT D, R SEMI D, R ANTI D, FULL joins with R
 *					if the planner has pruned D to one live shard
 *	   D any D		if both are colocated and joined on equal shard keys,
 *					or if both have the same single live shard
 *
 * The info of a join:
 *
 *	   from		the join of both sides' from.  All conditions of INNER and SEMI joins
 *				are in ON.  For other joins, conditions from above the join are in WHERE.
 *	   keys		keys of both sides if both sides are visible; nullable if the join adds
 *				rows of NULLs.  FULL: also COALESCE of both keys, as USING shows it.
 *				Columns of R that equal a key of D are a key, too.
 *	   live		INNER, SEMI: in both; LEFT, ANTI: the outer side's; FULL: in either
 *
 * The coordinator checks the conditions that nodes cannot check, if the join type allows that.  Such a join takes no
 * part in further remote joins.
 */
#include "postgres.h"

#include <float.h>

#include "access/sysattr.h"
#include "catalog/colocate.h"
#include "compat.h"
#include "deparse/convert.h"
#include "deparse/shippable/shippable.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/restrictinfo.h"
#include "planner/path/cost.h"
#include "planner/path/fdw_planner.h"
#include "planner/path/foreign_path.h"
#include "planner/path/refusal.h"
#include "planner/path/relinfo.h"
#include "planner/path/remote_estimate.h"
#include "utils/lsyscache.h"

/* Lower bound for the fraction of outer rows that an anti join with an inequality returns.  Core estimates one row. */
#define MIN_ANTI_JOIN_FRACTION 0.05

/* A join under consideration. */
typedef struct JoinContext
{
	PlannerInfo *root;
	RelOptInfo *joinrel;
	RelOptInfo *outerrel;
	RelOptInfo *innerrel;
	ShardRelInfo *outer;
	ShardRelInfo *inner;
	JoinType	jointype;		/* INNER, LEFT, FULL, SEMI or ANTI */
	List	   *own;			/* RestrictInfos of the join itself, shippable */
	List	   *above;			/* shippable ones from above an outer join */
	List	   *local;			/* those that the coordinator checks */
	Index		min_security;
	ShardDistKey *outer_key;	/* keys that the join equates; NULL if it does not need any */
	ShardDistKey *inner_key;
	List	   *shown;			/* see ShardFrom */
} JoinContext;

static bool
refuse(const JoinContext *cxt, const char *reason)
{
	return shard_refusal_of_join(cxt->root, cxt->joinrel, cxt->outerrel, cxt->innerrel, reason);
}

/* Does the query level lock or change rows?  Then core may fetch rows again (EvalPlanQual). */
static bool
marks_rows(PlannerInfo *root)
{
	return root->rowMarks != NIL ||
		root->parse->commandType == CMD_UPDATE ||
		root->parse->commandType == CMD_DELETE ||
		root->parse->commandType == CMD_MERGE;
}

/* The info of one side, or NULL if the side cannot take part in remote joins. */
static ShardRelInfo *
side_info(const JoinContext *cxt, const RelOptInfo *rel)
{
	ShardRelInfo *info = rel->fdw_private;

	if (info == NULL || !bms_is_empty(rel->lateral_relids))
		return NULL;
	if (info->local_conds != NIL || info->gated)
	{
		(void) refuse(cxt, "a condition of one side must be checked on the coordinator");
		return NULL;
	}
	if (info->query != NULL)
	{
		(void) refuse(cxt, "one side is more than a scan or join");
		return NULL;
	}

	/* system columns are needed (a single foreign table) */
	if (bms_next_member(info->columns, -1) >= 0 &&
		bms_next_member(info->columns, -1) < 0 - FirstLowInvalidHeapAttributeNumber)
		return NULL;
	return info;
}

/* Sorts the conditions of the join.  False if nodes cannot check a condition that must be checked in the join. */
static bool
sort_conditions(JoinContext *cxt, List *restrictlist)
{
	foreach_node(RestrictInfo, rinfo, restrictlist)
	{
		bool		own = cxt->jointype == JOIN_INNER || cxt->jointype == JOIN_SEMI ||
			!RINFO_IS_PUSHED_DOWN(rinfo, cxt->joinrel->relids);
		bool		shippable;

		/* constant true: on 16, core leaves it in place of a condition that it has replaced */
		if (IsA(rinfo->clause, Const) && !((Const *) rinfo->clause)->constisnull &&
			DatumGetBool(((Const *) rinfo->clause)->constvalue))
			continue;
		shippable = shard_relinfo_security_allows(rinfo, cxt->min_security) &&
			shard_shippable_expr(cxt->root, cxt->joinrel->relids, rinfo->clause);
		/* core would check it in a Result above a local join, but not above a remote join */
		if (rinfo->pseudoconstant && !shippable)
			return refuse(cxt, "a condition without columns must be tested on the coordinator");

		if (own && shippable)
			cxt->own = lappend(cxt->own, rinfo);
		else if (own && cxt->jointype != JOIN_INNER)
			return refuse(cxt, "a condition of the join must be checked on the coordinator");
		else if (shippable)
			cxt->above = lappend(cxt->above, rinfo);
		else
			cxt->local = lappend(cxt->local, rinfo);
	}
	return true;
}

/* Range table indexes of sub-selects in from. */
static Relids
subquery_relids(const ShardFrom *from)
{
	if (from->kind == SHARD_FROM_JOIN)
		return bms_union(subquery_relids(from->outer), subquery_relids(from->inner));
	return from->kind == SHARD_FROM_QUERY ? from->relids : NULL;
}

/*
 * The inner side of a semi join becomes EXISTS, which returns no columns.  If core needs an inner column above the
 * join only as a member of an equivalence class, an equal column of the outer side can replace it.
 */
static bool
show_inner_var(JoinContext *cxt, Var *var)
{
	foreach_node(RestrictInfo, rinfo, cxt->own)
	{
		OpExpr	   *op = (OpExpr *) rinfo->clause;
		Var		   *other;

		if (rinfo->mergeopfamilies == NIL || !IsA(op, OpExpr) || list_length(op->args) != 2)
			continue;
		if (shard_relinfo_same_expr(linitial(op->args), (Expr *) var))
			other = lsecond(op->args);
		else if (shard_relinfo_same_expr(lsecond(op->args), (Expr *) var))
			other = linitial(op->args);
		else
			continue;
		if (!IsA(other, Var) || !bms_is_member(other->varno, cxt->outerrel->relids) ||
			other->vartype != var->vartype || other->varcollid != var->varcollid)
			continue;
		cxt->shown = lappend(lappend(cxt->shown, var), other);
		return true;
	}
	return refuse(cxt, "columns of the inner side are needed above it");
}

/* Can nodes return the columns that are needed above the join? */
static bool
columns_ok(JoinContext *cxt, const ShardFrom *from)
{
	List	   *vars = pull_var_clause((Node *) cxt->joinrel->reltarget->exprs,
									   PVC_RECURSE_PLACEHOLDERS);
	Relids		subqueries = subquery_relids(from);

	vars = list_concat(vars, pull_var_clause((Node *) extract_actual_clauses(cxt->local, false),
											 PVC_RECURSE_PLACEHOLDERS));
	foreach_node(Var, var, vars)
	{
		if (var->varattno < 0)
			return refuse(cxt, "a system column is needed");
		if (var->varattno == 0 && bms_is_member(var->varno, subqueries))
			return refuse(cxt, "the whole row of a sub-select is needed");
		if (cxt->jointype == JOIN_SEMI && bms_is_member(var->varno, cxt->innerrel->relids) &&
			!show_inner_var(cxt, var))
			return false;
	}

	foreach_ptr(PlaceHolderInfo, phinfo, cxt->root->placeholder_list)
	{
		Relids		relids = IS_OTHER_REL(cxt->joinrel) ?
			cxt->joinrel->top_parent_relids : cxt->joinrel->relids;

		if (bms_is_subset(phinfo->ph_eval_at, relids) &&
			bms_nonempty_difference(relids, phinfo->ph_eval_at))
			return refuse(cxt, "an expression must be evaluated below it");
	}
	return true;
}

/*
 * Is expr, an operand of a condition over relids, equal to column keyno of key?  An equivalence class proves that
 * only if no outer join can have made the column NULL.
 */
static bool
stands_for(JoinContext *cxt, const ShardRelInfo *info, Relids relids, const ShardDistKey *key,
		   int keyno, Expr *expr)
{
	Expr	   *column = list_nth(key->exprs, keyno);

	return shard_relinfo_same_expr(expr, column) ||
		(!key->nullable &&
		 shard_relinfo_equal_by_class(cxt->root, info, keyno, relids, expr, column));
}

/*
 * Finds a condition of the join that compares column keyno of a key of rel with an operand over other.  Returns that
 * operand, or NULL. like: a key of other whose column keyno the operand has to equal; NULL accepts any operand.
 */
static Expr *
equated_expr(JoinContext *cxt, const ShardRelInfo *info, RelOptInfo *rel, const ShardDistKey *key,
			 int keyno, RelOptInfo *other, const ShardDistKey *like)
{
	foreach_node(RestrictInfo, rinfo, cxt->own)
	{
		OpExpr	   *op = (OpExpr *) rinfo->clause;

		if (!IsA(op, OpExpr) || list_length(op->args) != 2 ||
			op->inputcollid != info->key_collations[keyno] ||
			get_op_opfamily_strategy(op->opno, info->key_opfamilies[keyno]) != info->key_strategies[keyno])
			continue;
		for (int side = 0; side < 2; side++)
		{
			Expr	   *mine = list_nth(op->args, side);
			Expr	   *theirs = list_nth(op->args, 1 - side);
			Relids		their_relids = side == 0 ? rinfo->right_relids : rinfo->left_relids;

			if (!bms_is_empty(their_relids) && bms_is_subset(their_relids, other->relids) &&
				stands_for(cxt, info, rel->relids, key, keyno, mine) &&
				(like == NULL || stands_for(cxt, info, other->relids, like, keyno, theirs)))
				return theirs;
		}
	}
	return NULL;
}

/* Does the join require that column keyno of both keys is equal? */
static bool
joined_on_column(JoinContext *cxt, const ShardDistKey *outer_key, const ShardDistKey *inner_key,
				 int keyno)
{
	const ShardRelInfo *info = cxt->outer;
	Expr	   *outer_value;
	Expr	   *inner_value;

	if (equated_expr(cxt, info, cxt->outerrel, outer_key, keyno, cxt->innerrel, inner_key) != NULL)
		return true;

	/*
	 * If both columns are equal to a constant or parameter, core makes no join condition.  On 16, core also removes
	 * such a condition from an outer join.
	 */
	if (outer_key->nullable || inner_key->nullable)
		return false;
	if ((cxt->jointype == JOIN_INNER || cxt->jointype == JOIN_SEMI) &&
		shard_relinfo_equal_by_class(cxt->root, info, keyno, cxt->joinrel->relids,
									 list_nth(outer_key->exprs, keyno),
									 list_nth(inner_key->exprs, keyno)))
		return true;
	outer_value = shard_relinfo_class_constant(cxt->root, info, keyno, cxt->outerrel->relids,
											   list_nth(outer_key->exprs, keyno));
	inner_value = shard_relinfo_class_constant(cxt->root, info, keyno, cxt->innerrel->relids,
											   list_nth(inner_key->exprs, keyno));
	return outer_value != NULL && inner_value != NULL && equal(outer_value, inner_value);
}

/* Does the join require that all columns of some key of each side are equal? */
static bool
joined_on_key(JoinContext *cxt)
{
	foreach_ptr(ShardDistKey, outer, cxt->outer->keys)
	{
		foreach_ptr(ShardDistKey, inner, cxt->inner->keys)
		{
			int			keyno = 0;

			while (keyno < cxt->outer->nkeycols &&
				   joined_on_column(cxt, outer, inner, keyno))
				keyno++;
			if (keyno == cxt->outer->nkeycols && keyno > 0)
			{
				cxt->outer_key = outer;
				cxt->inner_key = inner;
				return true;
			}
		}
	}
	return false;
}

/* Can nodes compute the join (see the rules at the top of the file)? info->live has to be set. */
static bool
is_exact(JoinContext *cxt, const ShardRelInfo *info)
{
	const ShardRelInfo *outer = cxt->outer;
	const ShardRelInfo *inner = cxt->inner;

	if (outer->reference && inner->reference)
		return true;
	if (inner->reference && cxt->jointype != JOIN_FULL)
		return true;
	if (outer->reference && cxt->jointype == JOIN_INNER)
		return true;
	if (outer->reference || inner->reference)
		return info->nlive == 1 ||
			refuse(cxt, "a reference table is on the preserved side, and several shards are read");

	/* nodes must not run a side with live_only on shards other than its live ones */
	if ((outer->live_only && !bms_is_subset(info->live, outer->live)) ||
		(inner->live_only && !bms_is_subset(info->live, inner->live)))
		return refuse(cxt, "one side is read on some of its shards only");
	if (!shard_colocated(outer->relid, inner->relid))
		return refuse(cxt, "the tables are not colocated");
	return joined_on_key(cxt) ||
		(outer->nlive == 1 && inner->nlive == 1 && bms_equal(outer->live, inner->live)) ||
		refuse(cxt, "the join is not on the shard key");
}

static List *
make_nullable(List *keys)
{
	List	   *result = NIL;

	foreach_ptr(ShardDistKey, original, keys)
	{
		ShardDistKey *key = palloc(sizeof(ShardDistKey));

		*key = *original;
		key->nullable = true;
		result = lappend(result, key);
	}
	return result;
}

/*
 * The keys that FULL JOIN ... USING shows: COALESCE of both.  A row without a match on the other side lies on the
 * shard that its own key gives.
 */
static List *
merged_keys(JoinContext *cxt)
{
	ShardDistKey *merged[2] = {palloc0(sizeof(ShardDistKey)), palloc0(sizeof(ShardDistKey))};
	ListCell   *lc;
	ListCell   *lc2;

	if (cxt->outer_key == NULL || cxt->outer_key->nullable || cxt->inner_key->nullable)
		return NIL;
	forboth(lc, cxt->outer_key->exprs, lc2, cxt->inner_key->exprs)
	{
		merged[0]->exprs = lappend(merged[0]->exprs, shard_convert_coalesce(lfirst(lc), lfirst(lc2)));
		merged[1]->exprs = lappend(merged[1]->exprs, shard_convert_coalesce(lfirst(lc2), lfirst(lc)));
	}
	return list_make2(merged[0], merged[1]);
}

/*
 * Keys of the sharded side, named by columns of the reference tables that it is joined with: columns that join
 * conditions equate with the key. nullable: the reference side may be NULL-extended.
 */
static List *
reference_keys(JoinContext *cxt, bool nullable)
{
	bool		outer_sharded = !cxt->outer->reference;
	const ShardRelInfo *info = outer_sharded ? cxt->outer : cxt->inner;
	RelOptInfo *rel = outer_sharded ? cxt->outerrel : cxt->innerrel;
	RelOptInfo *other = outer_sharded ? cxt->innerrel : cxt->outerrel;
	List	   *result = NIL;

	foreach_ptr(ShardDistKey, key, info->keys)
	{
		ShardDistKey *named = palloc0(sizeof(ShardDistKey));

		for (int keyno = 0; keyno < info->nkeycols; keyno++)
		{
			Expr	   *expr = equated_expr(cxt, info, rel, key, keyno, other, NULL);

			if (expr != NULL)
				named->exprs = lappend(named->exprs, expr);
		}
		named->nullable = nullable || key->nullable;
		if (list_length(named->exprs) == info->nkeycols && info->nkeycols > 0)
			result = lappend(result, named);
	}
	return result;
}

/* Keys of the join.  Does not change the lists of both sides. */
static List *
join_keys(JoinContext *cxt)
{
	List	   *outer = cxt->outer->keys;
	List	   *inner = cxt->inner->keys;

	switch (cxt->jointype)
	{
		case JOIN_INNER:
			if (cxt->outer->reference || cxt->inner->reference)
				return list_concat(list_concat_copy(outer, inner), reference_keys(cxt, false));
			return list_concat_copy(outer, inner);
		case JOIN_LEFT:
			if (cxt->inner->reference)
				return list_concat_copy(outer, reference_keys(cxt, true));
			/* also right for R LEFT D with one live shard: all rows are on that shard */
			return list_concat_copy(outer, make_nullable(inner));
		case JOIN_FULL:
			return list_concat(list_concat(make_nullable(outer), make_nullable(inner)),
							   merged_keys(cxt));
		default:
			return outer;
	}
}

/* Sets the table whose shards are queried, its live shards, and the conditions for pruning at execution start. */
static void
fill_shards(JoinContext *cxt, ShardRelInfo *info)
{
	const ShardRelInfo *outer = cxt->outer;
	const ShardRelInfo *inner = cxt->inner;
	const ShardRelInfo *driver = outer->reference ? inner : outer;
	bool		both_decide = cxt->jointype == JOIN_INNER || cxt->jointype == JOIN_SEMI;

	if (!outer->reference && !inner->reference)
	{
		if (both_decide)
			info->live = bms_intersect(outer->live, inner->live);
		else if (cxt->jointype == JOIN_FULL)
			info->live = bms_union(outer->live, inner->live);
		else
			info->live = outer->live;

		/* use the pruning conditions of the side that leaves fewer shards */
		if (both_decide && inner->prune_conds != NIL &&
			(outer->prune_conds == NIL || inner->nexpected < outer->nexpected))
			driver = inner;
	}
	else
		info->live = driver->live;

	info->relid = driver->relid;
	info->rtindex = driver->rtindex;
	info->map = driver->map;
	info->sharded = driver->sharded;
	info->nkeycols = driver->nkeycols;
	info->key_opfamilies = driver->key_opfamilies;
	info->key_collations = driver->key_collations;
	info->key_strategies = driver->key_strategies;

	info->nlive = bms_num_members(info->live);
	info->nexpected = info->nlive;
	if (both_decide || (driver == outer && cxt->jointype != JOIN_FULL))
	{
		info->prune_conds = driver->prune_conds;
		info->nexpected = Min(info->nlive, driver->nexpected);
	}
	else
		info->live_only = outer->reference || inner->reference;
	info->live_only |= outer->live_only || inner->live_only;
}

/* Does the join have a condition that is not an equality? */
static bool
has_inequality(const JoinContext *cxt)
{
	foreach_node(RestrictInfo, rinfo, cxt->own)
	{
		if (rinfo->mergeopfamilies == NIL)
			return true;
	}
	return false;
}

/*
 * Corrects two estimates of core that are far off.  Without statistics, core assumes 200 distinct values for a key,
 * so joins seem to multiply rows.  Keys have more values, and are mostly unique on one side.  For an anti join with
 * an inequality (another row of the same order), core assumes that nearly each row finds a match, and estimates one
 * row.  Plans above such an estimate would read whole tables per row.
 */
static void
correct_rows(JoinContext *cxt, bool analyzed)
{
	if (!analyzed && cxt->outer_key != NULL)
		cxt->joinrel->rows = Min(cxt->joinrel->rows, Max(cxt->outer->rows, cxt->inner->rows));
	if (cxt->jointype == JOIN_ANTI && has_inequality(cxt))
		cxt->joinrel->rows = Max(cxt->joinrel->rows, cxt->outer->rows * MIN_ANTI_JOIN_FRACTION);
}

/* Makes the info of the join, or returns NULL if nodes cannot compute the join. */
static ShardRelInfo *
make_info(JoinContext *cxt, JoinPathExtraData *extra)
{
	ShardRelInfo *info = palloc0(sizeof(ShardRelInfo));
	ShardFrom  *from;
	Selectivity local_selectivity;

	info->kind = SHARD_REL_JOIN;
	info->reference = cxt->outer->reference && cxt->inner->reference;
	info->min_security = cxt->min_security;
	if (!sort_conditions(cxt, extra->restrictlist))
		return NULL;
	if (info->reference)
	{
		if (cxt->local != NIL)
			return NULL;
	}
	else
		fill_shards(cxt, info);
	if (!is_exact(cxt, info))
		return NULL;

	from = shard_from_join(cxt->jointype, cxt->outer->from, cxt->inner->from,
						   shard_relinfo_clauses(cxt->own));
	from->where = shard_relinfo_clauses(cxt->above);
	if (!columns_ok(cxt, from))
		return NULL;

	from->shown = cxt->shown;
	info->from = from;
	info->local_conds = cxt->local;
	if (!info->reference)
		info->keys = join_keys(cxt);
	info->analyzed = cxt->outer->analyzed && cxt->inner->analyzed;
	info->remote_estimate = cxt->outer->remote_estimate && cxt->inner->remote_estimate;
	correct_rows(cxt, info->analyzed);
	local_selectivity = clauselist_selectivity(cxt->root, cxt->local, 0, JOIN_INNER, NULL);
	info->rows = clamp_row_est(cxt->joinrel->rows / Max(local_selectivity, 1e-10));
	info->width = cxt->joinrel->reltarget->width;
	return info;
}

/* Can the join be computed without comparing each pair of rows? */
static bool
is_equijoin(List *restrictlist)
{
	foreach_node(RestrictInfo, rinfo, restrictlist)
	{
		if (rinfo->can_join && (OidIsValid(rinfo->hashjoinoperator) || rinfo->mergeopfamilies != NIL))
			return true;
	}
	return false;
}

void
shardGetForeignJoinPaths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
						 RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra)
{
	JoinContext cxt = {0};
	ShardRelInfo *info;
	Cost		cheapest;
	Cost		startup;
	Cost		total;

	if (shard_rel_is_grouped(joinrel) || !bms_is_empty(joinrel->lateral_relids))
		return;
	if (marks_rows(root))
	{
		(void) shard_refusal_of_join(root, joinrel, outerrel, innerrel, "rows are locked or changed");
		return;
	}
	if (jointype != JOIN_INNER && jointype != JOIN_LEFT && jointype != JOIN_RIGHT &&
		jointype != JOIN_FULL && jointype != JOIN_SEMI && jointype != JOIN_ANTI)
		return;

	cxt.root = root;
	cxt.joinrel = joinrel;
	cxt.jointype = jointype == JOIN_RIGHT ? JOIN_LEFT : jointype;
	cxt.outerrel = jointype == JOIN_RIGHT ? innerrel : outerrel;
	cxt.innerrel = jointype == JOIN_RIGHT ? outerrel : innerrel;
	if ((cxt.outer = side_info(&cxt, cxt.outerrel)) == NULL ||
		(cxt.inner = side_info(&cxt, cxt.innerrel)) == NULL)
		return;
	cxt.min_security = Min(cxt.outer->min_security, cxt.inner->min_security);

	/*
	 * One order of the join is enough, because the node plans it again.  The node's planner finds the cheapest order,
	 * so the cost is the minimum over all orders that core offers.
	 */
	info = joinrel->fdw_private;
	if (info == NULL && (info = make_info(&cxt, extra)) == NULL)
		return;
	shard_refusal_join_offered(root, joinrel, outerrel, innerrel);
	if (info->reference)
	{
		joinrel->fdw_private = info;
		return;
	}
	cheapest = joinrel->fdw_private ? info->remote_cost : DBL_MAX;
	joinrel->fdw_private = info;
	if (info->remote_estimate && cheapest < DBL_MAX)
		return;					/* the node has estimated the cost, independent of the order */
	shard_cost_join(info, cxt.outer, cxt.outerrel, cxt.inner, cxt.innerrel,
					is_equijoin(extra->restrictlist));
	shard_estimate_ask(root, joinrel, info);
	if (info->remote_cost >= cheapest)
	{
		info->remote_cost = cheapest;
		return;
	}
	shard_cost_path(root, info, joinrel->reltarget,
					extract_actual_clauses(info->local_conds, false), &startup, &total);
	add_path(joinrel, shard_foreign_path_join(root, joinrel, startup, total));
}
