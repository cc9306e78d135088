/*
 * two_level.c
 *	  Groupings that mix aggregates with and without DISTINCT, as a grouping of groups.
 *
 *	   SELECT g, count(*), avg(y), count(DISTINCT x) FROM t GROUP BY g
 *
 *	   SELECT g1, sum(agg1), sum(agg2) / sum(agg3), count(x1)
 *		 FROM (SELECT g, x, count(*), sum(y), count(y) FROM t GROUP BY g, x) groups (g1, x1, agg1, agg2, agg3)
 *		GROUP BY g1
 *
 * Aggregates with DISTINCT alone, or other aggregates alone, do not need all rows on the coordinator.  But one Agg
 * node of core cannot take rows for the former and partial states for the latter.  Nodes can group the sub-select,
 * and they compute it completely if the argument of DISTINCT is the shard key.
 *
 * In addition to aggregates with DISTINCT, these can be computed in two steps: aggregates that combine their results
 * by their own transition function (min, max, bool_and, bit_or, sums of floats...), count, and sum and avg of
 * numbers.  A level with any other aggregate is not changed.  A level that groups by a shard key is not changed
 * either, because nodes compute all of it.
 *
 * count() loses its DISTINCT if the sub-select is grouped only by the argument of count().  Other aggregates keep
 * DISTINCT, because their results may depend on the sort order that DISTINCT creates.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "catalog_scan.h"
#include "compat.h"
#include "deparse/convert.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parse_oper.h"
#include "planner/rewrite/two_level.h"
#include "planner/upper/group_parts.h"
#include "query_parts.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"

/* The only range table entry that the level keeps is the sub-select. */
#define GROUPS_RTINDEX 1

typedef enum CombineKind
{
	COMBINE_NONE,
	COMBINE_DISTINCT,			/* keeps its arguments */
	COMBINE_SELF,				/* the same aggregate combines its results */
	COMBINE_COUNT,				/* sum of counts */
	COMBINE_INT_SUM,			/* numeric sum of bigints, as bigint */
	COMBINE_NUMERIC_SUM,
	COMBINE_AVG,				/* sum of sums / sum of counts, numeric */
	COMBINE_FLOAT_AVG
} CombineKind;

typedef struct SplitContext
{
	List	   *group_exprs;	/* first columns of the sub-select, in this order */
	List	   *tlist;			/* its target list, as it grows */
	List	   *distinct_args;	/* arguments and FILTERs of aggregates with DISTINCT */
	List	   *distinct_clauses;	/* their SortGroupClauses; NULL for a FILTER */
	bool		counts_duplicates;	/* some aggregate needs every row */
	bool		refused;
} SplitContext;

/* ------------------------------------------------------------------------
 * Which levels
 * ------------------------------------------------------------------------ */

static const ShardMap *
sharded_map(RangeTblEntry *rte)
{
	if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_PARTITIONED_TABLE || !rte->inh)
		return NULL;
	return shard_map_get_levels(rte->relid, false);
}

/* Does the level, or a sub-select in its FROM, read a sharded table? */
static bool
reads_sharded(const Query *query)
{
	foreach_node(RangeTblEntry, rte, query->rtable)
	{
		if (sharded_map(rte) != NULL ||
			(rte->rtekind == RTE_SUBQUERY && reads_sharded(rte->subquery)))
			return true;
	}
	foreach_node(CommonTableExpr, statement, query->cteList)
	{
		Node	   *cte = statement->ctequery;

		if (IsA(cte, Query) && reads_sharded((Query *) cte))
			return true;
	}
	return false;
}

/* Is expr a column of a sharded table's key? */
static bool
is_shard_key(const Query *query, Expr *expr)
{
	Var		   *var = (Var *) expr;
	RangeTblEntry *rte;
	Relation	rel;
	const ShardMap *map;
	bool		result = false;

	if (!IsA(var, Var) || var->varlevelsup != 0)
		return false;
	rte = list_nth_node(RangeTblEntry, query->rtable, var->varno - 1);
	map = sharded_map(rte);
	/* rows with the same key are in all partitions of a two-level table */
	if (map == NULL || map->nparts > 0)
		return false;

	rel = RelationIdGetRelation(rte->relid);
	if (!RelationIsValid(rel))
		elog(ERROR, "could not open relation with OID %u", rte->relid);
	{
		PartitionKey key = RelationGetPartitionKey(rel);

		/* a column of a longer key counts, too: groups are on several shards then, but rarely in practice */
		for (int i = 0; i < key->partnatts; i++)
			result |= key->partattrs[i] == var->varattno;
	}
	RelationClose(rel);
	return result;
}

