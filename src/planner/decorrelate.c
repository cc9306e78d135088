/*
 * decorrelate.c
 *	  Turns correlated sub-selects into joins with grouped ones.
 *
 *	   SELECT .. FROM o WHERE o.x < (SELECT 0.2 * avg(i.y) FROM i WHERE i.k = o.k AND i.z > 0)
 *
 *	   SELECT .. FROM o LEFT JOIN (SELECT i.k, avg(i.y) FROM i WHERE i.z > 0 GROUP BY i.k) groups (k1, agg1)
 *				   ON groups.k1 = o.k WHERE o.x < 0.2 * groups.agg1
 *
 * Core would run the sub-select once per outer row, which over a sharded table
 * is a round trip and a query on every node.  As a join it is grouped on the
 * nodes, and a key join restricts it to the groups that outer rows ask for.
 *
 * The answer is the same because an outer row meets at most one group: rows are
 * grouped by the equality that the condition compares with, or one of the same
 * operator family.  A row that meets none gets what the aggregates are over no
 * rows: NULL, of count and regr_count 0.  Aggregates that are something else
 * then (hypothetical sets, users' own) are left alone.
 *
 * What a sub-select computes for groups that nobody asks for must not fail.  So
 * what aggregates and groups are computed from has to be columns, constants,
 * comparisons, sums, differences and products.  Conditions of the sub-select are
 * free, as core is free to check them in any order, unless the sub-select stands
 * where it may not be evaluated at all (CASE, OR): then they are held to the same.
 * What is computed from the aggregates stays where the sub-select stood.
 *
 * Two other kinds are aggregates in disguise:
 *
 *	   (SELECT i.x FROM i WHERE i.k = o.k)	the group's max(i.x), as long as its count(*) is not above 1; if it
 *											is, the sub-select itself is evaluated, which raises core's error
 *	   EXISTS (..) within OR, CASE ...		whether there is a group (core makes joins of the others)
 *
 * Looked at are WHERE and the target list of plain SELECT levels; where these
 * group, what stands within an aggregate.  The joins are above all others of the
 * level, where WHERE is, so whatever the sub-select could refer to is there.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_class.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_oper.h"
#include "planner/decorrelate.h"
#include "rewrite/rewriteManip.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* Where in an expression of the outer level a sub-select stands. */
typedef struct ReplaceContext
{
	Query	   *query;			/* the outer level */
	bool		grouped;		/* it is evaluated for groups, not for rows of FROM */
	bool		conditional;	/* it may not be evaluated at all */
} ReplaceContext;

typedef enum CorrelatedKind
{
	CORRELATED_AGGREGATE,		/* an expression over aggregates */
	CORRELATED_VALUE,			/* a column of the one row there is */
	CORRELATED_EXISTS			/* whether there are rows */
} CorrelatedKind;

/* A sub-select taken apart. */
typedef struct Correlated
{
	CorrelatedKind kind;
	List	   *clauses;		/* OpExprs: inner = outer, or outer = inner */
	List	   *inner_exprs;	/* their sides */
	List	   *inner_first;	/* IntList: is the inner side the left one? */
	List	   *others;			/* conditions without outer references */
	List	   *aggs;			/* distinct Aggrefs of the target; of a value: its max() and count(*) */
	Expr	   *target;
} Correlated;

/* ------------------------------------------------------------------------
 * What may be taken apart
 * ------------------------------------------------------------------------ */

typedef struct LevelsContext
{
	int			depth;			/* levels below the one looked at */
	bool		own;			/* something of that level is referred to */
	bool		outer;			/* something of the next outer one */
	bool		beyond;			/* something further out */
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
			/* of another level: its rows are not the sub-select's */
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

/* Which levels an expression of a query level refers to. */
static LevelsContext
find_levels(Node *expr)
{
	LevelsContext cxt = {0};

	(void) levels_walker(expr, &cxt);
	return cxt;
}

static bool
has_sharded_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		return rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_PARTITIONED_TABLE &&
			rte->inh && shard_map_get(rte->relid) != NULL;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_sharded_walker, context,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, has_sharded_walker, context);
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

/* Finds what may fail for some value. */
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

				/* implicit casts widen */
				if (func->funcid >= FirstGenbkiObjectId ||
					(func->funcformat != COERCE_IMPLICIT_CAST && !get_func_leakproof(func->funcid)))
					return true;
				break;
			}
		case T_CoerceViaIO:
			/* the text of a value can always be had */
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

