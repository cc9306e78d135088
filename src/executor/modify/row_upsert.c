/*
 * row_upsert.c
 *	  ON CONFLICT DO UPDATE of rows that are inserted one by one.
 *
 * Core's ModifyTable gets the rows, routes them, fires BEFORE INSERT triggers, and prepares the
 * projections of DO UPDATE.  But it leaves conflicts of foreign tables to their wrapper:
 *
 *	 INSERT ... ON CONFLICT (columns) DO NOTHING RETURNING ctid, ...		modify.c
 *	   |`-> a row: inserted
 *	   `--> none: SELECT ... FOR NO KEY UPDATE by the columns <--.
 *			  |`-> none: deleted since, insert again -------------'
 *			  `--> on the coordinator: policies, WHERE, SET, BEFORE UPDATE triggers, policies
 *				   UPDATE ... WHERE ctid = ... RETURNING ctid, ...
 *				   AFTER UPDATE triggers
 *
 * Core then continues as with an inserted row.  But AFTER INSERT triggers must not fire.  Core
 * checks a flag in the result relation's own copy of the trigger descriptor, so the flag is
 * switched off for that row.
 *
 * Rows that the statement has written are recognized by their ctids: row versions made by a
 * transaction stay in place until it ends.  The ctids that triggers or other parts of the statement
 * write are not known.  If these write to the table, all rows of the transaction count as written.
 *
 * The node runs the actions of foreign keys (ON UPDATE) after each row, and PostgreSQL at the end of
 * the statement.  If such an action may have changed rows of this shard, no further row is proposed.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "catalog/option.h"
#include "compat.h"
#include "commands/trigger.h"
#include "deparse/dml.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "executor/scan/nested_write.h"
#include "executor/nodeModifyTable.h"
#include "executor/modify/row_upsert.h"
#include "executor/tied_parts.h"
#include "hash_table.h"
#include "miscadmin.h"
#include "tuple/encode.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/*
 * How often INSERT may find a row that SELECT then does not find.  A higher number cannot be caused
 * by concurrent deletes.
 */
#define MAX_TRIES 1000

struct ShardRowUpsert
{
	ModifyTableState *mtstate;
	ResultRelInfo *rinfo;
	bool		after_insert;	/* the flag in the trigger descriptor before it was switched off */
	HTAB	   *written;		/* ctids that this statement has written */
	ShardNestedWatch *watch;	/* detects nested statements that write to the table */
	ShardRowStatement is_own;	/* asks whether this transaction has written a row */
	int			ntries;			/* for the current row */

	List	   *conflict_attnos;
	bool	   *nulls;			/* which of them are NULL in the current row */
	List	   *read_attnos;	/* ctid, all columns */
	ShardEncoder *keys;
	ShardRowStatement lock;

	List	   *returning_attnos;
	ShardEncoder *columns;		/* that UPDATE sets; NULL: none */
	ShardRowStatement update;	/* sql is NULL before the first UPDATE */

	Bitmapset  *updated;		/* attnos of columns that were updated ... */
	Bitmapset  *untied;			/* ... and of those for which no foreign key changes rows of the shard */

	MemoryContext existing_cxt; /* for the existing row */
	MemoryContext row_cxt;		/* for parameters and values of the UPDATE */
};

