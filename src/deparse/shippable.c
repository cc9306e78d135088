/*
 * shippable.c
 *	  Whether an expression gives on any node exactly what it gives here.
 *
 * What may be shipped:
 *
 *	 - built-in functions, operators and aggregates (OID below
 *	   FirstGenbkiObjectId, so in pg_catalog everywhere) that are immutable, or
 *	   among the stable ones below, which depend on nothing but the TimeZone
 *	   setting: sessions on nodes have the user's;
 *	 - built-in types whose text form names no object of this database.  Columns
 *	   of other types may be fetched, tested for NULL and counted, no more;
 *	 - Var-free parts that the coordinator has to evaluate (now(), parameters,
 *	   its own stable functions): the deparser makes them parameters.
 *
 * Collations: nodes have columns of the same collation by name, and the same
 * database collation, which add_node compares.  So an expression may be shipped
 * whose collation comes from a column, as in postgres_fdw, or is the database's
 * (constants).  "C" and "POSIX" order by bytes everywhere, so they may also be
 * named by COLLATE.  Any other explicit collation is not shipped.
 *
 * A built-in function that exists here may be missing on a node of an older
 * major: the node then raises an error; the result is never wrong.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "catalog/twin.h"
#include "compat.h"
#include "deparse/partial_agg.h"
#include "deparse/shippable.h"
#include "deparse/shippable_rule.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

typedef struct WalkContext
{
	PlannerInfo *root;
	Relids		relids;
	bool		allow_aggs;
	bool		partial;		/* the aggregate stands for what computes its state: nodes have that */
	bool		allow_windows;
	bool		conditional;	/* inside a construct that may skip evaluation */
	ShardDerived case_test;		/* of the innermost CASE's test expression */
} WalkContext;

static bool walk(Node *node, WalkContext *cxt, ShardDerived *outer);

/* Finds what a parameter's value cannot be computed from. */
static bool
not_var_free_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
		case T_Aggref:
		case T_GroupingFunc:
		case T_WindowFunc:
		case T_SubLink:
		case T_SubPlan:
		case T_AlternativeSubPlan:
		case T_PlaceHolderVar:
		case T_CaseTestExpr:
		case T_CoerceToDomainValue:
		case T_CurrentOfExpr:
		case T_SetToDefault:
			return true;
		default:
			return expression_tree_walker(node, not_var_free_walker, context);
	}
}

static bool
is_foreign_function(Oid funcid, void *context)
{
	return !shard_rule_function_ok(funcid);
}

/* Finds what a node cannot evaluate: parameters, other functions than those shipped. */
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
shard_shippable_is_param(Node *expr, bool conditional)
{
	if (expr == NULL || IsA(expr, Var) || IsA(expr, Const) || IsA(expr, List) ||
		IsA(expr, TargetEntry))
		return false;
	if (IsA(expr, Param))
		return true;
	if (not_var_free_walker(expr, NULL) || !needs_coordinator_walker(expr, NULL))
		return false;

	/*
	 * Where evaluation is conditional, what is evaluated in any case must not
	 * fail: only the current time and the like.
	 */
	if (conditional)
		return IsA(expr, SQLValueFunction) ||
			(IsA(expr, FuncExpr) && ((FuncExpr *) expr)->args == NIL);
	return true;
}

/* Can a parameter's value be had at the start of the scan, and be sent? */
static bool
param_ok(Node *expr)
{
	if (IsA(expr, Param) && ((Param *) expr)->paramkind != PARAM_EXTERN &&
		((Param *) expr)->paramkind != PARAM_EXEC)
		return false;
	return shard_shippable_value_type(exprType(expr)) &&
		!contain_volatile_functions(expr) &&
		!expression_returns_set(expr);
}

/* Are the types of all arguments shippable? */
static bool
argument_types_ok(List *args)
{
	ListCell   *lc;

	foreach(lc, args)
	{
		if (!shard_rule_type_ok(exprType(lfirst(lc))))
			return false;
	}
	return true;
}

/* A function or operator: funcid over args, input and result collation and type. */
static bool
call_ok(Oid funcid, List *args, Oid inputcollid, Oid resulttype, Oid resultcollid,
		WalkContext *cxt, ShardDerived *derived)
{
	ShardDerived inner = {InvalidOid, SHARD_COLLATION_NONE};

	if (!shard_rule_function_ok(funcid) || !shard_rule_type_ok(resulttype) ||
		!argument_types_ok(args) || !walk((Node *) args, cxt, &inner) ||
		!shard_rule_input_collation_ok(inputcollid, inner))
		return false;
	*derived = shard_rule_result_derived(resultcollid, inner);
	return true;
}

