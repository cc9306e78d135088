/*
 * shippable.c
 *	  Decides whether an expression has exactly the same result on any node as on the coordinator.
 *
 * These may be shipped:
 *
 * - built-in functions, operators and aggregates (OID below FirstGenbkiObjectId, so in pg_catalog everywhere) that
 *   are immutable.  Also some stable functions, listed below, that depend only on the setting TimeZone, because
 *   sessions on nodes have the user's setting;
 * - immutable objects of extensions that are in the option `extensions` of all servers of the expression
 *   (shippable_extension.c);
 * - built-in types whose text form contains no object name of this database.  Columns of other types may only be
 *   fetched, tested for NULL and counted;
 * - parts without Vars that the coordinator has to evaluate (now(), parameters, its stable functions): the deparser
 *   makes them parameters.
 *
 * Collations: the columns on the nodes have the same collations by name.  So, as in postgres_fdw, an expression may
 * be shipped if its collation comes from a column or is the default collation of the database (constants).  If
 * add_node has noted that a node has another default collation, expressions that depend on the default collation are
 * not shipped.  "C" and "POSIX" sort by bytes everywhere, so they may also appear in COLLATE.  Other explicit
 * collations are not shipped.
 *
 * A node of another major version computes no function whose result changed between the majors (shippable_rule.c).  A
 * node of an older major may lack a built-in function of the coordinator.  Then the node raises an error; the result is
 * never wrong.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/transam.h"
#include "catalog/partial_aggregate.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "deparse/shippable/shippable.h"
#include "deparse/shippable/shippable_compare.h"
#include "deparse/shippable/shippable_extension.h"
#include "deparse/shippable/shippable_param.h"
#include "deparse/shippable/shippable_rule.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

typedef struct WalkContext
{
	PlannerInfo *root;
	Relids		relids;
	bool		allow_aggs;
	bool		partial;		/* the aggregate stands for its partial aggregate, which nodes have */
	bool		allow_windows;
	bool		conditional;	/* inside a construct that may skip evaluation */
	ShardDerived case_test;		/* for the test expression of the innermost CASE */
	ShardExtensionScope extensions;
} WalkContext;

static bool walk(Node *node, WalkContext *cxt, ShardDerived *outer);
static bool window_ok(PlannerInfo *root, Relids relids, WindowFunc *func);

static bool
function_ok(Oid funcid, WalkContext *cxt)
{
	return shard_rule_function_ok(funcid) ||
		(!shard_rule_is_builtin(funcid) && shard_extension_function_ok(&cxt->extensions, funcid));
}

static bool
type_ok(Oid type, WalkContext *cxt)
{
	return shard_rule_type_ok(type) ||
		(!shard_rule_is_builtin(type) && shard_extension_type_ok(&cxt->extensions, type));
}

/* Can a value of this type be sent to a node as text? */
static bool
value_type_ok(Oid type, WalkContext *cxt)
{
	return shard_shippable_value_type(type) ||
		(!shard_rule_is_builtin(type) && shard_extension_type_ok(&cxt->extensions, type));
}

/* Is the value of a parameter known at the start of the scan, and can it be sent? */
static bool
param_ok(Node *expr, WalkContext *cxt)
{
	return value_type_ok(exprType(expr), cxt) &&
		!contain_volatile_functions(expr) &&
		!expression_returns_set(expr);
}

/* Are the types of all arguments shippable? */
static bool
argument_types_ok(List *args, WalkContext *cxt)
{
	foreach_ptr(Node, arg, args)
	{
		if (!type_ok(exprType(arg), cxt))
			return false;
	}
	return true;
}

/* Checks a call of function or operator funcid over args, with its input collation. */
static bool
call_ok(Oid funcid, List *args, Oid inputcollid, WalkContext *cxt, ShardDerived *inner)
{
	return function_ok(funcid, cxt) && argument_types_ok(args, cxt) && walk((Node *) args, cxt, inner) &&
		shard_rule_input_collation_ok(inputcollid, *inner) && shard_rule_collation_ok(funcid, inputcollid);
}

static bool
operator_ok(Oid opno, List *args, Oid inputcollid, WalkContext *cxt, ShardDerived *inner)
{
	return (shard_rule_is_builtin(opno) || shard_extension_operator_ok(&cxt->extensions, opno)) &&
		call_ok(get_opcode(opno), args, inputcollid, cxt, inner);
}

