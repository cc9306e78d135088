/*
 * correlated.c
 *	  Splits a correlated sub-select into the parts that it compares and the parts that it computes.
 *
 * Assumption: only equalities in WHERE, connected by AND, refer to the outer level, each on one of its sides.  FROM
 * of the sub-select does not.
 *
 * A grouped sub-select is also computed for groups that no outer row needs, and must not raise an error there.  So
 * arguments of aggregates, and grouped expressions, may consist of columns, constants, comparisons, sums, differences
 * and products only.  Other conditions of the sub-select may be of any form, because core may check them in any
 * order.  But if the sub-select may never be evaluated (CASE, OR), the same rule applies to them.
 *
 * decorrelate.c builds joins from the parts.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "deparse/convert.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_oper.h"
#include "planner/rewrite/correlated.h"
#include "query_parts.h"
#include "rewrite/rewriteManip.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

typedef struct LevelsContext
{
	int			depth;			/* number of levels between the level in question and the current node */
	bool		own;			/* something refers to that level */
	bool		outer;			/* something refers to the next outer level */
	bool		beyond;			/* something refers to a level further out */
} LevelsContext;

static void
note_level(LevelsContext *cxt, int levelsup)
{
	if (levelsup == cxt->depth)
		cxt->own = true;
	else if (levelsup == cxt->depth + 1)
		cxt->outer = true;
	else if (levelsup > cxt->depth + 1)
		cxt->beyond = true;
}

static bool
levels_walker(Node *node, LevelsContext *cxt)
{
	bool		result;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			note_level(cxt, ((Var *) node)->varlevelsup);
			return false;
		case T_Aggref:
			/* an aggregate of another level: its rows are not the rows of the sub-select */
			if ((int) ((Aggref *) node)->agglevelsup > cxt->depth)
				cxt->beyond = true;
			break;
		case T_GroupingFunc:
			cxt->beyond = true;
			return true;
		case T_PlaceHolderVar:
			cxt->beyond = true;
			return true;
		case T_Query:
			cxt->depth++;
			result = query_tree_walker((Query *) node, levels_walker, cxt, 0);
			cxt->depth--;
			return result;
		default:
			break;
	}
	return expression_tree_walker(node, levels_walker, cxt);
}

/* Finds the levels that an expression of a query level refers to. */
static LevelsContext
find_levels(Node *expr)
{
	LevelsContext cxt = {0};

	(void) levels_walker(expr, &cxt);
	return cxt;
}

static bool
has_sharded(Query *query)
{
	foreach_node(Query, level, shard_query_levels(query))
	{
		foreach_node(RangeTblEntry, rte, level->rtable)
		{
			if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_PARTITIONED_TABLE &&
				rte->inh && shard_map_get_levels(rte->relid, false) != NULL)
				return true;
		}
	}
	return false;
}

static bool
is_number(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID || type == FLOAT4OID ||
		type == FLOAT8OID || type == NUMERICOID;
}

/* Is the operator a built-in comparison, or a sum, difference or product of numbers? */
static bool
is_harmless_operator(Oid opno)
{
	Oid			left;
	Oid			right;
	Oid			negator;
	const char *name;

	if (opno >= FirstGenbkiObjectId)
		return false;
	op_input_types(opno, &left, &right);
	if (type_is_rowtype(left) || type_is_array(left))
		return false;
	negator = get_negator(opno);
	if (get_func_leakproof(get_opcode(opno)) ||
		op_mergejoinable(opno, left) || shard_is_ordering_operator(opno) ||
		(OidIsValid(negator) &&
		 (op_mergejoinable(negator, left) || shard_is_ordering_operator(negator))))
		return true;
	name = get_opname(opno);
	return is_number(left) && is_number(right) &&
		(strcmp(name, "+") == 0 || strcmp(name, "-") == 0 || strcmp(name, "*") == 0);
}

/* Finds a node that may raise an error for some value. */
static bool
may_fail_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Const:
		case T_Param:
		case T_SQLValueFunction:
		case T_CaseTestExpr:
			return false;
		case T_List:
		case T_TargetEntry:
		case T_RelabelType:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CoalesceExpr:
		case T_ArrayExpr:
		case T_FromExpr:
		case T_JoinExpr:
			break;
		case T_RangeTblRef:
			return false;
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			if (!is_harmless_operator(((OpExpr *) node)->opno))
				return true;
			break;
		case T_ScalarArrayOpExpr:
			if (!is_harmless_operator(((ScalarArrayOpExpr *) node)->opno))
				return true;
			break;
		case T_FuncExpr:
			{
				FuncExpr   *func = (FuncExpr *) node;

				/* implicit casts do not narrow a type */
				if (func->funcid >= FirstGenbkiObjectId ||
					(func->funcformat != COERCE_IMPLICIT_CAST && !get_func_leakproof(func->funcid)))
					return true;
				break;
			}
		case T_CoerceViaIO:
			/* output functions never fail */
			if (((CoerceViaIO *) node)->resulttype != TEXTOID)
				return true;
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, may_fail_walker, context);
}

