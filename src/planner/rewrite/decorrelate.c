/*
 * decorrelate.c
 *	  Turns correlated sub-selects into joins with grouped sub-selects.
 *
 *	   SELECT .. FROM o WHERE o.x < (SELECT 0.2 * avg(i.y) FROM i WHERE i.k = o.k AND i.z > 0)
 *
 *	   SELECT .. FROM o LEFT JOIN (SELECT i.k, avg(i.y) FROM i WHERE i.z > 0 GROUP BY i.k) groups (k1, agg1)
 *				   ON groups.k1 = o.k WHERE o.x < 0.2 * groups.agg1
 *
 * Core would run the sub-select once per outer row.  For a sharded table that is a round trip and a query on every
 * node for each row.  In a join, the nodes do the grouping, and a key join restricts it to the groups that outer rows
 * need.
 *
 * The result is the same because an outer row matches at most one group: rows are grouped by the equality of the
 * condition, or by another one of the same operator family.  A row without a group gets the result of the aggregates
 * for no rows: NULL, or 0 for count and regr_count.  Sub-selects with other aggregates (hypothetical-set,
 * user-defined) are not changed.
 *
 * correlated.c decides which sub-selects can be changed.  The expression over the aggregates replaces the sub-select.
 *
 * Two other types of sub-selects are written with aggregates:
 *
 *	   (SELECT i.x FROM i WHERE i.k = o.k)	the group's max(i.x) if its count(*) is at most 1; otherwise
 *											the sub-select is evaluated, which raises core's error
 *	   EXISTS (..) within OR, CASE ...		whether there is a group (core makes joins of other EXISTS)
 *
 * Sub-selects are replaced in WHERE and in the target list of plain SELECT levels; in levels that group, also in
 * arguments of aggregates.  The new joins are placed above all other joins of the level, so that everything that the
 * sub-select refers to is visible there.
 */
#include "postgres.h"

#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "deparse/convert.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_oper.h"
#include "planner/rewrite/correlated.h"
#include "planner/rewrite/decorrelate.h"
#include "query_parts.h"
#include "rewrite/rewriteManip.h"

/* The position of a sub-select in an expression of the outer level. */
typedef struct ReplaceContext
{
	Query	   *query;			/* the outer level */
	bool		grouped;		/* the expression is evaluated for groups, not for rows of FROM */
	bool		conditional;	/* the expression may never be evaluated */
} ReplaceContext;