static bool
operator_ok(Oid opno, List *args, Oid inputcollid, Oid resulttype, Oid resultcollid,
			WalkContext *cxt, ShardDerived *derived)
{
	return shard_rule_is_builtin(opno) &&
		call_ok(get_opcode(opno), args, inputcollid, resulttype, resultcollid, cxt, derived);
}

/*
 * A column of relids that a remote query can name.  Of the system columns only
 * ctid, where the query is one over a single shard that shows it.
 */
static bool
column_ok(const Var *var, const WalkContext *cxt)
{
	const ShardMap *map;

	if (var->varlevelsup != 0 || !bms_is_member(var->varno, cxt->relids) ||
		var->varattno == InvalidAttrNumber)
		return false;
	if (var->varattno > 0)
		return true;
	if (var->varattno != SelfItemPointerAttributeNumber || cxt->root == NULL ||
		bms_membership(cxt->relids) != BMS_SINGLETON)
		return false;
	map = shard_map_get(planner_rt_fetch(var->varno, cxt->root)->relid);
	return map != NULL && map->nshards == 1 &&
		strcmp(map->shards[0].from_item, map->shards[0].relation) == 0;
}

/* The sort operators of an aggregate's ORDER BY and DISTINCT. */
static bool
sort_clauses_ok(List *clauses)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);

		if (!shard_rule_is_builtin(clause->eqop) ||
			(OidIsValid(clause->sortop) && !shard_rule_is_builtin(clause->sortop)))
			return false;
	}
	return true;
}

static bool
aggref_ok(Aggref *agg, WalkContext *cxt, ShardDerived *derived)
{
	ShardDerived inner = {InvalidOid, SHARD_COLLATION_NONE};
	List	   *args = NIL;
	ListCell   *lc;

	if (!cxt->allow_aggs || agg->agglevelsup != 0 || agg->aggsplit != AGGSPLIT_SIMPLE ||
		!shard_rule_type_ok(agg->aggtype))
		return false;

	/* others count as immutable: nodes have a copy only where the functions under them are */
	if (!(shard_rule_is_builtin(agg->aggfnoid) ?
		  func_volatile(agg->aggfnoid) == PROVOLATILE_IMMUTABLE :
		  cxt->partial || shard_twin_everywhere(agg->aggfnoid)))
		return false;

	foreach(lc, agg->args)
		args = lappend(args, lfirst_node(TargetEntry, lc)->expr);

	/* count() asks only whether its argument is NULL */
	if (agg->aggfnoid != F_COUNT_ANY || agg->aggdistinct != NIL)
	{
		if (!argument_types_ok(args) || !argument_types_ok(agg->aggdirectargs))
			return false;
	}
	if (!sort_clauses_ok(agg->aggorder) || !sort_clauses_ok(agg->aggdistinct))
		return false;

	if (!walk((Node *) agg->aggdirectargs, cxt, &inner) || !walk((Node *) args, cxt, &inner))
		return false;

	/* a collation that an argument does not have also says how DISTINCT and ORDER BY work */
	if (inner.state == SHARD_COLLATION_UNSAFE || !shard_rule_input_collation_ok(agg->inputcollid, inner))
		return false;

	if (agg->aggfilter != NULL)
	{
		ShardDerived filter = {InvalidOid, SHARD_COLLATION_NONE};

		if (!walk((Node *) agg->aggfilter, cxt, &filter))
			return false;
	}
	*derived = shard_rule_result_derived(agg->aggcollid, inner);
	return true;
}

static bool
window_func_ok(WindowFunc *func, WalkContext *cxt, ShardDerived *derived)
{
	ShardDerived inner = {InvalidOid, SHARD_COLLATION_NONE};
	ShardDerived filter = {InvalidOid, SHARD_COLLATION_NONE};

	if (!cxt->allow_windows || cxt->root == NULL ||
		!shard_rule_is_builtin(func->winfnoid) ||
		func_volatile(func->winfnoid) != PROVOLATILE_IMMUTABLE ||
		!shard_rule_type_ok(func->wintype) ||
		!shard_shippable_window(cxt->root, cxt->relids, func))
		return false;
	if (func->winfnoid != F_COUNT_ANY && !argument_types_ok(func->args))
		return false;
	if (!walk((Node *) func->args, cxt, &inner) ||
		!shard_rule_input_collation_ok(func->inputcollid, inner) ||
		!walk((Node *) func->aggfilter, cxt, &filter))
		return false;
	*derived = shard_rule_result_derived(func->wincollid, inner);
	return true;
}

