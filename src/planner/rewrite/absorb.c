/*
 * absorb.c
 *	  Sub-selects in FROM that nodes compute completely, as sides of remote joins.
 *
 * A sub-select that groups, removes duplicates or computes windows is planned as a separate query level.  If nodes
 * compute all of it, shard by shard, its rows are a union over the shards, like the rows of a sharded table:
 *
 *	  level below: ShardRemoteQuery of its topmost stage
 *		-> RelOptInfo of the RTE gets routine, server, user, and a ShardRelInfo with
 *		   FROM (query); its keys are the columns that have the key's values
 *		-> core offers joins with it, and upper stages above it
 *
 * If such a join is chosen, the level has no part in the plan.  But its tables have to be in the statement's range
 * table, for permissions and locks.  Core adds the tables of sub-selects that it has never planned, so
 * shard_absorb_release() makes the RTE look like that.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "compat.h"
#include "deparse/shippable/shippable.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "planner/path/relinfo.h"
#include "planner/rewrite/absorb.h"

/*
 * The relation of the topmost stage of the level.  NULL if the level has no such stage, or if another step follows
 * the stage.
 */
static RelOptInfo *
topmost_stage(PlannerInfo *root)
{
	const Query *parse = root->parse;
	UpperRelationKind stage;

	if (parse->commandType != CMD_SELECT || parse->setOperations != NULL ||
		parse->limitCount != NULL || parse->limitOffset != NULL || parse->rowMarks != NIL ||
		parse->hasTargetSRFs || parse->groupingSets != NIL ||
		root->init_plans != NIL || root->hasPseudoConstantQuals)
		return NULL;

	/* returns a row even for an empty input: shards that are not live would have to return their row, too */
	if (parse->groupClause == NIL && (parse->hasAggs || parse->havingQual != NULL))
		return NULL;

	if (parse->distinctClause != NIL)
		stage = UPPERREL_DISTINCT;
	else if (parse->hasWindowFuncs)
		stage = UPPERREL_WINDOW;
	else if (parse->groupClause != NIL)
		stage = UPPERREL_GROUP_AGG;
	else
		return NULL;
	return root->upper_rels[stage] != NIL ? linitial(root->upper_rels[stage]) : NULL;
}

/*
 * Columns in conditions on the rows of the sub-select, numbered as by pull_varattnos().  Core does not count these as
 * needed.
 */
static Bitmapset *
condition_columns(const RelOptInfo *rel)
{
	Bitmapset  *columns = NULL;

	foreach_node(RestrictInfo, rinfo, rel->baserestrictinfo)
		pull_varattnos((Node *) rinfo->clause, rel->relid, &columns);
	return columns;
}

/* The level's target list as the output of the remote query, or NIL if nodes cannot compute some of it. */
static List *
make_tlist(PlannerInfo *root, RelOptInfo *rel, const ShardRelInfo *info)
{
	List	   *tlist = NIL;
	Bitmapset  *in_conditions = condition_columns(rel);

	foreach_node(TargetEntry, entry, root->processed_tlist)
	{
		if (entry->resjunk)
			continue;

		/* core has replaced an unneeded column by NULL */
		if (IsA(entry->expr, Const) && ((Const *) entry->expr)->constisnull &&
			entry->resno <= rel->max_attr &&
			bms_is_empty(rel->attr_needed[entry->resno - rel->min_attr]) &&
			!bms_is_member(entry->resno - FirstLowInvalidHeapAttributeNumber, in_conditions))
			continue;
		if (root->parse->hasWindowFuncs ?
			!shard_shippable_window_expr(root, info->from->relids, entry->expr) :
			!shard_shippable_agg_expr(root, info->from->relids, entry->expr))
			return NIL;
		tlist = lappend(tlist, flatCopyTargetEntry(entry));
	}
	return tlist;
}

/* Keys of the level's relation, in terms of the columns that have the key's values. */
static List *
make_keys(const ShardRelInfo *info, List *tlist, Index rtindex)
{
	List	   *keys = NIL;

	foreach_ptr(const ShardDistKey, key, info->keys)
	{
		ShardDistKey *named = palloc0(sizeof(ShardDistKey));

		named->nullable = key->nullable;
		foreach_ptr(Expr, expr, key->exprs)
		{
			foreach_node(TargetEntry, entry, tlist)
			{
				if (!shard_relinfo_same_expr(entry->expr, expr))
					continue;
				named->exprs = lappend(named->exprs, makeVarFromTargetEntry(rtindex, entry));
				break;
			}
		}
		if (list_length(named->exprs) == info->nkeycols && info->nkeycols > 0)
			keys = lappend(keys, named);
	}
	return keys;
}

typedef struct OutsideContext
{
	List	   *tlist;			/* of the sub-select */
	Index		rtindex;
} OutsideContext;

/* Replaces parts of an expression of the level below by the columns of the sub-select that have the same expression. */
static Node *
outside_mutator(Node *node, OutsideContext *cxt)
{
	if (node == NULL)
		return NULL;
	foreach_node(TargetEntry, entry, cxt->tlist)
	{
		if (equal(entry->expr, node))
			return (Node *) makeVarFromTargetEntry(cxt->rtindex, entry);
	}
	return expression_tree_mutator(node, outside_mutator, cxt);
}

/*
 * Core has moved some conditions (row_number() <= 3) into the windows, where the scan would check them.  Turns these
 * into conditions on the rows of the sub-select again.
 */
