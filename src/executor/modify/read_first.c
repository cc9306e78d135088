/*
 * read_first.c
 *	  Runs statements that must read all rows that they need before they write.
 *
 *	 DELETE FROM t WHERE v = (SELECT max(v) FROM t AS z WHERE z.g = t.g)
 *
 * PostgreSQL shows each sub-select the table as it was before the statement.  If the statement has a snapshot of its
 * nodes, its queries use that snapshot (executor/scan/statement_view.c).  There is no such snapshot if the transaction
 * has written to a node before, and at REPEATABLE READ and above.  In these cases:
 *
 * 1. Scans that need no values of other parts of the plan are started, so that the nodes have their queries before
 * anything is written.
 *
 * 2. All rows that the statement will write are computed first, and stored in a tuplestore below each ModifyTable.
 *
 * This gives the rows that core would compute one by one.  There are two exceptions: rows computed by volatile
 * functions, which must see what has been written so far, and by sub-selects that lock rows, which leave out what has
 * been written so far.  Then step 2 is omitted.
 *
 * If the statement calls VOLATILE functions or has such triggers, scans that lock rows are started first, too.
 * Otherwise the scans of later shards would see what the functions have written.
 *
 * Step 2 is also done if the plan reads the written table again for each row of another one, which a nested loop does
 * in its inner side.  Such a scan locks rows, so it has no snapshot, and would find what the statement has written.
 *
 * A part that reads a table later (RETURNING, triggers, a SELECT after WITH) is refused if it would see what was
 * written (ShardStreamView).
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "executor/modify/read_first.h"
#include "executor/scan/fdw_executor.h"
#include "executor/scan/scan.h"
#include "executor/scan/statement_view.h"
#include "foreign/fdwapi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "plan/plan_functions.h"
#include "plan/plan_walk.h"
#include "plan/statement_entry.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

/* Rows that are computed before the first of them is written. */
typedef struct StoredSource
{
	ShardStatementEntry entry;	/* in sources; the key is the plan below a ModifyTable */
	Tuplestorestate *store;		/* NULL: all rows were returned */
	TupleTableSlot *stored;		/* a row as stored */
	TupleTableSlot *slot;		/* the same row as ModifyTable expects it */
} StoredSource;

static slist_head sources = SLIST_STATIC_INIT(sources);

/* Does the statement have no snapshot for what it reads after it has written? */
static bool
needs_rows_first(EState *estate)
{
	return shard_statement_view_writes(estate) && shard_statement_view_lacks_snapshot() && shard_statement_view_reads(estate);
}

static bool
is_shard_scan(PlanState *ps)
{
	return IsA(ps, ForeignScanState) && ((ForeignScan *) ps->plan)->operation == CMD_SELECT &&
		((ForeignScanState *) ps)->fdwroutine->IterateForeignScan == shardIterateForeignScan;
}

/* Is a scan that locks rows started several times?  context points to true if this part of the plan is. */
static bool
locks_again(PlanState *ps, void *context)
{
	bool		again = *(bool *) context;

	if (is_shard_scan(ps))
		return again && ((const ShardScanState *) ((ForeignScanState *) ps)->fdw_state)->plan->locks_rows;
	if (IsA(ps, NestLoopState) || IsA(ps, CustomScanState))
		again = true;
	else if (IsA(ps, MaterialState) && bms_is_empty(ps->lefttree->plan->extParam))
		again = false;
	return planstate_tree_walker(ps, locks_again, &again);
}

/* Does the source of a ModifyTable start a scan of the written table several times? */
static bool
reads_target_again(PlanState *ps)
{
	bool		again = false;
	CmdType		operation = IsA(ps, ModifyTableState) ? ((ModifyTable *) ps->plan)->operation : CMD_UNKNOWN;

	return (operation == CMD_UPDATE || operation == CMD_DELETE) && outerPlanState(ps) != NULL &&
		locks_again(outerPlanState(ps), &again);
}

/* The same for any ModifyTable of the statement. */
static bool
reads_targets_again(EState *estate, PlanState *top)
{
	foreach_ptr(PlanState, part, estate->es_auxmodifytables)
	{
		if (reads_target_again(part))
			return true;
	}
	return reads_target_again(top);
}

bool
shard_read_first_is_needed(const QueryDesc *desc)
{
	return needs_rows_first(desc->estate) || shard_statement_view_locks_first(desc->estate) ||
		reads_targets_again(desc->estate, desc->planstate);
}

/* ---- scans ---- */