/* Is the aggregate 0 over no rows?  The others that are let through are NULL then. */
static bool
is_count(const Aggref *agg)
{
	return agg->aggfnoid == F_COUNT_ || agg->aggfnoid == F_COUNT_ANY ||
		agg->aggfnoid == F_REGR_COUNT;
}

typedef struct CollectContext
{
	List	   *aggs;
	bool		refused;
} CollectContext;

/* Collects the aggregates of a target; refuses what cannot be computed above a grouping. */
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
 * Is the clause inner = outer, and grouping by inner such that a value of outer
 * meets one group and all of its rows?  Adds it to the sub-select's then.
 */
static bool
take_clause(Expr *clause, Correlated *result)
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

/* max() of a type whose value it gives back as it is, or 0. */
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

/* An aggregate as the parser makes it; arg NULL: of all rows. */
static Aggref *
make_aggregate(Oid function, Oid type, Expr *arg)
{
	Aggref	   *agg = makeNode(Aggref);

	agg->aggfnoid = function;
	agg->aggtype = type;
	agg->aggkind = AGGKIND_NORMAL;
	agg->aggsplit = AGGSPLIT_SIMPLE;
	agg->aggno = agg->aggtransno = -1;
	agg->location = -1;
	if (arg == NULL)
		agg->aggstar = true;
	else
	{
		agg->aggcollid = agg->inputcollid = exprCollation((Node *) arg);
		agg->aggargtypes = list_make1_oid(type);
		agg->args = list_make1(makeTargetEntry(arg, 1, NULL, false));
	}
	return agg;
}

/* The value's column as aggregates. False when there is no way. */
static bool
take_value(Expr *value, Correlated *result)
{
	LevelsContext levels = find_levels((Node *) value);
	Oid			type = exprType((Node *) value);
	Oid			max = max_function(type);
	Expr	   *arg = value;

	if (!OidIsValid(max) || levels.outer || levels.beyond || !levels.own ||
		checkExprHasSubLink((Node *) value) || may_fail((Node *) value))
		return false;
	if (type == VARCHAROID)
		arg = (Expr *) makeRelabelType(value, type = TEXTOID, -1, exprCollation((Node *) value),
									   COERCE_IMPLICIT_CAST);
	result->aggs = list_make2(make_aggregate(max, type, arg),
							  make_aggregate(F_COUNT_, INT8OID, NULL));
	return true;
}

/* The target as aggregates and what is above them, by the kind of sub-select. */
static bool
take_target(const SubLink *sublink, const Query *sub, Correlated *result)
{
	CollectContext aggs = {0};

	if (sublink->subLinkType == EXISTS_SUBLINK)
	{
		result->kind = CORRELATED_EXISTS;
		return !sub->hasAggs;
	}
	if (sublink->subLinkType != EXPR_SUBLINK || list_length(sub->targetList) != 1)
		return false;
	result->target = linitial_node(TargetEntry, sub->targetList)->expr;
	if (!sub->hasAggs)
	{
		result->kind = CORRELATED_VALUE;
		return take_value(result->target, result);
	}
	result->kind = CORRELATED_AGGREGATE;
	(void) collect_aggs_walker((Node *) result->target, &aggs);
	result->aggs = aggs.aggs;
	return !aggs.refused && aggs.aggs != NIL;
}

/* Has the sub-select no clauses but FROM and WHERE? */
static bool
has_right_form(const Query *sub)
{
	return sub->commandType == CMD_SELECT && !sub->hasTargetSRFs &&
		!sub->hasDistinctOn &&
		!sub->hasRecursive && !sub->hasModifyingCTE && !sub->hasForUpdate &&
		sub->cteList == NIL && sub->groupClause == NIL && sub->groupingSets == NIL &&
		sub->havingQual == NULL && sub->distinctClause == NIL && sub->sortClause == NIL &&
		sub->limitOffset == NULL && sub->limitCount == NULL && sub->rowMarks == NIL &&
		sub->setOperations == NULL;
}

/* Conditions that AND connects, at whatever depth, as a list. */
static List *
flatten_ands(Node *quals)
{
	List	   *result = NIL;
	ListCell   *lc;

	if (quals == NULL)
		return NIL;
	if (!is_andclause(quals))
		return list_make1(quals);
	foreach(lc, ((BoolExpr *) quals)->args)
		result = list_concat(result, flatten_ands(lfirst(lc)));
	return result;
}

