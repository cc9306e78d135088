/*
 * shippable_param.c
 *	  Finds the parts of an expression that only the coordinator can evaluate.
 */
#include "postgres.h"

#include "deparse/shippable/shippable_param.h"
#include "deparse/shippable/shippable_rule.h"
#include "nodes/nodeFuncs.h"

static bool
is_foreign_function(Oid funcid, void *context)
{
	return !shard_rule_function_ok(funcid);
}

/* Finds a part that a node cannot evaluate: a parameter, or a function that is not shippable. */
static bool
needs_coordinator_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) || IsA(node, SQLValueFunction) || IsA(node, NextValueExpr) ||
		IsA(node, CoerceToDomain))
		return true;
	if (check_functions_in_node(node, is_foreign_function, context))
		return true;
	return expression_tree_walker(node, needs_coordinator_walker, context);
}

bool
shard_shippable_needs_coordinator(Node *expr)
{
	return needs_coordinator_walker(expr, NULL);
}

bool
shard_shippable_is_param(Node *expr, bool conditional)
{
	/* a mutator also passes parts of expressions that core's walker does not accept at the top */
	if (expr == NULL || IsA(expr, Var) || IsA(expr, Const) || IsA(expr, List) ||
		IsA(expr, TargetEntry) || IsA(expr, CaseWhen))
		return false;
	if (!shard_rule_is_value(expr, true) || !needs_coordinator_walker(expr, NULL))
		return false;
	if (IsA(expr, Param))
		return true;

	/*
	 * A parameter is evaluated even if its expression would not be (CASE).  So in such places only expressions that
	 * cannot fail may become parameters: the current time and similar.
	 */
	if (conditional)
		return IsA(expr, SQLValueFunction) ||
			(IsA(expr, FuncExpr) && ((FuncExpr *) expr)->args == NIL);
	return true;
}