/* Starts scans that depend on nothing: those that lock rows (context points to true), or the others. */
static bool
start_scans(PlanState *ps, void *context)
{
	ForeignScanState *node = (ForeignScanState *) ps;
	bool		locks = *(bool *) context;

	if (is_shard_scan(ps))
	{
		const ShardScanState *state = node->fdw_state;

		if (state->plan->locks_rows == locks && !shard_param_has_exec(state->params))
			shard_scan_start(node);
	}
	return planstate_tree_walker(ps, start_scans, context);
}

/* ---- rows to be written ---- */

static TupleTableSlot *
next_stored(PlanState *ps)
{
	StoredSource *stored = shard_statement_entry_find(&sources, ps->state, PointerGetDatum(ps));

	Assert(stored != NULL);
	if (stored->store == NULL)
		return NULL;
	if (!tuplestore_gettupleslot(stored->store, true, false, stored->stored))
	{
		tuplestore_end(stored->store);
		stored->store = NULL;
		return NULL;
	}
	return stored->slot == stored->stored ? stored->slot : ExecCopySlot(stored->slot, stored->stored);
}

static bool
is_lock_rows(Plan *plan, void *context)
{
	return IsA(plan, LockRows);
}

/*
 * May the source be computed before its rows are written?  Its sub-selects are elsewhere in the
 * statement.  Those that lock rows must see what the statement has written so far, to leave it out.
 */
static bool
may_be_stored(const PlannedStmt *stmt, PlanState *source)
{
	int			kinds = SHARD_FUNCTIONS_NONE;

	foreach_ptr(Plan, subplan, stmt->subplans)
	{
		if (shard_plan_walk(subplan, is_lock_rows, NULL))
			return false;
	}
	if (!shard_plan_has_functions(stmt))
		return true;
	(void) shard_plan_walk(source->plan, shard_plan_add_functions, &kinds);
	foreach_ptr(Plan, subplan, stmt->subplans)
		(void) shard_plan_walk(subplan, shard_plan_add_functions, &kinds);
	return (kinds & SHARD_FUNCTIONS_VOLATILE) == 0;
}

void
shard_read_first_store(EState *estate, PlanState *source)
{
	TupleDesc	desc = ExecGetResultType(source);
	bool		isfixed;
	const TupleTableSlotOps *ops = ExecGetResultSlotOps(source, &isfixed);
	StoredSource *stored;

	/* the top of a rule's statement is also in es_auxmodifytables */
	if (shard_statement_entry_find(&sources, estate, PointerGetDatum(source)) != NULL)
		return;
	stored = shard_statement_entry_add(&sources, estate, PointerGetDatum(source), sizeof(StoredSource));
	stored->store = tuplestore_begin_heap(false, false, work_mem);
	stored->stored = ExecInitExtraTupleSlot(estate, desc, &TTSOpsMinimalTuple);
	stored->slot = isfixed ? ExecInitExtraTupleSlot(estate, desc, ops) : stored->stored;
	for (;;)
	{
		TupleTableSlot *slot;

		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(estate);
		slot = ExecProcNode(source);
		if (TupIsNull(slot))
			break;
		tuplestore_puttupleslot(stored->store, slot);
	}
	/* not ExecSetExecProcNode(): EXPLAIN ANALYZE has counted the rows when they were computed */
	source->ExecProcNode = next_stored;
}

static void
store_source_of(EState *estate, PlanState *ps)
{
	/* a part that nodes run as a whole has no rows before it writes */
	if (IsA(ps, ModifyTableState) && outerPlanState(ps) != NULL &&
		bms_is_empty(((ModifyTable *) ps->plan)->fdwDirectModifyPlans) && may_be_stored(estate->es_plannedstmt, outerPlanState(ps)))
		shard_read_first_store(estate, outerPlanState(ps));
}

void
shard_read_first(EState *estate, PlanState *top)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(estate->es_query_cxt);
	bool		locks = false;

	if (needs_rows_first(estate) || reads_targets_again(estate, top))
	{
		(void) start_scans(top, &locks);
		/* core lists the last part of WITH first, and a part may read those before it */
		for (int i = list_length(estate->es_auxmodifytables) - 1; i >= 0; i--)
			store_source_of(estate, list_nth(estate->es_auxmodifytables, i));
		store_source_of(estate, top);
	}
	locks = true;
	if (shard_statement_view_locks_first(estate))
		(void) start_scans(top, &locks);
	MemoryContextSwitchTo(oldcxt);
}