/*
 * Is it a column of relids that a remote query can name?  System columns other than tableoid only if the query reads
 * a single shard that shows them.
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
	if (var->varattno == TableOidAttributeNumber || cxt->root == NULL ||
		bms_membership(cxt->relids) != BMS_SINGLETON)
		return false;
	map = shard_map_get(planner_rt_fetch(var->varno, cxt->root)->relid);
	return map != NULL && map->nshards == 1 &&
		strcmp(map->shards[0].from_item, map->shards[0].relation) == 0;
}

static bool
sort_operator_ok(Oid opno, WalkContext *cxt)
{
	return shard_rule_is_builtin(opno) ||
		(shard_extension_operator_ok(&cxt->extensions, opno) && function_ok(get_opcode(opno), cxt));
}

/* Checks the sort operators of an aggregate's ORDER BY and DISTINCT. is_ordered: the result depends on the order. */
static bool
sort_clauses_ok(List *clauses, List *args, bool is_ordered, WalkContext *cxt)
{
	foreach_node(SortGroupClause, clause, clauses)
	{
		if (!sort_operator_ok(clause->eqop, cxt) ||
			(OidIsValid(clause->sortop) && !sort_operator_ok(clause->sortop, cxt)) ||
			(is_ordered && !shard_rule_order_collation_ok(get_sortgroupclause_expr(clause, args))))
			return false;
	}
	return true;
}

static bool
aggref_ok(Aggref *agg, WalkContext *cxt, ShardDerived *inner)
{
	ShardDerived filter = {InvalidOid, SHARD_COLLATION_NONE};
	List	   *args = NIL;

	if (!cxt->allow_aggs || agg->agglevelsup != 0 || agg->aggsplit != AGGSPLIT_SIMPLE)
		return false;

	/* user-defined aggregates count as immutable: nodes have a copy only if their functions are immutable */
	if (!(shard_rule_is_builtin(agg->aggfnoid) ?
		  func_volatile(agg->aggfnoid) == PROVOLATILE_IMMUTABLE :
		  cxt->partial || shard_partial_aggregate_everywhere(agg->aggfnoid) ||
		  shard_extension_function_ok(&cxt->extensions, agg->aggfnoid)))
		return false;

	foreach_node(TargetEntry, entry, agg->args)
		args = lappend(args, entry->expr);

	/* count() only tests whether its argument is NULL */
	if (agg->aggfnoid != F_COUNT_ANY || agg->aggdistinct != NIL)
	{
		if (!argument_types_ok(args, cxt) || !argument_types_ok(agg->aggdirectargs, cxt))
			return false;
	}
	if (!sort_clauses_ok(agg->aggorder, agg->args, true, cxt) ||
		!sort_clauses_ok(agg->aggdistinct, agg->args, agg->aggfnoid != F_COUNT_ANY, cxt))
		return false;

	/* a collation that no argument has also affects DISTINCT and ORDER BY */
	return walk((Node *) agg->aggdirectargs, cxt, inner) && walk((Node *) args, cxt, inner) &&
		inner->state != SHARD_COLLATION_UNSAFE && shard_rule_input_collation_ok(agg->inputcollid, *inner) &&
		shard_rule_collation_ok(agg->aggfnoid, agg->inputcollid) &&
		walk((Node *) agg->aggfilter, cxt, &filter);
}

static bool
window_func_ok(WindowFunc *func, WalkContext *cxt, ShardDerived *inner)
{
	ShardDerived filter = {InvalidOid, SHARD_COLLATION_NONE};

	return cxt->allow_windows && cxt->root != NULL &&
		shard_rule_is_builtin(func->winfnoid) &&
		func_volatile(func->winfnoid) == PROVOLATILE_IMMUTABLE &&
		window_ok(cxt->root, cxt->relids, func) &&
		(func->winfnoid == F_COUNT_ANY || argument_types_ok(func->args, cxt)) &&
		walk((Node *) func->args, cxt, inner) &&
		shard_rule_input_collation_ok(func->inputcollid, *inner) &&
		shard_rule_collation_ok(func->winfnoid, func->inputcollid) &&
		walk((Node *) func->aggfilter, cxt, &filter);
}

