/*
 * prune.c
 *	  Prunes the shards of a scan during planning.
 *
 * Conditions that compare key columns with constants prune shards immediately, by core's partition pruning.
 * Conditions with parameters or stable functions prune at execution start.  These are kept together with the
 * conditions on constants, because it may take several conditions to find a shard (both columns of a two-column hash
 * key).
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "catalog/route.h"
#include "compat.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "planner/path/prune.h"
#include "rewrite/rewriteManip.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

/*
 * Columns of the partition key, of both levels, numbered as by pull_varattnos().  If the key has expressions, any
 * column may matter, and *any is set.
 */
static Bitmapset *
key_columns(const ShardMap *map, bool *any)
{
	Relation	rel = table_open(map->relid, NoLock);
	PartitionKey key = RelationGetPartitionKey(rel);
	Bitmapset  *columns = NULL;

	*any = false;
	for (int i = 0; i < key->partnatts; i++)
	{
		if (key->partattrs[i] == 0)
			*any = true;
		else
			columns = bms_add_member(columns,
									 key->partattrs[i] - FirstLowInvalidHeapAttributeNumber);
	}
	for (int i = 0; map->part_key != NULL && i < map->part_key->natts; i++)
		columns = bms_add_member(columns, map->part_key->attnos[i] - FirstLowInvalidHeapAttributeNumber);
	table_close(rel, NoLock);
	return columns;
}

static bool
find_param_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
		return true;
	return expression_tree_walker(node, find_param_walker, context);
}

/* A copy of clauses with the range table index 1 instead of rtindex. */
static List *
renumber(List *clauses, Index rtindex)
{
	List	   *copy = copyObject(clauses);

	if (rtindex != 1)
		ChangeVarNodes((Node *) copy, rtindex, 1, 0);
	return copy;
}

/* Does the clause compare column attno with an expression without Vars, by the key's equality? */
static bool
is_key_equality(Node *clause, AttrNumber attno, Oid opfamily, int strategy)
{
	OpExpr	   *op = (OpExpr *) clause;
	Node	   *left;
	Node	   *right;

	if (!IsA(op, OpExpr) || list_length(op->args) != 2 ||
		get_op_opfamily_strategy(op->opno, opfamily) != strategy)
		return false;
	left = strip_implicit_coercions(linitial(op->args));
	right = strip_implicit_coercions(lsecond(op->args));
	return (IsA(left, Var) && ((Var *) left)->varattno == attno && !contain_var_clause(right)) ||
		(IsA(right, Var) && ((Var *) right)->varattno == attno && !contain_var_clause(left));
}

/*
 * A comparison of rows, (a, b) < (x, y), implies a <= x for its first column.  Core does not prune by row
 * comparisons, so the implied clause is used.  Returns clause unchanged if it is no such comparison.
 */
static Node *
first_comparison(Node *clause)
{
	RowCompareExpr *row = (RowCompareExpr *) clause;
	Oid			opfamily;
	Oid			opno;
	Oid			left;
	Oid			right;

	if (!IsA(row, RowCompareExpr))
		return clause;
	opfamily = linitial_oid(row->opfamilies);
	op_input_types(linitial_oid(row->opnos), &left, &right);
	switch (get_op_opfamily_strategy(linitial_oid(row->opnos), opfamily))
	{
		case BTLessStrategyNumber:
		case BTLessEqualStrategyNumber:
			opno = get_opfamily_member(opfamily, left, right, BTLessEqualStrategyNumber);
			break;
		case BTGreaterStrategyNumber:
		case BTGreaterEqualStrategyNumber:
			opno = get_opfamily_member(opfamily, left, right, BTGreaterEqualStrategyNumber);
			break;
		default:
			return clause;
	}
	if (!OidIsValid(opno))
		return clause;
	return (Node *) make_opclause(opno, BOOLOID, false, linitial(row->largs), linitial(row->rargs),
								  InvalidOid, linitial_oid(row->inputcollids));
}

/* Do the clauses compare each column of a key with an expression without Vars, by equality? */
static bool
fixes_key(List *clauses, int natts, const AttrNumber *attnos, const Oid *opfamilies, int strategy)
{
	for (int i = 0; i < natts; i++)
	{
		bool		found = false;

		foreach_ptr(Node, clause, clauses)
			found |= attnos[i] != 0 && is_key_equality(clause, attnos[i], opfamilies[i], strategy);
		if (!found)
			return false;
	}
	return true;
}

/*
 * Upper bound for the number of live shards that remain at execution start, for any parameter values.  The planner
 * needs it now, because generic plans are chosen by cost.
 */
