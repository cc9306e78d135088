/*
 * absorb.c
 *	  Sub-selects in FROM that nodes compute whole, as sides of remote joins.
 *
 * A sub-select that groups, removes duplicates or computes windows is planned as
 * a level of its own.  When all of it is remote, shard by shard, then its rows
 * are the union of what it gives on each shard, like those of a sharded table:
 *
 *	  level below: ShardRemoteQuery of its topmost stage
 *		-> RelOptInfo of the RTE: routine, server, user, ShardRelInfo with
 *		   FROM (query); keys are those of its columns that carry the key
 *		-> core offers joins with it, and stages above it
 *
 * When such a join is chosen, the level has no part in the plan.  Its tables still
 * have to be in the statement's range table, for permissions and locks.  Core adds
 * them for sub-selects that were never planned, so the RTE is made to look like that
 * (shard_absorb_release).
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
 * The relation of the topmost stage of a level that computes something, or NULL
 * when there is none or something comes after it.
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

	/* a row even where there are no rows: shards that are not live would have to return theirs, too */
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

/* Columns in conditions on the sub-select's rows, which core does not count as needed; as pull_varattnos() numbers them. */
static Bitmapset *
condition_columns(const RelOptInfo *rel)
{
	Bitmapset  *columns = NULL;
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
		pull_varattnos((Node *) lfirst_node(RestrictInfo, lc)->clause, rel->relid, &columns);
	return columns;
}

/* The level's target list as what the remote query returns, or NIL when nodes cannot compute some of it. */
static List *
make_tlist(PlannerInfo *root, RelOptInfo *rel, const ShardRelInfo *info)
{
	List	   *tlist = NIL;
	Bitmapset  *in_conditions = condition_columns(rel);

	foreach_node(TargetEntry, entry, root->processed_tlist)
	{
		if (entry->resjunk)
			continue;

		/* core has replaced a column that is not needed by NULL */
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

/* Keys of the level's relation, by the columns that carry them. */
static List *
make_keys(const ShardRelInfo *info, List *tlist, Index rtindex)
{
	List	   *keys = NIL;

	foreach_ptr(const ShardDistKey, key, info->keys)
	{
		ShardDistKey *named = palloc0(sizeof(ShardDistKey));
		ListCell   *lc2;

		named->nullable = key->nullable;
		foreach(lc2, key->exprs)
		{
			foreach_node(TargetEntry, entry, tlist)
			{
				if (!shard_relinfo_same_expr(entry->expr, lfirst(lc2)))
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

/* An expression of the level below in terms of the sub-select's columns, as far as it has them. */
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
 * Turns conditions that core has moved into the windows (row_number() <= 3), where
 * the scan would check them, into conditions on the sub-select's rows again.
 */
static bool
take_run_conditions(PlannerInfo *root, RelOptInfo *rel, const ShardRelInfo *sub, ShardFrom *from)
{
	OutsideContext cxt = {from->query->tlist, rel->relid};
	ListCell   *lc;

	foreach(lc, sub->local_having)
	{
		Node	   *condition = outside_mutator(lfirst(lc), &cxt);

		if (contain_window_function(condition) ||
			!bms_is_subset(pull_varnos(root, condition), rel->relids) ||
			!shard_shippable_expr(root, rel->relids, (Expr *) condition))
			return false;
		from->where = lappend(from->where, condition);
	}
	return true;
}

/* Is a row of the sub-select needed as one value?  Remote queries have none of a type without a name. */
static bool
needs_whole_row(const RelOptInfo *rel)
{
	return !bms_is_empty(rel->attr_needed[-rel->min_attr]) ||
		bms_is_member(-FirstLowInvalidHeapAttributeNumber, condition_columns(rel));
}

/* Conditions on the sub-select's rows that stayed outside; false when nodes cannot check them all. */
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

	/* all of its paths, those of core's that are there already included, read from nodes */
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

	/* the level as it was planned also has the tables of functions that were inlined in it */
	planner_rt_fetch(rel->relid, root)->subquery = rel->subroot->parse;
	rel->subroot = NULL;
}