static bool
case_ok(CaseExpr *expr, WalkContext *cxt, ShardDerived *derived)
{
	WalkContext saved = *cxt;
	ShardDerived test = {InvalidOid, SHARD_COLLATION_NONE};
	ShardDerived results = {InvalidOid, SHARD_COLLATION_NONE};
	bool		ok = false;
	ListCell   *lc;

	if (expr->arg != NULL && (!shard_rule_type_ok(exprType((Node *) expr->arg)) ||
							  !walk((Node *) expr->arg, cxt, &test)))
		return false;
	cxt->conditional = true;
	cxt->case_test = test;
	foreach(lc, expr->args)
	{
		CaseWhen   *when = lfirst_node(CaseWhen, lc);
		ShardDerived condition = {InvalidOid, SHARD_COLLATION_NONE};

		/* a condition's own collation says nothing about the result */
		if (!walk((Node *) when->expr, cxt, &condition) ||
			!walk((Node *) when->result, cxt, &results))
			goto done;
	}
	if (!walk((Node *) expr->defresult, cxt, &results))
		goto done;
	*derived = shard_rule_result_derived(expr->casecollid, results);
	ok = shard_rule_type_ok(expr->casetype);
done:
	*cxt = saved;
	return ok;
}

/* Arguments of which some may not be evaluated. */
static bool
conditional_args_ok(List *args, WalkContext *cxt, ShardDerived *inner)
{
	bool		saved = cxt->conditional;
	bool		ok;

	cxt->conditional = true;
	ok = walk((Node *) args, cxt, inner);
	cxt->conditional = saved;
	return ok;
}

static bool
row_compare_ok(RowCompareExpr *expr, WalkContext *cxt)
{
	ListCell   *left;
	ListCell   *right;
	ListCell   *opno;
	ListCell   *collation;

	forfour(left, expr->largs, right, expr->rargs, opno, expr->opnos,
			collation, expr->inputcollids)
	{
		ShardDerived ignored = {InvalidOid, SHARD_COLLATION_NONE};

		if (!operator_ok(lfirst_oid(opno), list_make2(lfirst(left), lfirst(right)),
						 lfirst_oid(collation), BOOLOID, InvalidOid, cxt, &ignored))
			return false;
	}
	return true;
}

/* int4[] to int8[] and the like: the element's conversion is a plain function or none. */
static bool
array_coerce_ok(ArrayCoerceExpr *expr, WalkContext *cxt, ShardDerived *inner)
{
	Node	   *element = (Node *) expr->elemexpr;

	if (!shard_rule_type_ok(expr->resulttype) ||
		!shard_rule_type_ok(exprType((Node *) expr->arg)))
		return false;
	if (IsA(element, FuncExpr))
	{
		if (!shard_rule_function_ok(((FuncExpr *) element)->funcid))
			return false;
	}
	else if (!IsA(element, RelabelType) && !IsA(element, CaseTestExpr))
		return false;
	return walk((Node *) expr->arg, cxt, inner);
}

static bool
subscript_ok(SubscriptingRef *expr, WalkContext *cxt, ShardDerived *derived)
{
	ShardDerived inner = {InvalidOid, SHARD_COLLATION_NONE};
	ShardDerived ignored = {InvalidOid, SHARD_COLLATION_NONE};

	if (expr->refassgnexpr != NULL ||
		!shard_rule_type_ok(expr->refcontainertype) || !shard_rule_type_ok(expr->refrestype) ||
		!walk((Node *) expr->refupperindexpr, cxt, &ignored) ||
		!walk((Node *) expr->reflowerindexpr, cxt, &ignored) ||
		!walk((Node *) expr->refexpr, cxt, &inner))
		return false;
	*derived = shard_rule_result_derived(expr->refcollid, inner);
	return true;
}

static bool
const_ok(Const *con)
{
	/* text search configurations that every server has */
	if (con->consttype == REGCONFIGOID)
		return !con->constisnull && DatumGetObjectId(con->constvalue) < FirstNormalObjectId;
	return shard_shippable_value_type(con->consttype);
}

/*
 * The rule for each kind of node; NULL and lists included.  Adds what the
 * expression derives to *outer.
 */
