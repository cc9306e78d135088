/*
 * late_lock.c
 *	  Which rows are locked late.
 *
 * A scan of a shard locks what it reads, so with LIMIT above it more than the rows that come
 * out.  Who takes jobs from a queue (LIMIT ... FOR UPDATE SKIP LOCKED) would leave none to others.
 * So such rows are read without a lock, and core's LockRows has each of them locked on its node
 * (executor/modify/row_lock.c) until LIMIT has enough.
 *
 * Only with SKIP LOCKED: a row that somebody has changed meanwhile is not found by its ctid any
 * more, and is left out as if he had it locked still.  Without, core waits for him and goes
 * on with the new row.
 */
#include "postgres.h"

#include "catalog/partition.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/prep.h"
#include "parser/parsetree.h"
#include "planner/path/fdw_planner.h"
#include "planner/path/late_lock.h"

/* Tables of the statement that is being planned.  OidList. */
static List *late_tables = NIL;

/* Adds the tables of which query locks rows that nobody else has locked, also in views. */
static void
add_tables(Query *query, List **tables)
{
	ListCell   *lc;

	foreach(lc, query->rowMarks)
	{
		RowMarkClause *mark = lfirst_node(RowMarkClause, lc);
		RangeTblEntry *rte = rt_fetch(mark->rti, query->rtable);

		if (mark->waitPolicy == LockWaitSkip && rte->rtekind == RTE_RELATION)
			*tables = list_append_unique_oid(*tables, rte->relid);
		else if (mark->waitPolicy == LockWaitSkip && rte->rtekind == RTE_SUBQUERY)
			add_tables(rte->subquery, tables);
	}
}

static bool
find_tables_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;

		if (query->limitCount != NULL || query->limitOffset != NULL)
			add_tables(query, context);
		return query_tree_walker(query, find_tables_walker, context, 0);
	}
	return expression_tree_walker(node, find_tables_walker, context);
}

List *
shard_late_lock_enter(Query *query)
{
	List	   *outer = late_tables;
	List	   *tables = NIL;

	(void) find_tables_walker((Node *) query, &tables);
	late_tables = tables;
	return outer;
}

void
shard_late_lock_leave(List *outer)
{
	late_tables = outer;
}

/* Is relid one of the tables, or a partition of one, at whatever level? */
static bool
is_late(Oid relid)
{
	ListCell   *lc;

	if (late_tables == NIL)
		return false;
	if (list_member_oid(late_tables, relid))
		return true;
	foreach(lc, get_partition_ancestors(relid))
	{
		if (list_member_oid(late_tables, lfirst_oid(lc)))
			return true;
	}
	return false;
}

RowMarkType
shardGetForeignRowMarkType(RangeTblEntry *rte, LockClauseStrength strength)
{
	if (strength == LCS_NONE || !is_late(rte->relid))
		return ROW_MARK_COPY;
	switch (strength)
	{
		case LCS_FORKEYSHARE:
			return ROW_MARK_KEYSHARE;
		case LCS_FORSHARE:
			return ROW_MARK_SHARE;
		case LCS_FORNOKEYUPDATE:
			return ROW_MARK_NOKEYEXCLUSIVE;
		default:
			return ROW_MARK_EXCLUSIVE;
	}
}

bool
shard_late_lock_marks(PlannerInfo *root, Index rtindex)
{
	const PlanRowMark *mark = get_plan_rowmark(root->rowMarks, rtindex);

	return mark != NULL && mark->strength != LCS_NONE && mark->markType != ROW_MARK_COPY;
}
