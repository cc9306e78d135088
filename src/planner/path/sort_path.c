/*
 * sort_path.c
 *	  Sort orders that core requests by path keys, and sorted scans of single foreign tables.
 *
 * For one table, the ORDER BY of a query is an upper stage, which order_path.c pushes down.  If the table is one of
 * several under an Append, or the coordinator checks conditions, the scan itself has to return sorted rows.  Core
 * then merges them (Merge Append) instead of sorting them, and a LIMIT stops early.
 *
 * A sorted scan is planned like the scan of a sharded table, without scanrelid.  So there is none if rows are
 * changed, or locked by the scan, or if system columns are needed.  If rows are locked late, the scan is planned as
 * that of a single shard.
 */
#include "postgres.h"

#include "catalog/collation.h"
#include "compat.h"
#include "deparse/remote_query.h"
#include "deparse/shippable/shippable.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "planner/path/cost.h"
#include "planner/path/foreign_path.h"
#include "planner/path/key_filter.h"
#include "planner/path/late_lock.h"
#include "planner/path/sort_path.h"
#include "utils/lsyscache.h"

/* Cost factor of a sorted scan on a node.  It is less than a full sort, because the node may have an index. */
#define SORT_COST_FACTOR 1.2

static bool
is_column(const Expr *expr)
{
	while (IsA(expr, RelabelType))
		expr = ((const RelabelType *) expr)->arg;
	return IsA(expr, Var);
}

/*
 * Finds a member of pathkey's equivalence class over columns that rel returns, which nodes sort as the coordinator
 * does.  NULL if there is none.  The class may also have columns of the inner side of EXISTS, which rel does not
 * return.  If the coordinator checks conditions, nodes do not compute expressions: an error would show values of rows
 * that a policy or a security barrier hides.
 */
static Expr *
find_sort_expr(PlannerInfo *root, const RelOptInfo *rel, const ShardRelInfo *info,
			   const PathKey *pathkey, Oid *sortop)
{
	Relids		visible = bms_difference(rel->relids, shard_from_hidden(info->from));
	EquivalenceMemberIterator it;
	EquivalenceMember *member;

	if (pathkey->pk_eclass->ec_has_volatile)
		return NULL;
	setup_eclass_member_iterator(&it, pathkey->pk_eclass, rel->relids);
	while ((member = eclass_member_iterator_next(&it)) != NULL)
	{
		/* aggregates and windows over rel's columns are computed later */
		if (bms_is_empty(member->em_relids) || !bms_is_subset(member->em_relids, visible) ||
			contain_agg_clause((Node *) member->em_expr) ||
			contain_window_function((Node *) member->em_expr) ||
			(info->local_conds != NIL && !is_column(member->em_expr)))
			continue;
		*sortop = get_opfamily_member(pathkey->pk_opfamily, member->em_datatype,
									  member->em_datatype, shard_pathkey_strategy(pathkey));
		if (OidIsValid(*sortop) &&
			shard_shippable_sort_expr(root, info->from->relids, member->em_expr, *sortop,
									  shard_collation_same_default(info->map)))
			return member->em_expr;
	}
	return NULL;
}

List *
shard_sort_clauses(PlannerInfo *root, const RelOptInfo *rel, const ShardRelInfo *info,
				   List *pathkeys)
{
	List	   *result = NIL;

	foreach_node(PathKey, pathkey, pathkeys)
	{
		ShardSort  *sort = palloc0(sizeof(ShardSort));

		sort->expr = find_sort_expr(root, rel, info, pathkey, &sort->sortop);
		if (sort->expr == NULL)
			return NIL;
		sort->eqop = get_equality_op_for_ordering_op(sort->sortop, NULL);
		sort->nulls_first = pathkey->pk_nulls_first;
		result = lappend(result, sort);
	}
	return result;
}

void
shard_sort_add_path(PlannerInfo *root, RelOptInfo *rel, const ShardRelInfo *info)
{
	Cost		startup;
	Cost		total;
	bool		late = shard_late_lock_marks(root, info->rtindex);

	if (info->sharded || root->query_pathkeys == NIL || (root->rowMarks != NIL && !late) ||
		(root->parse->commandType != CMD_SELECT && root->parse->commandType != CMD_INSERT) ||
		!bms_is_empty(rel->lateral_relids) || (!late && shard_key_filter_needs_own_scan(rel, info)) ||
		shard_sort_clauses(root, rel, info, root->query_pathkeys) == NIL)
		return;

	shard_cost_path(root, info, rel->reltarget, info->local_conds, &startup, &total);
	add_path(rel, shard_foreign_path_scan(root, rel, startup * SORT_COST_FACTOR,
										  total * SORT_COST_FACTOR, root->query_pathkeys, NULL));
}