static bool
may_fail(Node *expr)
{
	return may_fail_walker(expr, NULL);
}

bool
shard_correlated_is_count(const Aggref *agg)
{
	return agg->aggfnoid == F_COUNT_ || agg->aggfnoid == F_COUNT_ANY ||
		agg->aggfnoid == F_REGR_COUNT;
}

typedef struct CollectContext
{
	List	   *aggs;
	bool		refused;
} CollectContext;

/* Collects the aggregates of a target.  Refuses expressions that cannot be computed above a grouping. */
static bool
collect_aggs_walker(Node *node, CollectContext *cxt)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref))
	{
		Aggref	   *agg = (Aggref *) node;
		LevelsContext levels = find_levels((Node *) agg);

		if (agg->aggfnoid >= FirstGenbkiObjectId || agg->aggkind == AGGKIND_HYPOTHETICAL ||
			levels.outer || levels.beyond || may_fail((Node *) agg->args) ||
			may_fail((Node *) agg->aggdirectargs) || may_fail((Node *) agg->aggfilter))
			cxt->refused = true;
		else
			cxt->aggs = list_append_unique(cxt->aggs, agg);
		return cxt->refused;
	}
	if (IsA(node, SubLink) || (IsA(node, Var) && ((Var *) node)->varlevelsup != 1))
	{
		cxt->refused = true;
		return true;
	}
	return expression_tree_walker(node, collect_aggs_walker, cxt);
}

/*
 * Adds the clause to result if it has the form inner = outer, and a value of outer matches exactly one whole group by
 * inner.
 */
static bool
take_clause(Expr *clause, ShardCorrelated *result)
{
	OpExpr	   *op = (OpExpr *) clause;
	LevelsContext left;
	LevelsContext right;
	Expr	   *inner;
	Oid			sortop;
	Oid			eqop;
	bool		hashable;

	if (!IsA(op, OpExpr) || list_length(op->args) != 2 || !op_strict(op->opno))
		return false;
	left = find_levels(linitial(op->args));
	right = find_levels(lsecond(op->args));
	if (left.own && !left.outer && !right.own && right.outer)
		inner = linitial(op->args);
	else if (right.own && !right.outer && !left.own && left.outer)
		inner = lsecond(op->args);
	else
		return false;
	if (checkExprHasSubLink((Node *) op) || may_fail((Node *) inner))
		return false;

	get_sort_group_operators(exprType((Node *) inner), false, false, false,
							 &sortop, &eqop, NULL, &hashable);
	if (!OidIsValid(eqop) || !OidIsValid(sortop) || !hashable ||
		!equality_ops_are_compatible(op->opno, eqop) ||
		!op_hashjoinable(op->opno, exprType(linitial(op->args))) ||
		(OidIsValid(op->inputcollid) && op->inputcollid != exprCollation((Node *) inner)))
		return false;

	result->clauses = lappend(result->clauses, op);
	result->inner_exprs = lappend(result->inner_exprs, inner);
	result->inner_first = lappend_int(result->inner_first, inner == linitial(op->args));
	return true;
}

/* max() for a type, if it returns one of its arguments unchanged; otherwise 0. */
static Oid
max_function(Oid type)
{
	switch (type)
	{
		case INT2OID:
			return F_MAX_INT2;
		case INT4OID:
			return F_MAX_INT4;
		case INT8OID:
			return F_MAX_INT8;
		case FLOAT4OID:
			return F_MAX_FLOAT4;
		case FLOAT8OID:
			return F_MAX_FLOAT8;
		case NUMERICOID:
			return F_MAX_NUMERIC;
		case TEXTOID:
		case VARCHAROID:
			return F_MAX_TEXT;
		case BPCHAROID:
			return F_MAX_BPCHAR;
		case DATEOID:
			return F_MAX_DATE;
		case TIMEOID:
			return F_MAX_TIME;
		case TIMESTAMPOID:
			return F_MAX_TIMESTAMP;
		case TIMESTAMPTZOID:
			return F_MAX_TIMESTAMPTZ;
		case INTERVALOID:
			return F_MAX_INTERVAL;
		default:
			return InvalidOid;
	}
}