static bool
case_ok(CaseExpr *expr, WalkContext *cxt, ShardDerived *results)
{
	WalkContext saved = *cxt;
	ShardDerived test = {InvalidOid, SHARD_COLLATION_NONE};
	bool		ok;

	if (expr->arg != NULL && (!type_ok(exprType((Node *) expr->arg), cxt) ||
							  !walk((Node *) expr->arg, cxt, &test)))
		return false;
	cxt->conditional = true;
	cxt->case_test = test;
	ok = walk((Node *) expr->defresult, cxt, results);
	foreach_node(CaseWhen, when, expr->args)
	{
		ShardDerived condition = {InvalidOid, SHARD_COLLATION_NONE};

		/* the collation of a condition does not affect the result */
		ok = ok && walk((Node *) when->expr, cxt, &condition) && walk((Node *) when->result, cxt, results);
	}
	*cxt = saved;
	return ok;
}

/* Some arguments may not be evaluated. */
static bool
coalesce_ok(CoalesceExpr *expr, WalkContext *cxt, ShardDerived *inner)
{
	bool		saved = cxt->conditional;
	bool		ok;

	cxt->conditional = true;
	ok = walk((Node *) expr->args, cxt, inner);
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

		if (!operator_ok(lfirst_oid(opno), list_make2(lfirst(left), lfirst(right)), lfirst_oid(collation), cxt, &ignored))
			return false;
	}
	return true;
}

/* int4[] to int8[] and similar: the conversion of an element is a plain function or none. */
static bool
array_coerce_ok(ArrayCoerceExpr *expr, WalkContext *cxt, ShardDerived *inner)
{
	Node	   *element = (Node *) expr->elemexpr;

	return type_ok(exprType((Node *) expr->arg), cxt) &&
		(IsA(element, FuncExpr) ? function_ok(((FuncExpr *) element)->funcid, cxt) :
		 IsA(element, RelabelType) || IsA(element, CaseTestExpr)) &&
		walk((Node *) expr->arg, cxt, inner);
}

static bool
subscript_ok(SubscriptingRef *expr, WalkContext *cxt, ShardDerived *inner)
{
	ShardDerived ignored = {InvalidOid, SHARD_COLLATION_NONE};

	return expr->refassgnexpr == NULL && type_ok(expr->refcontainertype, cxt) &&
		walk((Node *) expr->refupperindexpr, cxt, &ignored) &&
		walk((Node *) expr->reflowerindexpr, cxt, &ignored) &&
		walk((Node *) expr->refexpr, cxt, inner);
}

static bool
const_ok(Const *con, WalkContext *cxt)
{
	/* text search configurations that every server has */
	if (con->consttype == REGCONFIGOID)
		return !con->constisnull && DatumGetObjectId(con->constvalue) < FirstNormalObjectId;
	return value_type_ok(con->consttype, cxt);
}

static bool
list_ok(List *list, WalkContext *cxt, ShardDerived *outer)
{
	foreach_ptr(Node, node, list)
	{
		if (!walk(node, cxt, outer))
			return false;
	}
	return true;
}

static bool
func_ok(FuncExpr *expr, WalkContext *cxt, ShardDerived *inner)
{
	List	   *args = expr->args;

	if (expr->funcretset)
		return false;

	/* text search configurations are the only reg type whose constants may be shipped */
	if (args != NIL && IsA(linitial(args), Const) &&
		((Const *) linitial(args))->consttype == REGCONFIGOID)
	{
		if (!const_ok(linitial(args), cxt))
			return false;
		args = list_copy_tail(args, 1);
	}
	return call_ok(expr->funcid, args, expr->inputcollid, cxt, inner);
}

static bool
relabel_ok(RelabelType *expr, WalkContext *cxt, ShardDerived *inner)
{
	Oid			from = exprType((Node *) expr->arg);

	/* a value of a reg type has another number on a node */
	return (shard_rule_relabel_ok(from, expr->resulttype) || type_ok(getBaseType(from), cxt)) &&
		walk((Node *) expr->arg, cxt, inner);
}

/*
 * Finds values that nodes return in portable settings: whole rows, and values of types whose text depends on style
 * settings.
 */
static bool
styled_text_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			if (((Var *) node)->varattno == InvalidAttrNumber)
				return true;
			return shard_rule_travels_styled(((Var *) node)->vartype);
		case T_Const:
		case T_Param:
		case T_FuncExpr:
		case T_OpExpr:
		case T_NullIfExpr:
		case T_Aggref:
		case T_WindowFunc:
		case T_SubscriptingRef:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_CaseExpr:
		case T_ArrayExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
			if (shard_rule_travels_styled(exprType(node)))
				return true;
			break;
		case T_Query:
			return query_tree_walker((Query *) node, styled_text_walker, context, 0);
		default:
			break;
	}
	return expression_tree_walker(node, styled_text_walker, context);
}

