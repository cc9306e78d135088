/*
 * row_lock.c
 *	  Decides which rows of a scan LockRows locks and returns.
 *
 *	 scan without locks --> LockRows: one statement per row --> LIMIT
 *	 scan with locks	--> LockRows: one statement per row after the table was changed
 *
 * Core's LockRows leaves out rows that were changed since its statement began, and scans do not return rows that were
 * inserted since then (heap_lock_tuple() with es_output_cid).  Functions of the statement may have changed them, or the
 * client of a cursor, or the body of a loop.  So this file lets a row version pass only if the transaction has not
 * written it since the statement began.
 *
 * If a row is found by its ctid, it is the version that the scan has returned.  If the row had been changed, no visible
 * row would have its ctid.  The scan's cursor, or its row lock, prevents the node from reusing the ctid.  The scan may
 * have begun after the change.  Then the scan also returns new versions, and this file asks the node which transaction
 * has written the row.
 *
 * executor/scan/statement_view.c refuses rows that LockRows does not check.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/qualified.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "deparse/dml.h"
#include "executor/executor.h"
#include "executor/modify/row_statement.h"
#include "executor/scan/fdw_executor.h"
#include "executor/scan/scan.h"
#include "executor/scan/statement_view.h"
#include "foreign/foreign.h"
#include "plan/plan_private.h"
#include "plan/plan_walk.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* State of one row mark of a query, in es_query_cxt. */
typedef struct RowLockState
{
	ShardRowStatement statement;	/* locks and returns the row */
	ShardRowStatement is_own;	/* returns a row if the transaction has written the row */
	ShardRowStatement is_other; /* returns a row if it has not */
	const char *ctid;			/* the only parameter of each of them */
	bool		is_late;		/* the scan has not locked the row */
	bool		needs_row;		/* core may evaluate the query again with the row */
	MemoryContext cxt;			/* for the last row; NULL: the statements were not created yet */
} RowLockState;

static LockClauseStrength
strength_of(RowMarkType type)
{
	switch (type)
	{
		case ROW_MARK_KEYSHARE:
			return LCS_FORKEYSHARE;
		case ROW_MARK_SHARE:
			return LCS_FORSHARE;
		case ROW_MARK_NOKEYEXCLUSIVE:
			return LCS_FORNOKEYUPDATE;
		default:
			return LCS_FORUPDATE;
	}
}

/* Does the scan of the mark's relation (in context) leave the locks to LockRows? */
static bool
leaves_locks(Plan *plan, void *context)
{
	const ExecRowMark *mark = context;

	return IsA(plan, ForeignScan) && ((ForeignScan *) plan)->scan.scanrelid == mark->rti &&
		shard_plan_private_locks_late(((ForeignScan *) plan)->fdw_private);
}

/* Does the query lock rows of tables that are not ours?  If such a row has changed, core evaluates the query again. */
static bool
locks_others(const EState *estate)
{
	for (Index i = 0; i < estate->es_range_table_size; i++)
	{
		const ExecRowMark *mark = estate->es_rowmarks[i];

		if (mark != NULL && RowMarkRequiresRowShareLock(mark->markType) && mark->relation->rd_rel->relkind != RELKIND_FOREIGN_TABLE)
			return true;
	}
	return false;
}

static ShardRowStatement
create_check(const RowLockState *state, Oid relid, bool own)
{
	ShardRowStatement check = state->statement;

	check.sql = shard_dml_is_own(relid, own);
	check.decoder = NULL;
	return check;
}

static RowLockState *
create_state(EState *estate, ExecRowMark *mark)
{
	RowLockState *state = MemoryContextAllocZero(estate->es_query_cxt, sizeof(RowLockState));

	state->statement.serverid = shard_map_server(RelationGetRelid(mark->relation));
	state->statement.userid = shard_row_mark_userid(mark, estate);
	state->is_late = shard_plan_walk_statement(estate->es_plannedstmt, leaves_locks, mark);
	state->needs_row = locks_others(estate);
	if (state->is_late || shard_statement_view_writes(estate) || shard_statement_view_calls_volatile(estate))
		shard_statement_view_pin(estate, state->statement.serverid, state->statement.userid);
	return state;
}

