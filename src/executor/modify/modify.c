/*
 * modify.c
 *	  INSERT, UPDATE and DELETE of single rows of a shard, called by core's ModifyTable, COPY FROM
 *	  and tuple routing.
 *
 *	 INSERT --> row_sink (COPY stream)			nothing must be returned
 *		   `-> INSERT ... RETURNING per row		RETURNING, check options, AFTER ROW
 *				 |								triggers, ON CONFLICT DO NOTHING
 *				 `-> row_upsert					ON CONFLICT DO UPDATE: the row exists
 *	 UPDATE, DELETE --> by ctid, a statement per row
 *		   `-> row_move							the new key belongs to another shard
 *		   `-> row_defer						deferrable keys, checked at the end of the statement
 *
 * Everything runs on the transaction's writer on the shard's node.  The scan below an UPDATE or
 * DELETE has locked the row there, so its ctid is still valid when the statement arrives.  A row
 * that the same statement has already changed is not found again, and is skipped, as in core.  For
 * this, the ctids of changed rows are kept if a join may return a row twice.
 *
 * PostgreSQL runs the actions of foreign keys at the end of the statement.  A node runs them after
 * each row, so they may delete or update rows that the statement reaches later.  Their ctids are
 * not found, either, which is an error.
 *
 * Core does not check the partition constraint of foreign tables, but routing and pruning rely on
 * it.  So it is checked here, unless core has routed the row itself.  Core does not check row
 * security policies of a parent for rows that go to foreign tables, either (ExecInsert() does so
 * only for local ones).  So they are checked here, too.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/option.h"
#include "catalog/qualified.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "deparse/dml.h"
#include "deparse/remote_table.h"
#include "executor/instrument.h"
#include "executor/modify/row_defer.h"
#include "executor/modify/row_move.h"
#include "executor/modify/row_refer.h"
#include "executor/modify/row_sink.h"
#include "executor/modify/row_statement.h"
#include "executor/modify/row_upsert.h"
#include "executor/scan/fdw_executor.h"
#include "executor/scan/nested_write.h"
#include "executor/scan/statement_view.h"
#include "foreign/foreign.h"
#include "hash_table.h"
#include "miscadmin.h"
#include "plan/plan_private.h"
#include "plan/plan_walk.h"
#include "tuple/encode.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* One result relation, in ri_FdwState. */
typedef struct ShardModifyState
{
	CmdType		operation;
	Relation	rel;
	bool		check_partition;	/* check the partition constraint of rows of INSERT and UPDATE */
	ShardRowMove *move;			/* UPDATE may move rows to other shards; NULL: it must not */
	ShardRowDefer *defer;		/* keys of the shard are checked at the end of the statement; NULL: with each row */
	const char *delete_sql;		/* deletes rows that are moved */
	ShardRowReferrers *referrers;	/* foreign keys to rows of this shard; set together with delete_sql */
	bool		returns_system;		/* RETURNING contains a system column other than tableoid */

	/* INSERT by COPY */
	ShardRowSink *sink;			/* NULL: use a statement per row */
	ShardRowTarget *target;		/* opened at the first row; if it stays NULL, use a statement per row */
	List	   *attnos;			/* columns sent */

	/* statement per row; its parameters are the ctid (UPDATE, DELETE), then the columns */
	ShardRowStatement statement;	/* its server, user and label are used for all statements */
	ShardEncoder *encoder;		/* columns sent; NULL: none */
	AttrNumber	ctid_attno;		/* resno of the ctid in the plan's rows */
	ShardRowUpsert *upsert;		/* ON CONFLICT DO UPDATE; NULL: none */
	ItemPointerData ctid;		/* UPDATE, DELETE: the current row */
	HTAB	   *changed;		/* ctids of rows that were changed; NULL: the plan returns no row twice */
	bool		fires_before;	/* UPDATE, DELETE: there are BEFORE ROW triggers */
	ShardNestedWatch *watch;	/* UPDATE, DELETE: watches the table */
	PlanState  *do_nothing;		/* ON CONFLICT DO NOTHING: counts the conflicts; NULL: otherwise */
	MemoryContext row_cxt;		/* parameters and returned values of the current row */
} ShardModifyState;

