/*
 * shippable_order.c
 *	  Decides whether nodes group, sort and aggregate as the coordinator does.
 */
#include "postgres.h"

#include "catalog/pg_aggregate.h"
#include "compat.h"
#include "deparse/shippable/partial_kind.h"
#include "deparse/shippable/shippable.h"
#include "deparse/shippable/shippable_compare.h"
#include "deparse/shippable/shippable_extension.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"

bool
shard_shippable_sort_expr(PlannerInfo *root, Relids relids, Expr *expr, Oid sortop,
						  bool default_collation)
{
	ShardExtensionScope extensions = {root, relids};

	return shard_compare_order_ok((Node *) expr, sortop, default_collation, &extensions) &&
		shard_shippable_window_expr(root, relids, expr);
}

bool
shard_shippable_group_expr(PlannerInfo *root, Relids relids, Expr *expr)
{
	ShardExtensionScope extensions = {root, relids};

	return shard_shippable_expr(root, relids, expr) && shard_compare_equality_ok((Node *) expr, &extensions);
}

bool
shard_shippable_partial_agg(const ShardMap *map, Aggref *agg)
{
	return agg->agglevelsup == 0 && agg->aggkind == AGGKIND_NORMAL &&
		agg->aggorder == NIL && agg->aggdistinct == NIL &&
		shard_partial_agg_kind(map, agg) != SHARD_PARTIAL_NONE;
}
