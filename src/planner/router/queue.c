/*
 * queue.c
 *	  Plans of statements that take rows of one table as jobs from a queue, over all of its shards.
 *
 *	 SELECT ... FROM t WHERE ... ORDER BY ... LIMIT n FOR UPDATE [NOWAIT | SKIP LOCKED]
 *	 UPDATE t SET ... WHERE key IN (SELECT key FROM t ... FOR UPDATE ...), = ANY (ARRAY(SELECT ...)),
 *							and, with LIMIT 1, = (SELECT ...)
 *	 WITH z AS (SELECT key FROM t ... FOR UPDATE ...) UPDATE t SET ... FROM z WHERE t.key = z.key
 *	 DELETE likewise
 *
 * - candidates: asks a node for its first rows, without locks: ctid, xmin and file of the shard
 * - lock: locks these rows of a shard
 * - change: changes rows of a shard, by ctid
 * - lock_and_change: both in one query, for one row
 *
 * The SELECT locks rows of the same table, whose key UPDATE or DELETE compares with.  If the key is unique and not
 * null, the locked rows are the rows to change, so they can be changed by ctid.
 *
 * A node can use a partial index (WHERE state = 'new') only if the query has the constant.  So constants stay in the
 * text of candidates, and a plan that the node keeps is for these constants.
 *
 * executor/queue/queue_exec.c explains why the result is the same as on a plain table.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/collation.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "catalog/route.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "deparse/shippable/shippable_compare.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/value.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "planner/path/scan_output.h"
#include "planner/router/statement.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* Name of the table in remote statements: see TABLE_ALIAS in deparse/whole_query.c. */
#define ALIAS "shard_t1"

/* Placeholder parameter for the condition that finds the rows.  Clients do not use this number. */
#define MARKER_PARAM PG_INT16_MAX

/* The parts of a statement. */
typedef struct QueueParts
{
	const char *reason;			/* why the statement is not of this form; NULL: it is, so far */
	Query	   *select;			/* the SELECT that locks */
	Query	   *change;			/* UPDATE or DELETE without the source of its keys; NULL: the statement is the SELECT */
	Oid			relid;
	const ShardMap *map;
} QueueParts;

static void
refuse(QueueParts *parts, const char *reason)
{
	if (parts->reason == NULL)
		parts->reason = reason;
}

/* ---------- the SELECT ---------- */

static void
check_select(QueueParts *parts, Query *select)
{
	RangeTblEntry *rte;
	RowMarkClause *mark;

	parts->select = select;
	if (select->commandType != CMD_SELECT || list_length(select->rowMarks) != 1 || select->limitCount == NULL ||
		select->limitOffset != NULL || select->limitOption != LIMIT_OPTION_COUNT || select->hasAggs ||
		select->hasWindowFuncs || select->hasTargetSRFs || select->hasSubLinks || select->hasModifyingCTE ||
		select->cteList != NIL || select->groupClause != NIL || select->groupingSets != NIL || select->havingQual != NULL ||
		select->distinctClause != NIL || select->setOperations != NULL || list_length(select->rtable) != 1 ||
		list_length(select->jointree->fromlist) != 1 || !IsA(linitial(select->jointree->fromlist), RangeTblRef))
	{
		refuse(parts, "SELECT that does more than to lock rows of one table");
		return;
	}
	if (contain_vars_of_level((Node *) select, 1))
		refuse(parts, "sub-select for each row");
	rte = linitial_node(RangeTblEntry, select->rtable);
	mark = linitial_node(RowMarkClause, select->rowMarks);
	if (mark->pushedDown)
		refuse(parts, "lock of a sub-select");
	if (IsA(select->limitCount, Const) && castNode(Const, select->limitCount)->constisnull)
		refuse(parts, "no limit");
	if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_PARTITIONED_TABLE || !rte->inh)
	{
		refuse(parts, "not a sharded table");
		return;
	}
	parts->relid = rte->relid;
	parts->map = shard_map_get(rte->relid);
	if (parts->map == NULL || parts->map->nshards < 2 || parts->map->foreign_definition)
		refuse(parts, "not a table of several shards whose definition is known");
}

