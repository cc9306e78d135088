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
#include "compat.h"
#include "deparse/partial_agg.h"
#include "deparse/shippable.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

/* Where the collation of an expression comes from. */
typedef enum CollationState
{
	COLLATION_NONE,				/* the type has none, or it is the default from no column */
	COLLATION_SAFE,				/* a column, or byte order */
	COLLATION_UNSAFE
} CollationState;

typedef struct Derived
{
	Oid			collation;
	CollationState state;
} Derived;

typedef struct WalkContext
{
	Relids		relids;
	bool		allow_aggs;
	bool		conditional;	/* inside a construct that may skip evaluation */
	Derived		case_test;		/* of the innermost CASE's test expression */
} WalkContext;

static bool walk(Node *node, WalkContext *cxt, Derived *outer);

static bool
is_builtin(Oid oid)
{
	return OidIsValid(oid) && oid < FirstGenbkiObjectId;
}

static bool
is_byte_order_collation(Oid collation)
{
	return collation == C_COLLATION_OID || collation == POSIX_COLLATION_OID;
}

/* Stable functions that depend on nothing but TimeZone. */
static bool
depends_on_timezone_only(Oid funcid)
{
	switch (funcid)
	{
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT:
		case F_DATE_PART_TEXT_TIMESTAMPTZ:
		case F_EXTRACT_TEXT_TIMESTAMPTZ:
		case F_TIMESTAMPTZ_PL_INTERVAL:
		case F_TIMESTAMPTZ_MI_INTERVAL:
		case F_INTERVAL_PL_TIMESTAMPTZ:
		case F_TIMESTAMPTZ_DATE:
		case F_DATE_TIMESTAMPTZ:
		case F_TIME_TIMESTAMPTZ:
		case F_TIMETZ_TIMESTAMPTZ:
		case F_TIMESTAMP_TIMESTAMPTZ:
		case F_TIMESTAMPTZ_TIMESTAMP:
		case F_TIMESTAMPTZ_DATE_TIME:
		case F_DATE_LT_TIMESTAMPTZ:
		case F_DATE_LE_TIMESTAMPTZ:
		case F_DATE_EQ_TIMESTAMPTZ:
		case F_DATE_GT_TIMESTAMPTZ:
		case F_DATE_GE_TIMESTAMPTZ:
		case F_DATE_NE_TIMESTAMPTZ:
		case F_TIMESTAMPTZ_LT_DATE:
		case F_TIMESTAMPTZ_LE_DATE:
		case F_TIMESTAMPTZ_EQ_DATE:
		case F_TIMESTAMPTZ_GT_DATE:
		case F_TIMESTAMPTZ_GE_DATE:
		case F_TIMESTAMPTZ_NE_DATE:
		case F_TIMESTAMP_LT_TIMESTAMPTZ:
		case F_TIMESTAMP_LE_TIMESTAMPTZ:
		case F_TIMESTAMP_EQ_TIMESTAMPTZ:
		case F_TIMESTAMP_GT_TIMESTAMPTZ:
		case F_TIMESTAMP_GE_TIMESTAMPTZ:
		case F_TIMESTAMP_NE_TIMESTAMPTZ:
		case F_TIMESTAMPTZ_LT_TIMESTAMP:
		case F_TIMESTAMPTZ_LE_TIMESTAMP:
		case F_TIMESTAMPTZ_EQ_TIMESTAMP:
		case F_TIMESTAMPTZ_GT_TIMESTAMP:
		case F_TIMESTAMPTZ_GE_TIMESTAMP:
		case F_TIMESTAMPTZ_NE_TIMESTAMP:
			return true;
		default:
			return false;
	}
}

static bool
is_shippable_function(Oid funcid)
{
	return is_builtin(funcid) &&
		(func_volatile(funcid) == PROVOLATILE_IMMUTABLE || depends_on_timezone_only(funcid));
}

/* Built-in and no name of an object in its text form. */
static bool
is_shippable_type(Oid type)
{
	Oid			element;

	if (!is_builtin(type))
		return false;
	switch (type)
	{
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGTYPEOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
		case REGCOLLATIONOID:
		case ACLITEMOID:
		case XMLOID:
		case UNKNOWNOID:
		case REFCURSOROID:
			return false;
		default:
			break;
	}

	/* no composites, no pseudo-types; by name because 19 has one more reg type */
	switch (get_typtype(type))
	{
		case TYPTYPE_BASE:
		case TYPTYPE_RANGE:
		case TYPTYPE_MULTIRANGE:
			break;
		default:
			return false;
	}
	element = get_element_type(type);
	return !OidIsValid(element) || is_shippable_type(element);
}

bool
shard_shippable_value_type(Oid type)
{
	/* money's text form follows lc_monetary, which nodes set as they like */
	return is_shippable_type(type) && type != CASHOID && get_element_type(type) != CASHOID;
}