/* Groups the sub-select by the inner sides of its clauses.  Its columns are these, then the aggregates. */
static void
group_query(Query *sub, const ShardCorrelated *parts)
{
	List	   *tlist = NIL;
	int			resno = 0;

	foreach_ptr(Expr, expr, parts->inner_exprs)
	{
		TargetEntry *entry = makeTargetEntry(copyObject(expr), resno + 1,
											 psprintf("k%d", resno + 1), false);
		SortGroupClause *clause = makeNode(SortGroupClause);

		resno++;
		entry->ressortgroupref = clause->tleSortGroupRef = resno;
		get_sort_group_operators(exprType((Node *) entry->expr), true, true, false,
								 &clause->sortop, &clause->eqop, NULL, &clause->hashable);
		tlist = lappend(tlist, entry);
		sub->groupClause = lappend(sub->groupClause, clause);
	}
	foreach_ptr(Expr, agg, parts->aggs)
	{
		resno++;
		tlist = lappend(tlist, makeTargetEntry(copyObject(agg), resno,
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

/* Column resno of the grouped sub-select, as a Var of the level around it. */
static Var *
group_column(Index rtindex, const Query *sub, int resno)
{
	TargetEntry *entry = list_nth_node(TargetEntry, sub->targetList, resno - 1);

	return makeVar(rtindex, resno, exprType((Node *) entry->expr),
				   exprTypmod((Node *) entry->expr), exprCollation((Node *) entry->expr), 0);
}

/* The join condition: the clauses, with columns of the grouped sub-select instead of their inner sides. */
static Node *
join_condition(Index rtindex, const Query *sub, const ShardCorrelated *parts)
{
	List	   *clauses = NIL;
	int			i = 0;

	foreach_node(OpExpr, clause, parts->clauses)
	{
		OpExpr	   *op = copyObject(clause);
		bool		inner_first = list_nth_int(parts->inner_first, i++);
		Node	   *outer = inner_first ? lsecond(op->args) : linitial(op->args);
		Node	   *inner = (Node *) group_column(rtindex, sub, i);

		IncrementVarSublevelsUp(outer, -1, 1);
		op->args = inner_first ? list_make2(inner, outer) : list_make2(outer, inner);
		clauses = lappend(clauses, op);
	}
	return (Node *) make_ands_explicit(clauses);
}

/* Puts LEFT JOIN sub above the whole FROM of the level.  Result: range table indexes. */
static void
add_join(Query *query, Query *sub, const ShardCorrelated *parts, Index *rtindex, Index *join_rtindex)
{
	RangeTblEntry *sub_rte = makeNode(RangeTblEntry);
	RangeTblEntry *join_rte = makeNode(RangeTblEntry);
	JoinExpr   *join = makeNode(JoinExpr);
	RangeTblRef *ref = makeNode(RangeTblRef);
	List	   *names = NIL;

	foreach_node(TargetEntry, entry, sub->targetList)
		names = lappend(names, makeString(pstrdup(entry->resname)));
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
	const ShardCorrelated *parts;
	const Query *sub;
	Index		rtindex;
	Index		join_rtindex;
} TargetContext;

/* Column resno of the grouped sub-select, as a Var above the join. */
static Var *
joined_column(const TargetContext *cxt, int resno)
{
	Var		   *var = group_column(cxt->rtindex, cxt->sub, resno);

	shard_var_add_nulling(var, cxt->join_rtindex);
	return var;
}

/* The target of the sub-select, over the columns of the grouped sub-select. */
static Node *
target_mutator(Node *node, TargetContext *cxt)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		Var		   *var = copyObject((Var *) node);

		/* a column of the outer level, to which the expression moves */
		Assert(var->varlevelsup == 1);
		var->varlevelsup = 0;
		return (Node *) var;
	}
	if (IsA(node, Aggref))
	{
		int			resno = list_length(cxt->parts->inner_exprs) + 1;
		Var		   *var;

		foreach_ptr(Node, agg, cxt->parts->aggs)
		{
			if (equal(agg, node))
				break;
			resno++;
		}
		var = joined_column(cxt, resno);
		return shard_correlated_is_count((Aggref *) node) ?
			(Node *) shard_convert_coalesce((Expr *) var, (Expr *) shard_convert_int8(0)) : (Node *) var;
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
	OpExpr	   *several = (OpExpr *) make_opclause(Int8LessOperator, BOOLOID, false, (Expr *) shard_convert_int8(1),
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

/* The expression that replaces the sub-select, or NULL if the sub-select stays. */
static Node *
replace_sublink(SubLink *sublink, ReplaceContext *cxt)
{
	Query	   *sub;
	ShardCorrelated	parts = {0};
	TargetContext target = {0};

	if (cxt->grouped || !shard_correlated_take_apart(sublink, cxt->conditional, &parts))
		return NULL;

	sub = copyObject(castNode(Query, sublink->subselect));
	group_query(sub, &parts);
	target.parts = &parts;
	target.sub = sub;
	add_join(cxt->query, sub, &parts, &target.rtindex, &target.join_rtindex);
	switch (parts.kind)
	{
		case SHARD_CORRELATED_AGGREGATE:
			break;
		case SHARD_CORRELATED_VALUE:
			return value_target(sublink, &target);
		case SHARD_CORRELATED_EXISTS:
			return exists_target(&target);
	}
	return target_mutator((Node *) parts.target, &target);
}

/* Replaces the sub-selects in a copy of an expression of the level.  Deeper levels have been processed before. */
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
				/* the left side of IN and similar is compared with rows, if there are any */
				inner.conditional = true;
				break;
			}
		case T_Query:
			return node;
		case T_Aggref:
			if (((Aggref *) node)->agglevelsup == 0)
				inner.grouped = false;
			inner.conditional |= ((Aggref *) node)->aggfilter != NULL;
			break;
		case T_WindowFunc:
			inner.conditional |= ((WindowFunc *) node)->aggfilter != NULL;
			break;
		case T_BoolExpr:
		case T_CaseExpr:
		case T_CoalesceExpr:
		case T_RowCompareExpr:
		case T_SubscriptingRef:
		SHARD_JSON_VALUES
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
 * Replaces sub-selects in WHERE.  EXISTS at the top is left to core, which makes a join of it.  Conditions connected
 * by AND at the top are not conditional, because core may check them in any order.
 */
static Node *
replace_in_where(Node *quals, ReplaceContext *cxt)
{
	List	   *clauses = NIL;

	if (is_exists(quals) || (is_notclause(quals) && is_exists((Node *) get_notclausearg(quals))))
		return quals;
	if (!is_andclause(quals))
		return replace_mutator(quals, cxt);
	foreach_ptr(Node, clause, ((BoolExpr *) quals)->args)
		clauses = lappend(clauses, replace_in_where(clause, cxt));
	return (Node *) make_andclause(clauses);
}

static void
decorrelate_level(Query *query)
{
	ReplaceContext cxt = {query, false, false};

	if (query->commandType != CMD_SELECT || !query->hasSubLinks || query->rowMarks != NIL ||
		query->setOperations != NULL || query->jointree->fromlist == NIL || shard_correlated_has_full_join(query))
		return;
	query->jointree->quals = replace_in_where(query->jointree->quals, &cxt);
	cxt.grouped = query->hasAggs || query->groupClause != NIL || query->groupingSets != NIL ||
		query->havingQual != NULL;
	query->targetList = (List *) replace_mutator((Node *) query->targetList, &cxt);
	query->havingQual = replace_mutator(query->havingQual, &cxt);
}

void
shard_decorrelate(Query *parse)
{
	List	   *levels = shard_query_levels(parse);

	/* inner levels first */
	for (int i = list_length(levels) - 1; i >= 0; i--)
		decorrelate_level(list_nth_node(Query, levels, i));
}