/* Takes a sub-select apart; false when it is not of a form that can become a join. */
static bool
take_apart(const SubLink *sublink, bool conditional, Correlated *result)
{
	Query	   *sub = castNode(Query, sublink->subselect);
	List	   *quals;
	LevelsContext levels;
	ListCell   *lc;

	if (!has_right_form(sub) || contain_volatile_functions((Node *) sub) ||
		!has_sharded_walker((Node *) sub, NULL))
		return false;

	quals = flatten_ands(sub->jointree->quals);
	foreach(lc, quals)
	{
		levels = find_levels(lfirst(lc));
		if (levels.beyond || (levels.outer && !take_clause(lfirst(lc), result)))
			return false;
		if (!levels.outer)
			result->others = lappend(result->others, lfirst(lc));
	}
	if (result->clauses == NIL)
		return false;

	/* nothing else may refer to other levels: FROM with ON, functions and sub-selects in it */
	levels = find_levels((Node *) sub->jointree->fromlist);
	if (levels.outer || levels.beyond)
		return false;
	foreach(lc, sub->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);
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

/* ------------------------------------------------------------------------
 * Turning
 * ------------------------------------------------------------------------ */

/* The sub-select, grouped by the inner sides of its clauses: these are its columns, then the aggregates. */
static void
group_query(Query *sub, const Correlated *parts)
{
	List	   *tlist = NIL;
	int			resno = 0;
	ListCell   *lc;

	foreach(lc, parts->inner_exprs)
	{
		TargetEntry *entry = makeTargetEntry(copyObject(lfirst(lc)), resno + 1,
											 psprintf("k%d", resno + 1), false);
		SortGroupClause *clause = makeNode(SortGroupClause);

		resno++;
		entry->ressortgroupref = clause->tleSortGroupRef = resno;
		get_sort_group_operators(exprType((Node *) entry->expr), true, true, false,
								 &clause->sortop, &clause->eqop, NULL, &clause->hashable);
		tlist = lappend(tlist, entry);
		sub->groupClause = lappend(sub->groupClause, clause);
	}
	foreach(lc, parts->aggs)
	{
		resno++;
		tlist = lappend(tlist, makeTargetEntry(copyObject(lfirst(lc)), resno,
											   psprintf("agg%d", resno - list_length(parts->inner_exprs)),
											   false));
	}
	sub->targetList = tlist;
	sub->hasAggs = parts->aggs != NIL;
	sub->jointree->quals = parts->others == NIL ? NULL :
		(Node *) make_ands_explicit(copyObject(parts->others));
}

/* Adds rte to the level's range table. Result: its index. */
static Index
add_rte(Query *query, RangeTblEntry *rte, Alias *eref)
{
	rte->eref = eref;
	rte->inFromCl = true;
	query->rtable = lappend(query->rtable, rte);
	return list_length(query->rtable);
}

/* Column resno of the grouped sub-select as seen in the level around it. */
static Var *
group_column(Index rtindex, const Query *sub, int resno)
{
	TargetEntry *entry = list_nth_node(TargetEntry, sub->targetList, resno - 1);

	return makeVar(rtindex, resno, exprType((Node *) entry->expr),
				   exprTypmod((Node *) entry->expr), exprCollation((Node *) entry->expr), 0);
}

/* The join's condition: the clauses, with columns of the grouped sub-select for inner sides. */
static Node *
join_condition(Index rtindex, const Query *sub, const Correlated *parts)
{
	List	   *clauses = NIL;
	int			i = 0;
	ListCell   *lc;

	foreach(lc, parts->clauses)
	{
		OpExpr	   *op = copyObject(lfirst_node(OpExpr, lc));
		bool		inner_first = list_nth_int(parts->inner_first, i++);
		Node	   *outer = inner_first ? lsecond(op->args) : linitial(op->args);
		Node	   *inner = (Node *) group_column(rtindex, sub, i);

		IncrementVarSublevelsUp(outer, -1, 1);
		op->args = inner_first ? list_make2(inner, outer) : list_make2(outer, inner);
		clauses = lappend(clauses, op);
	}
	return (Node *) make_ands_explicit(clauses);
}

/* Puts LEFT JOIN sub above all of the level's FROM. Result: range table indexes. */
static void
add_join(Query *query, Query *sub, const Correlated *parts, Index *rtindex, Index *join_rtindex)
{
	RangeTblEntry *sub_rte = makeNode(RangeTblEntry);
	RangeTblEntry *join_rte = makeNode(RangeTblEntry);
	JoinExpr   *join = makeNode(JoinExpr);
	RangeTblRef *ref = makeNode(RangeTblRef);
	List	   *names = NIL;
	ListCell   *lc;

	foreach(lc, sub->targetList)
		names = lappend(names, makeString(pstrdup(lfirst_node(TargetEntry, lc)->resname)));
	sub_rte->rtekind = RTE_SUBQUERY;
	sub_rte->subquery = sub;
	*rtindex = add_rte(query, sub_rte, makeAlias("groups", names));
	join_rte->rtekind = RTE_JOIN;
	join_rte->jointype = JOIN_LEFT;
	*join_rtindex = add_rte(query, join_rte, makeAlias("unnamed_join", NIL));

	ref->rtindex = *rtindex;
	join->jointype = JOIN_LEFT;
	join->larg = list_length(query->jointree->fromlist) == 1 ?
		linitial(query->jointree->fromlist) :
		(Node *) makeFromExpr(query->jointree->fromlist, NULL);
	join->rarg = (Node *) ref;
	join->quals = join_condition(*rtindex, sub, parts);
	join->rtindex = *join_rtindex;
	query->jointree->fromlist = list_make1(join);
}

typedef struct TargetContext
{
	const Correlated *parts;
	const Query *sub;
	Index		rtindex;
	Index		join_rtindex;
} TargetContext;

/* Column resno of the grouped sub-select above the join. */
static Var *
joined_column(const TargetContext *cxt, int resno)
{
	Var		   *var = group_column(cxt->rtindex, cxt->sub, resno);

	shard_var_add_nulling(var, cxt->join_rtindex);
	return var;
}

/* The sub-select's target over the columns of the grouped one. */
static Node *
target_mutator(Node *node, TargetContext *cxt)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		Var		   *var = copyObject((Var *) node);

		/* the outer level's own: the expression moves there */
		Assert(var->varlevelsup == 1);
		var->varlevelsup = 0;
		return (Node *) var;
	}
	if (IsA(node, Aggref))
	{
		int			resno = list_length(cxt->parts->inner_exprs) + 1;
		Var		   *var;
		CoalesceExpr *coalesce;
		ListCell   *lc;

		foreach(lc, cxt->parts->aggs)
		{
			if (equal(lfirst(lc), node))
				break;
			resno++;
		}
		var = joined_column(cxt, resno);
		if (!is_count((Aggref *) node))
			return (Node *) var;
		coalesce = makeNode(CoalesceExpr);
		coalesce->coalescetype = INT8OID;
		coalesce->args = list_make2(var, makeConst(INT8OID, -1, InvalidOid, sizeof(int64),
												   Int64GetDatum(0), false, FLOAT8PASSBYVAL));
		coalesce->location = -1;
		return (Node *) coalesce;
	}
	return expression_tree_mutator(node, target_mutator, cxt);
}

