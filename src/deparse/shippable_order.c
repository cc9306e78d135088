/*
 * shippable_order.c
 *	  Whether nodes compare values as the coordinator does: groupings, sorts,
 *	  windows.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "deparse/shippable.h"
#include "deparse/shippable_extension.h"
#include "deparse/shippable_rule.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/lsyscache.h"

/* Is it surely the same order on all servers that agree on the default collation, or even without that? */
static bool
order_ok(Node *expr, Oid sortop, bool default_collation, ShardExtensionScope *extensions)
{
	Oid			type = getBaseType(exprType(expr));
	Oid			collation = exprCollation(expr);
	Oid			element = get_element_type(type);

	if (!(shard_rule_is_builtin(sortop) || shard_extension_operator_ok(extensions, sortop)) ||
		!(shard_rule_type_ok(type) || shard_extension_type_ok(extensions, type)))
		return false;

	/* strings within jsonb are compared in the default collation */
	if (type == JSONBOID || element == JSONBOID)
		return default_collation;
	if (!OidIsValid(collation) || shard_rule_is_byte_order(collation))
		return true;
	return collation == DEFAULT_COLLATION_OID && default_collation;
}

bool
shard_shippable_sort_expr(PlannerInfo *root, Relids relids, Expr *expr, Oid sortop,
						  bool default_collation)
{
	ShardExtensionScope extensions = {root, relids};

	return order_ok((Node *) expr, sortop, default_collation, &extensions) &&
		shard_shippable_window_expr(root, relids, expr);
}

/* Equality of values: the type's own, under which no collation takes different bytes for equal ones. */
static bool
equality_ok(Node *expr, ShardExtensionScope *extensions)
{
	Oid			type = exprType(expr);
	Oid			collation = exprCollation(expr);

	if (!shard_rule_type_ok(getBaseType(type)) && get_typtype(type) != TYPTYPE_ENUM &&
		!shard_extension_type_ok(extensions, getBaseType(type)))
		return false;
	return !OidIsValid(collation) || get_collation_isdeterministic(collation);
}

bool
shard_shippable_group_expr(PlannerInfo *root, Relids relids, Expr *expr)
{
	ShardExtensionScope extensions = {root, relids};

	return shard_shippable_expr(root, relids, expr) && equality_ok((Node *) expr, &extensions);
}

bool
shard_shippable_window(PlannerInfo *root, Relids relids, WindowFunc *func)
{
	ShardExtensionScope extensions = {root, relids};
	WindowClause *window = NULL;
	ListCell   *lc;

	foreach(lc, root->parse->windowClause)
	{
		if (lfirst_node(WindowClause, lc)->winref == func->winref)
			window = lfirst_node(WindowClause, lc);
	}
	if (window == NULL)
		return false;

	foreach(lc, window->partitionClause)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		Node	   *expr = get_sortgroupclause_expr(clause, root->processed_tlist);

		if (!shard_rule_is_builtin(clause->eqop) || !equality_ok(expr, &extensions) ||
			!shard_shippable_agg_expr(root, relids, (Expr *) expr))
			return false;
	}
	foreach(lc, window->orderClause)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		Node	   *expr = get_sortgroupclause_expr(clause, root->processed_tlist);

		/* nodes compare in the default collation for WHERE, too */
		if (!shard_rule_is_builtin(clause->eqop) ||
			!order_ok(expr, clause->sortop, true, &extensions) || !equality_ok(expr, &extensions) ||
			!shard_shippable_agg_expr(root, relids, (Expr *) expr))
			return false;
	}
	if (OidIsValid(window->startInRangeFunc) && !shard_rule_is_builtin(window->startInRangeFunc))
		return false;
	if (OidIsValid(window->endInRangeFunc) && !shard_rule_is_builtin(window->endInRangeFunc))
		return false;
	return shard_shippable_value(window->startOffset) && shard_shippable_value(window->endOffset);
}
