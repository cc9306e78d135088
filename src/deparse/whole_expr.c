/*
 * whole_expr.c
 *	  Converts expressions of a whole statement, as made by the parser, to the form in which nodes evaluate them.
 *
 * - without columns, and only the coordinator can evaluate it: a parameter ($n)::type
 * - a constant: a parameter, so that statements with other constants have the same text
 * - any other expression: checked, but not changed
 *
 * The rules are those of shippable.c, except for collations.  The node parses the same text, with the user's COLLATE
 * clauses, over columns with the same collations.  So it derives the same collations.
 *
 * A value that is assigned to a whole column may be of any type: its parameter has no cast, so the column's type
 * reads its text.
 */
#include "postgres.h"

#include "catalog/partial_aggregate.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "deparse/convert.h"
#include "deparse/shippable/shippable.h"
#include "deparse/shippable/shippable_param.h"
#include "deparse/shippable/shippable_rule.h"
#include "deparse/whole_expr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

/* If a statement has more parameters than this, further constants stay in the text. */
#define MAX_CONSTANT_PARAMS 200

#define DIFFERENT_COLLATION "default collation of a node"

static Node *convert(Node *node, ShardWholeContext *cxt);

static Node *
refuse(Node *node, ShardWholeContext *cxt, const char *reason)
{
	shard_whole_refuse(cxt, reason);
	return node;
}

/* ---------- parameters ---------- */

/*
 * Number of the parameter with the value of expr.  Equal expressions share a parameter.  Equal constants do not, so
 * that statements with other constants have the same text.
 */
static int
param_number(Node *expr, ShardWholeContext *cxt)
{
	int			number = 0;

	if ((cxt->compares || !IsA(expr, Const)) && !contain_volatile_functions(expr))
	{
		foreach_ptr(Expr, source, cxt->sources)
		{
			number++;
			if (equal(source, expr))
				return number;
		}
	}
	cxt->sources = lappend(cxt->sources, expr);
	cxt->params = lappend(cxt->params, expression_planner(copyObject((Expr *) expr)));
	return list_length(cxt->params);
}

/* $n, or ($n)::type */
static Node *
make_param(Node *expr, bool typed, ShardWholeContext *cxt)
{
	int			paramno = param_number(expr, cxt);
	Oid			type = exprType(expr);

	return typed ? (Node *) shard_convert_typed_param(paramno, type, get_typcollation(type)) :
		(Node *) shard_convert_param(paramno, type, -1, get_typcollation(type));
}

static Node *
convert_value(Node *node, ShardWholeContext *cxt)
{
	Oid			collation = exprCollation(node);

	if (!shard_shippable_value_type(exprType(node)) || expression_returns_set(node))
		return refuse(node, cxt, "type of a value");
	if (!cxt->once && contain_volatile_functions(node))
		return refuse(node, cxt, "volatile function");

	/* COLLATE inside of it would be lost */
	if (OidIsValid(collation) && collation != get_typcollation(exprType(node)) &&
		collation != DEFAULT_COLLATION_OID)
		return refuse(node, cxt, "collation of a value");
	return make_param(node, true, cxt);
}

static Node *
convert_const(Const *con, ShardWholeContext *cxt)
{
	/* text search configurations that every server has */
	if (con->consttype == REGCONFIGOID && !con->constisnull &&
		DatumGetObjectId(con->constvalue) < FirstNormalObjectId)
		return (Node *) con;

	/* a literal of type unknown, in the sub-select of INSERT */
	if (con->consttype == UNKNOWNOID)
		return (Node *) con;
	if (!shard_shippable_value_type(con->consttype))
		return refuse((Node *) con, cxt, "type of a constant");
	if (cxt->keep_constants || con->constisnull || con->consttype == BOOLOID ||
		con->consttypmod != -1 || list_length(cxt->params) >= MAX_CONSTANT_PARAMS)
		return (Node *) con;
	return make_param((Node *) con, true, cxt);
}

/* Only the first argument is always evaluated. */
static Node *
convert_coalesce(CoalesceExpr *coalesce, ShardWholeContext *cxt)
{
	bool		saved = cxt->conditional;

	cxt->conditional = true;
	coalesce->args = (List *) convert((Node *) coalesce->args, cxt);
	cxt->conditional = saved;
	return (Node *) coalesce;
}

/* ---------- calls ---------- */