bool
shard_shippable_returns_styled_text(Node *node)
{
	return styled_text_walker(node, NULL);
}

static bool
styled_cast_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, CoerceViaIO) &&
		shard_rule_is_styled(exprType((Node *) ((CoerceViaIO *) node)->arg)))
		return true;
	return expression_tree_walker(node, styled_cast_walker, context);
}

bool
shard_shippable_casts_styled(Node *expr)
{
	return styled_cast_walker(expr, NULL);
}

/*
 * Like returns_styled_text, for all levels of the statement that is being planned, because their queries may be
 * combined.
 */
static bool
statement_has_styled_text(PlannerInfo *root)
{
	for (; root != NULL; root = root->parent_root)
	{
		if (styled_text_walker((Node *) root->processed_tlist, NULL) ||
			(root->parent_root == NULL && styled_text_walker((Node *) root->parse, NULL)))
			return true;
	}
	return false;
}

static bool
via_io_ok(CoerceViaIO *expr, WalkContext *cxt, ShardDerived *inner)
{
	Oid			from = exprType((Node *) expr->arg);

	return shard_rule_via_io_ok(from, expr->resulttype) &&
		(!shard_rule_is_styled(from) || !statement_has_styled_text(cxt->root)) &&
		walk((Node *) expr->arg, cxt, inner);
}

static bool
min_max_ok(MinMaxExpr *expr, WalkContext *cxt, ShardDerived *inner)
{
	return walk((Node *) expr->args, cxt, inner) &&
		shard_rule_input_collation_ok(expr->inputcollid, *inner) && shard_rule_order_collation_ok((Node *) expr);
}

/*
 * Applies the rules for a node with arguments, except for that for the type of its result.  Adds the collations from
 * which that of the result is derived to *inner.
 */
static bool
arguments_ok(Node *node, WalkContext *cxt, ShardDerived *inner)
{
	switch (nodeTag(node))
	{
		case T_FuncExpr:
			return func_ok((FuncExpr *) node, cxt, inner);
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			{
				OpExpr	   *expr = (OpExpr *) node;

				return !expr->opretset && operator_ok(expr->opno, expr->args, expr->inputcollid, cxt, inner);
			}
		case T_ScalarArrayOpExpr:
			{
				ScalarArrayOpExpr *expr = (ScalarArrayOpExpr *) node;

				return operator_ok(expr->opno, expr->args, expr->inputcollid, cxt, inner);
			}
		case T_RowCompareExpr:
			return row_compare_ok((RowCompareExpr *) node, cxt);
		case T_RelabelType:
			return relabel_ok((RelabelType *) node, cxt, inner);
		case T_CoerceViaIO:
			return via_io_ok((CoerceViaIO *) node, cxt, inner);
		case T_ArrayCoerceExpr:
			return array_coerce_ok((ArrayCoerceExpr *) node, cxt, inner);
		case T_BoolExpr:
			return walk((Node *) ((BoolExpr *) node)->args, cxt, inner);
		case T_NullTest:
			return !((NullTest *) node)->argisrow && walk((Node *) ((NullTest *) node)->arg, cxt, inner);
		case T_BooleanTest:
			return walk((Node *) ((BooleanTest *) node)->arg, cxt, inner);
		case T_CaseExpr:
			return case_ok((CaseExpr *) node, cxt, inner);
		case T_CoalesceExpr:
			return coalesce_ok((CoalesceExpr *) node, cxt, inner);
		case T_MinMaxExpr:
			return min_max_ok((MinMaxExpr *) node, cxt, inner);
		case T_ArrayExpr:
			return walk((Node *) ((ArrayExpr *) node)->elements, cxt, inner);
		case T_SubscriptingRef:
			return subscript_ok((SubscriptingRef *) node, cxt, inner);
		case T_Aggref:
			return aggref_ok((Aggref *) node, cxt, inner);
		case T_WindowFunc:
			return window_func_ok((WindowFunc *) node, cxt, inner);
		default:
			/* subplans, rows, domains, XML, JSON constructors, ... */
			return false;
	}
}