/* Prepares everything that a statement per row needs. */
static void
prepare_statement(ShardModifyState *state, EState *estate, const ShardModifyPlan *plan)
{
	Oid			relid = RelationGetRelid(state->rel);
	bool		by_ctid = (plan->operation != CMD_INSERT);

	switch (plan->operation)
	{
		case CMD_INSERT:
			state->statement.sql = shard_dml_insert(relid, plan->target_attnos, plan->do_nothing,
												plan->conflict_attnos, plan->returning_attnos);
			state->statement.sql = shard_dml_with_types(state->statement.sql, relid, plan->target_attnos);
			break;
		case CMD_UPDATE:
			state->statement.sql = shard_dml_update(relid, plan->target_attnos, plan->returning_attnos);
			state->statement.sql = shard_dml_with_types(state->statement.sql, relid, plan->target_attnos);
			break;
		case CMD_DELETE:
			state->statement.sql = shard_dml_delete(relid, plan->returning_attnos);
			break;
		default:
			elog(ERROR, "unexpected operation %d", (int) plan->operation);
	}

	if (plan->operation != CMD_DELETE)
		state->encoder = shard_encode_create_list(RelationGetDescr(state->rel), plan->target_attnos);
	state->statement.nparams = (state->encoder ? list_length(plan->target_attnos) : 0) + (by_ctid ? 1 : 0);
	state->statement.params = palloc0(sizeof(char *) * Max(state->statement.nparams, 1));

	state->statement.decoder = shard_row_statement_decoder(state->rel, plan->returning_attnos);
	foreach_int(attno, plan->returning_attnos)
		state->returns_system |= attno < 0 && attno != TableOidAttributeNumber;
	if (state->statement.decoder != NULL && shard_decode_has_header(state->statement.decoder))
		state->statement.returned = ExecInitExtraTupleSlot(estate, RelationGetDescr(state->rel), &TTSOpsHeapTuple);
	state->row_cxt = AllocSetContextCreate(estate->es_query_cxt, "shardfdw modified row",
										   ALLOCSET_SMALL_SIZES);
}

/*
 * May an INSERT use COPY?  Only if no result is needed: the coordinator does not need the values
 * that the node has stored (defaults, triggers), and the row is not inserted conditionally.
 */
bool
shard_modify_by_copy(const ShardModifyPlan *plan, const ResultRelInfo *rinfo)
{
	return plan->operation == CMD_INSERT &&
		plan->returning_attnos == NIL &&
		!plan->do_nothing &&
		rinfo->ri_WithCheckOptions == NIL &&
		!(rinfo->ri_TrigDesc && rinfo->ri_TrigDesc->trig_insert_after_row) &&
		plan->target_attnos != NIL;
}

static ShardModifyState *
create_state(ModifyTableState *mtstate, ResultRelInfo *rinfo, const ShardModifyPlan *plan)
{
	EState	   *estate = mtstate->ps.state;
	MemoryContext oldcxt = MemoryContextSwitchTo(estate->es_query_cxt);
	ShardModifyState *state = palloc0(sizeof(ShardModifyState));

	state->operation = plan->operation;
	state->rel = rinfo->ri_RelationDesc;
	state->statement.serverid = shard_map_server(RelationGetRelid(state->rel));
	state->statement.userid = shard_result_userid(rinfo, estate);
	state->statement.label =
		shard_qualified_relation(RelationGetRelid(state->rel));
	state->attnos = plan->target_attnos;
	shard_statement_view_add_triggers(estate, rinfo->ri_TrigDesc);
	shard_statement_view_pin(estate, state->statement.serverid, state->statement.userid);

	if (shard_modify_by_copy(plan, rinfo))
		state->sink = shard_row_sink_get(estate, mtstate->ps.plan == NULL);
	else
		prepare_statement(state, estate, plan);

	MemoryContextSwitchTo(oldcxt);
	return state;
}