static bool
argument_types_ok(List *args)
{
	foreach_ptr(Node, arg, args)
	{
		if (IsA(arg, TargetEntry))
			arg = (Node *) ((TargetEntry *) arg)->expr;
		/* text search configurations are the only reg type whose constants may be shipped */
		if (!shard_rule_type_ok(exprType(arg)) &&
			!(exprType(arg) == REGCONFIGOID && IsA(arg, Const)))
			return false;
	}
	return true;
}

static Node *
convert_func(FuncExpr *func, ShardWholeContext *cxt)
{
	if (!shard_rule_function_ok(func->funcid))
		return refuse((Node *) func, cxt, "function");
	if (!shard_rule_type_ok(func->funcresulttype) || !argument_types_ok(func->args))
		return refuse((Node *) func, cxt, "type of a function");
	if (!shard_rule_collation_ok(func->funcid, func->inputcollid))
		return refuse((Node *) func, cxt, DIFFERENT_COLLATION);

	/* some minor releases print the arguments of that syntax unquoted */
	if (func->funcformat == COERCE_SQL_SYNTAX)
		func->funcformat = COERCE_EXPLICIT_CALL;

	/* the other arguments of a cast are read from its printed type */
	if (func->funcformat == COERCE_EXPLICIT_CAST || func->funcformat == COERCE_IMPLICIT_CAST)
		linitial(func->args) = convert(linitial(func->args), cxt);
	else
		func->args = (List *) convert((Node *) func->args, cxt);
	return (Node *) func;
}

static void
check_operator(Oid opno, List *args, Oid inputcollid, Oid resulttype, ShardWholeContext *cxt)
{
	if (!shard_rule_is_builtin(opno) || !shard_rule_function_ok(get_opcode(opno)))
		(void) refuse(NULL, cxt, "operator");
	else if (!shard_rule_type_ok(resulttype) || !argument_types_ok(args))
		(void) refuse(NULL, cxt, "type of an operator");
	else if (!shard_rule_collation_ok(get_opcode(opno), inputcollid))
		(void) refuse(NULL, cxt, DIFFERENT_COLLATION);
}

static Node *
convert_agg(Aggref *agg, ShardWholeContext *cxt)
{
	if (!(shard_rule_is_builtin(agg->aggfnoid) ?
		  func_volatile(agg->aggfnoid) == PROVOLATILE_IMMUTABLE :
		  shard_partial_aggregate_everywhere(agg->aggfnoid)))
		return refuse((Node *) agg, cxt, "aggregate");
	if (!shard_rule_type_ok(agg->aggtype) ||
		(agg->aggfnoid != F_COUNT_ANY && !argument_types_ok(agg->args)) ||
		!argument_types_ok(agg->aggdirectargs))
		return refuse((Node *) agg, cxt, "type of an aggregate");
	if (!shard_rule_collation_ok(agg->aggfnoid, agg->inputcollid))
		return refuse((Node *) agg, cxt, DIFFERENT_COLLATION);
	/* DISTINCT sorts its rows */
	shard_whole_clauses(agg->aggdistinct, agg->args, agg->aggfnoid != F_COUNT_ANY, cxt);
	shard_whole_clauses(agg->aggorder, agg->args, true, cxt);
	agg->aggdirectargs = (List *) convert((Node *) agg->aggdirectargs, cxt);
	agg->args = (List *) convert((Node *) agg->args, cxt);
	agg->aggfilter = (Expr *) convert((Node *) agg->aggfilter, cxt);
	return (Node *) agg;
}

static Node *
convert_window_func(WindowFunc *func, ShardWholeContext *cxt)
{
	if (!shard_rule_is_builtin(func->winfnoid) ||
		func_volatile(func->winfnoid) != PROVOLATILE_IMMUTABLE)
		return refuse((Node *) func, cxt, "window function");
	if (!shard_rule_type_ok(func->wintype) ||
		(func->winfnoid != F_COUNT_ANY && !argument_types_ok(func->args)))
		return refuse((Node *) func, cxt, "type of a window function");
	if (!shard_rule_collation_ok(func->winfnoid, func->inputcollid))
		return refuse((Node *) func, cxt, DIFFERENT_COLLATION);
	func->args = (List *) convert((Node *) func->args, cxt);
	func->aggfilter = (Expr *) convert((Node *) func->aggfilter, cxt);
	return (Node *) func;
}