/* Turns the value's column into the aggregates max() and count(*).  False if that is impossible. */
static bool
take_value(Expr *value, ShardCorrelated *result)
{
	LevelsContext levels = find_levels((Node *) value);
	Oid			type = exprType((Node *) value);
	Oid			max = max_function(type);
	Expr	   *arg = value;
	Aggref	   *agg;

	if (!OidIsValid(max) || levels.outer || levels.beyond || !levels.own ||
		checkExprHasSubLink((Node *) value) || may_fail((Node *) value))
		return false;
	if (type == VARCHAROID)
		arg = (Expr *) makeRelabelType(value, type = TEXTOID, -1, exprCollation((Node *) value),
									   COERCE_IMPLICIT_CAST);
	agg = shard_convert_aggregate(max, type, list_make1(arg));
	agg->aggcollid = agg->inputcollid = exprCollation((Node *) arg);
	result->aggs = list_make2(agg, shard_convert_aggregate(F_COUNT_, INT8OID, NIL));
	return true;
}

/* Splits the target into aggregates and the expression over them, depending on the type of sub-select. */
static bool
take_target(const SubLink *sublink, const Query *sub, ShardCorrelated *result)
{
	CollectContext aggs = {0};

	if (sublink->subLinkType == EXISTS_SUBLINK)
	{
		result->kind = SHARD_CORRELATED_EXISTS;
		return !sub->hasAggs;
	}
	if (sublink->subLinkType != EXPR_SUBLINK || list_length(sub->targetList) != 1 || sub->hasWindowFuncs)
		return false;
	result->target = linitial_node(TargetEntry, sub->targetList)->expr;
	if (!sub->hasAggs)
	{
		result->kind = SHARD_CORRELATED_VALUE;
		return take_value(result->target, result);
	}
	result->kind = SHARD_CORRELATED_AGGREGATE;
	(void) collect_aggs_walker((Node *) result->target, &aggs);
	result->aggs = aggs.aggs;
	return !aggs.refused && aggs.aggs != NIL;
}

bool
shard_correlated_has_full_join(const Query *query)
{
	foreach_node(CommonTableExpr, cte, query->cteList)
	{
		Node	   *ctequery = cte->ctequery;

		if (IsA(ctequery, Query) && shard_correlated_has_full_join((Query *) ctequery))
			return true;
	}
	foreach_node(RangeTblEntry, rte, query->rtable)
	{
		if ((rte->rtekind == RTE_JOIN && rte->jointype == JOIN_FULL) ||
			(rte->rtekind == RTE_SUBQUERY && shard_correlated_has_full_join(rte->subquery)))
			return true;
	}
	return false;
}

/* Has the sub-select no clauses other than FROM and WHERE? */
static bool
has_right_form(const Query *sub)
{
	return sub->commandType == CMD_SELECT && !sub->hasTargetSRFs &&
		!sub->hasDistinctOn &&
		!sub->hasRecursive && !sub->hasModifyingCTE && !sub->hasForUpdate &&
		sub->cteList == NIL && sub->groupClause == NIL && sub->groupingSets == NIL &&
		sub->havingQual == NULL && sub->distinctClause == NIL && sub->sortClause == NIL &&
		sub->limitOffset == NULL && sub->limitCount == NULL && sub->rowMarks == NIL &&
		sub->setOperations == NULL && !shard_correlated_has_full_join(sub);
}

bool
shard_correlated_take_apart(const SubLink *sublink, bool conditional, ShardCorrelated *result)
{
	Query	   *sub = castNode(Query, sublink->subselect);
	List	   *quals;
	LevelsContext levels;

	if (!has_right_form(sub) || contain_volatile_functions((Node *) sub) ||
		!has_sharded(sub))
		return false;

	quals = shard_query_conditions(sub->jointree->quals);
	foreach_ptr(Node, qual, quals)
	{
		levels = find_levels(qual);
		if (levels.beyond || (levels.outer && !take_clause((Expr *) qual, result)))
			return false;
		if (!levels.outer)
			result->others = lappend(result->others, qual);
	}
	if (result->clauses == NIL)
		return false;

	/* only the clauses may refer to other levels: not FROM with its ON conditions, functions and sub-selects */
	levels = find_levels((Node *) sub->jointree->fromlist);
	if (levels.outer || levels.beyond)
		return false;
	foreach_node(RangeTblEntry, rte, sub->rtable)
	{
		LevelsContext cxt = {0};

		if (rte->rtekind == RTE_JOIN)
			continue;
		(void) range_table_walker(list_make1(rte), levels_walker, &cxt, 0);
		if (cxt.outer || cxt.beyond || (conditional && rte->rtekind != RTE_RELATION))
			return false;
	}
	if (conditional &&
		(may_fail((Node *) result->clauses) || may_fail((Node *) result->others) ||
		 may_fail((Node *) sub->jointree->fromlist)))
		return false;
	return take_target(sublink, sub, result);
}
