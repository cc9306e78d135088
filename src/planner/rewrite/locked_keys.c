/*
 * locked_keys.c
 *	  UPDATE and DELETE of rows whose keys come from a locking SELECT or from a list of values.
 *
 *	 WHERE id IN (SELECT id ... FOR UPDATE SKIP LOCKED)
 *	   --> WHERE id = ANY (ARRAY(SELECT id ...))
 *	 FROM z WHERE t.id = z.id, z being a WITH query or a sub-select that locks
 *	   --> ... AND t.id = ANY (ARRAY(SELECT id FROM z))
 *	 FROM (VALUES ...) z, or FROM unnest(...) z
 *	   --> the same
 *
 * As a join, such a statement would read its target from all shards.  The scan below an UPDATE or DELETE locks the
 * rows that it reads.  So the statement would wait for other sessions even if it does not change the rows that they
 * have locked.  With the keys in an array, nodes read only the rows with these keys.  If the statement needs nothing
 * else of z, the join is removed, and each node changes its rows by one command.  A row is changed once, even if
 * several rows of z match it.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "planner/rewrite/locked_keys.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"

/* key = ANY (array). key = element is an expression with opno and collation. */
static Node *
make_any_of(Oid opno, Oid collation, Expr *key, Node *array, int location)
{
	ScalarArrayOpExpr *expr = makeNode(ScalarArrayOpExpr);

	expr->opno = opno;
	expr->opfuncid = get_opcode(opno);
	expr->useOr = true;
	expr->inputcollid = collation;
	expr->args = list_make2(key, array);
	expr->location = location;
	return (Node *) expr;
}

static Node *
make_array_of(Query *subselect)
{
	SubLink    *array = makeNode(SubLink);

	array->subLinkType = ARRAY_SUBLINK;
	array->subselect = (Node *) subselect;
	array->location = -1;
	return (Node *) array;
}

/* The array type for the output of subselect; InvalidOid if there is none. */
static Oid
array_type_of(const Query *subselect)
{
	return get_array_type(exprType((Node *) linitial_node(TargetEntry, subselect->targetList)->expr));
}

/* ---------- IN ---------- */

static Node *
rewrite_in(SubLink *sublink)
{
	Query	   *subselect = castNode(Query, sublink->subselect);
	OpExpr	   *test;
	Node	   *element;
	Node	   *array;

	if (sublink->subLinkType != ANY_SUBLINK || subselect->rowMarks == NIL ||
		!IsA(sublink->testexpr, OpExpr) || contain_vars_of_level((Node *) subselect, 1) ||
		!OidIsValid(array_type_of(subselect)))
		return (Node *) sublink;
	test = castNode(OpExpr, sublink->testexpr);
	element = lsecond(test->args);
	array = make_array_of(subselect);
	if (IsA(element, RelabelType) && IsA(castNode(RelabelType, element)->arg, Param))
	{
		Oid			type = get_array_type(castNode(RelabelType, element)->resulttype);

		if (!OidIsValid(type))
			return (Node *) sublink;
		array = (Node *) makeRelabelType((Expr *) array, type, -1, get_typcollation(type), COERCE_IMPLICIT_CAST);
	}
	else if (!IsA(element, Param))
		return (Node *) sublink;
	return make_any_of(test->opno, test->inputcollid, linitial(test->args), array, sublink->location);
}

static Node *
rewrite_quals(Node *quals)
{
	ListCell   *lc;

	if (quals == NULL)
		return NULL;
	if (IsA(quals, SubLink))
		return rewrite_in(castNode(SubLink, quals));
	if (is_andclause(quals))
	{
		foreach(lc, castNode(BoolExpr, quals)->args)
			lfirst(lc) = rewrite_quals(lfirst(lc));
	}
	return quals;
}

/* ---------- joins ---------- */

/* levels: the query that has rte, and the queries around it. */
static CommonTableExpr *
find_cte(List *levels, const RangeTblEntry *rte)
{
	foreach_node(CommonTableExpr, cte, rte->ctelevelsup < list_length(levels) ? list_nth_node(Query, levels, rte->ctelevelsup)->cteList : NIL)
	{
		if (strcmp(cte->ctename, rte->ctename) == 0)
			return cte;
	}
	return NULL;
}

static bool
locks_rows(Node *query)
{
	return IsA(query, Query) && castNode(Query, query)->commandType == CMD_SELECT && castNode(Query, query)->rowMarks != NIL;
}

/* Finds a node that reads tables or WITH queries. */
static bool
reads_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->rtekind == RTE_RELATION || ((RangeTblEntry *) node)->rtekind == RTE_CTE;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, reads_walker, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, reads_walker, context);
}

/* Is the statement's target sharded?  False if the test would have to wait for a lock on a partition. */
static bool
changes_shards(List *levels)
{
	const Query *query = linitial_node(Query, levels);

	return shard_map_get_levels(rt_fetch(query->resultRelation, query->rtable)->relid, false) != NULL;
}

/*
 * Is it a list of values (VALUES or functions) that can be computed twice with the same result, and that has no
 * columns of level?
 */