/* Checks an expression, NULL or a list.  Adds the collation that it derives to *outer. */
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
		if (!param_ok(node, cxt))
			return false;
		shard_rule_merge_derived(outer, shard_rule_value_derived(exprType(node), exprCollation(node)));
		return true;
	}

	switch (nodeTag(node))
	{
		case T_List:
			return list_ok((List *) node, cxt, outer);
		case T_PlaceHolderVar:
			/* in a join, an outer join may have set it to NULL even if the expression is not NULL */
			return bms_membership(cxt->relids) == BMS_SINGLETON &&
				walk((Node *) ((PlaceHolderVar *) node)->phexpr, cxt, outer);
		case T_Var:
			if (!column_ok((Var *) node, cxt))
				return false;
			result.collation = ((Var *) node)->varcollid;
			result.state = OidIsValid(result.collation) ? SHARD_COLLATION_SAFE : SHARD_COLLATION_NONE;
			break;
		case T_Const:
			if (!const_ok((Const *) node, cxt))
				return false;
			result = shard_rule_value_derived(((Const *) node)->consttype, ((Const *) node)->constcollid);
			break;
		case T_CaseTestExpr:
			result = cxt->case_test;
			break;
		default:
			if (!arguments_ok(node, cxt, &inner) || !type_ok(exprType(node), cxt))
				return false;
			result = shard_rule_result_derived(exprCollation(node), inner);

			/* the planner has turned COLLATE "C" into this */
			if (IsA(node, RelabelType) && result.state == SHARD_COLLATION_UNSAFE &&
				shard_shippable_names_collation(exprCollation(node), exprCollation((Node *) ((RelabelType *) node)->arg)))
				result.state = SHARD_COLLATION_SAFE;
			break;
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
	cxt.extensions.root = root;
	cxt.extensions.relids = relids;
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

/* Can the value of an expression without columns (LIMIT, frame offset; may be NULL) be sent to nodes? */
static bool
is_shippable_value(Node *expr)
{
	WalkContext cxt = {0};

	if (expr == NULL)
		return true;
	if (IsA(expr, Const))
		return const_ok((Const *) expr, &cxt);
	return shard_rule_is_value(expr, true) && param_ok(expr, &cxt);
}

bool
shard_shippable_partial_args(PlannerInfo *root, Relids relids, Aggref *agg)
{
	Aggref	   *whole = makeNode(Aggref);
	WalkContext cxt = {0};
	ShardDerived derived = {InvalidOid, SHARD_COLLATION_NONE};

	/* the remote aggregates that compute the state have the same arguments */
	*whole = *agg;
	whole->aggsplit = AGGSPLIT_SIMPLE;
	whole->aggtype = agg->aggtranstype == INTERNALOID ? BYTEAOID : agg->aggtranstype;
	cxt.root = root;
	cxt.relids = relids;
	cxt.allow_aggs = true;
	cxt.partial = true;
	cxt.extensions.root = root;
	cxt.extensions.relids = relids;
	return walk((Node *) whole, &cxt, &derived) && derived.state != SHARD_COLLATION_UNSAFE;
}

/* May nodes compute the window of func? */
static bool
window_ok(PlannerInfo *root, Relids relids, WindowFunc *func)
{
	ShardExtensionScope extensions = {root, relids};
	WindowClause *window = NULL;

	foreach_node(WindowClause, clause, root->parse->windowClause)
	{
		if (clause->winref == func->winref)
			window = clause;
	}
	if (window == NULL)
		return false;

	foreach_node(SortGroupClause, clause, window->partitionClause)
	{
		Node	   *expr = get_sortgroupclause_expr(clause, root->processed_tlist);

		if (!shard_rule_is_builtin(clause->eqop) || !shard_compare_equality_ok(expr, &extensions) ||
			!shard_shippable_agg_expr(root, relids, (Expr *) expr))
			return false;
	}
	foreach_node(SortGroupClause, clause, window->orderClause)
	{
		Node	   *expr = get_sortgroupclause_expr(clause, root->processed_tlist);

		/* the same rules as for comparisons in WHERE */
		if (!shard_rule_is_builtin(clause->eqop) || !shard_rule_order_collation_ok(expr) ||
			!shard_compare_order_ok(expr, clause->sortop, true, &extensions) || !shard_compare_equality_ok(expr, &extensions) ||
			!shard_shippable_agg_expr(root, relids, (Expr *) expr))
			return false;
	}
	if (OidIsValid(window->startInRangeFunc) && !shard_rule_is_builtin(window->startInRangeFunc))
		return false;
	if (OidIsValid(window->endInRangeFunc) && !shard_rule_is_builtin(window->endInRangeFunc))
		return false;
	return is_shippable_value(window->startOffset) && is_shippable_value(window->endOffset);
}
