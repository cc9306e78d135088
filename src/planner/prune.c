/*
 * prune.c
 *	  Which shards a scan reads, as far as planning can tell.
 *
 * Conditions on key columns that hold constants only prune now, by core's own
 * partition pruning; those with parameters or stable functions are kept for
 * the start of execution, together with the constant ones, because several may
 * be needed to tell a shard (both columns of a two-column hash key).
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/route.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "planner/prune.h"
#include "rewrite/rewriteManip.h"
#include "utils/partcache.h"
#include "utils/rel.h"

/*
 * Columns of the partition key as pull_varattnos() numbers them; NULL with
 * *any set when the key has expressions, so that any column may matter.
 */
static Bitmapset *
key_columns(Oid relid, bool *any)
{
	Relation	rel = table_open(relid, NoLock);
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

/* A copy of clauses in which rtindex has become 1. */
static List *
renumber(List *clauses, Index rtindex)
{
	List	   *copy = copyObject(clauses);

	if (rtindex != 1)
		ChangeVarNodes((Node *) copy, rtindex, 1, 0);
	return copy;
}

void
shard_prune_relation(RelOptInfo *baserel, ShardRelInfo *info)
{
	List	   *constant = NIL;
	List	   *dynamic = NIL;
	Bitmapset  *keys;
	bool		any_column;
	ListCell   *lc;

	if (!info->sharded)
	{
		info->live = bms_make_singleton(0);
		info->nlive = 1;
		return;
	}

	keys = key_columns(info->relid, &any_column);
	foreach(lc, baserel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		Node	   *clause = (Node *) rinfo->clause;
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

	info->live = shard_route_prune(info->relid, renumber(constant, info->rtindex));
	info->nlive = bms_num_members(info->live);
	if (dynamic != NIL && info->nlive > 0)
		info->prune_conds = list_concat(constant, dynamic);
}