static bool
is_list(Node *values, int level)
{
	return values != NULL && !contain_vars_of_level(values, level) && !reads_walker(values, NULL) &&
		!contain_volatile_functions(values);
}

/* The list of values that an entry of FROM stands for; NULL if it is something else. */
static Node *
list_of(const RangeTblEntry *rte)
{
	if (rte->rtekind == RTE_FUNCTION)
		return is_list((Node *) rte->functions, 0) ? (Node *) rte->functions : NULL;
	/* views are excluded, see below */
	if (rte->rtekind == RTE_SUBQUERY && !OidIsValid(rte->relid) && !rte->security_barrier)
		return is_list((Node *) rte->subquery, 1) ? (Node *) rte->subquery : NULL;
	return NULL;
}

/* Turns a sub-select in FROM into a WITH query, so that it can be read twice but runs once. */
static void
make_cte(Query *query, RangeTblEntry *rte, int rtindex)
{
	CommonTableExpr *cte = makeNode(CommonTableExpr);

	/* longer than any name that a user can give */
	cte->ctename = psprintf("shardfdw %0*d", NAMEDATALEN, rtindex);
	cte->ctematerialized = CTEMaterializeAlways;
	cte->ctequery = (Node *) rte->subquery;
	cte->location = -1;
	cte->cterefcount = 1;
	foreach_node(TargetEntry, tle, rte->subquery->targetList)
	{
		Node	   *expr = (Node *) tle->expr;

		if (tle->resjunk)
			continue;
		cte->ctecolnames = lappend(cte->ctecolnames, makeString(pstrdup(tle->resname ? tle->resname : "?column?")));
		cte->ctecoltypes = lappend_oid(cte->ctecoltypes, exprType(expr));
		cte->ctecoltypmods = lappend_int(cte->ctecoltypmods, exprTypmod(expr));
		cte->ctecolcollations = lappend_oid(cte->ctecolcollations, exprCollation(expr));
	}
	query->cteList = lappend(query->cteList, cte);
	rte->rtekind = RTE_CTE;
	rte->subquery = NULL;
	rte->ctename = cte->ctename;
	rte->ctelevelsup = 0;
	rte->coltypes = cte->ctecoltypes;
	rte->coltypmods = cte->ctecoltypmods;
	rte->colcollations = cte->ctecolcollations;
}

/*
 * The WITH query of entry rtindex, if it locks rows or is a list of values.  A sub-select in FROM that locks rows is
 * turned into a WITH query first.
 */
static CommonTableExpr *
find_cte_of_keys(List *levels, int rtindex)
{
	Query	   *query = linitial_node(Query, levels);
	RangeTblEntry *rte = rt_fetch(rtindex, query->rtable);
	CommonTableExpr *cte;

	/* views are excluded, because their entry is also used for permission checks */
	if (rte->rtekind == RTE_SUBQUERY && !OidIsValid(rte->relid) && !rte->lateral && !rte->security_barrier && locks_rows((Node *) rte->subquery))
		make_cte(query, rte, rtindex);
	if (rte->rtekind != RTE_CTE)
		return NULL;
	cte = find_cte(levels, rte);
	return cte && !cte->cterecursive && (locks_rows(cte->ctequery) || (is_list(cte->ctequery, 1) && changes_shards(levels))) ? cte : NULL;
}

/* The Var that expr is, below a RelabelType or not; NULL if it is something else. */
static Var *
var_of(Node *expr)
{
	if (expr && IsA(expr, RelabelType))
		expr = (Node *) castNode(RelabelType, expr)->arg;
	return expr && IsA(expr, Var) ? castNode(Var, expr) : NULL;
}

/* An entry for a sub-select of a level that sees cte levelsup levels further out. */
static RangeTblEntry *
entry_of_cte(CommonTableExpr *cte, Index levelsup)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);

	rte->rtekind = RTE_CTE;
	rte->ctename = cte->ctename;
	rte->ctelevelsup = levelsup + 1;
	rte->coltypes = cte->ctecoltypes;
	rte->coltypmods = cte->ctecoltypmods;
	rte->colcollations = cte->ctecolcollations;
	rte->eref = makeAlias(cte->ctename, copyObject(cte->ctecolnames));
	rte->inFromCl = true;
	cte->cterefcount++;
	return rte;
}

/*
 * An entry by which a sub-select can read the rows of entry rtindex of the statement again; NULL if the join has to
 * stay as it is.
 */
static RangeTblEntry *
read_again(List *levels, int rtindex)
{
	RangeTblEntry *rte = rt_fetch(rtindex, linitial_node(Query, levels)->rtable);
	CommonTableExpr *cte;

	if (list_of(rte) != NULL && changes_shards(levels))
	{
		rte = copyObject(rte);
		rte->lateral = false;
		return rte;
	}
	cte = find_cte_of_keys(levels, rtindex);
	return cte ? entry_of_cte(cte, rt_fetch(rtindex, linitial_node(Query, levels)->rtable)->ctelevelsup) : NULL;
}