static Node *
convert_case(CaseExpr *expr, ShardWholeContext *cxt)
{
	bool		saved = cxt->conditional;

	if (!shard_rule_type_ok(expr->casetype) ||
		(expr->arg != NULL && !shard_rule_type_ok(exprType((Node *) expr->arg))))
		return refuse((Node *) expr, cxt, "type of CASE");
	expr->arg = (Expr *) convert((Node *) expr->arg, cxt);
	cxt->conditional = true;
	foreach_node(CaseWhen, when, expr->args)
	{
		when->expr = (Expr *) convert((Node *) when->expr, cxt);
		when->result = (Expr *) convert((Node *) when->result, cxt);
	}
	expr->defresult = (Expr *) convert((Node *) expr->defresult, cxt);
	cxt->conditional = saved;
	return (Node *) expr;
}

static Node *
convert_row_compare(RowCompareExpr *expr, ShardWholeContext *cxt)
{
	ListCell   *left;
	ListCell   *right;
	ListCell   *opno;
	ListCell   *collation;

	forfour(left, expr->largs, right, expr->rargs, opno, expr->opnos, collation, expr->inputcollids)
		check_operator(lfirst_oid(opno), list_make2(lfirst(left), lfirst(right)), lfirst_oid(collation), BOOLOID, cxt);
	expr->largs = (List *) convert((Node *) expr->largs, cxt);
	expr->rargs = (List *) convert((Node *) expr->rargs, cxt);
	return (Node *) expr;
}

/* int4[] to int8[] and similar: the conversion of an element is a plain function or none. */
static Node *
convert_array_coerce(ArrayCoerceExpr *expr, ShardWholeContext *cxt)
{
	Node	   *element = (Node *) expr->elemexpr;

	if (!shard_rule_type_ok(expr->resulttype) || !shard_rule_type_ok(exprType((Node *) expr->arg)))
		return refuse((Node *) expr, cxt, "type of an array");
	if (IsA(element, FuncExpr) ? !shard_rule_function_ok(((FuncExpr *) element)->funcid) :
		!IsA(element, RelabelType) && !IsA(element, CaseTestExpr))
		return refuse((Node *) expr, cxt, "conversion of an array");
	expr->arg = (Expr *) convert((Node *) expr->arg, cxt);
	return (Node *) expr;
}

static Node *
convert_subscript(SubscriptingRef *expr, ShardWholeContext *cxt)
{
	if (!shard_rule_type_ok(expr->refcontainertype) || !shard_rule_type_ok(expr->refrestype))
		return refuse((Node *) expr, cxt, "type of an array");

	/* the rewriter has combined SET a[1] = x, a[2] = y into one expression, of which core prints only the last part */
	if (expr->refassgnexpr != NULL && !IsA(expr->refexpr, Var))
		return refuse((Node *) expr, cxt, "several parts of a column are assigned");
	expr->refupperindexpr = (List *) convert((Node *) expr->refupperindexpr, cxt);
	expr->reflowerindexpr = (List *) convert((Node *) expr->reflowerindexpr, cxt);
	expr->refexpr = (Expr *) convert((Node *) expr->refexpr, cxt);
	expr->refassgnexpr = (Expr *) convert((Node *) expr->refassgnexpr, cxt);
	return (Node *) expr;
}

static Node *
convert_sublink(SubLink *sublink, ShardWholeContext *cxt)
{
	bool		conditional = cxt->conditional;
	bool		once = cxt->once;

	sublink->testexpr = convert(sublink->testexpr, cxt);
	cxt->conditional = cxt->once = false;
	cxt->convert_query(castNode(Query, sublink->subselect), cxt);
	cxt->conditional = conditional;
	cxt->once = once;
	return (Node *) sublink;
}

/* ---------- all ---------- */

static Node *
convert_opexpr(OpExpr *expr, ShardWholeContext *cxt)
{
	check_operator(expr->opno, expr->args, expr->inputcollid, expr->opresulttype, cxt);
	expr->args = (List *) convert((Node *) expr->args, cxt);
	return (Node *) expr;
}

static Node *
convert_list(List *list, ShardWholeContext *cxt)
{
	ListCell   *lc;

	foreach(lc, list)
		lfirst(lc) = convert(lfirst(lc), cxt);
	return (Node *) list;
}

/* Converts a node with one argument. type: the type of the node. */
static Node *
convert_arg(Node *node, Expr **arg, Oid type, ShardWholeContext *cxt)
{
	if (!shard_rule_type_ok(type))
		return refuse(node, cxt, "type of an expression");
	*arg = (Expr *) convert((Node *) *arg, cxt);
	return node;
}