/* Has the level only clauses that can stay above the sub-select or move into it? */
static bool
has_right_form(const Query *query)
{
	return query->commandType == CMD_SELECT && query->hasAggs && query->groupingSets == NIL &&
		query->setOperations == NULL && query->rowMarks == NIL && !query->hasTargetSRFs &&
		!query->hasRecursive && !query->hasModifyingCTE && !query->hasForUpdate &&
		query->jointree->fromlist != NIL && reads_sharded(query);
}

/* ------------------------------------------------------------------------
 * Which aggregates
 * ------------------------------------------------------------------------ */

/* Can the aggregate combine its own results over parts of the rows? */
static bool
combines_itself(const Aggref *agg)
{
	HeapTuple	tuple;
	Form_pg_aggregate form;
	Oid		   *argtypes;
	int			nargs;
	Oid			resulttype = get_func_signature(agg->aggfnoid, &argtypes, &nargs);
	bool		result;

	tuple = shard_catalog_row(AGGFNOID, agg->aggfnoid);
	form = (Form_pg_aggregate) GETSTRUCT(tuple);
	result = form->aggcombinefn == form->aggtransfn && !OidIsValid(form->aggfinalfn) &&
		form->aggtranstype == resulttype && nargs == 1 && argtypes[0] == resulttype;
	ReleaseSysCache(tuple);
	return result;
}

static CombineKind
combine_kind(const Aggref *agg)
{
	if (agg->aggkind != AGGKIND_NORMAL || agg->agglevelsup != 0)
		return COMBINE_NONE;
	if (agg->aggdistinct != NIL)
		return COMBINE_DISTINCT;
	if (agg->aggorder != NIL || agg->aggfnoid >= FirstGenbkiObjectId)
		return COMBINE_NONE;
	switch (agg->aggfnoid)
	{
		case F_COUNT_:
		case F_COUNT_ANY:
			return COMBINE_COUNT;
		case F_SUM_INT2:
		case F_SUM_INT4:
			return COMBINE_INT_SUM;
		case F_SUM_INT8:
		case F_SUM_NUMERIC:
			return COMBINE_NUMERIC_SUM;
		case F_AVG_INT2:
		case F_AVG_INT4:
		case F_AVG_INT8:
		case F_AVG_NUMERIC:
			return COMBINE_AVG;
		case F_AVG_FLOAT4:
		case F_AVG_FLOAT8:
			return COMBINE_FLOAT_AVG;
		default:
			return combines_itself(agg) ? COMBINE_SELF : COMBINE_NONE;
	}
}

/* Adds an argument.  An argument that does not depend on rows stays above the sub-select, and must not be volatile. */
static void
add_distinct_arg(SplitContext *cxt, Expr *arg, SortGroupClause *clause)
{
	if (!contain_vars_of_level((Node *) arg, 0))
	{
		cxt->refused |= contain_volatile_functions((Node *) arg);
		return;
	}
	if (list_member(cxt->distinct_args, arg))
		return;
	cxt->distinct_args = lappend(cxt->distinct_args, arg);
	cxt->distinct_clauses = lappend(cxt->distinct_clauses, clause);
}

/* Collects the inputs of an aggregate with DISTINCT. */
static void
collect_distinct(SplitContext *cxt, const Aggref *agg)
{
	foreach_node(SortGroupClause, clause, agg->aggdistinct)
		add_distinct_arg(cxt, get_sortgroupref_tle(clause->tleSortGroupRef, agg->args)->expr, clause);
	/* ORDER BY may only use arguments, which are all in DISTINCT */
	if (agg->aggfilter != NULL)
		add_distinct_arg(cxt, agg->aggfilter, NULL);
}

static bool
collect_walker(Node *node, SplitContext *cxt)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref))
	{
		Aggref	   *agg = (Aggref *) node;

		switch (combine_kind(agg))
		{
			case COMBINE_NONE:
				cxt->refused = true;
				return true;
			case COMBINE_DISTINCT:
				collect_distinct(cxt, agg);
				return false;
			default:
				cxt->counts_duplicates |= !shard_distinct_agg_ignores_duplicates(agg);
				return false;
		}
	}
	if (IsA(node, GroupingFunc))
		cxt->refused = true;
	return cxt->refused || expression_tree_walker(node, collect_walker, cxt);
}