/* ---- begin and end ---- */

/* Is this a plan that may return a row of one of its tables twice? */
static bool
is_join(Plan *plan, void *context)
{
	return IsA(plan, NestLoop) || IsA(plan, MergeJoin) || IsA(plan, HashJoin) || IsA(plan, CustomScan) ||
		(IsA(plan, ForeignScan) && ((ForeignScan *) plan)->scan.scanrelid == 0);
}

void
shardBeginForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo,
						List *fdw_private, int subplan_index, int eflags)
{
	ShardModifyPlan *plan;
	ShardModifyState *state;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	plan = shard_plan_private_unpack(SHARD_PLAN_MODIFY, fdw_private);
	state = create_state(mtstate, rinfo, plan);

	if (plan->operation == CMD_INSERT)
	{
		/* named directly in the statement, so nothing has routed its rows */
		state->check_partition = state->rel->rd_rel->relispartition;
	}
	else
	{
		Plan	   *subplan = outerPlanState(mtstate)->plan;

		state->check_partition = plan->check_partition && state->rel->rd_rel->relispartition;
		if (state->check_partition)
			state->move = shard_row_move_begin(mtstate, rinfo, state->statement.userid);
		if (plan->operation == CMD_UPDATE)
			state->defer = shard_row_defer_begin(mtstate->ps.state, RelationGetRelid(state->rel));
		state->watch = shard_nested_write_watch(mtstate->ps.state, RelationGetRelid(state->rel));
		if (rinfo->ri_TrigDesc != NULL)
			state->fires_before = plan->operation == CMD_UPDATE ? rinfo->ri_TrigDesc->trig_update_before_row :
				rinfo->ri_TrigDesc->trig_delete_before_row;
		state->ctid_attno = ExecFindJunkAttributeInTlist(subplan->targetlist, "ctid");
		if (!AttributeNumberIsValid(state->ctid_attno))
			elog(ERROR, "could not find junk ctid column");
		if (shard_plan_walk(subplan, is_join, NULL))
			state->changed = shard_hash_table_create("shardfdw changed rows", 64, sizeof(ItemPointerData), sizeof(ItemPointerData),
													 mtstate->ps.state->es_query_cxt);
	}
	rinfo->ri_FdwState = state;
}

void
shardEndForeignModify(EState *estate, ResultRelInfo *rinfo)
{
	ShardModifyState *state = rinfo->ri_FdwState;

	if (state == NULL)
		return;
	rinfo->ri_FdwState = NULL;
	if (state->sink != NULL)
		shard_row_sink_release(state->sink);
	if (state->move != NULL)
		shard_row_move_end(state->move);
	if (state->defer != NULL)
		shard_row_defer_end(state->defer);
}

/* Returns the range table index of the Vars in a routed partition's RETURNING and check options. */
static Index
returning_varno(ModifyTableState *mtstate, ResultRelInfo *rinfo)
{
	if (rinfo->ri_RangeTableIndex != 0)
		return rinfo->ri_RangeTableIndex;

	/* ExecInitPartitionInfo() maps the attributes but keeps the first result relation's varno */
	return mtstate->resultRelInfo[0].ri_RangeTableIndex;
}

/* Returns the columns of the shard that ON CONFLICT names; NIL: none. */
static List *
conflict_attnos(ModifyTableState *mtstate, ResultRelInfo *rinfo)
{
	ModifyTable *node = (ModifyTable *) mtstate->ps.plan;
	Oid			parent = RelationGetRelid(mtstate->rootResultRelInfo->ri_RelationDesc);
	Oid			shard = RelationGetRelid(rinfo->ri_RelationDesc);
	List	   *result = NIL;

	foreach_int(attno, shard_plan_private_unpack_conflict(node->exclRelTlist))
		result = lappend_int(result, get_attnum(shard, get_attname(parent, attno, false)));
	return result;
}

