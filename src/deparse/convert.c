/*
 * convert.c
 *	  Converts the planner's expressions to those of a remote query.
 *
 * - Var: a column of the relation in the level, or in an outer level.
 * - Var of a relation that is in a sub-select (a side of a full join, the union of a node's shards): a column of that
 *   sub-select, added at its first use.
 * - Expression that only the coordinator can evaluate: a parameter.
 * - Constant in a comparison of a condition: a parameter if the query will be prepared.
 *
 * Functions with special syntax (EXTRACT, AT TIME ZONE, ...) are called by name, because some minor releases print
 * the arguments of that syntax unquoted.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "deparse/convert.h"
#include "deparse/shippable/shippable.h"
#include "deparse/shippable/shippable_param.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_coerce.h"
#include "tuple/type_io.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/*
 * Maximum number of constants that become parameters in one query.  Longer lists are written by programs and hardly
 * ever repeat.  Each parameter is searched among the others.
 */
#define MAX_COMPARED_VALUES 100

typedef struct ConvertContext
{
	ShardSelect *select;
	ShardLevel *level;
	bool		conditional;	/* see shard_shippable_is_param() */
	bool		for_pruning;	/* only replaces parameters, everything else stays */
	bool		in_condition;	/* constants that it compares with become parameters */
	Node	   *case_test;		/* the expression that CaseTestExpr stands for */
} ConvertContext;

static Node *convert_mutator(Node *node, ConvertContext *cxt);

Param *
shard_convert_param(int paramno, Oid type, int32 typmod, Oid collation)
{
	Param	   *param = makeNode(Param);

	param->paramkind = PARAM_EXTERN;
	param->paramid = paramno;
	param->paramtype = type;
	param->paramtypmod = typmod;
	param->paramcollid = collation;
	param->location = -1;
	return param;
}

Expr *
shard_convert_typed_param(int paramno, Oid type, Oid collation)
{
	return (Expr *) makeRelabelType((Expr *) shard_convert_param(paramno, type, -1, collation), type, -1, collation,
									COERCE_EXPLICIT_CAST);
}

/* Number (1-based) of the parameter whose value is expr. */
static int
select_param(ShardSelect *select, Expr *expr)
{
	int			paramno = 0;

	foreach_ptr(Expr, param, select->params)
	{
		paramno++;
		if (equal(param, expr))
			return paramno;
	}
	select->params = lappend(select->params, copyObject(expr));
	return paramno + 1;
}

/* expr COLLATE collation, unless expr implies that collation (see shippable.h). */
static Node *
name_collation(Node *expr, Oid collation, Oid implied)
{
	CollateExpr *collate;

	if (!shard_shippable_names_collation(collation, implied))
		return expr;
	collate = makeNode(CollateExpr);
	collate->arg = (Expr *) expr;
	collate->collOid = collation;
	collate->location = -1;
	return (Node *) collate;
}

static Node *
convert_param(Node *node, ConvertContext *cxt)
{
	Oid			type = exprType(node);
	Oid			collation = exprCollation(node);
	int			paramno = select_param(cxt->select, (Expr *) node);

	if (cxt->for_pruning)
		return (Node *) shard_convert_param(paramno, type, exprTypmod(node), collation);
	return name_collation((Node *) shard_convert_typed_param(paramno, type, collation),
						  collation, get_typcollation(type));
}

/* Converts CASE x WHEN y ... to CASE WHEN x = y ..., whose conditions can be printed in any form. */
static Node *
convert_case(CaseExpr *expr, ConvertContext *cxt)
{
	ConvertContext inner = *cxt;
	CaseExpr   *result = makeNode(CaseExpr);

	*result = *expr;
	inner.conditional = true;
	if (expr->arg != NULL && !cxt->for_pruning)
	{
		inner.case_test = convert_mutator((Node *) expr->arg, cxt);
		result->arg = NULL;
	}
	result->args = NIL;
	foreach_node(CaseWhen, when, expr->args)
	{
		CaseWhen   *converted = makeNode(CaseWhen);

		converted->expr = (Expr *) convert_mutator((Node *) when->expr, &inner);
		converted->result = (Expr *) convert_mutator((Node *) when->result, &inner);
		converted->location = -1;
		result->args = lappend(result->args, converted);
	}
	result->defresult = (Expr *) convert_mutator((Node *) expr->defresult, &inner);
	return (Node *) result;
}