/* ---------- UPDATE and DELETE ---------- */

/* The column of rtindex that expr is, below a RelabelType or not; 0 if it is something else. */
static AttrNumber
column_of(Node *expr, int rtindex)
{
	Var		   *var;

	if (expr && IsA(expr, RelabelType))
		expr = (Node *) castNode(RelabelType, expr)->arg;
	var = (Var *) expr;
	return var && IsA(var, Var) && var->varno == rtindex && var->varlevelsup == 0 ? var->varattno : 0;
}

/* The column of the table that is column attno of select's result; 0 if it is something else. */
static AttrNumber
selected_column(const Query *select, AttrNumber attno)
{
	TargetEntry *entry = attno > 0 && attno <= list_length(select->targetList) ?
		list_nth_node(TargetEntry, select->targetList, attno - 1) : NULL;

	return entry && !entry->resjunk ? column_of((Node *) entry->expr, 1) : 0;
}

/* An equality of a column of the target and a column of the SELECT. */
typedef struct KeyColumn
{
	AttrNumber	attno;
	Oid			opno;
	Oid			collation;
} KeyColumn;

static List *
add_key(QueueParts *parts, List *keys, AttrNumber target, AttrNumber selected, OpExpr *expr)
{
	KeyColumn  *key = palloc(sizeof(KeyColumn));

	if (target <= 0 || target != selected)
		refuse(parts, "keys are compared with another column");
	key->attno = target;
	key->opno = expr->opno;
	key->collation = expr->inputcollid;
	return lappend(keys, key);
}

/* Do the keys compare this column of the index by the equality of the index? */
static bool
is_compared(Relation rel, Relation index, int column, List *keys)
{
	AttrNumber	attno = index->rd_index->indkey.values[column];

	foreach_ptr(const KeyColumn, key, keys)
	{
		if (key->attno == attno && attno > 0 && TupleDescAttr(RelationGetDescr(rel), attno - 1)->attnotnull &&
			get_op_opfamily_strategy(key->opno, index->rd_opfamily[column]) == BTEqualStrategyNumber &&
			key->collation == index->rd_indcollation[column])
			return true;
	}
	return false;
}