/* For COPY FROM to a foreign table, and rows routed to it.  There is no plan of this extension. */
void
shardBeginForeignInsert(ModifyTableState *mtstate, ResultRelInfo *rinfo)
{
	ModifyTable *node = (ModifyTable *) mtstate->ps.plan;
	ShardModifyPlan plan = {0};
	ShardModifyState *state;
	TriggerDesc *triggers = rinfo->ri_TrigDesc;
	List	   *exprs = NIL;
	bool		upsert = false;
	bool		shows_row = false;

	/*
	 * An UPDATE of the key would insert the row that it moves before it has updated all rows of the
	 * new shard, and so might update that row twice.
	 */
	if (rinfo->ri_FdwState != NULL || rinfo->ri_usesFdwDirectModify)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot route tuples into foreign table to be updated \"%s\"",
						RelationGetRelationName(rinfo->ri_RelationDesc))));

	plan.operation = CMD_INSERT;
	if (node != NULL && node->onConflictAction != ONCONFLICT_NONE)
	{
		plan.do_nothing = true;
		plan.conflict_attnos = conflict_attnos(mtstate, rinfo);
		upsert = node->onConflictAction != ONCONFLICT_NOTHING;
		if (upsert && plan.conflict_attnos == NIL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("ON CONFLICT DO UPDATE is not supported for shard \"%s\"",
							RelationGetRelationName(rinfo->ri_RelationDesc))));
	}

	foreach_ptr(WithCheckOption, check, rinfo->ri_WithCheckOptions)
	{
		exprs = lappend(exprs, check->qual);
		shows_row |= shard_dml_check_shows_row(check);
	}
	exprs = lappend(exprs, rinfo->ri_returningList);
	plan.target_attnos = shard_dml_all_attnos(rinfo->ri_RelationDesc);
	plan.returning_attnos =
		shard_dml_needed_attnos(rinfo->ri_RelationDesc,
								node ? returning_varno(mtstate, rinfo) : 1, exprs,
								shows_row ||
								(triggers && (triggers->trig_insert_after_row ||
											  (upsert && triggers->trig_update_after_row))));
	if (upsert && !list_member_int(plan.returning_attnos, SelfItemPointerAttributeNumber))
		plan.returning_attnos = lcons_int(SelfItemPointerAttributeNumber, plan.returning_attnos);

	state = create_state(mtstate, rinfo, &plan);
	if (upsert)
	{
		state->defer = shard_row_defer_begin(mtstate->ps.state, RelationGetRelid(state->rel));
		state->upsert = shard_row_upsert_begin(mtstate, rinfo, &state->statement,
											   plan.conflict_attnos, plan.returning_attnos);
	}
	else if (plan.do_nothing)
		state->do_nothing = &mtstate->ps;

	/* COPY FROM itself checks the constraint of rows that it has not routed */
	state->check_partition = node != NULL && state->rel->rd_rel->relispartition &&
		triggers && triggers->trig_insert_before_row;
	rinfo->ri_FdwState = state;
}

void
shardEndForeignInsert(EState *estate, ResultRelInfo *rinfo)
{
	shardEndForeignModify(estate, rinfo);
}

/* ---- statement per row ---- */

/* Called before a row is changed. */
static void
defer_keys(ShardModifyState *state)
{
	if (state->defer != NULL)
		shard_row_defer_shard(state->defer, RelationGetRelid(state->rel), state->statement.serverid,
							  state->statement.userid, state->statement.label);
}

/* Stores the ctid in the plan's row, and returns its text.  Memory: current context. */
static const char *
ctid_param(ShardModifyState *state, TupleTableSlot *planSlot)
{
	bool		isnull;
	Datum		ctid = ExecGetJunkAttribute(planSlot, state->ctid_attno, &isnull);

	if (isnull)
		elog(ERROR, "ctid is NULL");
	state->ctid = *(ItemPointer) DatumGetPointer(ctid);
	return DatumGetCString(DirectFunctionCall1(tidout, ctid));
}