/* CASE WHEN 1 < count THEN sublink ELSE max END */
static Node *
value_target(SubLink *sublink, const TargetContext *cxt)
{
	int			resno = list_length(cxt->parts->inner_exprs) + 1;
	Node	   *value = (Node *) cxt->parts->target;
	Expr	   *max = (Expr *) joined_column(cxt, resno);
	Const	   *one = makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(1), false,
								FLOAT8PASSBYVAL);
	OpExpr	   *several = (OpExpr *) make_opclause(Int8LessOperator, BOOLOID, false, (Expr *) one,
												   (Expr *) joined_column(cxt, resno + 1),
												   InvalidOid, InvalidOid);
	CaseExpr   *result = makeNode(CaseExpr);
	CaseWhen   *when = makeNode(CaseWhen);

	set_opfuncid(several);
	when->expr = (Expr *) several;
	when->result = (Expr *) sublink;
	when->location = -1;
	if (exprType((Node *) max) != exprType(value) || exprTypmod(value) != -1)
		max = (Expr *) makeRelabelType(max, exprType(value), exprTypmod(value),
									   exprCollation(value), COERCE_IMPLICIT_CAST);
	result->casetype = exprType(value);
	result->casecollid = exprCollation(value);
	result->args = list_make1(when);
	result->defresult = max;
	result->location = -1;
	return (Node *) result;
}

