/*
 * shard_text.c
 *	  Makes a separate, shorter text of a statement for each shard.
 *
 *	 SET v = CASE WHEN k = 1 THEN .. WHEN k = 2 THEN .. END WHERE k = 1 OR k = 2 ...
 *	   --> on the shard of 1 and 7: SET v = CASE WHEN k = 1 THEN .. WHEN k = 7 THEN .. END WHERE k = 1 OR k = 7
 *
 * Some libraries change many rows by one statement that lists all keys.  If each shard got the whole statement, it
 * would parse, plan and check the keys of all other shards.  That work grows with the number of shards times the
 * number of rows.
 *
 * Pruning by a comparison of the shard key with a constant gives the shards on which the comparison can be true.  For
 * all other shards, a condition treats the comparison as false, because there is no difference between false and NULL
 * in a condition.  Then parts of the condition that cannot become true are removed.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "catalog/route.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "planner/router/shard_text.h"
#include "rewrite/rewriteManip.h"

/* A statement with fewer comparisons than this is not changed. */
#define MIN_COMPARISONS 8

/* A comparison of the key with a constant, and the numbers of the shards on which it may be true. */
typedef struct KeyComparison
{
	const OpExpr *clause;
	Bitmapset  *live;
} KeyComparison;

typedef struct ShardTextContext
{
	const Query *query;
	Oid			relid;			/* the target table */
	List	   *attnos;			/* IntList: columns of the shard key */
	int			ncomparisons;
	int			maxcomparisons;
	KeyComparison *comparisons; /* once collected, sorted by the address of the clause */
	bool		collecting;		/* comparisons are being collected; nothing is reduced */
	int			shardno;		/* otherwise: the shard whose text is made */
} ShardTextContext;

static Node *reduce_value(Node *node, ShardTextContext *cxt);

static bool
is_key_column(Node *node, const ShardTextContext *cxt)
{
	const Var  *var = shard_route_strip_relabel(node);

	return var && IsA(var, Var) && var->varno == cxt->query->resultRelation && var->varlevelsup == 0 &&
		list_member_int(cxt->attnos, var->varattno);
}

static bool
is_comparison(const OpExpr *clause, const ShardTextContext *cxt)
{
	return list_length(clause->args) == 2 &&
		((is_key_column(linitial(clause->args), cxt) && IsA(lsecond(clause->args), Const)) ||
		 (is_key_column(lsecond(clause->args), cxt) && IsA(linitial(clause->args), Const)));
}

static bool
is_false(const Node *node)
{
	return IsA(node, Const) && ((const Const *) node)->consttype == BOOLOID &&
		!((const Const *) node)->constisnull && !DatumGetBool(((const Const *) node)->constvalue);
}

static int
compare_addresses(const void *a, const void *b)
{
	const KeyComparison *left = a;
	const KeyComparison *right = b;

	return left->clause < right->clause ? -1 : left->clause > right->clause;
}

static void
collect(OpExpr *clause, ShardTextContext *cxt)
{
	KeyComparison *comparison;
	OpExpr	   *copy = copyObject(clause);

	if (cxt->ncomparisons == cxt->maxcomparisons)
	{
		cxt->maxcomparisons *= 2;
		cxt->comparisons = repalloc(cxt->comparisons, sizeof(KeyComparison) * cxt->maxcomparisons);
	}
	comparison = &cxt->comparisons[cxt->ncomparisons++];
	comparison->clause = clause;
	ChangeVarNodes((Node *) copy, cxt->query->resultRelation, 1, 0);
	comparison->live = shard_route_prune(cxt->relid, list_make1(copy));
}

/* Can the comparison be true for a row of the current shard? */
static bool
may_be_true(OpExpr *clause, const ShardTextContext *cxt)
{
	KeyComparison key = {clause};
	const KeyComparison *found = bsearch(&key, cxt->comparisons, cxt->ncomparisons, sizeof(KeyComparison), compare_addresses);

	return found == NULL || bms_is_member(cxt->shardno, found->live);
}

/* Reduces a condition, for which false and NULL are the same. */
static Node *
reduce_condition(Node *node, ShardTextContext *cxt)
{
	BoolExpr   *expr = (BoolExpr *) node;
	List	   *args = NIL;

	if (IsA(node, OpExpr) && is_comparison((OpExpr *) node, cxt))
	{
		if (cxt->collecting)
			collect((OpExpr *) node, cxt);
		else if (!may_be_true((OpExpr *) node, cxt))
			return makeBoolConst(false, false);
		return node;
	}
	if (!IsA(node, BoolExpr) || expr->boolop == NOT_EXPR)
		return reduce_value(node, cxt);
	foreach_ptr(Node, part, expr->args)
	{
		Node	   *arg = reduce_condition(part, cxt);

		if (!is_false(arg))
			args = lappend(args, arg);
		else if (expr->boolop == AND_EXPR)
			return arg;
	}
	if (list_length(args) < 2)
		return args == NIL ? makeBoolConst(false, false) : linitial(args);
	return (Node *) makeBoolExpr(expr->boolop, args, expr->location);
}