static bool
walk(Node *node, WalkContext *cxt, ShardDerived *outer)
{
	ShardDerived inner = {InvalidOid, SHARD_COLLATION_NONE};
	ShardDerived result = {InvalidOid, SHARD_COLLATION_NONE};

	if (node == NULL)
		return true;
	check_stack_depth();

	if (shard_shippable_is_param(node, cxt->conditional))
	{
		if (!param_ok(node))
			return false;
		shard_rule_merge_derived(outer, shard_rule_value_derived(exprType(node), exprCollation(node)));
		return true;
	}

	switch (nodeTag(node))
	{
		case T_List:
			{
				ListCell   *lc;

				foreach(lc, (List *) node)
				{
					if (!walk(lfirst(lc), cxt, outer))
						return false;
				}
				return true;
			}
		case T_Var:
			{
				Var		   *var = (Var *) node;

				if (!column_ok(var, cxt))
					return false;
				result.collation = var->varcollid;
				result.state = OidIsValid(var->varcollid) ? SHARD_COLLATION_SAFE : SHARD_COLLATION_NONE;
				break;
			}
		case T_Const:
			{
				Const	   *con = (Const *) node;

				if (!const_ok(con))
					return false;
				result = shard_rule_value_derived(con->consttype, con->constcollid);
				break;
			}
		case T_PlaceHolderVar:
			/* in a join, an outer join may have made it NULL where the expression is not */
			if (bms_membership(cxt->relids) != BMS_SINGLETON)
				return false;
			return walk((Node *) ((PlaceHolderVar *) node)->phexpr, cxt, outer);
		case T_CaseTestExpr:
			result = cxt->case_test;
			break;
		case T_FuncExpr:
			{
				FuncExpr   *expr = (FuncExpr *) node;

				/* text search configurations are the one reg type whose constants may go */
				if (expr->funcretset)
					return false;
				if (expr->args != NIL && IsA(linitial(expr->args), Const) &&
					((Const *) linitial(expr->args))->consttype == REGCONFIGOID)
				{
					if (!const_ok(linitial(expr->args)))
						return false;
					if (!call_ok(expr->funcid, list_copy_tail(expr->args, 1), expr->inputcollid,
								 expr->funcresulttype, expr->funccollid, cxt, &result))
						return false;
				}
				else if (!call_ok(expr->funcid, expr->args, expr->inputcollid,
								  expr->funcresulttype, expr->funccollid, cxt, &result))
					return false;
				break;
			}
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			{
				OpExpr	   *expr = (OpExpr *) node;

				if (expr->opretset ||
					!operator_ok(expr->opno, expr->args, expr->inputcollid,
								 expr->opresulttype, expr->opcollid, cxt, &result))
					return false;
				break;
			}
		case T_ScalarArrayOpExpr:
			{
				ScalarArrayOpExpr *expr = (ScalarArrayOpExpr *) node;

				if (!operator_ok(expr->opno, expr->args, expr->inputcollid,
								 BOOLOID, InvalidOid, cxt, &result))
					return false;
				break;
			}
		case T_RowCompareExpr:
			if (!row_compare_ok((RowCompareExpr *) node, cxt))
				return false;
			break;
		case T_RelabelType:
			{
				RelabelType *expr = (RelabelType *) node;

				if (!shard_rule_type_ok(expr->resulttype) ||
					!walk((Node *) expr->arg, cxt, &inner))
					return false;
				result = shard_rule_result_derived(expr->resultcollid, inner);

				/* this is what COLLATE "C" has become by now */
				if (result.state == SHARD_COLLATION_UNSAFE &&
					shard_shippable_names_collation(expr->resultcollid,
													exprCollation((Node *) expr->arg)))
					result.state = SHARD_COLLATION_SAFE;
				break;
			}
		case T_CoerceViaIO:
			{
				CoerceViaIO *expr = (CoerceViaIO *) node;

				if (!shard_rule_via_io_ok(exprType((Node *) expr->arg), expr->resulttype) ||
					!walk((Node *) expr->arg, cxt, &inner))
					return false;
				result = shard_rule_result_derived(expr->resultcollid, inner);
				break;
			}
		case T_ArrayCoerceExpr:
			if (!array_coerce_ok((ArrayCoerceExpr *) node, cxt, &inner))
				return false;
			result = shard_rule_result_derived(((ArrayCoerceExpr *) node)->resultcollid, inner);
			break;
		case T_BoolExpr:
			if (!walk((Node *) ((BoolExpr *) node)->args, cxt, &inner))
				return false;
			break;
		case T_NullTest:
			if (((NullTest *) node)->argisrow ||
				!walk((Node *) ((NullTest *) node)->arg, cxt, &inner))
				return false;
			break;
		case T_BooleanTest:
			if (!walk((Node *) ((BooleanTest *) node)->arg, cxt, &inner))
				return false;
			break;
		case T_CaseExpr:
			if (!case_ok((CaseExpr *) node, cxt, &result))
				return false;
			break;
		case T_CoalesceExpr:
			{
				CoalesceExpr *expr = (CoalesceExpr *) node;

				if (!shard_rule_type_ok(expr->coalescetype) ||
					!conditional_args_ok(expr->args, cxt, &inner))
					return false;
				result = shard_rule_result_derived(expr->coalescecollid, inner);
				break;
			}
		case T_MinMaxExpr:
			{
				MinMaxExpr *expr = (MinMaxExpr *) node;

				if (!shard_rule_type_ok(expr->minmaxtype) ||
					!walk((Node *) expr->args, cxt, &inner) ||
					!shard_rule_input_collation_ok(expr->inputcollid, inner))
					return false;
				result = shard_rule_result_derived(expr->minmaxcollid, inner);
				break;
			}
		case T_ArrayExpr:
			{
				ArrayExpr  *expr = (ArrayExpr *) node;

				if (!shard_rule_type_ok(expr->array_typeid) ||
					!walk((Node *) expr->elements, cxt, &inner))
					return false;
				result = shard_rule_result_derived(expr->array_collid, inner);
				break;
			}
		case T_SubscriptingRef:
			if (!subscript_ok((SubscriptingRef *) node, cxt, &result))
				return false;
			break;
		case T_Aggref:
			if (!aggref_ok((Aggref *) node, cxt, &result))
				return false;
			break;
		case T_WindowFunc:
			if (!window_func_ok((WindowFunc *) node, cxt, &result))
				return false;
			break;
		default:
			/* subplans, rows, domains, XML, JSON constructors, ... */
			return false;
	}

	shard_rule_merge_derived(outer, result);
	return true;
}

