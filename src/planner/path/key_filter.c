/*
 * key_filter.c
 *	  Filters paths by the keys of a key join.
 *
 *	   copy of the path of a relation, down to
 *		 -> ForeignPath of ours; its query gets the condition
 *			inner_expr = ANY (array of the outer side's values)
 *
 * The path may have nodes of core above the ForeignPath: groupings, sub-selects, sorts, projections.  The expression
 * of the key is translated at each node.  A filter below a node must give the same result as a filter above it.  So
 * at a grouping the key must be one of the grouped expressions, under the same equality.  Path types that limit or
 * number rows (LIMIT, windows, DISTINCT ON, set operations) cannot be filtered.
 *
 * Costs: a filter saves the transfer of rows.  The model assumes that nodes have an index on the key of a table, as
 * everywhere in cost.c.  For joins and groupings it assumes that each batch reads the same pages as a query without
 * the filter.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/route.h"
#include "compat.h"
#include "deparse/convert.h"
#include "deparse/select.h"
#include "deparse/shippable/shippable.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/paramassign.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "plan/plan_private.h"
#include "planner/path/cost.h"
#include "planner/path/key_filter.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/typcache.h"

/* Name of the part of a ForeignPath's fdw_private that holds the added conditions. */
#define FILTER_NAME "shard_keys"

/*
 * If there are at least this many keys, and shards have at least this many rows, the query hides the keys from the
 * nodes' planners.  Otherwise these would estimate the keys one by one.
 */
#define UNSEEN_MIN_KEYS 100
#define UNSEEN_MIN_ROWS 10000

/* A filter of a path: a member of the list in fdw_private. */
typedef struct KeyFilter
{
	ShardKeyClause *key;
	Expr	   *expr;			/* inner_expr = ANY (keys), where keys is param */
	Param	   *param;
} KeyFilter;

/*
 * Makes inner_expr = ANY (keys). inner_expr stands for the key in some relation.  The parameter has no number yet,
 * only the bit SHARD_SELECT_UNSEEN.
 */
static KeyFilter *
make_filter(ShardKeyClause *key, Expr *inner_expr, bool unseen)
{
	KeyFilter  *result = palloc(sizeof(KeyFilter));
	ScalarArrayOpExpr *filter = makeNode(ScalarArrayOpExpr);
	bool		converted = key->value_type != exprType((Node *) key->outer);
	Oid			array = get_array_type(key->value_type);
	Param	   *param = shard_convert_param(unseen ? SHARD_SELECT_UNSEEN : 0, array, -1, get_typcollation(array));

	filter->opno = converted ? lookup_type_cache(key->value_type, TYPECACHE_EQ_OPR)->eq_opr : key->opno;
	filter->opfuncid = get_opcode(filter->opno);
	filter->useOr = true;
	filter->inputcollid = key->collation;
	filter->args = list_make2(copyObject(inner_expr), param);
	filter->location = -1;

	result->key = key;
	result->expr = (Expr *) filter;
	result->param = param;
	return result;
}

/* ------------------------------------------------------------------------
 * The inner path
 * ------------------------------------------------------------------------ */

/* Does the filter keep or remove each group as a whole, if rows are grouped by group_expr under the equality eqop? */
static bool
filter_keeps_groups(const ShardKeyClause *key, Expr *expr, Expr *group_expr, Oid eqop)
{
	return equal(shard_route_strip_relabel(expr), shard_route_strip_relabel(group_expr)) &&
		(!OidIsValid(key->collation) || key->collation == exprCollation((Node *) group_expr)) &&
		equality_ops_are_compatible(key->opno, eqop);
}

/* The same for each key and a list of core's grouping clauses. */
static bool
filters_keep_groups(PlannerInfo *root, List *keys, List *exprs, List *group_clauses)
{
	ListCell   *lc;
	ListCell   *lc2;

	/* for grouping sets, core may use expressions that are not in the target list */
	if (root->parse->groupingSets != NIL)
		return false;
	forboth(lc, keys, lc2, exprs)
	{
		bool		found = false;

		foreach_node(SortGroupClause, clause, group_clauses)
		{
			if (filter_keeps_groups(lfirst(lc), lfirst(lc2),
									(Expr *) get_sortgroupclause_expr(clause, root->processed_tlist),
									clause->eqop))
			{
				found = true;
				break;
			}
		}
		if (!found)
			return false;
	}
	return true;
}