/* Do the columns identify one row? */
static bool
is_unique(Oid relid, List *keys)
{
	Relation	rel = table_open(relid, NoLock);
	List	   *indexes = RelationGetIndexList(rel);
	bool		result = false;

	foreach_oid(indexid, indexes)
	{
		Relation	index = index_open(indexid, AccessShareLock);
		bool		all = index->rd_index->indisunique && index->rd_rel->relam == BTREE_AM_OID && index->rd_index->indimmediate &&
			RelationGetIndexPredicate(index) == NIL && index->rd_index->indnkeyatts > 0;

		for (int i = 0; all && i < index->rd_index->indnkeyatts; i++)
			all = is_compared(rel, index, i, keys);
		result |= all;
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	table_close(rel, NoLock);
	return result;
}

static bool
is_one(Node *limit)
{
	limit = eval_const_expressions(NULL, limit);
	return limit && IsA(limit, Const) && !castNode(Const, limit)->constisnull &&
		DatumGetInt64(castNode(Const, limit)->constvalue) == 1;
}

/* The comparisons of a sub-select's columns in test with columns of the statement's target. */
static List *
sublink_keys(QueueParts *parts, Query *query, Query *select, Node *test)
{
	List	   *tests = is_andclause(test) ? castNode(BoolExpr, test)->args : list_make1(test);
	List	   *keys = NIL;

	foreach_ptr(OpExpr, expr, tests)
	{
		Node	   *element;

		if (!IsA(expr, OpExpr) || list_length(expr->args) != 2)
		{
			refuse(parts, "comparison of a row");
			return NIL;
		}
		element = lsecond(expr->args);
		if (IsA(element, RelabelType))
			element = (Node *) castNode(RelabelType, element)->arg;
		if (!IsA(element, Param) || castNode(Param, element)->paramkind != PARAM_SUBLINK)
		{
			refuse(parts, "comparison with another value");
			return NIL;
		}
		keys = add_key(parts, keys, column_of(linitial(expr->args), query->resultRelation),
					   selected_column(select, castNode(Param, element)->paramid), expr);
	}
	return keys;
}

/* WHERE key IN (SELECT), = ANY (ARRAY(SELECT)), = (SELECT) */
static List *
keys_of_condition(QueueParts *parts, Query *query, Node *qual)
{
	SubLink    *sublink = NULL;

	if (qual != NULL && IsA(qual, SubLink) && castNode(SubLink, qual)->subLinkType == ANY_SUBLINK)
	{
		sublink = castNode(SubLink, qual);
		check_select(parts, castNode(Query, sublink->subselect));
		return parts->reason ? NIL : sublink_keys(parts, query, parts->select, sublink->testexpr);
	}
	if (qual != NULL && (IsA(qual, ScalarArrayOpExpr) || IsA(qual, OpExpr)))
	{
		bool		any = IsA(qual, ScalarArrayOpExpr);
		List	   *args = any ? castNode(ScalarArrayOpExpr, qual)->args : castNode(OpExpr, qual)->args;
		OpExpr		expr = {.xpr = {T_OpExpr}};

		if (list_length(args) == 2 && IsA(lsecond(args), SubLink))
			sublink = lsecond_node(SubLink, args);
		if (sublink != NULL && sublink->subLinkType == (any ? ARRAY_SUBLINK : EXPR_SUBLINK) &&
			(!any || castNode(ScalarArrayOpExpr, qual)->useOr))
		{
			expr.opno = any ? castNode(ScalarArrayOpExpr, qual)->opno : castNode(OpExpr, qual)->opno;
			expr.inputcollid = any ? castNode(ScalarArrayOpExpr, qual)->inputcollid : castNode(OpExpr, qual)->inputcollid;
			check_select(parts, castNode(Query, sublink->subselect));
			if (parts->reason == NULL && !any && !is_one(parts->select->limitCount))
				refuse(parts, "sub-select that may have several rows");
			return parts->reason ? NIL : add_key(parts, NIL, column_of(linitial(args), query->resultRelation),
												 selected_column(parts->select, 1), &expr);
		}
	}
	refuse(parts, "other conditions");
	return NIL;
}

/* FROM z WHERE target.key = z.key, z being a WITH query or a sub-select */
static List *
keys_of_join(QueueParts *parts, Query *query, int rtindex)
{
	RangeTblEntry *rte = rt_fetch(rtindex, query->rtable);
	Node	   *quals = query->jointree->quals;
	List	   *keys = NIL;

	if (rte->rtekind == RTE_CTE && rte->ctelevelsup == 0 && list_length(query->cteList) == 1 &&
		linitial_node(CommonTableExpr, query->cteList)->cterefcount == 1 && !linitial_node(CommonTableExpr, query->cteList)->cterecursive)
		check_select(parts, castNode(Query, linitial_node(CommonTableExpr, query->cteList)->ctequery));
	else if (rte->rtekind == RTE_SUBQUERY && query->cteList == NIL && !OidIsValid(rte->relid) && !rte->lateral && !rte->security_barrier)
		check_select(parts, rte->subquery);
	else
		refuse(parts, "other tables");
	foreach_ptr(OpExpr, expr, parts->reason || quals == NULL ? NIL : is_andclause(quals) ? castNode(BoolExpr, quals)->args : list_make1(quals))
	{
		AttrNumber	target;
		int			other = 1;

		if (!IsA(expr, OpExpr) || list_length(expr->args) != 2)
		{
			refuse(parts, "other conditions");
			return NIL;
		}
		target = column_of(linitial(expr->args), query->resultRelation);
		if (target == 0)
			target = column_of(list_nth(expr->args, other--), query->resultRelation);
		keys = add_key(parts, keys, target, selected_column(parts->select, column_of(list_nth(expr->args, other), rtindex)), expr);
	}
	return keys;
}

/* Replaces the condition and z by a marker, in a copy of the statement. */
static Query *
without_keys(QueueParts *parts, Query *query)
{
	Query	   *change = copyObject(query);
	Param	   *marker = makeNode(Param);

	marker->paramkind = PARAM_EXTERN;
	marker->paramid = MARKER_PARAM;
	marker->paramtype = BOOLOID;
	marker->paramtypmod = -1;
	marker->location = -1;
	change->cteList = NIL;
	change->jointree->fromlist = list_make1(linitial(change->jointree->fromlist));
	change->jointree->quals = (Node *) marker;
	change->hasSubLinks = false;
	for (int i = 2; i <= list_length(change->rtable); i++)
	{
		if (rangeTableEntry_used((Node *) change, i, 0))
			refuse(parts, "other columns of the SELECT are used");
	}
	change->rtable = list_truncate(change->rtable, 1);
	return change;
}

static void
check_change(QueueParts *parts, Query *query)
{
	List	   *from = query->jointree->fromlist;
	List	   *keys = NIL;

	if (query->resultRelation != 1 || query->hasModifyingCTE || query->hasRecursive || from == NIL || list_length(from) > 2 ||
		!IsA(linitial(from), RangeTblRef) || linitial_node(RangeTblRef, from)->rtindex != 1 || !IsA(llast(from), RangeTblRef) ||
		rt_fetch(1, query->rtable)->rtekind != RTE_RELATION)
		refuse(parts, "other tables");
	else if (list_length(from) == 1 && query->cteList == NIL)
		keys = keys_of_condition(parts, query, query->jointree->quals);
	else if (list_length(from) == 2)
		keys = keys_of_join(parts, query, llast_node(RangeTblRef, from)->rtindex);
	else
		refuse(parts, "WITH query that is not joined");
	if (parts->reason == NULL && rt_fetch(1, query->rtable)->relid != parts->relid)
		refuse(parts, "rows of another table");
	if (parts->reason == NULL && !is_unique(parts->relid, keys))
		refuse(parts, "keys that are not unique");
	/* with a shared key lock, another session may have changed the row, so that it has another ctid */
	if (parts->reason == NULL && linitial_node(RowMarkClause, parts->select->rowMarks)->strength == LCS_FORKEYSHARE)
		refuse(parts, "lock that does not keep others from changing the row");
	if (parts->reason == NULL && query->commandType == CMD_UPDATE && shard_route_assigns_key(parts->relid, query->targetList))
		refuse(parts, "shard key is changed");
	if (parts->reason != NULL)
		return;
	parts->change = without_keys(parts, query);
	if (parts->reason == NULL && (checkExprHasSubLink((Node *) parts->change->targetList) ||
								  checkExprHasSubLink((Node *) parts->change->returningList)))
		refuse(parts, "sub-select");
}

/* ---------- texts ---------- */

static TargetEntry *
system_column(AttrNumber attno, Oid type)
{
	return makeTargetEntry((Expr *) makeVar(1, attno, type, -1, InvalidOid, 0), 1, NULL, false);
}

/* Names of the columns of relid that query uses, each after a comma. */
static char *
used_columns(Query *query, Oid relid)
{
	Bitmapset  *used = NULL;
	int			i = -1;
	StringInfoData buf;

	pull_varattnos((Node *) query->targetList, 1, &used);
	pull_varattnos((Node *) query->jointree, 1, &used);
	initStringInfo(&buf);
	while ((i = bms_next_member(used, i)) >= 0)
	{
		AttrNumber	attno = i + FirstLowInvalidHeapAttributeNumber;

		if (attno > 0)
			appendStringInfo(&buf, ", %s", quote_identifier(get_attname(relid, attno, false)));
	}
	return buf.data;
}

/* The SELECT without locks and limit.  Its only columns are its sort columns. */
static Query *
candidates_query(Query *select)
{
	Query	   *query = copyObject(select);
	List	   *tlist = NIL;

	query->rowMarks = NIL;
	query->hasForUpdate = false;
	query->limitCount = NULL;
	/* the replacement for the table has fewer columns, so column aliases of the statement do not fit */
	linitial_node(RangeTblEntry, query->rtable)->alias = NULL;
	foreach_node(SortGroupClause, clause, query->sortClause)
	{
		TargetEntry *entry = get_sortgroupclause_tle(clause, query->targetList);

		entry->resjunk = false;
		entry->resno = list_length(tlist) + 1;
		tlist = lappend(tlist, entry);
	}
	query->targetList = tlist;
	return query;
}

/* Sets the sort order of the rows, if nodes and the coordinator sort them the same way. */
static void
fill_sort(QueueParts *parts, ShardQueuePlan *plan, const Query *query, const ShardWholeQuery *text)
{
	foreach_node(SortGroupClause, clause, query->sortClause)
	{
		Node	   *expr = get_sortgroupclause_expr(clause, query->targetList);
		ShardExtensionScope extensions = {NULL, NULL};

		if (!shard_compare_order_ok(expr, clause->sortop, shard_collation_same_default(parts->map), &extensions))
			refuse(parts, "order that may be another one on nodes");
		plan->sort_operators = lappend_oid(plan->sort_operators, clause->sortop);
		plan->sort_collations = lappend_oid(plan->sort_collations, exprCollation(expr));
		plan->sort_nulls_first = lappend_int(plan->sort_nulls_first, clause->nulls_first);
	}
	plan->sort_outputs = shard_scan_convert_outputs(text->outputs, &plan->nsort);
	for (int i = 0; i < plan->nsort; i++)
	{
		if (plan->sort_outputs[i].kind != SHARD_OUTPUT_VALUE)
			refuse(parts, "order by a column that travels as text");
	}
}

static List *
text_part(const char *text)
{
	return list_make1(makeString(pstrdup(text)));
}

static List *
number_part(int number)
{
	return list_make1(makeInteger(number));
}

/* Replaces parameter number in template by condition. */
static ShardTemplate *
put_condition(const ShardTemplate *template, int number, List *condition)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, template)
	{
		if (IsA(lfirst(lc), Integer) && intVal(lfirst(lc)) == number)
			result = list_concat(result, condition);
		else
			result = lappend(result, lfirst(lc));
	}
	return result;
}