static bool
check_expr(PlannerInfo *root, Relids relids, Node *expr, bool allow_aggs, bool allow_windows)
{
	WalkContext cxt = {0};
	ShardDerived derived = {InvalidOid, SHARD_COLLATION_NONE};

	cxt.root = root;
	cxt.relids = relids;
	cxt.allow_aggs = allow_aggs;
	cxt.allow_windows = allow_windows;
	return walk(expr, &cxt, &derived) && derived.state != SHARD_COLLATION_UNSAFE;
}

bool
shard_shippable_expr(PlannerInfo *root, Relids relids, Expr *expr)
{
	return check_expr(root, relids, (Node *) expr, false, false);
}

bool
shard_shippable_agg_expr(PlannerInfo *root, Relids relids, Expr *expr)
{
	return check_expr(root, relids, (Node *) expr, true, false);
}

bool
shard_shippable_window_expr(PlannerInfo *root, Relids relids, Expr *expr)
{
	return check_expr(root, relids, (Node *) expr, true, true);
}

bool
shard_shippable_value(Node *expr)
{
	if (expr == NULL)
		return true;
	if (IsA(expr, Const))
		return const_ok((Const *) expr);
	return !not_var_free_walker(expr, NULL) && param_ok(expr);
}

bool
shard_shippable_partial_agg(const ShardMap *map, Aggref *agg)
{
	return agg->agglevelsup == 0 && agg->aggkind == AGGKIND_NORMAL &&
		agg->aggorder == NIL && agg->aggdistinct == NIL &&
		shard_partial_agg_kind(map, agg) != SHARD_PARTIAL_NONE;
}

bool
shard_shippable_partial_args(PlannerInfo *root, Relids relids, Aggref *agg)
{
	Aggref	   *whole = makeNode(Aggref);
	WalkContext cxt = {0};
	ShardDerived derived = {InvalidOid, SHARD_COLLATION_NONE};

	/* the node is asked for aggregates over the same arguments, which return the state */
	*whole = *agg;
	whole->aggsplit = AGGSPLIT_SIMPLE;
	whole->aggtype = agg->aggtranstype == INTERNALOID ? BYTEAOID : agg->aggtranstype;
	cxt.root = root;
	cxt.relids = relids;
	cxt.allow_aggs = true;
	cxt.partial = true;
	return walk((Node *) whole, &cxt, &derived) && derived.state != SHARD_COLLATION_UNSAFE;
}