/* Does the node still have the row whose ctid is the statement's first parameter? */
static bool
row_exists(const ShardModifyState *state)
{
	ShardRowStatement look = state->statement;

	look.sql = shard_dml_lock_row(RelationGetRelid(state->rel), LCS_FORKEYSHARE, LockWaitBlock, list_make1_int(SelfItemPointerAttributeNumber));
	look.nparams = 1;
	look.decoder = NULL;
	look.keeps_rows = true;
	return shard_row_statement_run(&look, NULL, NULL) > 0;
}

/*
 * The row to be updated or deleted was not changed.  It was locked, so no other session has changed
 * it.  If the statement itself has changed it already (a join returned it twice, or another part has
 * deleted it), or if a trigger of the node has skipped it, core skips it, too.  If a function or
 * trigger has changed it, core raises.  If a foreign key has changed it, core would have changed it
 * before.  Parts whose tables such foreign keys connect are refused (cte_order.c).
 */
static void
check_not_changed(const ShardModifyState *state)
{
	bool		updates = state->operation == CMD_UPDATE;

	if (shard_nested_write_ran(state->watch))
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 updates ?
				 errmsg("tuple to be updated was already modified by an operation triggered by the current command") :
				 errmsg("tuple to be deleted was already modified by an operation triggered by the current command"),
				 errhint("Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.")));
	if ((state->changed != NULL && hash_search(state->changed, &state->ctid, HASH_FIND, NULL) != NULL) ||
		shard_nested_write_deletes_twice(state->watch))
	{
		/* core does not fire them, but it has just done so for the foreign table */
		if (state->fires_before)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 updates ?
					 errmsg("cannot update a row of shard %s twice, because it has BEFORE ROW triggers", state->statement.label) :
					 errmsg("cannot delete a row of shard %s twice, because it has BEFORE ROW triggers", state->statement.label),
					 errdetail("The triggers would run again for the row, which the statement has changed already."),
					 errhint("Write the statement so that a join, or another part of it, does not return the row again.")));
		return;
	}
	if (row_exists(state))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 updates ?
			 errmsg("cannot update a row of shard %s that the node has changed before", state->statement.label) :
			 errmsg("cannot delete a row of shard %s that the node has changed before", state->statement.label),
			 errdetail("The statement goes row by row. An action of a foreign key (ON DELETE, ON UPDATE) or a trigger on node \"%s\" has changed the row because of another row.",
					   GetForeignServer(state->statement.serverid)->servername),
			 errhint("First change the rows that refer to other rows, in a separate statement.")));
}

/*
 * Returns the result of a statement for one ctid that has changed nrows rows: slot, or NULL if it
 * has changed none.
 */
static TupleTableSlot *
one_row(ShardModifyState *state, int64 nrows, TupleTableSlot *slot)
{
	if (nrows > 1)
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("%lld rows of shard %s were changed instead of one",
						(long long) nrows, state->statement.label),
				 errdetail("Node \"%s\" has several rows at one ctid.",
						   GetForeignServer(state->statement.serverid)->servername)));
	if (state->operation == CMD_INSERT)
		return nrows == 1 ? slot : NULL;
	if (nrows == 0)
	{
		check_not_changed(state);
		return NULL;
	}
	if (state->changed != NULL)
		(void) hash_search(state->changed, &state->ctid, HASH_ENTER, NULL);
	return slot;
}

/*
 * Changes one row with the state's statement.  Returns slot, or the slot for system columns, with
 * the returned columns, if any.  Returns NULL if no row was changed.
 */