/*
 * The condition "ctid = ANY (...)". xmins: the number of that parameter, or 0.  The next parameter is the shard's
 * relfilenode: VACUUM FULL and CLUSTER move rows to another file, where they have other ctids and the same xmins.
 */
static List *
condition(const char *alias, int ctids, int xmins)
{
	List	   *result = list_concat(text_part(psprintf("%sctid = ANY (", alias)), number_part(ctids));

	result = list_concat(result, text_part("::pg_catalog.tid[])"));
	if (xmins == 0)
		return result;
	result = list_concat(result, text_part(psprintf(" AND %sxmin = ANY (", alias)));
	result = list_concat(list_concat(result, number_part(xmins)),
						 text_part(psprintf("::pg_catalog.xid[]) AND pg_catalog.pg_relation_filenode(%stableoid) = ", alias)));
	return list_concat(list_concat(result, number_part(xmins + 1)), text_part("::pg_catalog.oid"));
}

static char *
locking_clause(const RowMarkClause *mark)
{
	static const char *const strengths[] = {
		[LCS_FORKEYSHARE] = "KEY SHARE", [LCS_FORSHARE] = "SHARE", [LCS_FORNOKEYUPDATE] = "NO KEY UPDATE", [LCS_FORUPDATE] = "UPDATE"
	};
	static const char *const policies[] = {[LockWaitBlock] = "", [LockWaitSkip] = " SKIP LOCKED", [LockWaitError] = " NOWAIT"};

	return psprintf("FOR %s%s", strengths[mark->strength], policies[mark->waitPolicy]);
}