/* Converts node, which is not a parameter, in place. */
static Node *
convert_node(Node *node, ShardWholeContext *cxt)
{
	switch (nodeTag(node))
	{
		case T_List:
			return convert_list((List *) node, cxt);
		case T_TargetEntry:
			{
				TargetEntry *entry = (TargetEntry *) node;

				/* a constant in ORDER BY or GROUP BY must not be read as a column position */
				if (entry->ressortgroupref == 0 || !IsA(entry->expr, Const))
					entry->expr = (Expr *) convert((Node *) entry->expr, cxt);
				else if (!shard_shippable_value_type(exprType((Node *) entry->expr)))
					return refuse(node, cxt, "type of a constant");
				return node;
			}
		case T_Var:
			if (((Var *) node)->varattno == 0 || ((Var *) node)->varattno == TableOidAttributeNumber)
				return refuse(node, cxt, "tableoid or whole row");
			cxt->system_columns |= ((Var *) node)->varattno < 0;
			return node;
		case T_Const:
			return convert_const((Const *) node, cxt);
		case T_Param:
			/* columns of sub-selects: of one in the same expression, or of (a, b) = (SELECT ...), see printable.c */
			if (((Param *) node)->paramkind != PARAM_SUBLINK && ((Param *) node)->paramkind != PARAM_MULTIEXPR)
				return refuse(node, cxt, "parameter");
			return node;
		case T_CaseTestExpr:
			return node;
		case T_GroupingFunc:
			((GroupingFunc *) node)->args = (List *) convert((Node *) ((GroupingFunc *) node)->args, cxt);
			return node;
		case T_FuncExpr:
			return convert_func((FuncExpr *) node, cxt);
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			return convert_opexpr((OpExpr *) node, cxt);
		case T_ScalarArrayOpExpr:
			{
				ScalarArrayOpExpr *expr = (ScalarArrayOpExpr *) node;

				check_operator(expr->opno, expr->args, expr->inputcollid, BOOLOID, cxt);
				expr->args = (List *) convert((Node *) expr->args, cxt);
				return node;
			}
		case T_RowCompareExpr:
			return convert_row_compare((RowCompareExpr *) node, cxt);
		case T_BoolExpr:
			((BoolExpr *) node)->args = (List *) convert((Node *) ((BoolExpr *) node)->args, cxt);
			return node;
		case T_NullTest:
			if (((NullTest *) node)->argisrow)
				return refuse(node, cxt, "test of a row");
			return convert_arg(node, &((NullTest *) node)->arg, BOOLOID, cxt);
		case T_BooleanTest:
			return convert_arg(node, &((BooleanTest *) node)->arg, BOOLOID, cxt);
		case T_CaseExpr:
			return convert_case((CaseExpr *) node, cxt);
		case T_CoalesceExpr:
			if (!shard_rule_type_ok(((CoalesceExpr *) node)->coalescetype))
				return refuse(node, cxt, "type of COALESCE");
			return convert_coalesce((CoalesceExpr *) node, cxt);
		case T_MinMaxExpr:
			if (!shard_rule_type_ok(((MinMaxExpr *) node)->minmaxtype))
				return refuse(node, cxt, "type of GREATEST or LEAST");
			if (!shard_rule_order_collation_ok(node))
				return refuse(node, cxt, DIFFERENT_COLLATION);
			((MinMaxExpr *) node)->args = (List *) convert((Node *) ((MinMaxExpr *) node)->args, cxt);
			return node;
		case T_ArrayExpr:
			if (!shard_rule_type_ok(((ArrayExpr *) node)->array_typeid))
				return refuse(node, cxt, "type of an array");
			((ArrayExpr *) node)->elements = (List *) convert((Node *) ((ArrayExpr *) node)->elements, cxt);
			return node;
		case T_SubscriptingRef:
			return convert_subscript((SubscriptingRef *) node, cxt);
		case T_RelabelType:
			if (!shard_rule_relabel_ok(exprType((Node *) ((RelabelType *) node)->arg),
									   ((RelabelType *) node)->resulttype))
				return refuse(node, cxt, "type of an expression");
			return convert_arg(node, &((RelabelType *) node)->arg,
							   ((RelabelType *) node)->resulttype, cxt);
		case T_CollateExpr:
			if (!shard_rule_is_byte_order(((CollateExpr *) node)->collOid) &&
				((CollateExpr *) node)->collOid != DEFAULT_COLLATION_OID)
				return refuse(node, cxt, "COLLATE");
			return convert_arg(node, &((CollateExpr *) node)->arg, exprType(node), cxt);
		case T_CoerceViaIO:
			{
				CoerceViaIO *expr = (CoerceViaIO *) node;

				if (!shard_rule_via_io_ok(exprType((Node *) expr->arg), expr->resulttype))
					return refuse(node, cxt, "conversion through text");
				cxt->casts_styled |= shard_rule_is_styled(exprType((Node *) expr->arg));
				return convert_arg(node, &expr->arg, expr->resulttype, cxt);
			}
		case T_ArrayCoerceExpr:
			return convert_array_coerce((ArrayCoerceExpr *) node, cxt);
		case T_Aggref:
			return convert_agg((Aggref *) node, cxt);
		case T_WindowFunc:
			return convert_window_func((WindowFunc *) node, cxt);
		case T_SubLink:
			return convert_sublink((SubLink *) node, cxt);
		default:
			/* rows, domains, XML, JSON constructors, ... */
			return refuse(node, cxt, "kind of expression");
	}
}