static TupleTableSlot *
modify_row(ShardModifyState *state, EState *estate, TupleTableSlot *slot,
		   TupleTableSlot *planSlot)
{
	int			nfixed = 0;
	int64		nrows;
	MemoryContext oldcxt;

	MemoryContextReset(state->row_cxt);
	oldcxt = MemoryContextSwitchTo(state->row_cxt);

	if (state->operation != CMD_INSERT)
		state->statement.params[nfixed++] = ctid_param(state, planSlot);
	if (state->encoder != NULL)
		shard_encode_params(state->encoder, slot, state->statement.params + nfixed);

	slot = shard_row_statement_slot(&state->statement, slot);
	nrows = shard_row_statement_run(&state->statement, estate, slot);
	slot = one_row(state, nrows, slot);
	MemoryContextSwitchTo(oldcxt);
	return slot;
}

/* INSERT ... ON CONFLICT DO UPDATE of one row. */
static TupleTableSlot *
upsert_row(ShardModifyState *state, EState *estate, TupleTableSlot *slot,
		   TupleTableSlot *planSlot)
{
	shard_row_upsert_start(state->upsert);
	for (;;)
	{
		TupleTableSlot *inserted = modify_row(state, estate, slot, planSlot);

		if (inserted != NULL)
		{
			shard_row_upsert_inserted(state->upsert, inserted);
			return inserted;
		}
		if (shard_row_upsert_lock(state->upsert, estate, slot))
			return shard_row_upsert_update(state->upsert, estate, slot);
	}
}

/* UPDATE of a row whose new key belongs to another shard. */
static TupleTableSlot *
move_row(ShardModifyState *state, ResultRelInfo *rinfo, TupleTableSlot *slot,
		 TupleTableSlot *planSlot)
{
	ShardRowStatement delete;
	int64		nrows = 0;
	MemoryContext oldcxt;

	if (state->move == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot move a row out of shard %s by UPDATE", state->statement.label),
				 errdetail("The new partition key belongs to another shard."),
				 errhint("Delete the row, and insert it with its new key.")));

	if (state->returns_system)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot return a system column of a row that UPDATE moves to another shard of \"%s\"",
						RelationGetRelationName(rinfo->ri_RootResultRelInfo->ri_RelationDesc)),
				 errdetail("The row is inserted there when the statement ends."),
				 errhint("Read the row by SELECT after the UPDATE.")));

	MemoryContextReset(state->row_cxt);
	if (state->delete_sql == NULL)
	{
		oldcxt = MemoryContextSwitchTo(GetMemoryChunkContext(state));
		state->referrers = shard_row_refer_find(&state->statement, shard_dml_remote_name(RelationGetRelid(state->rel)));
		state->delete_sql = shard_dml_delete(RelationGetRelid(state->rel), NIL);
		MemoryContextSwitchTo(oldcxt);
	}
	oldcxt = MemoryContextSwitchTo(state->row_cxt);
	state->statement.params[0] = ctid_param(state, planSlot);
	delete = state->statement;
	delete.sql = state->delete_sql;
	delete.nparams = 1;
	delete.decoder = NULL;
	if (shard_row_refer_check(state->referrers, &state->statement, RelationGetRelationName(rinfo->ri_RootResultRelInfo->ri_RelationDesc)))
		nrows = shard_row_statement_run(&delete, NULL, NULL);
	slot = one_row(state, nrows, slot);
	MemoryContextSwitchTo(oldcxt);

	if (slot != NULL)
		shard_row_move_put(state->move, rinfo, slot);
	return slot;
}

/* ---- rows ---- */

/*
 * Called before the first row that may go by COPY.  Core counts a row as soon as
 * shardExecForeignInsert() has returned it.  But only the end of a COPY says that the node has
 * stored fewer rows (a trigger there may drop some).  If a node may do so, rows are sent one by
 * one, as in postgres_fdw.
 */
