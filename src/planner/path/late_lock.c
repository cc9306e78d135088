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
#include "compat.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/prep.h"
#include "parser/parsetree.h"
#include "planner/path/fdw_planner.h"
#include "planner/path/late_lock.h"

/* Of the statement that is being planned. */
static ShardLateLocks late;

/* Adds the tables of which query locks rows, also in views: to tables those of which it skips rows, to others the rest. */
static void
add_tables(Query *query, List **tables, List **others)
{
	foreach_node(RowMarkClause, mark, query->rowMarks)
	{
		RangeTblEntry *rte = rt_fetch(mark->rti, query->rtable);
		List	  **list = mark->waitPolicy == LockWaitSkip ? tables : others;

		if (rte->rtekind == RTE_RELATION)
			*list = list_append_unique_oid(*list, rte->relid);
		else if (rte->rtekind == RTE_SUBQUERY)
			add_tables(rte->subquery, tables, others);
	}
}

static bool
find_tables_walker(Node *node, void *context)
{
	ShardLateLocks *locks = context;

	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;
		List	   *skipped = NIL;

		add_tables(query, &skipped, &locks->others);
		if (query->limitCount != NULL || query->limitOffset != NULL)
			locks->tables = list_concat_unique_oid(locks->tables, skipped);
		return query_tree_walker(query, find_tables_walker, context, 0);
	}
	return expression_tree_walker(node, find_tables_walker, context);
}

ShardLateLocks
shard_late_lock_enter(Query *query)
{
	ShardLateLocks outer = late;
	ShardLateLocks locks = {0};

	(void) find_tables_walker((Node *) query, &locks);
	late = locks;
	return outer;
}

void
shard_late_lock_leave(ShardLateLocks outer)
{
	late = outer;
}

/* Is relid one of tables, or a partition of one, at whatever level? */
static bool
is_among(Oid relid, List *tables)
{
	ListCell   *lc;

	if (list_member_oid(tables, relid))
		return true;
	foreach(lc, get_partition_ancestors(relid))
	{
		if (list_member_oid(tables, lfirst_oid(lc)))
			return true;
	}
	return false;
}

static bool
is_late(Oid relid)
{
	return late.tables != NIL && is_among(relid, late.tables) && (late.others == NIL || !is_among(relid, late.others));
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