/* The same for groups that a remote query makes. */
static bool
filters_keep_remote_groups(List *keys, List *exprs, List *group_exprs)
{
	ListCell   *lc;
	ListCell   *lc2;

	forboth(lc, keys, lc2, exprs)
	{
		bool		found = false;

		foreach_ptr(Expr, group_expr, group_exprs)
		{
			TypeCacheEntry *type = lookup_type_cache(exprType((Node *) group_expr),
													 TYPECACHE_EQ_OPR);

			if (OidIsValid(type->eq_opr) &&
				filter_keeps_groups(lfirst(lc), lfirst(lc2), group_expr, type->eq_opr))
			{
				found = true;
				break;
			}
		}
		if (!found)
			return false;
	}
	return true;
}

/*
 * Can the key filters be applied to the rows that the query reads, instead of the rows that it returns?  Each new
 * clause of ShardRemoteQuery has to be considered here.
 */
static bool
query_allows_filters(const ShardRemoteQuery *query, List *keys, List *exprs)
{
	List	   *distinct_exprs = NIL;

	if (query->limit != NULL || query->windows != NIL || query->distinct_on != NIL)
		return false;
	if (query->aggregated && !filters_keep_remote_groups(keys, exprs, query->group_exprs))
		return false;
	if (!query->distinct)
		return true;
	foreach_node(TargetEntry, entry, query->tlist)
		distinct_exprs = lappend(distinct_exprs, entry->expr);
	return filters_keep_remote_groups(keys, exprs, distinct_exprs);
}

/* Is one of exprs the shard key, so that each shard gets only the keys that can be on it? */
static bool
filters_shard_key(const ShardRelInfo *info, List *exprs)
{
	if (info->nkeycols != 1)
		return false;
	foreach_ptr(ShardDistKey, key, info->keys)
	{
		foreach_ptr(Expr, expr, exprs)
		{
			if (shard_relinfo_same_expr(linitial(key->exprs), expr))
				return true;
		}
	}
	return false;
}

bool
shard_key_filter_needs_own_scan(const RelOptInfo *rel, const ShardRelInfo *info)
{
	Bitmapset  *columns = bms_copy(info->columns);
	int			first;

	if (info->sharded || info->kind != SHARD_REL_SCAN)
		return false;
	/*
	 * the conditions that the node checks count, too: core takes each of these columns for one of the scan's relation
	 */
	pull_varattnos((Node *) extract_actual_clauses(rel->baserestrictinfo, false), rel->relid, &columns);
	first = bms_next_member(columns, -1);
	return first >= 0 && first < 0 - FirstLowInvalidHeapAttributeNumber;
}

/* Is it an index whose first column is attno, and that supports the key's operator? */
static bool
index_serves_key(Oid indexoid, AttrNumber attno, const ShardKeyClause *key)
{
	Relation	index = index_open(indexoid, AccessShareLock);
	bool		result = index->rd_index->indisvalid &&
		index->rd_index->indkey.values[0] == attno &&
		op_in_opfamily(key->opno, index->rd_opfamily[0]) &&
		(!OidIsValid(key->collation) || key->collation == index->rd_indcollation[0]) &&
		RelationGetIndexPredicate(index) == NIL;

	index_close(index, AccessShareLock);
	return result;
}

/*
 * Will nodes surely look up many keys of expr, a column of rel, in indexes of large shards?  Then their planners need
 * not see the keys.  Without an index they have to, because only a constant array becomes a hash table.
 */
static bool
keys_are_looked_up(PlannerInfo *root, const RelOptInfo *rel, const ShardRelInfo *info,
				   const ShardKeyClause *key, Expr *expr, double nkeys)
{
	const Var  *column = (const Var *) shard_route_strip_relabel(expr);
	bool		result = false;
	Relation	table;
	List	   *indexes;

	if (info->kind != SHARD_REL_SCAN || info->map == NULL || nkeys < UNSEEN_MIN_KEYS ||
		rel->tuples < UNSEEN_MIN_ROWS * info->map->nshards || !IsA(column, Var) ||
		column->varno != rel->relid || column->varattno <= 0)
		return false;
	table = table_open(planner_rt_fetch(rel->relid, root)->relid, NoLock);
	indexes = RelationGetIndexList(table);
	foreach_oid(indexid, indexes)
		result = result || index_serves_key(indexid, column->varattno, key);
	list_free(indexes);
	table_close(table, NoLock);
	return result;
}

