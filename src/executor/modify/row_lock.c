/*
 * row_lock.c
 *	  Locks one row on its node, by its ctid.
 *
 *	 scan without locks --> LockRows: one statement per row --> LIMIT
 *
 * If a row is found, it is the one that the scan has seen.  If it had been changed, no visible row
 * would have its ctid: the scan's cursor prevents the node from reusing the ctid.
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
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* State of one row mark of a query, in es_query_cxt. */
typedef struct RowLockState
{
	ShardRowStatement statement;
	const char *ctid;			/* its only parameter */
	MemoryContext cxt;			/* for the last row */
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

static RowLockState *
create_state(EState *estate, const ExecRowMark *mark)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(estate->es_query_cxt);
	RowLockState *state = palloc0(sizeof(RowLockState));
	Relation	rel = mark->relation;
	List	   *attnos = list_concat(list_make4_int(SelfItemPointerAttributeNumber, MinTransactionIdAttributeNumber,
												 MaxTransactionIdAttributeNumber, MinCommandIdAttributeNumber),
									 shard_dml_needed_attnos(rel, 1, NIL, true));

	state->statement.serverid = shard_map_server(RelationGetRelid(rel));
	state->statement.userid = shard_row_mark_userid(mark, estate);
	state->statement.label = shard_qualified_relation(RelationGetRelid(rel));
	state->statement.sql = shard_dml_lock_row(RelationGetRelid(rel), strength_of(mark->markType), mark->waitPolicy, attnos);
	state->statement.nparams = 1;
	state->statement.keeps_rows = true;
	state->statement.params = &state->ctid;
	state->statement.decoder = shard_row_statement_decoder(rel, attnos);
	state->cxt = AllocSetContextCreate(estate->es_query_cxt, "shardfdw locked row", ALLOCSET_SMALL_SIZES);
	shard_statement_view_pin(estate, state->statement.serverid, state->statement.userid);
	MemoryContextSwitchTo(oldcxt);
	return state;
}

/*
 * If another session has locked the row, or has changed it since the scan, slot stays empty.
 * Otherwise slot gets the whole row: core may evaluate the query again if a row of another table
 * has changed.
 */
void
shardRefetchForeignRow(EState *estate, ExecRowMark *mark, Datum rowid, TupleTableSlot *slot, bool *updated)
{
	RowLockState *state = mark->ermExtra;
	MemoryContext oldcxt;
	int64		nrows;

	if (state == NULL)
		mark->ermExtra = state = create_state(estate, mark);
	ExecClearTuple(slot);
	MemoryContextReset(state->cxt);
	oldcxt = MemoryContextSwitchTo(state->cxt);
	state->ctid = DatumGetCString(DirectFunctionCall1(tidout, rowid));
	nrows = shard_row_statement_run(&state->statement, estate, slot);
	MemoryContextSwitchTo(oldcxt);
	/* older minor releases let the query find the row's new version */
	if (nrows == 0 || !ItemPointerEquals(&slot->tts_tid, (ItemPointer) DatumGetPointer(rowid)))
	{
		ExecClearTuple(slot);
		return;
	}
	slot->tts_tableOid = RelationGetRelid(mark->relation);
	*updated = false;
}