/* Is there a group? */
static Node *
exists_target(const TargetContext *cxt)
{
	NullTest   *test = makeNode(NullTest);

	test->arg = (Expr *) joined_column(cxt, 1);
	test->nulltesttype = IS_NOT_NULL;
	test->location = -1;
	return (Node *) test;
}

/* What stands in place of the sub-select, or NULL when it stays. */
static Node *
replace_sublink(SubLink *sublink, ReplaceContext *cxt)
{
	Query	   *sub;
	Correlated	parts = {0};
	TargetContext target = {0};

	if (cxt->grouped || !take_apart(sublink, cxt->conditional, &parts))
		return NULL;

	sub = copyObject(castNode(Query, sublink->subselect));
	group_query(sub, &parts);
	target.parts = &parts;
	target.sub = sub;
	add_join(cxt->query, sub, &parts, &target.rtindex, &target.join_rtindex);
	switch (parts.kind)
	{
		case CORRELATED_AGGREGATE:
			break;
		case CORRELATED_VALUE:
			return value_target(sublink, &target);
		case CORRELATED_EXISTS:
			return exists_target(&target);
	}
	return target_mutator((Node *) parts.target, &target);
}

/* A copy of an expression of the level with sub-selects replaced; those of deeper levels have been seen to. */
static Node *
replace_mutator(Node *node, ReplaceContext *cxt)
{
	ReplaceContext inner = *cxt;

	if (node == NULL)
		return NULL;
	switch (nodeTag(node))
	{
		case T_SubLink:
			{
				Node	   *replaced = replace_sublink((SubLink *) node, cxt);

				if (replaced != NULL)
					return replaced;
				break;
			}
		case T_Query:
			return node;
		case T_Aggref:
			if (((Aggref *) node)->agglevelsup == 0)
				inner.grouped = false;
			inner.conditional |= ((Aggref *) node)->aggfilter != NULL;
			break;
		case T_BoolExpr:
		case T_CaseExpr:
		case T_CoalesceExpr:
			inner.conditional = true;
			break;
		default:
			break;
	}
	return expression_tree_mutator(node, replace_mutator, &inner);
}

static bool
is_exists(const Node *node)
{
	return node != NULL && IsA(node, SubLink) &&
		((const SubLink *) node)->subLinkType == EXISTS_SUBLINK;
}

/*
 * WHERE, in which EXISTS at the top is for core to join.  What is connected by AND
 * at the top is no condition for the rest, as core may check it in any order.
 */
static Node *
replace_in_where(Node *quals, ReplaceContext *cxt)
{
	List	   *clauses = NIL;
	ListCell   *lc;

	if (is_exists(quals) || (is_notclause(quals) && is_exists((Node *) get_notclausearg(quals))))
		return quals;
	if (!is_andclause(quals))
		return replace_mutator(quals, cxt);
	foreach(lc, ((BoolExpr *) quals)->args)
		clauses = lappend(clauses, replace_in_where(lfirst(lc), cxt));
	return (Node *) make_andclause(clauses);
}

static void
decorrelate_level(Query *query)
{
	ReplaceContext cxt = {query, false, false};

	if (query->commandType != CMD_SELECT || !query->hasSubLinks || query->rowMarks != NIL ||
		query->setOperations != NULL || query->jointree->fromlist == NIL)
		return;
	query->jointree->quals = replace_in_where(query->jointree->quals, &cxt);
	cxt.grouped = query->hasAggs || query->groupClause != NIL || query->groupingSets != NIL ||
		query->havingQual != NULL;
	query->targetList = (List *) replace_mutator((Node *) query->targetList, &cxt);
	query->havingQual = replace_mutator(query->havingQual, &cxt);
}

static bool
decorrelate_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		(void) query_tree_walker((Query *) node, decorrelate_walker, context, 0);
		decorrelate_level((Query *) node);
		return false;
	}
	return expression_tree_walker(node, decorrelate_walker, context);
}

void
shard_decorrelate(Query *parse)
{
	(void) decorrelate_walker((Node *) parse, NULL);
}