/* SELECT ctid FROM the shard that locks the rows with these ctids and xmins. */
static List *
locking_select(const ShardQueuePlan *plan, int ctids, int xmins)
{
	List	   *result = list_concat(text_part("SELECT ctid FROM "), number_part(0));

	result = list_concat(result, text_part(" WHERE "));
	result = list_concat(result, condition("", ctids, xmins));
	return list_concat(result, text_part(psprintf(" %s", plan->locking)));
}

/* Removes the marker from the parameters of text; returns its number. */
static int
take_out_marker(ShardWholeQuery *text)
{
	ListCell   *lc;

	foreach(lc, text->sources)
	{
		Param	   *param = lfirst(lc);

		if (IsA(param, Param) && param->paramkind == PARAM_EXTERN && param->paramid == MARKER_PARAM)
		{
			Const	   *nothing = makeNullConst(INT4OID, -1, InvalidOid);

			lfirst(lc) = nothing;
			lfirst(list_nth_cell(text->params, foreach_current_index(lc))) = nothing;
			return foreach_current_index(lc) + 1;
		}
	}
	elog(ERROR, "condition of a statement that takes rows has got lost");
	return 0;					/* keep compiler quiet */
}

/* Sets the plan's texts for a shard. text: the SELECT, or the UPDATE or DELETE, with a marker as its condition. */
static void
fill_texts(ShardQueuePlan *plan, const QueueParts *parts, ShardWholeQuery *text)
{
	int			ctids = take_out_marker(text);
	int			xmins = list_length(text->params) + 1;
	List	   *both;

	plan->ctids_param = ctids;
	if (parts->change == NULL)
	{
		plan->lock = put_condition(text->template, ctids, condition(ALIAS ".", ctids, xmins));
		return;
	}
	plan->lock = locking_select(plan, 1, 2);
	plan->change = put_condition(text->template, ctids, condition(ALIAS ".", ctids, 0));
	both = list_concat(text_part("WITH z AS MATERIALIZED ("), locking_select(plan, ctids, xmins));
	both = list_concat(both, text_part("), u AS ("));
	both = list_concat(both, put_condition(text->template, ctids, text_part(ALIAS ".ctid = ANY (ARRAY(SELECT z.ctid FROM z))")));
	both = list_concat(both, text_part(plan->returns_rows ?
									   ") SELECT c.n, u.* FROM (SELECT pg_catalog.count(*) FROM z) AS c(n) LEFT JOIN u ON true" :
									   " RETURNING true) SELECT c.n, d.n FROM (SELECT pg_catalog.count(*) FROM z) AS c(n),"
									   " (SELECT pg_catalog.count(*) FROM u) AS d(n)"));
	plan->lock_and_change = both;
}