/* expr::text, for a type that is not a string. */
static Expr *
make_text(Expr *expr)
{
	CoerceViaIO *cast = makeNode(CoerceViaIO);

	cast->arg = expr;
	cast->resulttype = TEXTOID;
	cast->resultcollid = DEFAULT_COLLATION_OID;
	cast->coerceformat = COERCE_EXPLICIT_CAST;
	cast->location = -1;
	return (Expr *) cast;
}

Expr *
shard_convert_text(Expr *expr, Oid type)
{
	Oid			function;
	bool		varlena;

	type = getBaseType(type);

	/* element by element, as stored: the output function would omit a part */
	if (get_element_type(type) == XMLOID)
		return make_text((Expr *) makeRelabelType(expr, TEXTARRAYOID, -1, DEFAULT_COLLATION_OID,
												  COERCE_EXPLICIT_CAST));
	if (find_coercion_pathway(TEXTOID, type, COERCION_EXPLICIT, &function) != COERCION_PATH_FUNC)
		return make_text(expr);
	getTypeOutputInfo(type, &function, &varlena);
	expr = (Expr *) makeFuncExpr(function, CSTRINGOID, list_make1(expr),
								 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
	return (Expr *) makeFuncExpr(F_TEXTIN, TEXTOID, list_make1(expr),
								 DEFAULT_COLLATION_OID, InvalidOid, COERCE_EXPLICIT_CALL);
}

/* row, or NULL if an outer join found no row of the relation, so that its text form is NULL. */
static Node *
make_nullable_row(Expr *row, Var *whole)
{
	NullTest   *test = makeNode(NullTest);
	CaseWhen   *when = makeNode(CaseWhen);
	CaseExpr   *result = makeNode(CaseExpr);

	test->arg = make_text((Expr *) whole);
	test->nulltesttype = IS_NOT_NULL;
	test->location = -1;
	when->expr = (Expr *) test;
	when->result = row;
	when->location = -1;
	result->casetype = RECORDOID;
	result->args = list_make1(when);
	/* without it, core prints an empty ELSE */
	result->defresult = (Expr *) makeNullConst(RECORDOID, -1, InvalidOid);
	result->location = -1;
	return (Node *) result;
}

Expr *
shard_convert_typed(Expr *expr, Oid type)
{
	type = getBaseType(type);
	if (IsA(expr, Aggref) && (((Aggref *) expr)->aggfnoid == F_COUNT_ ||
							  ((Aggref *) expr)->aggfnoid == F_COUNT_ANY))
		return expr;
	/* a node would read (a COLLATE c)::type as a::type COLLATE c, which may not be the grouped expression */
	if (IsA(expr, CollateExpr))
		return expr;
	return (Expr *) makeRelabelType(expr, type, -1, get_typcollation(type),
									COERCE_EXPLICIT_CAST);
}

/* ROW(all columns), whose text form is read as the whole row.  Virtual generated columns have no value in it. */
static Node *
make_whole_row(const ShardLevelRel *rel, Var *whole)
{
	RowExpr    *row = makeNode(RowExpr);
	Relation	relation;
	TupleDesc	desc;

	if (!OidIsValid(rel->relid))
		elog(ERROR, "unexpected reference to the whole row of a sub-select in a remote query");
	relation = table_open(rel->relid, NoLock);
	desc = RelationGetDescr(relation);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Expr	   *value;

		if (att->attisdropped)
			continue;
		value = att->attgenerated == 'v' ?
			(Expr *) makeNullConst(att->atttypid, att->atttypmod, att->attcollation) :
			(Expr *) makeVar(rel->varno, att->attnum, att->atttypid, att->atttypmod,
							 att->attcollation, whole->varlevelsup);
		if (shard_type_io_binary_output(att->atttypid))
			value = shard_convert_typed(value, att->atttypid);
		else
			value = shard_convert_text(value, att->atttypid);
		row->args = lappend(row->args, value);
	}
	table_close(relation, NoLock);
	row->row_typeid = RECORDOID;
	row->row_format = COERCE_EXPLICIT_CALL;
	row->location = -1;
	return rel->nullable ? make_nullable_row((Expr *) row, whole) : (Node *) row;
}