/* ------------------------------------------------------------------------
 * The expressions above the sub-select
 * ------------------------------------------------------------------------ */

/* The column of the sub-select for expr, added if there is none. */
static Var *
groups_column(SplitContext *cxt, Expr *expr)
{
	TargetEntry *entry = tlist_member(expr, cxt->tlist);

	if (entry == NULL)
	{
		/* reuses columns: sums and counts of one aggregate have the same argument */
		entry = makeTargetEntry(copyObject(expr), list_length(cxt->tlist) + 1,
								psprintf("c%d", list_length(cxt->tlist) + 1), false);
		cxt->tlist = lappend(cxt->tlist, entry);
	}
	return makeVar(GROUPS_RTINDEX, entry->resno, exprType((Node *) expr),
				   exprTypmod((Node *) expr), exprCollation((Node *) expr), 0);
}

/*
 * An aggregate for the sub-select, with the argument and FILTER of agg. cast: function that casts the argument to
 * casttype, or 0.
 */
static Expr *
inner_aggregate(const Aggref *agg, Oid function, Oid type, Oid cast, Oid casttype)
{
	Expr	   *arg = linitial_node(TargetEntry, agg->args)->expr;
	Aggref	   *result;

	if (OidIsValid(cast))
		arg = (Expr *) makeFuncExpr(cast, casttype, list_make1(arg), InvalidOid, InvalidOid,
									COERCE_EXPLICIT_CAST);
	result = shard_convert_aggregate(function, type, list_make1(arg));
	if (function == F_COUNT_ANY)
		result->aggargtypes = list_make1_oid(ANYOID);
	result->aggfilter = agg->aggfilter;
	return (Expr *) result;
}