/* Removes the sort order of select, whose rows are found by ctid. */
static Query *
without_order(Query *select)
{
	List	   *tlist = NIL;

	foreach_node(TargetEntry, entry, select->targetList)
	{
		entry->ressortgroupref = 0;
		if (!entry->resjunk)
			tlist = lappend(tlist, entry);
	}
	select->targetList = tlist;
	select->sortClause = NIL;
	select->limitCount = NULL;
	return select;
}

/*
 * Prints the statement for a shard: SELECT, with ctids; or UPDATE or DELETE, with "true" before its RETURNING
 * columns.
 */
static ShardWholeQuery *
print_work(QueueParts *parts, Query *query, bool returns_rows)
{
	TargetEntry *column = NULL;

	if (parts->change == NULL)
		return shard_whole_query_print_columns(without_order(without_keys(parts, query)),
											   list_make1(system_column(SelfItemPointerAttributeNumber, TIDOID)), false, &parts->reason);
	if (returns_rows)
		column = makeTargetEntry((Expr *) makeBoolConst(true, false), 1, NULL, false);
	return shard_whole_query_print_columns(parts->change, column ? list_make1(column) : NIL, false, &parts->reason);
}

/* ---------- the plan ---------- */

/* Combines the parameters of the plan, or their expressions in the query. */
static List *
all_params(List *candidates, Node *limit, List *work)
{
	return list_concat(lappend(list_copy(candidates), limit), work);
}