/* Position of the planner's column attno in a sub-select. */
static AttrNumber
subquery_attno(const ShardLevelRel *rel, AttrNumber attno)
{
	AttrNumber	position = 0;

	foreach_int(resno, rel->resnos)
	{
		position++;
		if (resno == attno)
			return position;
	}
	elog(ERROR, "sub-select of a remote query has no column %d", attno);
	return 0;					/* keep compiler quiet */
}

/* var as a column of level or of an outer level. */
static Node *
convert_var_in(ShardLevel *level, const Var *var)
{
	int			levelsup;
	ShardLevelRel *rel = shard_level_find(level, var->varno, &levelsup);
	Var		   *result;

	if (rel->varno == 0)
	{
		for (int i = 0; i < list_length(rel->shown); i += 2)
		{
			const Var  *hidden = list_nth(rel->shown, i);

			if (hidden->varno == var->varno && hidden->varattno == var->varattno)
				return convert_var_in(level, list_nth(rel->shown, i + 1));
		}
		if (!rel->nulls)
			elog(ERROR, "unexpected column of a semi join's inner side in a remote query");
		return (Node *) makeNullConst(var->vartype, var->vartypmod, var->varcollid);
	}
	if (rel->wrapped != NULL)
	{
		Node	   *inner = convert_var_in(rel->wrapped, var);

		for (int i = 0; i < levelsup; i++)
			level = level->outer;
		result = shard_level_column(level, rel->varno, rel->wrapped, (Expr *) inner);
		result->varlevelsup = levelsup;
		return (Node *) result;
	}

	result = copyObject(unconstify(Var *, var));
	result->varno = rel->varno;
	if (rel->resnos != NIL && var->varattno > 0)
		result->varattno = subquery_attno(rel, var->varattno);
	result->varlevelsup = levelsup;
	result->varnosyn = result->varno;
	result->varattnosyn = result->varattno;
	shard_var_clear_nulling(result);
	return var->varattno == InvalidAttrNumber ? make_whole_row(rel, result) : (Node *) result;
}

static Node *
convert_var(Var *var, ConvertContext *cxt)
{
	if (var->varlevelsup != 0)
		elog(ERROR, "unexpected column of another query level in a remote query");
	if (cxt->for_pruning)
	{
		Var		   *result = copyObject(var);

		result->varno = 1;
		result->varnosyn = 1;
		result->varattnosyn = var->varattno;
		shard_var_clear_nulling(result);
		return (Node *) result;
	}
	return convert_var_in(cxt->level, var);
}

/* Is node a constant that can be sent as a parameter of each execution? */
static bool
is_compared_value(const Node *node)
{
	const Const *value = (const Const *) node;

	return IsA(node, Const) && !value->constisnull && value->consttype != BOOLOID &&
		value->consttype < FirstGenbkiObjectId && get_typtype(value->consttype) == TYPTYPE_BASE;
}

/*
 * Converts an operator at the top of a condition.  Constants at lower levels (date_trunc('month', x)) stay: they are
 * the same in each execution, and an index may be on the expression.
 */
static Node *
convert_comparison(Node *node, ConvertContext *cxt)
{
	Node	   *result = expression_tree_mutator(node, convert_mutator, cxt);
	ListCell   *lc;

	foreach(lc, IsA(result, OpExpr) ? ((OpExpr *) result)->args : ((ScalarArrayOpExpr *) result)->args)
	{
		if (is_compared_value(lfirst(lc)) && list_length(cxt->select->params) < MAX_COMPARED_VALUES)
			lfirst(lc) = convert_param(lfirst(lc), cxt);
	}
	return result;
}

