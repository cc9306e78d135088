/*
 * late_lock.c
 *	  Decides which rows are locked late.
 *
 * A scan of a shard with FOR UPDATE locks all rows that it reads.  With LIMIT above the scan, these are more rows than
 * the statement returns.  A worker that takes jobs from a queue (LIMIT ... FOR UPDATE SKIP LOCKED) would leave no jobs
 * to other workers.  So such rows are read without a lock.  Core's LockRows then locks each row on its node
 * (executor/modify/row_lock.c) until LIMIT has enough rows.
 *
 * Rows are locked late only with SKIP LOCKED.  If another session has changed a row since it was read, no row has its
 * ctid any more.  Then the row is skipped like a locked row.  Without SKIP LOCKED, core waits for the other session and
 * goes on with the new row version.
 *
 * LockRows also leaves out rows that the transaction has changed since the statement began: in a function of the
 * statement, in the body of a loop over its rows, or between two FETCHes.  So LockRows calls row_lock.c for each row,
 * even if the scan has locked the row.  The ctid identifies the row.
 *
 * There are two exceptions (ROW_MARK_COPY).  If the statement also locks rows of local tables, core may evaluate it
 * again with a row of ours, and row_lock.c would fetch each row separately.  So rows are not checked unless functions,
 * a loop or a cursor require it.  A foreign table that is not updatable may be a view, which has no ctid.  If a client
 * fetches unchecked rows in parts, executor/modify/row_lock.c refuses the rows that it cannot return.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "catalog/partition.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "nodes/plannodes.h"
#include "optimizer/prep.h"
#include "parser/parsetree.h"
#include "plan/plan_functions.h"
#include "planner/path/fdw_planner.h"
#include "planner/path/late_lock.h"
#include "query_parts.h"

/* Tables of the statement that is being planned. */
static ShardLateLocks late;

/*
 * Collects the tables whose rows the query locks, including tables inside views.  Tables locked with SKIP LOCKED go
 * to *tables, all others to *others.
 */
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

/* Is one of the tables not on nodes? */
static bool
has_local(List *tables)
{
	foreach_oid(relid, tables)
	{
		if (shard_map_get_levels(relid, false) == NULL)
			return true;
	}
	return false;
}

ShardLateLocks
shard_late_lock_enter(Query *query, bool in_parts)
{
	ShardLateLocks outer = late;
	ShardLateLocks locks = {0};

	foreach_node(Query, level, shard_query_levels(query))
	{
		List	   *skipped = NIL;

		add_tables(level, &skipped, &locks.others);
		if (level->limitCount != NULL || level->limitOffset != NULL)
			locks.tables = list_concat_unique_oid(locks.tables, skipped);
		locks.unchecked |= has_local(skipped) || has_local(locks.others);
	}
	locks.unchecked = locks.unchecked && !in_parts && query->commandType == CMD_SELECT && !query->hasModifyingCTE &&
		(shard_plan_functions_of_query(query) & SHARD_FUNCTIONS_VOLATILE) == 0;
	late = locks;
	return outer;
}

void
shard_late_lock_leave(ShardLateLocks outer)
{
	late = outer;
}

/* Is relid one of tables, or a direct or indirect partition of one? */
static bool
is_among(Oid relid, List *tables)
{
	if (list_member_oid(tables, relid))
		return true;
	foreach_oid(ancestor, get_partition_ancestors(relid))
	{
		if (list_member_oid(tables, ancestor))
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
	if (strength == LCS_NONE ||
		(!is_late(rte->relid) && (late.unchecked || !shard_option_table_bool(rte->relid, "updatable", true))))
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
shard_late_lock_checks(PlannerInfo *root, Index rtindex)
{
	const PlanRowMark *mark = get_plan_rowmark(root->rowMarks, rtindex);

	return mark != NULL && mark->strength != LCS_NONE && mark->markType != ROW_MARK_COPY;
}

bool
shard_late_lock_marks(PlannerInfo *root, Index rtindex)
{
	return shard_late_lock_checks(root, rtindex) && is_late(planner_rt_fetch(rtindex, root)->relid);
}