static PlannedStmt *
make_plan(QueueParts *parts, Query *query, ShardRouteOrigin *origin)
{
	ShardQueuePlan plan = {0};
	Query	   *candidates = candidates_query(parts->select);
	List	   *columns = list_make4(system_column(TableOidAttributeNumber, OIDOID),
									 system_column(SelfItemPointerAttributeNumber, TIDOID),
									 system_column(MinTransactionIdAttributeNumber, XIDOID),
									 system_column(MaxTransactionIdAttributeNumber, XIDOID));
	Node	   *limit = parts->select->limitCount;
	const RowMarkClause *mark = linitial_node(RowMarkClause, parts->select->rowMarks);
	ShardWholeQuery *text = shard_whole_query_print_columns(candidates, columns, true, &parts->reason);
	ShardWholeQuery *work = NULL;

	if (text != NULL)
		fill_sort(parts, &plan, candidates, text);
	plan.operation = query->commandType;
	plan.returns_rows = query->commandType == CMD_SELECT || query->returningList != NIL;
	plan.set_processed = query->canSetTag && query->commandType != CMD_SELECT;
	plan.skips = mark->waitPolicy == LockWaitSkip;
	plan.is_exclusive = mark->strength >= LCS_FORNOKEYUPDATE;
	plan.locking = locking_clause(mark);
	plan.relid = parts->relid;
	if (parts->reason == NULL && !shard_statement_user(query, &plan.check_as_user))
		refuse(parts, "several users");
	if (parts->reason == NULL)
		work = print_work(parts, query, plan.returns_rows);
	if (work == NULL)
		return NULL;

	plan.candidates = text->template;
	plan.columns = used_columns(candidates, parts->relid);
	plan.limit_param = list_length(text->params) + 1;
	fill_texts(&plan, parts, work);
	plan.outputs = shard_scan_convert_outputs(work->outputs, &plan.noutputs);
	origin->sources = all_params(text->sources, limit, work->sources);
	origin->keys = NIL;
	return shard_statement_make_scan(query, SHARD_QUEUE_NAME,
									 all_params(text->params, (Node *) expression_planner(copyObject((Expr *) limit)), work->params),
									 shard_plan_private_pack(SHARD_PLAN_QUEUE, &plan), plan.returns_rows, list_make1_oid(parts->relid));
}

PlannedStmt *
shard_queue_plan(Query *query, ShardRouteOrigin *origin)
{
	QueueParts	parts = {0};
	PlannedStmt *stmt = NULL;

	if (query->commandType == CMD_SELECT && query->rowMarks != NIL)
		check_select(&parts, query);
	else if ((query->commandType == CMD_UPDATE || query->commandType == CMD_DELETE) &&
			 (query->cteList != NIL || query->hasSubLinks || list_length(query->jointree->fromlist) > 1))
		check_change(&parts, query);
	else
		return NULL;
	if (parts.reason == NULL)
		stmt = make_plan(&parts, query, origin);
	if (stmt == NULL)
		ereport(DEBUG2,
				(errmsg_internal("statement does not take rows of a queue: %s", parts.reason)));
	return stmt;
}
