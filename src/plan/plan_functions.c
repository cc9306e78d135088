/*
 * plan/plan_functions.c
 *	  Finds the user-defined functions that a finished plan calls.
 *
 * Core records all user-defined functions that a plan depends on, for its plan cache.  So only statements that call
 * such functions need the search.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "plan/plan_functions.h"
#include "plan/plan_walk.h"
#include "utils/syscache.h"

/* Callback of check_functions_in_node(). context: int.  Returns false to continue the search. */
static bool
add_function(Oid funcid, void *context)
{
	HeapTuple	tuple = funcid < FirstNormalObjectId ? NULL : SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	Form_pg_proc proc;

	if (!HeapTupleIsValid(tuple))
		return false;
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	if (proc->prolang != INTERNALlanguageId && proc->prolang != ClanguageId)
		*(int *) context |= proc->provolatile == PROVOLATILE_VOLATILE ? SHARD_FUNCTIONS_VOLATILE : SHARD_FUNCTIONS_STEADY;
	ReleaseSysCache(tuple);
	return false;
}

static bool
add_functions(Node *node, void *context)
{
	if (node == NULL)
		return false;
	(void) check_functions_in_node(node, add_function, context);
	return expression_tree_walker(node, add_functions, context);
}

int
shard_plan_functions_of_expr(Node *expr)
{
	int			kinds = SHARD_FUNCTIONS_NONE;

	(void) add_functions(expr, &kinds);
	return kinds;
}

static bool
add_functions_of_query(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, add_functions_of_query, context, 0);
	(void) check_functions_in_node(node, add_function, context);
	return expression_tree_walker(node, add_functions_of_query, context);
}

int
shard_plan_functions_of_query(Query *query)
{
	int			kinds = SHARD_FUNCTIONS_NONE;

	(void) query_tree_walker(query, add_functions_of_query, &kinds, 0);
	return kinds;
}

/* Functions of a list of lists of expressions. */
static int
of_lists(List *lists)
{
	int			kinds = SHARD_FUNCTIONS_NONE;

	foreach_ptr(Node, expr, lists)
		kinds |= shard_plan_functions_of_expr(expr);
	return kinds;
}

static int
of_modify(const ModifyTable *modify)
{
	return of_lists(modify->returningLists) | of_lists(modify->withCheckOptionLists) | of_lists(modify->mergeActionLists) |
		shard_plan_functions_of_expr((Node *) modify->onConflictSet) |
		shard_plan_functions_of_expr(modify->onConflictWhere);
}

/* Functions of the parts of a plan other than its target list and conditions. */
static int
of_others(const Plan *plan)
{
	switch (nodeTag(plan))
	{
		case T_ModifyTable:
			return of_modify((const ModifyTable *) plan);
		case T_Result:
			return shard_plan_functions_of_expr(((const Result *) plan)->resconstantqual);
		case T_NestLoop:
			return shard_plan_functions_of_expr((Node *) ((const Join *) plan)->joinqual);
		case T_MergeJoin:
			return shard_plan_functions_of_expr((Node *) ((const Join *) plan)->joinqual) |
				shard_plan_functions_of_expr((Node *) ((const MergeJoin *) plan)->mergeclauses);
		case T_HashJoin:
			return shard_plan_functions_of_expr((Node *) ((const Join *) plan)->joinqual) |
				shard_plan_functions_of_expr((Node *) ((const HashJoin *) plan)->hashclauses);
		case T_Limit:
			return shard_plan_functions_of_expr(((const Limit *) plan)->limitOffset) |
				shard_plan_functions_of_expr(((const Limit *) plan)->limitCount);
		case T_FunctionScan:
			{
				int			kinds = SHARD_FUNCTIONS_NONE;

				foreach_node(RangeTblFunction, function, ((const FunctionScan *) plan)->functions)
					kinds |= shard_plan_functions_of_expr(function->funcexpr);
				return kinds;
			}
		case T_ValuesScan:
			return of_lists(((const ValuesScan *) plan)->values_lists);
		case T_IndexScan:
			return shard_plan_functions_of_expr((Node *) ((const IndexScan *) plan)->indexqual);
		case T_IndexOnlyScan:
			return shard_plan_functions_of_expr((Node *) ((const IndexOnlyScan *) plan)->indexqual);
		case T_BitmapIndexScan:
			return shard_plan_functions_of_expr((Node *) ((const BitmapIndexScan *) plan)->indexqual);
		case T_ForeignScan:
			return shard_plan_functions_of_expr((Node *) ((const ForeignScan *) plan)->fdw_exprs);
		case T_CustomScan:
			return shard_plan_functions_of_expr((Node *) ((const CustomScan *) plan)->custom_exprs);
		default:
			return SHARD_FUNCTIONS_NONE;
	}
}

bool
shard_plan_add_functions(Plan *plan, void *kinds)
{
	/* the target list of a ModifyTable is that of RETURNING */
	*(int *) kinds |= shard_plan_functions_of_expr((Node *) plan->targetlist) |
		shard_plan_functions_of_expr((Node *) plan->qual) |
		of_others(plan);
	return false;
}

bool
shard_plan_has_functions(const PlannedStmt *stmt)
{
	/* core has not recorded all functions of these plans, because our code has made or changed them */
	if (stmt->hasModifyingCTE || (stmt->planTree != NULL && IsA(stmt->planTree, CustomScan)))
		return true;
	foreach_node(PlanInvalItem, item, stmt->invalItems)
	{
		if (item->cacheId == PROCOID)
			return true;
	}
	return false;
}

int
shard_plan_functions_of_statement(const PlannedStmt *stmt)
{
	int			kinds = SHARD_FUNCTIONS_NONE;

	if (shard_plan_has_functions(stmt))
		(void) shard_plan_walk_statement(stmt, shard_plan_add_functions, &kinds);
	return kinds;
}