static Expr *
make_call(Oid function, Oid type, List *args)
{
	return (Expr *) makeFuncExpr(function, type, args, InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
}

/* The numeric sum of a bigint column of the sub-select. */
static Expr *
numeric_sum_of(SplitContext *cxt, Expr *inner)
{
	return (Expr *) shard_convert_aggregate(F_SUM_INT8, NUMERICOID, list_make1(groups_column(cxt, inner)));
}

/* float8_avg(ARRAY[count, sum, 0]): core's final function, which divides without checking for underflow */
static Expr *
float_avg(SplitContext *cxt, const Aggref *agg)
{
	Oid			argtype = exprType((Node *) linitial_node(TargetEntry, agg->args)->expr);
	bool		single = argtype == FLOAT4OID;
	Expr	   *sum = inner_aggregate(agg, F_SUM_FLOAT8, FLOAT8OID,
									  single ? F_FLOAT8_FLOAT4 : InvalidOid, FLOAT8OID);
	Expr	   *count = inner_aggregate(agg, F_COUNT_ANY, INT8OID, InvalidOid, InvalidOid);
	Expr	   *zero = (Expr *) makeConst(FLOAT8OID, -1, InvalidOid, sizeof(float8), Float8GetDatum(0), false, FLOAT8PASSBYVAL);
	ArrayExpr  *state = makeNode(ArrayExpr);

	count = make_call(F_FLOAT8_NUMERIC, FLOAT8OID, list_make1(numeric_sum_of(cxt, count)));
	sum = (Expr *) shard_convert_aggregate(F_SUM_FLOAT8, FLOAT8OID, list_make1(groups_column(cxt, sum)));
	state->array_typeid = FLOAT8ARRAYOID;
	state->element_typeid = FLOAT8OID;
	state->elements = list_make3(shard_convert_coalesce(count, zero), shard_convert_coalesce(sum, zero), zero);
	state->location = -1;
	return make_call(F_FLOAT8_AVG, FLOAT8OID, list_make1(state));
}

/* sum / count; NULL if there are no values, because the sum is NULL then */
static Expr *
numeric_avg(SplitContext *cxt, const Aggref *agg)
{
	Expr	   *count = inner_aggregate(agg, F_COUNT_ANY, INT8OID, InvalidOid, InvalidOid);
	Expr	   *sum;

	switch (agg->aggfnoid)
	{
		case F_AVG_INT2:
			sum = numeric_sum_of(cxt, inner_aggregate(agg, F_SUM_INT2, INT8OID, InvalidOid, InvalidOid));
			break;
		case F_AVG_INT4:
			sum = numeric_sum_of(cxt, inner_aggregate(agg, F_SUM_INT4, INT8OID, InvalidOid, InvalidOid));
			break;
		default:
			sum = inner_aggregate(agg, agg->aggfnoid == F_AVG_INT8 ? F_SUM_INT8 : F_SUM_NUMERIC,
								  NUMERICOID, InvalidOid, InvalidOid);
			sum = (Expr *) shard_convert_aggregate(F_SUM_NUMERIC, NUMERICOID, list_make1(groups_column(cxt, sum)));
			break;
	}
	return make_call(F_NUMERIC_DIV, NUMERICOID, list_make2(sum, numeric_sum_of(cxt, count)));
}

/* The aggregate, with columns of the sub-select as its arguments and FILTER. */
static Expr *
distinct_aggregate(SplitContext *cxt, Aggref *agg)
{
	Aggref	   *result = copyObject(agg);

	foreach_node(TargetEntry, entry, result->args)
	{
		if (contain_vars_of_level((Node *) entry->expr, 0))
			entry->expr = (Expr *) groups_column(cxt, entry->expr);
	}
	if (contain_vars_of_level((Node *) result->aggfilter, 0))
		result->aggfilter = (Expr *) groups_column(cxt, result->aggfilter);
	if (list_length(cxt->distinct_args) == 1 && agg->aggfnoid == F_COUNT_ANY &&
		IsA(linitial_node(TargetEntry, result->args)->expr, Var) &&
		((Var *) linitial_node(TargetEntry, result->args)->expr)->varno == GROUPS_RTINDEX)
	{
		result->aggdistinct = NIL;
		linitial_node(TargetEntry, result->args)->ressortgroupref = 0;
	}
	return (Expr *) result;
}

/* The expression that replaces an aggregate. */
static Expr *
combined_aggregate(SplitContext *cxt, Aggref *agg)
{
	CombineKind kind = combine_kind(agg);
	Expr	   *inner;
	Aggref	   *result;

	if (kind == COMBINE_DISTINCT)
		return distinct_aggregate(cxt, agg);
	if (kind == COMBINE_AVG)
		return numeric_avg(cxt, agg);
	if (kind == COMBINE_FLOAT_AVG)
		return float_avg(cxt, agg);

	inner = (Expr *) copyObject(agg);
	switch (kind)
	{
		case COMBINE_COUNT:
			return shard_convert_coalesce(make_call(F_INT8_NUMERIC, INT8OID,
										   list_make1(numeric_sum_of(cxt, inner))),
								 (Expr *) shard_convert_int8(0));
		case COMBINE_INT_SUM:
			return make_call(F_INT8_NUMERIC, INT8OID, list_make1(numeric_sum_of(cxt, inner)));
		case COMBINE_NUMERIC_SUM:
			return (Expr *) shard_convert_aggregate(F_SUM_NUMERIC, NUMERICOID, list_make1(groups_column(cxt, inner)));
		default:
			result = copyObject(agg);
			result->args = list_make1(makeTargetEntry((Expr *) groups_column(cxt, inner), 1, NULL,
													  false));
			result->aggfilter = NULL;
			return (Expr *) result;
	}
}

/* Converts an expression of the level to the columns of the sub-select. */
static Node *
split_mutator(Node *node, SplitContext *cxt)
{
	if (node == NULL)
		return NULL;
	if (list_member(cxt->group_exprs, node))
		return (Node *) groups_column(cxt, (Expr *) node);
	switch (nodeTag(node))
	{
		case T_Aggref:
			return (Node *) combined_aggregate(cxt, (Aggref *) node);
		case T_Var:
			/* functionally dependent on the grouped columns */
			cxt->refused |= ((Var *) node)->varlevelsup == 0;
			return node;
		case T_SubLink:
			/* stays above the sub-select, so it must not refer to columns or aggregates of the level */
			cxt->refused |= contain_vars_of_level(node, 0) || contain_aggs_of_level(node, 0);
			return node;
		case T_PlaceHolderVar:
			cxt->refused = true;
			return node;
		default:
			return expression_tree_mutator(node, split_mutator, cxt);
	}
}

/* ------------------------------------------------------------------------
 * The level
 * ------------------------------------------------------------------------ */

/*
 * Adds exprs to the columns of the sub-select, and to its GROUP BY clause with the equality of clauses.  Result: the
 * new group_clause.
 */
static List *
add_group_columns(SplitContext *cxt, List *group_clause, const List *exprs, const List *clauses)
{
	ListCell   *lc;
	ListCell   *lc2;

	forboth(lc, exprs, lc2, clauses)
	{
		const SortGroupClause *like = lfirst(lc2);
		SortGroupClause *clause = makeNode(SortGroupClause);
		Var		   *column = groups_column(cxt, lfirst(lc));
		TargetEntry *entry = list_nth_node(TargetEntry, cxt->tlist, column->varattno - 1);

		if (like != NULL)
			*clause = *like;
		else
			get_sort_group_operators(BOOLOID, true, true, false, &clause->sortop, &clause->eqop,
									 NULL, &clause->hashable);
		entry->ressortgroupref = clause->tleSortGroupRef = entry->resno;
		group_clause = list_append_unique(group_clause, clause);
	}
	return group_clause;
}

/* Makes the sub-select from the FROM and WHERE of the level, and the range table entries that they use. */
static Query *
make_inner(Query *query, List *tlist, List *group_clause)
{
	Query	   *inner = makeNode(Query);

	*inner = *query;
	inner->targetList = tlist;
	inner->groupClause = group_clause;
	inner->groupDistinct = false;
	inner->havingQual = NULL;
	inner->windowClause = NIL;
	inner->distinctClause = NIL;
	inner->sortClause = NIL;
	inner->limitOffset = inner->limitCount = NULL;
	inner->hasAggs = contain_aggs_of_level((Node *) tlist, 0);
	inner->hasWindowFuncs = false;
	inner->hasDistinctOn = false;
	inner->constraintDeps = NIL;
	IncrementVarSublevelsUp((Node *) inner, 1, 1);
	return inner;
}

/* Makes inner the only item in the FROM of the level. */
static void
set_outer(Query *query, Query *inner, List *tlist, Node *having)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	RangeTblRef *ref = makeNode(RangeTblRef);
	List	   *names = NIL;

	foreach_node(TargetEntry, entry, inner->targetList)
		names = lappend(names, makeString(pstrdup(entry->resname)));
	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = inner;
	rte->eref = makeAlias("groups", names);
	rte->inFromCl = true;
	ref->rtindex = GROUPS_RTINDEX;

	query->rtable = list_make1(rte);
	query->jointree = makeFromExpr(list_make1(ref), NULL);
	query->cteList = NIL;
	query->targetList = tlist;
	query->havingQual = having;
	query->constraintDeps = NIL;
	query->hasAggs = true;
	shard_query_forget_relations(query);
	shard_query_forget_groups(query);
}