static Node *
convert_mutator(Node *node, ConvertContext *cxt)
{
	ConvertContext operand;

	if (node == NULL)
		return NULL;
	if (cxt->in_condition && !IsA(node, BoolExpr) && !IsA(node, List))
	{
		operand = *cxt;
		operand.in_condition = false;
		cxt = &operand;
		if ((IsA(node, OpExpr) || IsA(node, ScalarArrayOpExpr)) &&
			!shard_shippable_is_param(node, cxt->conditional))
			return convert_comparison(node, cxt);
	}
	if (IsA(node, Var))
		return convert_var((Var *) node, cxt);
	if (IsA(node, PlaceHolderVar))
		return convert_mutator((Node *) ((PlaceHolderVar *) node)->phexpr, cxt);
	if (shard_shippable_is_param(node, cxt->conditional))
		return convert_param(node, cxt);

	switch (nodeTag(node))
	{
		case T_CaseTestExpr:
			return copyObject(cxt->case_test ? cxt->case_test : node);
		case T_CaseExpr:
			return convert_case((CaseExpr *) node, cxt);
		case T_CoalesceExpr:
			{
				ConvertContext inner = *cxt;

				inner.conditional = true;
				return expression_tree_mutator(node, convert_mutator, &inner);
			}
		case T_ArrayCoerceExpr:
			{
				/* the CaseTestExpr in elemexpr does not belong to an outer CASE */
				ConvertContext inner = *cxt;

				inner.case_test = NULL;
				return expression_tree_mutator(node, convert_mutator, &inner);
			}
		case T_RelabelType:
			{
				RelabelType *result = (RelabelType *)
				expression_tree_mutator(node, convert_mutator, cxt);

				if (cxt->for_pruning)
					return (Node *) result;
				return name_collation((Node *) result, result->resultcollid,
									  exprCollation((Node *) ((RelabelType *) node)->arg));
			}
		case T_FuncExpr:
			{
				FuncExpr   *result = (FuncExpr *)
				expression_tree_mutator(node, convert_mutator, cxt);

				if (result->funcformat == COERCE_SQL_SYNTAX)
					result->funcformat = COERCE_EXPLICIT_CALL;
				return (Node *) result;
			}
		default:
			return expression_tree_mutator(node, convert_mutator, cxt);
	}
}

Expr *
shard_convert_expr(ShardSelect *select, ShardLevel *level, Expr *expr)
{
	ConvertContext cxt = {0};

	cxt.select = select;
	cxt.level = level;
	return (Expr *) convert_mutator((Node *) expr, &cxt);
}

List *
shard_convert_list(ShardSelect *select, ShardLevel *level, List *exprs)
{
	List	   *result = NIL;

	foreach_ptr(Expr, expr, exprs)
		result = lappend(result, shard_convert_expr(select, level, expr));
	return result;
}

List *
shard_convert_conditions(ShardSelect *select, ShardLevel *level, List *clauses)
{
	ConvertContext cxt = {0};

	cxt.select = select;
	cxt.level = level;
	cxt.in_condition = select->has_params;
	return (List *) convert_mutator((Node *) clauses, &cxt);
}

Node *
shard_convert_value(ShardSelect *select, Node *expr)
{
	ConvertContext cxt = {0};

	if (expr == NULL || IsA(expr, Const))
		return copyObject(expr);
	cxt.select = select;
	return convert_param(expr, &cxt);
}

Node *
shard_select_prune_clause(ShardSelect *select, Node *clause)
{
	ConvertContext cxt = {0};

	cxt.select = select;
	cxt.for_pruning = true;
	return convert_mutator(clause, &cxt);
}

Expr *
shard_convert_coalesce(Expr *first, Expr *second)
{
	CoalesceExpr *expr = makeNode(CoalesceExpr);

	expr->coalescetype = exprType((Node *) first);
	expr->coalescecollid = exprCollation((Node *) first);
	expr->args = list_make2(first, second);
	expr->location = -1;
	return (Expr *) expr;
}

Aggref *
shard_convert_aggregate(Oid function, Oid type, List *args)
{
	Aggref	   *agg = makeNode(Aggref);

	agg->aggfnoid = function;
	agg->aggtype = type;
	agg->aggstar = args == NIL;
	foreach_ptr(Expr, arg, args)
	{
		agg->aggargtypes = lappend_oid(agg->aggargtypes, exprType((Node *) arg));
		agg->args = lappend(agg->args, makeTargetEntry(arg, list_length(agg->args) + 1, NULL, false));
	}
	agg->aggkind = AGGKIND_NORMAL;
	agg->aggsplit = AGGSPLIT_SIMPLE;
	agg->aggno = agg->aggtransno = -1;
	agg->location = -1;
	return agg;
}

Const *
shard_convert_int8(int64 value)
{
	return makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(value), false, FLOAT8PASSBYVAL);
}