/* Combines what an expression derives with what its siblings did. */
static void
merge_derived(Derived *outer, Derived inner)
{
	if (inner.state > outer->state)
		*outer = inner;
	else if (inner.state == outer->state && inner.state == COLLATION_SAFE &&
			 inner.collation != outer->collation)
	{
		/* as in parse_collate.c, a column's own collation wins over the default */
		if (outer->collation == DEFAULT_COLLATION_OID)
			*outer = inner;
		else if (inner.collation != DEFAULT_COLLATION_OID)
			outer->state = COLLATION_UNSAFE;
	}
}

/* May a function use this input collation, given what its arguments derive? */
static bool
input_collation_ok(Oid inputcollid, Derived args)
{
	if (args.state == COLLATION_NONE)
		return !OidIsValid(inputcollid) || inputcollid == DEFAULT_COLLATION_OID ||
			is_byte_order_collation(inputcollid);
	if (!OidIsValid(inputcollid) || is_byte_order_collation(inputcollid))
		return args.state == COLLATION_SAFE;
	return args.state == COLLATION_SAFE && args.collation == inputcollid;
}

/* What a function's result derives from its arguments. */
static Derived
result_derived(Oid resultcollid, Derived args)
{
	Derived		result = {resultcollid, COLLATION_UNSAFE};

	if (!OidIsValid(resultcollid))
		result.state = COLLATION_NONE;
	else if (args.state == COLLATION_SAFE && args.collation == resultcollid)
		result.state = COLLATION_SAFE;
	else if (resultcollid == DEFAULT_COLLATION_OID && args.state == COLLATION_NONE)
		result.state = COLLATION_NONE;
	return result;
}

bool
shard_shippable_names_collation(Oid collation, Oid implied)
{
	return collation != implied && is_byte_order_collation(collation);
}

/* What a constant or parameter derives. */
static Derived
value_derived(Oid type, Oid collation)
{
	Derived		result = {collation, COLLATION_UNSAFE};
	Oid			implied = get_typcollation(type);

	if (!OidIsValid(collation) || collation == implied || collation == DEFAULT_COLLATION_OID)
		result.state = COLLATION_NONE;
	else if (shard_shippable_names_collation(collation, implied))
		result.state = COLLATION_SAFE;
	return result;
}

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
	return !is_shippable_function(funcid);
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
		if (!is_shippable_type(exprType(lfirst(lc))))
			return false;
	}
	return true;
}

/* A function or operator: funcid over args, input and result collation and type. */
static bool
call_ok(Oid funcid, List *args, Oid inputcollid, Oid resulttype, Oid resultcollid,
		WalkContext *cxt, Derived *derived)
{
	Derived		inner = {InvalidOid, COLLATION_NONE};

	if (!is_shippable_function(funcid) || !is_shippable_type(resulttype) ||
		!argument_types_ok(args) || !walk((Node *) args, cxt, &inner) ||
		!input_collation_ok(inputcollid, inner))
		return false;
	*derived = result_derived(resultcollid, inner);
	return true;
}

static bool
operator_ok(Oid opno, List *args, Oid inputcollid, Oid resulttype, Oid resultcollid,
			WalkContext *cxt, Derived *derived)
{
	return is_builtin(opno) &&
		call_ok(get_opcode(opno), args, inputcollid, resulttype, resultcollid, cxt, derived);
}

/*
 * Conversion through text.  Output: of types whose text form depends on
 * nothing, or only on settings that follow the user's (DateStyle, TimeZone,
 * IntervalStyle, extra_float_digits, bytea_output).  Input: where core calls
 * it immutable ('today'::date is not).
 */
static bool
via_io_ok(Oid from, Oid to)
{
	bool		from_text = from == TEXTOID || from == VARCHAROID || from == BPCHAROID;
	bool		to_text = to == TEXTOID || to == VARCHAROID || to == BPCHAROID;
	Oid			function;
	Oid			ioparam;

	if (to_text)
	{
		switch (from)
		{
			case BOOLOID:
			case BYTEAOID:
			case CHAROID:
			case NAMEOID:
			case INT2OID:
			case INT4OID:
			case INT8OID:
			case OIDOID:
			case FLOAT4OID:
			case FLOAT8OID:
			case NUMERICOID:
			case DATEOID:
			case TIMEOID:
			case TIMETZOID:
			case TIMESTAMPOID:
			case TIMESTAMPTZOID:
			case INTERVALOID:
			case UUIDOID:
			case INETOID:
			case CIDROID:
			case MACADDROID:
			case JSONOID:
			case JSONBOID:
				return true;
			default:
				return from_text;
		}
	}
	if (!from_text || !is_shippable_type(to) || to == CASHOID)
		return false;
	getTypeInputInfo(to, &function, &ioparam);
	return is_builtin(function) && func_volatile(function) == PROVOLATILE_IMMUTABLE;
}