static void
split_level(Query *query)
{
	SplitContext cxt = {0};
	List	   *tlist;
	List	   *group_clause;
	Node	   *having;

	if (!has_right_form(query))
		return;
	tlist = (List *) shard_flatten_group_exprs(query, (Node *) query->targetList);
	having = shard_flatten_group_exprs(query, query->havingQual);

	(void) collect_walker((Node *) tlist, &cxt);
	(void) collect_walker(having, &cxt);
	if (cxt.refused || cxt.distinct_args == NIL || !cxt.counts_duplicates ||
		(query->cteList != NIL && (checkExprHasSubLink((Node *) tlist) || checkExprHasSubLink(having))))
		return;
	foreach_node(SortGroupClause, clause, query->groupClause)
	{
		Expr	   *expr = (Expr *) get_sortgroupclause_expr(clause, tlist);

		if (is_shard_key(query, expr))
			return;
		cxt.group_exprs = lappend(cxt.group_exprs, expr);
	}

	group_clause = add_group_columns(&cxt, NIL, cxt.group_exprs, query->groupClause);
	group_clause = add_group_columns(&cxt, group_clause, cxt.distinct_args, cxt.distinct_clauses);
	tlist = (List *) split_mutator((Node *) tlist, &cxt);
	having = split_mutator(having, &cxt);
	if (!cxt.refused)
		set_outer(query, make_inner(query, cxt.tlist, group_clause), tlist, having);
}

void
shard_two_level_group(Query *parse)
{
	List	   *levels = shard_query_levels(parse);

	/* inner levels first */
	for (int i = list_length(levels) - 1; i >= 0; i--)
		split_level(list_nth_node(Query, levels, i));
}