/* CASE WHEN condition THEN ..., without the arms that cannot be reached. */
static Node *
reduce_case(CaseExpr *expr, ShardTextContext *cxt)
{
	CaseExpr   *result = makeNode(CaseExpr);

	*result = *expr;
	result->args = NIL;
	foreach_node(CaseWhen, original, expr->args)
	{
		CaseWhen   *arm = makeNode(CaseWhen);

		*arm = *original;
		arm->expr = (Expr *) reduce_condition((Node *) arm->expr, cxt);
		if (is_false((Node *) arm->expr))
			continue;
		arm->result = (Expr *) reduce_value((Node *) arm->result, cxt);
		result->args = lappend(result->args, arm);
	}
	result->defresult = (Expr *) reduce_value((Node *) expr->defresult, cxt);
	/* keep one arm, for the type and collation */
	if (result->args == NIL)
	{
		CaseWhen   *never = makeNode(CaseWhen);

		*never = *linitial_node(CaseWhen, expr->args);
		never->expr = (Expr *) makeBoolConst(false, false);
		never->result = (Expr *) makeNullConst(exprType((Node *) never->result), exprTypmod((Node *) never->result),
											   exprCollation((Node *) never->result));
		result->args = list_make1(never);
	}
	return (Node *) result;
}

static Node *
reduce_value(Node *node, ShardTextContext *cxt)
{
	if (node == NULL || IsA(node, Query))
		return node;
	if (IsA(node, CaseExpr) && ((CaseExpr *) node)->arg == NULL)
		return reduce_case((CaseExpr *) node, cxt);
	return expression_tree_mutator(node, reduce_value, cxt);
}

/*
 * The statement for the current shard, or NULL if no row of the shard can satisfy its condition.  Shares unchanged
 * parts with the original.
 */
static Query *
reduce_query(ShardTextContext *cxt)
{
	Query	   *query = makeNode(Query);

	*query = *cxt->query;
	query->jointree = makeFromExpr(cxt->query->jointree->fromlist, reduce_condition(cxt->query->jointree->quals, cxt));
	if (is_false(query->jointree->quals))
		return NULL;
	query->targetList = (List *) reduce_value((Node *) cxt->query->targetList, cxt);
	return query;
}

bool
shard_text_make(Query *query, List *attnos, const Bitmapset *shardnos, ShardWholeQuery *text, ShardStatementPlan *plan)
{
	ShardTextContext cxt = {query};
	const ShardMap *map;
	List	   *shards = NIL;
	List	   *texts = NIL;
	List	   *before = NIL;
	List	   *params = NIL;

	cxt.relid = rt_fetch(query->resultRelation, query->rtable)->relid;
	map = shard_map_get(cxt.relid);
	if (map == NULL || query->jointree->quals == NULL || query->returningList != NIL)
		return false;
	cxt.attnos = attnos;
	cxt.maxcomparisons = 64;
	cxt.comparisons = palloc(sizeof(KeyComparison) * cxt.maxcomparisons);
	cxt.collecting = true;
	(void) reduce_query(&cxt);
	if (cxt.ncomparisons < MIN_COMPARISONS)
		return false;
	qsort(cxt.comparisons, cxt.ncomparisons, sizeof(KeyComparison), compare_addresses);
	cxt.collecting = false;

	cxt.shardno = -1;
	while ((cxt.shardno = bms_next_member(shardnos, cxt.shardno)) >= 0)
	{
		Query	   *reduced;
		ShardWholeQuery *own;
		const char *reason;

		reduced = reduce_query(&cxt);
		if (reduced == NULL)
			continue;
		own = shard_whole_query_print(reduced, &reason);
		/* an arm with a sub-select may have been removed */
		if (own == NULL || !equal(own->relids, text->relids))
			return false;
		shards = lappend_oid(shards, map->shards[cxt.shardno].relid);
		texts = lappend(texts, own->template);
		before = lappend_int(before, list_length(params));
		params = list_concat(params, own->params);
	}
	if (shards == NIL)
		return false;
	plan->shards = shards;
	plan->shard_texts = texts;
	plan->shard_params = before;
	text->params = params;
	return true;
}