static int
prunes_to(const ShardMap *map, List *clauses, int nlive, int nparts)
{
	Relation	rel = table_open(map->relid, NoLock);
	PartitionKey key = RelationGetPartitionKey(rel);
	int			strategy = key->strategy == PARTITION_STRATEGY_HASH ? HTEqualStrategyNumber :
		BTEqualStrategyNumber;
	bool		one_part = fixes_key(clauses, key->partnatts, key->partattrs, key->partopfamily, strategy);
	bool		one_shard = map->part_key == NULL ||
		fixes_key(clauses, map->part_key->natts, map->part_key->attnos, map->part_key->opfamilies,
				  HTEqualStrategyNumber);

	table_close(rel, NoLock);
	if (one_part && one_shard)
		return 1;
	if (map->nparts == 0)
		return nlive;
	return one_shard ? nparts : one_part ? (nlive + nparts - 1) / nparts : nlive;
}

/*
 * Finds and locks the partitions of a two-level table that may have rows which satisfy quals, and sets *map to the
 * map after locking.  Core also locks the partitions that it reads.  The range table gets an entry for each of them,
 * so that each execution locks them, and their changes invalidate the plan.
 */
static Bitmapset *
lock_parts(PlannerInfo *root, const ShardMap **map, List *quals)
{
	for (;;)
	{
		const ShardMap *before = *map;
		Bitmapset  *parts = shard_route_prune_parts(before, quals);
		int			partno = -1;

		CHECK_FOR_INTERRUPTS();
		while ((partno = bms_next_member(parts, partno)) >= 0)
			LockRelationOid(before->parts[partno].relid, AccessShareLock);
		*map = shard_map_get_levels(before->relid, true);
		if (*map == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("partitions of \"%s\" are being attached or detached", get_rel_name(before->relid))));
		if (*map != before)
			continue;
		partno = -1;
		while ((partno = bms_next_member(parts, partno)) >= 0)
		{
			RangeTblEntry *rte = makeNode(RangeTblEntry);

			rte->rtekind = RTE_RELATION;
			rte->relid = before->parts[partno].relid;
			rte->relkind = RELKIND_PARTITIONED_TABLE;
			rte->rellockmode = AccessShareLock;
			rte->eref = makeAlias(get_rel_name(rte->relid), NIL);
			root->parse->rtable = lappend(root->parse->rtable, rte);
		}
		return parts;
	}
}

void
shard_prune_relation(PlannerInfo *root, RelOptInfo *baserel, ShardRelInfo *info)
{
	List	   *constant = NIL;
	List	   *dynamic = NIL;
	Bitmapset  *keys;
	bool		any_column;
	List	   *quals;
	Bitmapset  *parts = NULL;

	if (!info->sharded)
	{
		info->live = bms_make_singleton(0);
		info->nlive = info->nexpected = 1;
		return;
	}

	keys = key_columns(info->map, &any_column);
	foreach_node(RestrictInfo, rinfo, baserel->baserestrictinfo)
	{
		Node	   *clause = first_comparison((Node *) rinfo->clause);
		Bitmapset  *columns = NULL;

		if (rinfo->pseudoconstant)
			continue;
		pull_varattnos(clause, baserel->relid, &columns);
		if (!any_column && !bms_overlap(columns, keys))
			continue;
		if (contain_volatile_functions(clause) || contain_subplans(clause))
			continue;
		if (find_param_walker(clause, NULL) || contain_mutable_functions(clause))
			dynamic = lappend(dynamic, clause);
		else
			constant = lappend(constant, clause);
	}

	quals = renumber(constant, info->rtindex);
	if (info->map->nparts > 0)
		parts = lock_parts(root, &info->map, quals);
	info->live = shard_route_prune_map(info->map, quals, parts);
	info->nlive = bms_num_members(info->live);
	info->nexpected = info->nlive;
	if (dynamic != NIL && info->nlive > 0)
	{
		info->prune_conds = list_concat(constant, dynamic);
		if (info->nlive > 1)
			info->nexpected = prunes_to(info->map, info->prune_conds, info->nlive, bms_num_members(parts));
	}
}

List *
shard_prune_child_quals(PlannerInfo *root, Index rtindex, const ShardRelInfo *info, ShardSelect *select, Oid *parent)
{
	const AppendRelInfo *appinfo = root->append_rel_array ? root->append_rel_array[rtindex] : NULL;
	List	   *quals = NIL;

	if (appinfo == NULL || select->params == NIL || shard_map_get(appinfo->parent_reloid) == NULL)
		return NIL;
	for (int i = 0; i < appinfo->num_child_cols; i++)
	{
		if (appinfo->parent_colnos[i] != 0 && appinfo->parent_colnos[i] != i + 1)
			return NIL;
	}
	*parent = appinfo->parent_reloid;
	foreach_ptr(Node, clause, extract_actual_clauses(info->remote_conds, false))
		quals = lappend(quals, shard_select_prune_clause(select, clause));
	return quals;
}