ShardRowUpsert *
shard_row_upsert_begin(ModifyTableState *mtstate, ResultRelInfo *rinfo,
					   const ShardRowStatement *insert, List *conflict_attnos,
					   List *returning_attnos)
{
	EState	   *estate = mtstate->ps.state;
	MemoryContext oldcxt = MemoryContextSwitchTo(estate->es_query_cxt);
	ShardRowUpsert *upsert = palloc0(sizeof(ShardRowUpsert));
	Relation	rel = rinfo->ri_RelationDesc;

	upsert->mtstate = mtstate;
	upsert->rinfo = rinfo;
	upsert->after_insert = rinfo->ri_TrigDesc && rinfo->ri_TrigDesc->trig_insert_after_row;
	upsert->written = shard_hash_table_create("shardfdw written rows", 64, sizeof(ItemPointerData), sizeof(ItemPointerData),
											  estate->es_query_cxt);

	upsert->watch =
		shard_nested_write_watch(estate, RelationGetRelid(mtstate->rootResultRelInfo->ri_RelationDesc));
	upsert->is_own = *insert;
	upsert->is_own.sql = shard_dml_is_own(RelationGetRelid(rel), true);
	upsert->is_own.nparams = 1;
	upsert->is_own.keeps_rows = true;
	upsert->is_own.decoder = NULL;

	upsert->conflict_attnos = conflict_attnos;
	upsert->nulls = palloc0(sizeof(bool) * list_length(conflict_attnos));
	upsert->keys = shard_encode_create_list(RelationGetDescr(rel), conflict_attnos);
	upsert->read_attnos =
		lcons_int(SelfItemPointerAttributeNumber, shard_dml_needed_attnos(rel, 1, NIL, true));
	upsert->lock = *insert;
	upsert->lock.nparams = list_length(conflict_attnos);
	upsert->lock.keeps_rows = true;
	upsert->lock.params = palloc0(sizeof(char *) * upsert->lock.nparams);
	upsert->lock.sql = shard_dml_lock(RelationGetRelid(rel), conflict_attnos, upsert->nulls,
									  upsert->read_attnos);
	upsert->lock.decoder = shard_row_statement_decoder(rel, upsert->read_attnos);

	upsert->returning_attnos = returning_attnos;
	upsert->update = *insert;
	upsert->update.sql = NULL;
	upsert->existing_cxt = AllocSetContextCreate(estate->es_query_cxt, "shardfdw existing row",
												 ALLOCSET_SMALL_SIZES);
	upsert->row_cxt = AllocSetContextCreate(estate->es_query_cxt, "shardfdw updated row",
											ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(oldcxt);
	return upsert;
}

/* ---- the proposed row ---- */

/* Raises if foreign keys may have changed rows of the shard because of the columns updated so far. */
static void
check_untied(ShardRowUpsert *upsert)
{
	ShardTiedChange change = {.shard = RelationGetRelid(upsert->rinfo->ri_RelationDesc), .userid = upsert->update.userid, .updates = true};
	MemoryContext oldcxt;
	int			attno = -1;

	if (upsert->updated == NULL)
		return;
	oldcxt = MemoryContextSwitchTo(upsert->mtstate->ps.state->es_query_cxt);
	while ((attno = bms_next_member(upsert->updated, attno)) >= 0)
		change.columns = lappend(change.columns, (char *) shard_option_column_name(change.shard, attno));
	if (shard_tied_parts_reach(&change, list_make1_oid(change.shard)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot insert further rows into shard %s by this INSERT ... ON CONFLICT", upsert->lock.label),
				 errdetail("The statement goes row by row. It has updated columns to which a foreign key with an ON UPDATE action refers, and the node may already have changed other rows of the shard."),
				 errhint("Use a separate statement for each row, or UPDATE.")));
	upsert->untied = bms_add_members(upsert->untied, upsert->updated);
	upsert->updated = NULL;
	MemoryContextSwitchTo(oldcxt);
}

void
shard_row_upsert_start(ShardRowUpsert *upsert)
{
	check_untied(upsert);
	upsert->ntries = 0;
	if (upsert->after_insert)
		upsert->rinfo->ri_TrigDesc->trig_insert_after_row = true;
}

static void
note_written(ShardRowUpsert *upsert, TupleTableSlot *slot)
{
	(void) hash_search(upsert->written, &slot->tts_tid, HASH_ENTER, NULL);
}

void
shard_row_upsert_inserted(ShardRowUpsert *upsert, TupleTableSlot *slot)
{
	note_written(upsert, slot);
}

/* ---- the existing row ---- */

/* Returns the text of the SELECT for the current row.  It differs if keys are NULL. */
static const char *
lock_sql(ShardRowUpsert *upsert, TupleTableSlot *proposed)
{
	bool		any_null = false;
	int			n = 0;

	foreach_int(attno, upsert->conflict_attnos)
	{
		(void) slot_getattr(proposed, attno, &upsert->nulls[n]);
		any_null |= upsert->nulls[n++];
	}
	if (!any_null)
		return upsert->lock.sql;
	return shard_dml_lock(RelationGetRelid(upsert->rinfo->ri_RelationDesc), upsert->conflict_attnos,
						  upsert->nulls, upsert->read_attnos);
}

/* Returns the text of a ctid.  Memory: current context. */
static const char *
ctid_text(ItemPointer ctid)
{
	return psprintf("(%u,%u)", ItemPointerGetBlockNumber(ctid), ItemPointerGetOffsetNumber(ctid));
}

/*
 * Raises, like core, if this statement has written the row.  If nested statements have written to
 * the table, any row of this transaction counts as such.
 */
static void
check_not_written(ShardRowUpsert *upsert, EState *estate, ItemPointer ctid)
{
	bool		written = hash_search(upsert->written, ctid, HASH_FIND, NULL) != NULL;

	if (!written && shard_nested_write_seen(upsert->watch))
	{
		const char *param = ctid_text(ctid);

		upsert->is_own.params = &param;
		written = shard_row_statement_run(&upsert->is_own, estate, NULL) > 0;
	}
	if (written)
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("%s command cannot affect row a second time", "ON CONFLICT DO UPDATE"),
				 errhint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values.")));
}

bool
shard_row_upsert_lock(ShardRowUpsert *upsert, EState *estate, TupleTableSlot *proposed)
{
	TupleTableSlot *existing = upsert->rinfo->ri_onConflict->oc_Existing;
	ShardRowStatement lock = upsert->lock;
	MemoryContext oldcxt;
	int64		nrows;

	CHECK_FOR_INTERRUPTS();
	if (++upsert->ntries > MAX_TRIES)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not find the row of shard %s that a new one is in conflict with",
						upsert->lock.label),
				 errdetail("It was there for INSERT and not for SELECT, %d times.", MAX_TRIES)));

	ExecClearTuple(existing);
	MemoryContextReset(upsert->existing_cxt);
	oldcxt = MemoryContextSwitchTo(upsert->existing_cxt);
	lock.sql = lock_sql(upsert, proposed);
	shard_encode_params(upsert->keys, proposed, lock.params);
	nrows = shard_row_statement_run(&lock, estate, existing);
	if (nrows > 1)
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("%lld rows of shard %s are in conflict with a new one instead of one",
						(long long) nrows, upsert->lock.label)));
	if (nrows == 1)
		check_not_written(upsert, estate, &existing->tts_tid);
	MemoryContextSwitchTo(oldcxt);
	existing->tts_tableOid = RelationGetRelid(upsert->rinfo->ri_RelationDesc);
	return nrows == 1;
}