/* Creates the statements.  Most relations need none, since no row of them has to be checked. */
static void
create_statements(RowLockState *state, EState *estate, const ExecRowMark *mark)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(estate->es_query_cxt);
	Relation	rel = mark->relation;
	List	   *attnos = list_concat(list_make4_int(SelfItemPointerAttributeNumber, MinTransactionIdAttributeNumber,
												 MaxTransactionIdAttributeNumber, MinCommandIdAttributeNumber),
									 shard_dml_needed_attnos(rel, 1, NIL, true));

	state->statement.label = shard_qualified_relation(RelationGetRelid(rel));
	state->statement.sql = shard_dml_lock_row(RelationGetRelid(rel), strength_of(mark->markType), mark->waitPolicy, attnos);
	state->statement.nparams = 1;
	state->statement.keeps_rows = true;
	state->statement.params = &state->ctid;
	state->statement.decoder = shard_row_statement_decoder(rel, attnos);
	state->is_own = create_check(state, RelationGetRelid(rel), true);
	state->is_other = create_check(state, RelationGetRelid(rel), false);
	state->cxt = AllocSetContextCreate(estate->es_query_cxt, "shardfdw locked row", ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(oldcxt);
}

/* Has the transaction written the row since the statement began?  If that is uncertain, raises. */
static bool
is_new(const RowLockState *state, EState *estate, Oid relid)
{
	if (shard_statement_view_was_changed(estate, relid) && shard_row_statement_run(&state->is_own, estate, NULL) > 0)
		shard_statement_view_refuse(relid, GetForeignServer(state->statement.serverid)->servername);
	return shard_row_statement_run(&state->is_other, estate, NULL) == 0;
}

/*
 * Locks the row and stores it in slot.  False: there is no such row any more, or another session
 * has locked it (SKIP LOCKED).
 */
static bool
lock_row(const RowLockState *state, EState *estate, const ExecRowMark *mark, ItemPointer ctid, TupleTableSlot *slot)
{
	/* older minor releases let the query find the row's new version */
	if (shard_row_statement_run(&state->statement, estate, slot) > 0 && ItemPointerEquals(&slot->tts_tid, ctid))
		return true;
	/* other sessions may change a row that is locked FOR KEY SHARE */
	if (!state->is_late && mark->markType == ROW_MARK_KEYSHARE)
		shard_statement_view_refuse(RelationGetRelid(mark->relation), GetForeignServer(state->statement.serverid)->servername);
	return false;
}

/*
 * If another session has locked the row, or if it was changed since the scan, slot stays empty.
 * Otherwise slot gets the whole row, if core may need it: core may evaluate the query again if a
 * row of another table has changed.
 */
void
shardRefetchForeignRow(EState *estate, ExecRowMark *mark, Datum rowid, TupleTableSlot *slot, bool *updated)
{
	RowLockState *state = mark->ermExtra;
	Oid			relid = RelationGetRelid(mark->relation);
	MemoryContext oldcxt;
	bool		is_changed;
	bool		passes;

	if (state == NULL)
		mark->ermExtra = state = create_state(estate, mark);
	*updated = false;
	ExecStoreAllNullTuple(slot);
	is_changed = shard_statement_view_is_changed(estate, relid, state->statement.serverid, state->statement.userid);
	if (!state->is_late && !state->needs_row && !is_changed)
		return;

	if (state->cxt == NULL)
		create_statements(state, estate, mark);
	ExecClearTuple(slot);
	MemoryContextReset(state->cxt);
	oldcxt = MemoryContextSwitchTo(state->cxt);
	state->ctid = DatumGetCString(DirectFunctionCall1(tidout, rowid));
	passes = lock_row(state, estate, mark, (ItemPointer) DatumGetPointer(rowid), slot) &&
		!(is_changed && shard_statement_view_began_late(estate, relid) && is_new(state, estate, relid));
	MemoryContextSwitchTo(oldcxt);
	if (passes)
		slot->tts_tableOid = relid;
	else
		ExecClearTuple(slot);
}