static bool
take_run_conditions(PlannerInfo *root, RelOptInfo *rel, const ShardRelInfo *sub, ShardFrom *from)
{
	OutsideContext cxt = {from->query->tlist, rel->relid};

	foreach_ptr(Node, expr, sub->local_having)
	{
		Node	   *condition = outside_mutator(expr, &cxt);

		if (contain_window_function(condition) ||
			!bms_is_subset(pull_varnos(root, condition), rel->relids) ||
			!shard_shippable_expr(root, rel->relids, (Expr *) condition))
			return false;
		from->where = lappend(from->where, condition);
	}
	return true;
}

/* Is a row of the sub-select needed as one value?  Remote queries cannot return an anonymous row type. */
static bool
needs_whole_row(const RelOptInfo *rel)
{
	return !bms_is_empty(rel->attr_needed[-rel->min_attr]) ||
		bms_is_member(-FirstLowInvalidHeapAttributeNumber, condition_columns(rel));
}

/* Moves the remaining conditions on the rows of the sub-select into from.  False if nodes cannot check all of them. */
static bool
take_conditions(PlannerInfo *root, RelOptInfo *rel, ShardFrom *from)
{
	foreach_node(RestrictInfo, rinfo, rel->baserestrictinfo)
	{
		if (rinfo->pseudoconstant ||
			!shard_relinfo_security_allows(rinfo, rel->baserestrict_min_security) ||
			!shard_shippable_expr(root, rel->relids, rinfo->clause))
			return false;
		from->where = lappend(from->where, rinfo->clause);
	}
	return true;
}

/*
 * May the result depend on the order in which a sub-select returns its rows?  LIMIT and DISTINCT ON take the first
 * rows, and some aggregates and windows read rows in this order.  If the level only passes the rows on, another level
 * or the client may do the same.
 */
static bool
depends_on_order(const PlannerInfo *root)
{
	const Query *parse = root->parse;

	if (parse->hasAggs || parse->hasWindowFuncs || parse->hasDistinctOn)
		return true;
	if (parse->sortClause != NIL)
		return false;
	return parse->limitCount != NULL || parse->limitOffset != NULL ||
		(parse->distinctClause == NIL && parse->groupClause == NIL && bms_membership(root->all_baserels) == BMS_SINGLETON);
}

void
shard_absorb_subselect(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	RelOptInfo *top;
	ShardRelInfo *sub;
	ShardRelInfo *info;
	ShardRemoteQuery *query;
	ShardFrom  *from;

	if (rte->rtekind != RTE_SUBQUERY || rte->security_barrier || rte->securityQuals != NIL ||
		rel->reloptkind != RELOPT_BASEREL || rel->subroot == NULL || IS_DUMMY_REL(rel) ||
		!bms_is_empty(rel->lateral_relids) || rel->subplan_params != NIL ||
		root->rowMarks != NIL || needs_whole_row(rel) ||
		(root->parse->commandType != CMD_SELECT && root->parse->commandType != CMD_INSERT))
		return;
	top = topmost_stage(rel->subroot);
	if (top == NULL || (sub = top->fdw_private) == NULL || sub->query == NULL ||
		sub->local_conds != NIL || sub->reference ||
		(sub->local_having != NIL && sub->query->windows == NIL) ||
		sub->query->limit != NULL || sub->query->per_node ||
		sub->kind == SHARD_REL_PARTIAL_GROUP)
		return;

	/* the rows of shards have no common order above the sub-select */
	if (rel->subroot->parse->sortClause != NIL && depends_on_order(root))
		return;

	query = palloc(sizeof(ShardRemoteQuery));
	*query = *sub->query;
	query->tlist = make_tlist(rel->subroot, rel, sub);
	if (query->tlist == NIL)
		return;
	if (query->distinct_on == NIL)
		query->sort = NIL;

	from = palloc0(sizeof(ShardFrom));
	from->kind = SHARD_FROM_QUERY;
	from->rtindex = rel->relid;
	from->relids = bms_copy(rel->relids);
	from->query = query;
	if (!take_conditions(root, rel, from) || !take_run_conditions(root, rel, sub, from))
		return;

	info = palloc(sizeof(ShardRelInfo));
	*info = *sub;
	info->kind = SHARD_REL_SCAN;
	info->query = NULL;
	info->local_having = NIL;
	info->from = from;
	info->rtindex = 0;			/* conditions for pruning are over tables of the level below */
	info->keys = make_keys(sub, query->tlist, rel->relid);
	info->remote_conds = NIL;
	info->columns = NULL;
	info->min_security = rel->baserestrict_min_security;
	info->rows = rel->rows;
	info->width = rel->reltarget->width;

	/* all paths of the relation, including those that core has already added, read from nodes */
	rel->consider_parallel = false;
	rel->partial_pathlist = NIL;
	rel->fdw_private = info;
	rel->serverid = top->serverid;
	rel->userid = top->userid;
	rel->useridiscurrent = top->useridiscurrent;
	rel->fdwroutine = top->fdwroutine;
}

void
shard_absorb_release(PlannerInfo *root, const ShardFrom *from)
{
	RelOptInfo *rel;

	if (from->kind == SHARD_FROM_JOIN)
	{
		shard_absorb_release(root, from->outer);
		shard_absorb_release(root, from->inner);
	}
	if (from->kind != SHARD_FROM_QUERY)
		return;

	rel = find_base_rel(root, from->rtindex);
	if (rel->subroot == NULL)
		return;
	shard_absorb_release(rel->subroot, from->query->from);

	/* the planned level also has the tables of functions that were inlined in it */
	planner_rt_fetch(rel->relid, root)->subquery = rel->subroot->parse;
	rel->subroot = NULL;
}