/* ---- DO UPDATE ---- */

/* Returns the columns that UPDATE sends: those of SET, or all if triggers may change any. */
static List *
updated_attnos(ShardRowUpsert *upsert, EState *estate)
{
	ResultRelInfo *rinfo = upsert->rinfo;
	Bitmapset  *updated;
	List	   *result = NIL;

	if (rinfo->ri_TrigDesc && rinfo->ri_TrigDesc->trig_update_before_row)
		return shard_dml_all_attnos(rinfo->ri_RelationDesc);
	updated = ExecGetUpdatedCols(rinfo, estate);
	foreach_int(attno, shard_dml_all_attnos(rinfo->ri_RelationDesc))
	{
		if (bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, updated))
			result = lappend_int(result, attno);
	}
	return result;
}

/* Prepares the UPDATE at the first conflict.  Core prepares what DO UPDATE sets on this shard only then. */
static void
prepare_update(ShardRowUpsert *upsert, EState *estate)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(estate->es_query_cxt);
	Relation	rel = upsert->rinfo->ri_RelationDesc;
	List	   *attnos = updated_attnos(upsert, estate);

	upsert->columns = shard_encode_create_list(RelationGetDescr(rel), attnos);
	upsert->update.nparams = list_length(attnos) + 1;
	upsert->update.params = palloc0(sizeof(char *) * upsert->update.nparams);
	upsert->update.decoder = shard_row_statement_decoder(rel, upsert->returning_attnos);
	upsert->update.sql = shard_dml_update(RelationGetRelid(rel), attnos, upsert->returning_attnos);
	upsert->update.sql = shard_dml_with_types(upsert->update.sql, RelationGetRelid(rel), attnos);
	MemoryContextSwitchTo(oldcxt);
}

/*
 * Replaces the locked row on the node by slot's row.  Returns slot, or the slot for system columns,
 * with the returned columns.
 */
static TupleTableSlot *
send_update(ShardRowUpsert *upsert, EState *estate, ItemPointer ctid, TupleTableSlot *slot)
{
	MemoryContext oldcxt;
	int64		nrows;

	if (upsert->update.sql == NULL)
		prepare_update(upsert, estate);
	MemoryContextReset(upsert->row_cxt);
	oldcxt = MemoryContextSwitchTo(upsert->row_cxt);
	upsert->update.params[0] = ctid_text(ctid);
	if (upsert->columns != NULL)
		shard_encode_params(upsert->columns, slot, upsert->update.params + 1);
	slot = shard_row_statement_slot(&upsert->update, slot);
	nrows = shard_row_statement_run(&upsert->update, estate, slot);
	MemoryContextSwitchTo(oldcxt);
	if (nrows == 0)
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("tuple to be updated was already modified by an operation triggered by the current command"),
				 errhint("Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.")));
	note_written(upsert, slot);
	return slot;
}