/* A copy of a path of ours with the conditions added, or NULL. */
static Path *
key_foreign_path(PlannerInfo *root, ForeignPath *path, List *keys, List *exprs, ShardKeyedPath *keyed)
{
	const ShardRelInfo *info = path->path.parent->fdw_private;
	ForeignPath *copy;
	List	   *filters = NIL;
	Cost		receive;
	ListCell   *lc;
	ListCell   *lc2;

	if (!shard_relinfo_is_ours(path->path.parent) || info == NULL ||
		shard_key_filter_needs_own_scan(path->path.parent, info))
		return NULL;
	if (info->query != NULL && !query_allows_filters(info->query, keys, exprs))
		return NULL;
	forboth(lc, keys, lc2, exprs)
	{
		ShardKeyClause  *key = lfirst(lc);
		bool		unseen = keys_are_looked_up(root, path->path.parent, info, key, lfirst(lc2),
												keyed->nkeys);
		KeyFilter  *filter = make_filter(key, lfirst(lc2), unseen);
		Relids		varnos = pull_varnos(root, (Node *) filter->expr);

		/* a condition without columns would be evaluated on the coordinator, before there are keys */
		if (bms_is_empty(varnos) || !bms_is_subset(varnos, info->from->relids) ||
			!shard_relinfo_security_allows(key->rinfo, info->min_security) ||
			!shard_shippable_expr(root, info->from->relids, filter->expr))
			return NULL;
		filters = lappend(filters, filter);
	}

	copy = makeNode(ForeignPath);
	memcpy(copy, path, sizeof(ForeignPath));
	copy->fdw_private = lappend(list_copy(path->fdw_private),
								makeDefElem(FILTER_NAME, (Node *) filters, -1));

	/* groups arrive at the end of the remote query, rows while it runs */
	receive = path->path.total_cost - path->path.startup_cost;
	if (info->kind == SHARD_REL_SCAN || info->kind == SHARD_REL_JOIN)
		receive -= info->remote_cost;
	receive = Max(receive, 0);
	copy->path.total_cost -= receive * (1 - keyed->fraction);
	copy->path.rows = clamp_row_est(path->path.rows * keyed->fraction);
	if (info->kind == SHARD_REL_SCAN && info->query == NULL)
		copy->path.total_cost -= info->remote_cost -
			Min(info->remote_cost,
				shard_cost_fetch(info, path->path.parent->tuples * keyed->fraction));
	keyed->rescan = copy->path.total_cost - receive * keyed->fraction;
	keyed->splits = filters_shard_key(info, exprs);
	copy->path.total_cost += shard_cost_keys(info, keyed->nkeys, keyed->splits);
	return (Path *) copy;
}

/* Sets the costs of copy. copy is a copy of the upper path over the filtered child. */
static Path *
cost_upper(Path *copy, const Path *path, const Path *old_child, const Path *child, double fraction)
{
	bool		blocks = path->startup_cost >= old_child->total_cost;
	Cost		own = (path->total_cost - old_child->total_cost) * fraction;

	copy->rows = clamp_row_est(path->rows * fraction);
	copy->total_cost = child->total_cost + Max(own, 0);
	if (blocks)
		copy->startup_cost = child->total_cost +
			(path->startup_cost - old_child->total_cost) * fraction;
	else
		copy->startup_cost = child->startup_cost +
			Max(path->startup_cost - old_child->startup_cost, 0);
	return copy;
}

/* Filters the child of a path node with one child, and returns a copy of the node over it. */
#define KEY_UPPER_PATH(type, path) \
	do { \
		type	   *node = (type *) (path); \
		Path	   *child = shard_key_filter_path(root, node->subpath, keys, exprs, keyed); \
		type	   *copy; \
\
		if (child == NULL) \
			return NULL; \
		copy = makeNode(type); \
		memcpy(copy, node, sizeof(type)); \
		copy->subpath = child; \
		return cost_upper((Path *) copy, (path), node->subpath, child, keyed->fraction); \
	} while (0)