/* The sort operators of an aggregate's ORDER BY and DISTINCT. */
static bool
sort_clauses_ok(List *clauses)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);

		if (!is_builtin(clause->eqop) ||
			(OidIsValid(clause->sortop) && !is_builtin(clause->sortop)))
			return false;
	}
	return true;
}

static bool
aggref_ok(Aggref *agg, WalkContext *cxt, Derived *derived)
{
	Derived		inner = {InvalidOid, COLLATION_NONE};
	List	   *args = NIL;
	ListCell   *lc;

	if (!cxt->allow_aggs || agg->agglevelsup != 0 || agg->aggsplit != AGGSPLIT_SIMPLE ||
		!is_builtin(agg->aggfnoid) ||
		func_volatile(agg->aggfnoid) != PROVOLATILE_IMMUTABLE ||
		!is_shippable_type(agg->aggtype))
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
	if (inner.state == COLLATION_UNSAFE || !input_collation_ok(agg->inputcollid, inner))
		return false;

	if (agg->aggfilter != NULL)
	{
		Derived		filter = {InvalidOid, COLLATION_NONE};

		if (!walk((Node *) agg->aggfilter, cxt, &filter))
			return false;
	}
	*derived = result_derived(agg->aggcollid, inner);
	return true;
}

static bool
case_ok(CaseExpr *expr, WalkContext *cxt, Derived *derived)
{
	WalkContext saved = *cxt;
	Derived		test = {InvalidOid, COLLATION_NONE};
	Derived		results = {InvalidOid, COLLATION_NONE};
	bool		ok = false;
	ListCell   *lc;

	if (expr->arg != NULL && (!is_shippable_type(exprType((Node *) expr->arg)) ||
							  !walk((Node *) expr->arg, cxt, &test)))
		return false;
	cxt->conditional = true;
	cxt->case_test = test;
	foreach(lc, expr->args)
	{
		CaseWhen   *when = lfirst_node(CaseWhen, lc);
		Derived		condition = {InvalidOid, COLLATION_NONE};

		/* a condition's own collation says nothing about the result */
		if (!walk((Node *) when->expr, cxt, &condition) ||
			!walk((Node *) when->result, cxt, &results))
			goto done;
	}
	if (!walk((Node *) expr->defresult, cxt, &results))
		goto done;
	*derived = result_derived(expr->casecollid, results);
	ok = is_shippable_type(expr->casetype);
done:
	*cxt = saved;
	return ok;
}

/* Arguments of which some may not be evaluated. */
static bool
conditional_args_ok(List *args, WalkContext *cxt, Derived *inner)
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
		Derived		ignored = {InvalidOid, COLLATION_NONE};

		if (!operator_ok(lfirst_oid(opno), list_make2(lfirst(left), lfirst(right)),
						 lfirst_oid(collation), BOOLOID, InvalidOid, cxt, &ignored))
			return false;
	}
	return true;
}

/* int4[] to int8[] and the like: the element's conversion is a plain function or none. */
static bool
array_coerce_ok(ArrayCoerceExpr *expr, WalkContext *cxt, Derived *inner)
{
	Node	   *element = (Node *) expr->elemexpr;

	if (!is_shippable_type(expr->resulttype) ||
		!is_shippable_type(exprType((Node *) expr->arg)))
		return false;
	if (IsA(element, FuncExpr))
	{
		if (!is_shippable_function(((FuncExpr *) element)->funcid))
			return false;
	}
	else if (!IsA(element, RelabelType) && !IsA(element, CaseTestExpr))
		return false;
	return walk((Node *) expr->arg, cxt, inner);
}