/* SELECT column FROM rte. column: a Var or relabelled Var, as var_of() accepts it. */
static Query *
select_column(RangeTblEntry *rte, Node *column)
{
	Query	   *query = makeNode(Query);
	RangeTblRef *ref = makeNode(RangeTblRef);
	Node	   *expr = copyObject(column);
	Var		   *var = var_of(expr);

	*var = *makeVar(1, var->varattno, var->vartype, var->vartypmod, var->varcollid, 0);
	ref->rtindex = 1;
	query->commandType = CMD_SELECT;
	query->querySource = QSRC_ORIGINAL;
	query->canSetTag = true;
	query->rtable = list_make1(rte);
	query->jointree = makeFromExpr(list_make1(ref), NULL);
	query->targetList = list_make1(makeTargetEntry((Expr *) expr, 1, NULL, false));
	return query;
}

/*
 * For expr target.key = z.column, where z is a WITH query that locks or a list of values: makes target.key = ANY
 * (ARRAY(SELECT column FROM z)).  NULL for other expressions.  May turn a sub-select in FROM into a WITH query.
 */
static Node *
implied(List *levels, OpExpr *expr)
{
	Query	   *query = linitial_node(Query, levels);
	Node	   *key = list_length(expr->args) == 2 ? linitial(expr->args) : NULL;
	Node	   *other = key ? lsecond(expr->args) : NULL;
	Oid			opno = expr->opno;
	Var		   *var;
	RangeTblEntry *source;

	if (var_of(key) == NULL || var_of(other) == NULL)
		return NULL;
	if (var_of(other)->varno == query->resultRelation)
	{
		Node	   *swap = key;

		key = other;
		other = swap;
		opno = get_commutator(opno);
	}
	var = var_of(other);
	if (!OidIsValid(opno) || var_of(key)->varno != query->resultRelation || var_of(key)->varlevelsup != 0 ||
		var->varlevelsup != 0 || var->varattno <= 0 || var->varno == query->resultRelation ||
		!op_mergejoinable(opno, exprType(key)) || !OidIsValid(get_array_type(exprType(other))))
		return NULL;
	source = read_again(levels, var->varno);
	if (source == NULL)
		return NULL;
	query->hasSubLinks = true;
	return make_any_of(opno, expr->inputcollid, (Expr *) copyObject(key), make_array_of(select_column(source, other)), -1);
}

/* Collects what the conditions imply.  *joins: the conditions that imply something. */
static List *
implied_by(List *levels, Node *quals, List **joins)
{
	List	   *found = NIL;
	Node	   *one = NULL;

	if (quals == NULL)
		return NIL;
	if (IsA(quals, OpExpr))
		one = implied(levels, castNode(OpExpr, quals));
	else if (is_andclause(quals))
	{
		foreach_ptr(Node, qual, castNode(BoolExpr, quals)->args)
			found = list_concat(found, implied_by(levels, qual, joins));
	}
	if (one == NULL)
		return found;
	*joins = lappend(*joins, quals);
	return list_make1(one);
}

/*
 * Removes from FROM the WITH query that join, a condition of the statement, compares with the target.  Removes join,
 * too.  Does nothing if the statement uses the WITH query elsewhere.
 */
static void
drop_join(Query *query, OpExpr *join)
{
	FromExpr   *from = query->jointree;
	FromExpr	before = *from;
	int			rtindex = var_of(linitial(join->args))->varno;
	ListCell   *lc;

	if (rtindex == query->resultRelation)
		rtindex = var_of(lsecond(join->args))->varno;
	from->fromlist = NIL;
	foreach(lc, before.fromlist)
	{
		if (!IsA(lfirst(lc), RangeTblRef) || lfirst_node(RangeTblRef, lc)->rtindex != rtindex)
			from->fromlist = lappend(from->fromlist, lfirst(lc));
	}
	if (before.quals == (Node *) join)
		from->quals = NULL;
	else
		from->quals = (Node *) make_andclause(list_delete_ptr(list_copy(castNode(BoolExpr, before.quals)->args), join));
	if (rangeTableEntry_used((Node *) query, rtindex, 0))
		*from = before;
}

static void
rewrite_query(List *levels)
{
	Query	   *query = linitial_node(Query, levels);
	List	   *joins = NIL;
	List	   *more;

	foreach_node(CommonTableExpr, statement, query->cteList)
	{
		Node	   *cte = statement->ctequery;

		if (IsA(cte, Query))
			rewrite_query(lcons(cte, list_copy(levels)));
	}
	if ((query->commandType != CMD_UPDATE && query->commandType != CMD_DELETE) ||
		rt_fetch(query->resultRelation, query->rtable)->relkind == RELKIND_RELATION)
		return;
	query->jointree->quals = rewrite_quals(query->jointree->quals);
	more = implied_by(levels, query->jointree->quals, &joins);
	foreach_node(OpExpr, join, joins)
		drop_join(query, join);
	if (query->jointree->quals != NULL)
		more = lcons(query->jointree->quals, more);
	query->jointree->quals = more != NIL ? (Node *) make_ands_explicit(more) : NULL;
}

void
shard_locked_keys(Query *query)
{
	rewrite_query(list_make1(query));
}
