/*
 * prune.c
 *	  Which shards a scan reads, as far as planning can tell.
 *
 * Conditions that compare key columns with constants prune shards now, by core's own
 * partition pruning.  Those with parameters or stable functions are kept for the
 * start of execution, together with the ones with constants, since several conditions
 * may be needed to find a shard (both columns of a two-column hash key).
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/route.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "planner/path/prune.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"
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

/* Is clause an equality of column attno with something Var-free, under the key's equality? */
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
 * Will the conditions leave one shard at most, whatever the parameters are?
 * Generic plans are chosen by cost, so this has to be known now.
 */
static bool
prunes_to_one(Oid relid, List *clauses)
{
	Relation	rel = table_open(relid, NoLock);
	PartitionKey key = RelationGetPartitionKey(rel);
	int			strategy = key->strategy == PARTITION_STRATEGY_HASH ? HTEqualStrategyNumber :
		BTEqualStrategyNumber;
	bool		result = true;

	for (int i = 0; i < key->partnatts && result; i++)
	{
		bool		found = false;
		ListCell   *lc;

		foreach(lc, clauses)
			found |= key->partattrs[i] != 0 &&
				is_key_equality(lfirst(lc), key->partattrs[i], key->partopfamily[i], strategy);
		result = found;
	}
	table_close(rel, NoLock);
	return result;
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
		info->nlive = info->nexpected = 1;
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
	info->nexpected = info->nlive;
	if (dynamic != NIL && info->nlive > 0)
	{
		info->prune_conds = list_concat(constant, dynamic);
		if (info->nlive > 1 && prunes_to_one(info->relid, info->prune_conds))
			info->nexpected = 1;
	}
}