static bool
subscript_ok(SubscriptingRef *expr, WalkContext *cxt, Derived *derived)
{
	Derived		inner = {InvalidOid, COLLATION_NONE};
	Derived		ignored = {InvalidOid, COLLATION_NONE};

	if (expr->refassgnexpr != NULL ||
		!is_shippable_type(expr->refcontainertype) || !is_shippable_type(expr->refrestype) ||
		!walk((Node *) expr->refupperindexpr, cxt, &ignored) ||
		!walk((Node *) expr->reflowerindexpr, cxt, &ignored) ||
		!walk((Node *) expr->refexpr, cxt, &inner))
		return false;
	*derived = result_derived(expr->refcollid, inner);
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
walk(Node *node, WalkContext *cxt, Derived *outer)
{
	Derived		inner = {InvalidOid, COLLATION_NONE};
	Derived		result = {InvalidOid, COLLATION_NONE};

	if (node == NULL)
		return true;
	check_stack_depth();

	if (shard_shippable_is_param(node, cxt->conditional))
	{
		if (!param_ok(node))
			return false;
		merge_derived(outer, value_derived(exprType(node), exprCollation(node)));
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

				if (var->varlevelsup != 0 || !bms_is_member(var->varno, cxt->relids) ||
					var->varattno == InvalidAttrNumber ||
					(var->varattno < 0 && var->varattno != SelfItemPointerAttributeNumber))
					return false;
				result.collation = var->varcollid;
				result.state = OidIsValid(var->varcollid) ? COLLATION_SAFE : COLLATION_NONE;
				break;
			}
		case T_Const:
			{
				Const	   *con = (Const *) node;

				if (!const_ok(con))
					return false;
				result = value_derived(con->consttype, con->constcollid);
				break;
			}
		case T_PlaceHolderVar:
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

				if (!is_shippable_type(expr->resulttype) ||
					!walk((Node *) expr->arg, cxt, &inner))
					return false;
				result = result_derived(expr->resultcollid, inner);

				/* this is what COLLATE "C" has become by now */
				if (result.state == COLLATION_UNSAFE &&
					shard_shippable_names_collation(expr->resultcollid,
													exprCollation((Node *) expr->arg)))
					result.state = COLLATION_SAFE;
				break;
			}
		case T_CoerceViaIO:
			{
				CoerceViaIO *expr = (CoerceViaIO *) node;

				if (!via_io_ok(exprType((Node *) expr->arg), expr->resulttype) ||
					!walk((Node *) expr->arg, cxt, &inner))
					return false;
				result = result_derived(expr->resultcollid, inner);
				break;
			}
		case T_ArrayCoerceExpr:
			if (!array_coerce_ok((ArrayCoerceExpr *) node, cxt, &inner))
				return false;
			result = result_derived(((ArrayCoerceExpr *) node)->resultcollid, inner);
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

				if (!is_shippable_type(expr->coalescetype) ||
					!conditional_args_ok(expr->args, cxt, &inner))
					return false;
				result = result_derived(expr->coalescecollid, inner);
				break;
			}
		case T_MinMaxExpr:
			{
				MinMaxExpr *expr = (MinMaxExpr *) node;

				if (!is_shippable_type(expr->minmaxtype) ||
					!walk((Node *) expr->args, cxt, &inner) ||
					!input_collation_ok(expr->inputcollid, inner))
					return false;
				result = result_derived(expr->minmaxcollid, inner);
				break;
			}
		case T_ArrayExpr:
			{
				ArrayExpr  *expr = (ArrayExpr *) node;

				if (!is_shippable_type(expr->array_typeid) ||
					!walk((Node *) expr->elements, cxt, &inner))
					return false;
				result = result_derived(expr->array_collid, inner);
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
		default:
			/* subplans, rows, domains, window functions, XML, JSON constructors, ... */
			return false;
	}

	merge_derived(outer, result);
	return true;
}

static bool
check_expr(Relids relids, Node *expr, bool allow_aggs, Derived *derived)
{
	WalkContext cxt = {0};

	cxt.relids = relids;
	cxt.allow_aggs = allow_aggs;
	derived->collation = InvalidOid;
	derived->state = COLLATION_NONE;
	return walk(expr, &cxt, derived) && derived->state != COLLATION_UNSAFE;
}

bool
shard_shippable_expr(PlannerInfo *root, Relids relids, Expr *expr)
{
	Derived		derived;

	return check_expr(relids, (Node *) expr, false, &derived);
}

bool
shard_shippable_agg_expr(PlannerInfo *root, Relids relids, Expr *expr)
{
	Derived		derived;

	return check_expr(relids, (Node *) expr, true, &derived);
}

bool
shard_shippable_group_expr(PlannerInfo *root, Relids relids, Expr *expr)
{
	Oid			type = exprType((Node *) expr);
	Oid			collation = exprCollation((Node *) expr);
	Derived		derived;

	if (!check_expr(relids, (Node *) expr, false, &derived))
		return false;
	if (!is_shippable_type(getBaseType(type)) && get_typtype(type) != TYPTYPE_ENUM)
		return false;

	return !OidIsValid(collation) || get_collation_isdeterministic(collation);
}

bool
shard_shippable_partial_agg(const ShardMap *map, Aggref *agg)
{
	return is_builtin(agg->aggfnoid) &&
		agg->agglevelsup == 0 && agg->aggkind == AGGKIND_NORMAL &&
		agg->aggorder == NIL && agg->aggdistinct == NIL &&
		shard_partial_agg_kind(map, agg) != SHARD_PARTIAL_NONE;
}

bool
shard_shippable_partial_args(PlannerInfo *root, Relids relids, Aggref *agg)
{
	Aggref	   *whole = makeNode(Aggref);
	Derived		derived;

	/* the node is asked for whole aggregates over the same arguments */
	*whole = *agg;
	whole->aggsplit = AGGSPLIT_SIMPLE;
	return check_expr(relids, (Node *) whole, true, &derived);
}