/* Notes the columns in which slot, the new version of the existing row, has other values. */
static void
note_updated(ShardRowUpsert *upsert, TupleTableSlot *existing, TupleTableSlot *slot)
{
	TupleDesc	desc = RelationGetDescr(upsert->rinfo->ri_RelationDesc);

	slot_getallattrs(existing);
	slot_getallattrs(slot);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && !bms_is_member(att->attnum, upsert->untied) &&
			(existing->tts_isnull[i] != slot->tts_isnull[i] ||
			 (!slot->tts_isnull[i] && !datum_image_eq(existing->tts_values[i], slot->tts_values[i], att->attbyval, att->attlen))))
			upsert->updated = bms_add_member(upsert->updated, att->attnum);
	}
}

/* Does what core's ExecUpdate() does before it changes the row.  False: the row must not be changed. */
static bool
finish_new_row(ShardRowUpsert *upsert, EState *estate, HeapTuple old, TupleTableSlot *slot)
{
	ResultRelInfo *rinfo = upsert->rinfo;
	Relation	rel = rinfo->ri_RelationDesc;
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	ExecMaterializeSlot(slot);
	if (rinfo->ri_TrigDesc && rinfo->ri_TrigDesc->trig_update_before_row &&
		!shard_br_update_triggers(estate, &upsert->mtstate->mt_epqstate, rinfo, old, slot))
		return false;

	slot->tts_tableOid = RelationGetRelid(rel);
	if (constr != NULL && constr->has_generated_stored)
		ExecComputeStoredGenerated(rinfo, estate, slot, CMD_UPDATE);
	if (rel->rd_rel->relispartition && !ExecPartitionCheck(rinfo, slot, estate, false))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("invalid ON UPDATE specification"),
				 errdetail("The result tuple would appear in a different partition than the original tuple.")));
	if (rinfo->ri_WithCheckOptions != NIL)
		ExecWithCheckOptions(WCO_RLS_UPDATE_CHECK, rinfo, slot, estate);
	return true;
}

/* Evaluates WHERE and SET over both rows.  NULL: the row must not be changed. */
static TupleTableSlot *
make_new_row(ShardRowUpsert *upsert, EState *estate, TupleTableSlot *proposed)
{
	ResultRelInfo *rinfo = upsert->rinfo;
	ShardConflictState *conflict = rinfo->ri_onConflict;
	ExprContext *econtext = upsert->mtstate->ps.ps_ExprContext;

	econtext->ecxt_scantuple = conflict->oc_Existing;
	econtext->ecxt_innertuple = proposed;
	econtext->ecxt_outertuple = NULL;
	if (rinfo->ri_WithCheckOptions != NIL)
	{
		/* before WHERE, whose functions may reveal the row; minor releases before November 2026 check after WHERE */
		ExecWithCheckOptions(WCO_RLS_CONFLICT_CHECK, rinfo, conflict->oc_Existing, estate);
		ExecWithCheckOptions(SHARD_WCO_VIEW_CONFLICT_CHECK, rinfo, conflict->oc_Existing, estate);
	}
	if (!ExecQual(conflict->oc_WhereClause, econtext))
	{
		InstrCountFiltered1(&upsert->mtstate->ps, 1);
		return NULL;
	}
	return ExecProject(conflict->oc_ProjInfo);
}

TupleTableSlot *
shard_row_upsert_update(ShardRowUpsert *upsert, EState *estate, TupleTableSlot *proposed)
{
	ResultRelInfo *rinfo = upsert->rinfo;
	TupleTableSlot *existing = rinfo->ri_onConflict->oc_Existing;
	TupleTableSlot *slot;
	MemoryContext oldcxt;
	HeapTuple	old;

	InstrCountTuples2(&upsert->mtstate->ps, 1);
	slot = make_new_row(upsert, estate, proposed);
	if (slot == NULL)
		return NULL;

	oldcxt = MemoryContextSwitchTo(upsert->existing_cxt);
	old = ExecCopySlotHeapTuple(existing);
	old->t_self = existing->tts_tid;
	old->t_tableOid = existing->tts_tableOid;
	MemoryContextSwitchTo(oldcxt);

	if (!finish_new_row(upsert, estate, old, slot))
		return NULL;
	oldcxt = MemoryContextSwitchTo(estate->es_query_cxt);
	note_updated(upsert, existing, slot);
	MemoryContextSwitchTo(oldcxt);
	slot = send_update(upsert, estate, &old->t_self, slot);

	slot->tts_tableOid = RelationGetRelid(rinfo->ri_RelationDesc);
	ExecARUpdateTriggers(estate, rinfo, NULL, NULL, NULL, old, slot, NIL, NULL, false);
	if (upsert->after_insert)
		rinfo->ri_TrigDesc->trig_insert_after_row = false;
	return slot;
}