/* Converts node, a private copy of the caller, in place. */
static Node *
convert(Node *node, ShardWholeContext *cxt)
{
	bool		no_params = cxt->no_params;

	if (node == NULL || cxt->reason != NULL)
		return node;
	check_stack_depth();

	/* if the whole value has no part for the coordinator, its parts need not be tested again */
	if (!no_params && !IsA(node, List) && !IsA(node, TargetEntry) && !IsA(node, Const) && shard_rule_is_value(node, false))
	{
		if (shard_shippable_is_param(node, cxt->conditional))
			return convert_value(node, cxt);
		cxt->no_params = !shard_shippable_needs_coordinator(node);
	}
	node = convert_node(node, cxt);
	cxt->no_params = no_params;
	return node;
}

Node *
shard_whole_expr(Node *node, ShardWholeContext *cxt)
{
	return convert(node, cxt);
}

/*
 * domain: node is the argument of a conversion to a domain.  The conversion was removed because the node checks the
 * domain.
 */
static Node *
convert_assigned(Node *node, bool domain, ShardWholeContext *cxt)
{
	bool		is_value;

	if (node == NULL || cxt->reason != NULL)
		return node;
	is_value = shard_rule_is_value(node, false);

	/* the node checks the domain of its column, but only if the assignment is executed */
	if (IsA(node, CoerceToDomain) && !(is_value && (cxt->once || cxt->checks_values)) &&
		((CoerceToDomain *) node)->coercionformat == COERCE_IMPLICIT_CAST)
	{
		if (cxt->checks_domains && shard_domain_has_constraints(exprType(node)))
			return refuse(node, cxt, "domain of a column that is defined on the node alone");
		return convert_assigned((Node *) ((CoerceToDomain *) node)->arg, !cxt->checks_domains, cxt);
	}
	if (is_value)
	{
		bool		own_type = !shard_shippable_value_type(exprType(node)) ||
			IsA(node, CoerceToDomain);

		if (own_type || shard_shippable_is_param(node, false))
		{
			if (!cxt->once && contain_volatile_functions(node))
				return refuse(node, cxt, "volatile function");
			if (expression_returns_set(node))
				return refuse(node, cxt, "set in an assignment");

			/* without a cast the node would read it as a value of the domain, and check the domain too early */
			return make_param(node, !own_type || domain, cxt);
		}
	}
	return convert(node, cxt);
}

Node *
shard_whole_assigned(Node *node, ShardWholeContext *cxt)
{
	return convert_assigned(node, false, cxt);
}

void
shard_whole_clauses(List *clauses, List *tlist, bool order, ShardWholeContext *cxt)
{
	foreach_node(SortGroupClause, clause, clauses)
	{
		Node	   *expr = get_sortgroupclause_expr(clause, tlist);
		Oid			type = getBaseType(exprType(expr));
		Oid			collation = exprCollation(expr);

		if (!shard_rule_is_builtin(clause->eqop) ||
			(OidIsValid(clause->sortop) && !shard_rule_is_builtin(clause->sortop)))
			(void) refuse(NULL, cxt, "operator of a sort or group");
		else if (!shard_rule_type_ok(type) && (order || get_typtype(type) != TYPTYPE_ENUM))
			(void) refuse(NULL, cxt, "type of a sort or group");
		else if (order && OidIsValid(collation) && collation != DEFAULT_COLLATION_OID &&
				 !shard_rule_is_byte_order(collation))
			(void) refuse(NULL, cxt, "collation of a sort");
		else if (order && !shard_rule_order_collation_ok(expr))
			(void) refuse(NULL, cxt, DIFFERENT_COLLATION);
	}
}
