/*
 * locked_keys.c
 *	  Changes of rows whose keys come from a SELECT that locks.
 *
 *	 WHERE id IN (SELECT id ... FOR UPDATE SKIP LOCKED)
 *	   --> WHERE id = ANY (ARRAY(SELECT id ...))
 *	 FROM z WHERE t.id = z.id, z being a WITH query or a sub-select that locks
 *	   --> ... AND t.id = ANY (ARRAY(SELECT id FROM z))
 *
 * As a join, such a statement would read its target from all shards, and the scan below an UPDATE
 * or DELETE locks what it reads: it would wait for just those who hold the rows that were skipped.
 * With the keys in an array the nodes are asked for these rows alone.  Where the statement needs
 * nothing else of z, the join goes, and each node changes its rows by one command: a row is changed once,
 * however many rows of z it meets.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "planner/rewrite/locked_keys.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"

/* key = ANY (ARRAY(subselect)), where key = element is an expression by opno and collation. */
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

/* The type of an array of what subselect returns; InvalidOid: there is none. */
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

/* levels: the query that has rte, and those around it. */
static CommonTableExpr *
find_cte(List *levels, const RangeTblEntry *rte)
{
	ListCell   *lc;

	foreach(lc, rte->ctelevelsup < list_length(levels) ? list_nth_node(Query, levels, rte->ctelevelsup)->cteList : NIL)
	{
		CommonTableExpr *cte = lfirst_node(CommonTableExpr, lc);

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

/* Makes a sub-select in FROM a WITH query, so that it can be read twice and is run once. */
static void
make_cte(Query *query, RangeTblEntry *rte, int rtindex)
{
	CommonTableExpr *cte = makeNode(CommonTableExpr);
	ListCell   *lc;

	/* no user can give such a name: it is too long */
	cte->ctename = psprintf("shardfdw %0*d", NAMEDATALEN, rtindex);
	cte->ctematerialized = CTEMaterializeAlways;
	cte->ctequery = (Node *) rte->subquery;
	cte->location = -1;
	cte->cterefcount = 1;
	foreach(lc, rte->subquery->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
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

/* The WITH query of rtindex that locks rows, if it is one, or is made one of a sub-select. */
static CommonTableExpr *
find_locking_cte(List *levels, int rtindex)
{
	Query	   *query = linitial_node(Query, levels);
	RangeTblEntry *rte = rt_fetch(rtindex, query->rtable);
	CommonTableExpr *cte;

	/* not a view, whose entry is also one of permissions */
	if (rte->rtekind == RTE_SUBQUERY && !OidIsValid(rte->relid) && !rte->lateral && !rte->security_barrier && locks_rows((Node *) rte->subquery))
		make_cte(query, rte, rtindex);
	if (rte->rtekind != RTE_CTE)
		return NULL;
	cte = find_cte(levels, rte);
	return cte && !cte->cterecursive && locks_rows(cte->ctequery) ? cte : NULL;
}

/* The Var that expr is, by whatever name its type goes; NULL: something else. */
static Var *
var_of(Node *expr)
{
	if (expr && IsA(expr, RelabelType))
		expr = (Node *) castNode(RelabelType, expr)->arg;
	return expr && IsA(expr, Var) ? castNode(Var, expr) : NULL;
}

/* SELECT column FROM cte, for a sub-select of the level that sees cte levelsup further out.  column: a Var, as var_of() takes it. */
static Query *
select_column(CommonTableExpr *cte, Index levelsup, Node *column)
{
	Query	   *query = makeNode(Query);
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	RangeTblRef *ref = makeNode(RangeTblRef);
	Node	   *expr = copyObject(column);
	Var		   *var = var_of(expr);

	rte->rtekind = RTE_CTE;
	rte->ctename = cte->ctename;
	rte->ctelevelsup = levelsup + 1;
	rte->coltypes = cte->ctecoltypes;
	rte->coltypmods = cte->ctecoltypmods;
	rte->colcollations = cte->ctecolcollations;
	rte->eref = makeAlias(cte->ctename, copyObject(cte->ctecolnames));
	rte->inFromCl = true;
	cte->cterefcount++;
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
 * For expr target.key = z.column, z being a WITH query that locks: target.key = ANY (ARRAY(SELECT column FROM z)).  NULL
 * for other expressions.  May make a sub-select in FROM a WITH query.
 */
static Node *
implied(List *levels, OpExpr *expr)
{
	Query	   *query = linitial_node(Query, levels);
	Node	   *key = list_length(expr->args) == 2 ? linitial(expr->args) : NULL;
	Node	   *other = key ? lsecond(expr->args) : NULL;
	Oid			opno = expr->opno;
	Var		   *var;
	CommonTableExpr *cte;

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
	cte = find_locking_cte(levels, var->varno);
	if (cte == NULL)
		return NULL;
	query->hasSubLinks = true;
	return make_any_of(opno, expr->inputcollid, (Expr *) copyObject(key),
					   make_array_of(select_column(cte, rt_fetch(var->varno, query->rtable)->ctelevelsup, other)), -1);
}

/* What the conditions imply; *joins: those of them that imply something. */
static List *
implied_by(List *levels, Node *quals, List **joins)
{
	List	   *found = NIL;
	Node	   *one = NULL;
	ListCell   *lc;

	if (quals == NULL)
		return NIL;
	if (IsA(quals, OpExpr))
		one = implied(levels, castNode(OpExpr, quals));
	else if (is_andclause(quals))
	{
		foreach(lc, castNode(BoolExpr, quals)->args)
			found = list_concat(found, implied_by(levels, lfirst(lc), joins));
	}
	if (one == NULL)
		return found;
	*joins = lappend(*joins, quals);
	return list_make1(one);
}

/*
 * Takes the WITH query out of FROM that join, a condition of the statement, compares with its target; together with
 * join, if nothing else names it.
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
	ListCell   *lc;

	foreach(lc, query->cteList)
	{
		Node	   *cte = lfirst_node(CommonTableExpr, lc)->ctequery;

		if (IsA(cte, Query))
			rewrite_query(lcons(cte, list_copy(levels)));
	}
	if ((query->commandType != CMD_UPDATE && query->commandType != CMD_DELETE) ||
		rt_fetch(query->resultRelation, query->rtable)->relkind == RELKIND_RELATION)
		return;
	query->jointree->quals = rewrite_quals(query->jointree->quals);
	more = implied_by(levels, query->jointree->quals, &joins);
	foreach(lc, joins)
		drop_join(query, lfirst_node(OpExpr, lc));
	if (query->jointree->quals != NULL)
		more = lcons(query->jointree->quals, more);
	query->jointree->quals = more != NIL ? (Node *) make_ands_explicit(more) : NULL;
}

void
shard_locked_keys(Query *query)
{
	rewrite_query(list_make1(query));
}