static void
choose_way(ShardModifyState *state, EState *estate)
{
	const ShardRowStatement *statement = &state->statement;
	MemoryContext oldcxt = MemoryContextSwitchTo(estate->es_query_cxt);
	ShardModifyPlan plan = {0};

	/* shard_modify_by_copy() has verified that it needs no more than this */
	plan.operation = CMD_INSERT;
	plan.target_attnos = state->attnos;
	if (!shard_row_sink_is_guarded(state->sink) &&
		shard_remote_table_may_skip_rows(RelationGetRelid(state->rel), statement->serverid, statement->userid))
		prepare_statement(state, estate, &plan);
	else
		state->target = shard_row_sink_open(state->sink, state->rel, statement->userid, state->attnos);
	MemoryContextSwitchTo(oldcxt);
}

TupleTableSlot *
shardExecForeignInsert(EState *estate, ResultRelInfo *rinfo,
					   TupleTableSlot *slot, TupleTableSlot *planSlot)
{
	ShardModifyState *state = rinfo->ri_FdwState;

	if (unlikely(rinfo->ri_WithCheckOptions != NIL))
		ExecWithCheckOptions(WCO_RLS_INSERT_CHECK, rinfo, slot, estate);
	if (unlikely(state->check_partition))
		(void) ExecPartitionCheck(rinfo, slot, estate, true);
	if (state->upsert != NULL)
	{
		defer_keys(state);
		return upsert_row(state, estate, slot, planSlot);
	}
	if (state->sink != NULL && unlikely(state->target == NULL) && state->row_cxt == NULL)
		choose_way(state, estate);
	if (state->target == NULL)
	{
		TupleTableSlot *inserted = modify_row(state, estate, slot, planSlot);

		if (inserted == NULL && state->do_nothing != NULL)
			InstrCountTuples2(state->do_nothing, 1);
		return inserted;
	}

	shard_row_sink_put(state->target, estate, slot);
	return slot;
}

/* Never called, since the batch size is always 1.  Core requires it together with the batch size. */
TupleTableSlot **
shardExecForeignBatchInsert(EState *estate, ResultRelInfo *rinfo, TupleTableSlot **slots,
							TupleTableSlot **planSlots, int *numSlots)
{
	int			ninserted = 0;

	for (int i = 0; i < *numSlots; i++)
	{
		if (shardExecForeignInsert(estate, rinfo, slots[i], planSlots ? planSlots[i] : NULL))
		{
			TupleTableSlot *inserted = slots[i];

			/* keeps them dense without losing one, since core clears all of them */
			slots[i] = slots[ninserted];
			slots[ninserted++] = inserted;
		}
	}
	*numSlots = ninserted;
	return slots;
}

/* Core's batches would only copy rows once more, since the COPY streams have buffers. */
int
shardGetForeignModifyBatchSize(ResultRelInfo *rinfo)
{
	return 1;
}

TupleTableSlot *
shardExecForeignUpdate(EState *estate, ResultRelInfo *rinfo,
					   TupleTableSlot *slot, TupleTableSlot *planSlot)
{
	ShardModifyState *state = rinfo->ri_FdwState;

	if (rinfo->ri_WithCheckOptions != NIL)
		ExecWithCheckOptions(WCO_RLS_UPDATE_CHECK, rinfo, slot, estate);
	defer_keys(state);
	if (state->check_partition && !ExecPartitionCheck(rinfo, slot, estate, false))
		return move_row(state, rinfo, slot, planSlot);
	return modify_row(state, estate, slot, planSlot);
}

TupleTableSlot *
shardExecForeignDelete(EState *estate, ResultRelInfo *rinfo,
					   TupleTableSlot *slot, TupleTableSlot *planSlot)
{
	return modify_row(rinfo->ri_FdwState, estate, slot, planSlot);
}

/* ---- properties ---- */

int
shardIsForeignRelUpdatable(Relation rel)
{
	if (!shard_option_table_bool(RelationGetRelid(rel), "updatable", true))
		return 0;
	return (1 << CMD_INSERT) | (1 << CMD_UPDATE) | (1 << CMD_DELETE);
}