/* Filters a sub-select: replaces the keys, which are its output columns, by the expressions of the level below. */
static Path *
key_subquery_path(PlannerInfo *root, SubqueryScanPath *path, List *keys, List *exprs,
				  ShardKeyedPath *keyed)
{
	RelOptInfo *rel = path->path.parent;
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
	PlannerInfo *subroot = rel->subroot;
	List	   *sub_exprs = NIL;
	Path	   *child;
	SubqueryScanPath *copy;

	if (rte->rtekind != RTE_SUBQUERY || rte->security_barrier || subroot == NULL ||
		subroot->parse->setOperations != NULL)
		return NULL;
	foreach_ptr(Expr, key_expr, exprs)
	{
		Expr	   *expr = shard_route_strip_relabel(key_expr);
		TargetEntry *entry;

		if (!IsA(expr, Var) || ((Var *) expr)->varno != rel->relid || ((Var *) expr)->varattno <= 0)
			return NULL;
		entry = get_tle_by_resno(subroot->processed_tlist, ((Var *) expr)->varattno);
		if (entry == NULL || contain_volatile_functions((Node *) entry->expr) ||
			expression_returns_set((Node *) entry->expr))
			return NULL;
		if (IsA(key_expr, RelabelType))
		{
			/* the outermost RelabelType decides type and collation */
			RelabelType *relabel = copyObject((RelabelType *) key_expr);

			relabel->arg = copyObject(entry->expr);
			sub_exprs = lappend(sub_exprs, relabel);
		}
		else
			sub_exprs = lappend(sub_exprs, entry->expr);
	}
	child = shard_key_filter_path(subroot, path->subpath, keys, sub_exprs, keyed);
	if (child == NULL)
		return NULL;
	copy = makeNode(SubqueryScanPath);
	memcpy(copy, path, sizeof(SubqueryScanPath));
	copy->subpath = child;
	return cost_upper((Path *) copy, &path->path, path->subpath, child, keyed->fraction);
}

/*
 * Returns a copy of path that returns the rows whose exprs are among the keys, and maybe other rows.  NULL if nodes
 * cannot filter the path. exprs has one expression over path's relation for each of keys.
 */
Path *
shard_key_filter_path(PlannerInfo *root, Path *path, List *keys, List *exprs, ShardKeyedPath *keyed)
{
	if (path->param_info != NULL || !bms_is_empty(path->parent->lateral_relids))
		return NULL;
	switch (nodeTag(path))
	{
		case T_ForeignPath:
			return key_foreign_path(root, (ForeignPath *) path, keys, exprs, keyed);
		case T_SubqueryScanPath:
			return key_subquery_path(root, (SubqueryScanPath *) path, keys, exprs, keyed);
		case T_ProjectionPath:
			KEY_UPPER_PATH(ProjectionPath, path);
		case T_SortPath:
			KEY_UPPER_PATH(SortPath, path);
		case T_AggPath:
			if (!filters_keep_groups(root, keys, exprs, ((AggPath *) path)->groupClause))
				return NULL;
			KEY_UPPER_PATH(AggPath, path);
		default:
			return NULL;
	}
}

bool
shard_key_filter_is_set(const ForeignPath *path)
{
	ListCell   *lc;

	foreach(lc, path->fdw_private)
	{
		if (IsA(lfirst(lc), DefElem) &&
			strcmp(lfirst_node(DefElem, lc)->defname, FILTER_NAME) == 0)
			return true;
	}
	return false;
}

int
shard_key_filter_param(PlannerInfo *root, ShardKeyClause *key)
{
	if (key->paramid == 0)
		key->paramid = SHARD_KEYS_PARAM + assign_special_exec_param(root);
	return key->paramid;
}

/* Adds the condition of a filter to info, a private copy. */
static void
add_filter(PlannerInfo *root, ShardRelInfo *info, const KeyFilter *filter)
{
	int			varno;

	filter->param->paramid |= shard_key_filter_param(root, filter->key);
	info->from->where = lappend(info->from->where, filter->expr);
	if (info->sharded && bms_get_singleton_member(pull_varnos(root, (Node *) filter->expr), &varno) &&
		varno == info->rtindex)
		info->prune_conds = lappend(info->prune_conds, filter->expr);
}

const ShardRelInfo *
shard_key_filter_info(PlannerInfo *root, const ForeignPath *path, const ShardRelInfo *info)
{
	foreach_ptr(DefElem, elem, path->fdw_private)
	{
		ShardRelInfo *result;

		if (!IsA(elem, DefElem) || strcmp(elem->defname, FILTER_NAME) != 0)
			continue;
		result = palloc(sizeof(ShardRelInfo));
		*result = *info;
		result->from = palloc(sizeof(ShardFrom));
		*result->from = *info->from;
		result->from->where = list_copy(info->from->where);
		result->prune_conds = list_copy(info->prune_conds);
		if (info->query != NULL)
		{
			result->query = palloc(sizeof(ShardRemoteQuery));
			*result->query = *info->query;
			result->query->from = result->from;
		}
		foreach_ptr(KeyFilter, filter, (List *) elem->arg)
			add_filter(root, result, filter);
		return result;
	}
	return info;
}
