/*
 * modify.c
 *	  INSERT, UPDATE and DELETE of rows of one shard, as core's ModifyTable, COPY
 *	  FROM and tuple routing hand them over.
 *
 *	 INSERT --> row_sink (COPY stream)			nothing has to come back
 *			`-> INSERT ... RETURNING per row	RETURNING, check options, AFTER ROW
 *												triggers, ON CONFLICT DO NOTHING
 *	 UPDATE, DELETE --> by ctid, a statement per row
 *			`-> row_move						the new key belongs to another shard
 *
 * All of it runs on the transaction's writing connection of the shard's node.
 * The scan below an UPDATE or DELETE has locked the row there, so its ctid is
 * still right when the statement comes; a row that the same statement has
 * changed already is not found again, and is left alone as core does.
 *
 * Core does not check the partition constraint of foreign tables, but routing
 * and pruning rely on it, so it is checked here wherever core has not routed
 * the row itself.  Nor does it check row security policies of a parent for rows
 * that go to foreign tables (ExecInsert() does so for local ones alone).
 */
#include "postgres.h"

#include "catalog/option.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "compat.h"
#include "deparse/dml.h"
#include "executor/fdw_executor.h"
#include "executor/row_move.h"
#include "executor/row_sink.h"
#include "executor/statement_view.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "remote/command.h"
#include "remote/stream.h"
#include "tuple/decode.h"
#include "tuple/encode.h"
#include "tuple/type_io.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* One result relation; ri_FdwState. */
typedef struct ShardModifyState
{
	CmdType		operation;
	Relation	rel;
	Oid			serverid;
	Oid			userid;
	const char *label;			/* shard's name, for messages */
	bool		check_partition;	/* rows of INSERT and UPDATE must be checked */
	ShardRowMove *move;			/* UPDATE may move rows to other shards; NULL: it must not */
	const char *delete_sql;		/* deletes what moves */

	/* INSERT by COPY */
	ShardRowSink *sink;			/* NULL: statement per row */
	ShardRowTarget *target;		/* opened at the first row */
	List	   *attnos;			/* columns sent */

	/* statement per row */
	const char *sql;
	ShardEncoder *encoder;		/* columns sent; NULL: none */
	int			nparams;
	const char **params;		/* the ctid (UPDATE, DELETE), then the columns */
	AttrNumber	ctid_attno;		/* resno of the ctid in the plan's rows */
	ShardDecoder *decoder;		/* of the rows returned; NULL: none */
	int			nreturned;		/* their columns */
	MemoryContext row_cxt;		/* parameters and returned values of one row */
} ShardModifyState;

/* Decoder for the columns that a RETURNING clause for attnos brings (deparse/dml.h). */
static ShardDecoder *
create_returning_decoder(Relation rel, List *attnos)
{
	TupleDesc	desc = RelationGetDescr(rel);
	ShardDecodeColumn *columns = palloc0(sizeof(ShardDecodeColumn) * list_length(attnos));
	int			ncolumns = 0;
	ListCell   *lc;

	foreach(lc, attnos)
	{
		int			attno = lfirst_int(lc);
		ShardDecodeColumn *col = &columns[ncolumns++];

		if (attno == SelfItemPointerAttributeNumber)
		{
			col->kind = SHARD_DECODE_CTID;
			col->type = TIDOID;
			col->typmod = -1;
		}
		else
		{
			Form_pg_attribute att = TupleDescAttr(desc, attno - 1);

			col->kind = shard_type_io_binary_output(att->atttypid) ?
				SHARD_DECODE_BINARY : SHARD_DECODE_TEXT;
			col->target = attno - 1;
			col->type = att->atttypid;
			col->typmod = att->atttypmod;
		}
	}
	return shard_decode_create(desc, columns, ncolumns);
}

/* Sets up everything that a statement per row needs. */
static void
prepare_statement(ShardModifyState *state, EState *estate, const ShardModifyPlan *plan)
{
	Oid			relid = RelationGetRelid(state->rel);
	bool		by_ctid = (plan->operation != CMD_INSERT);
	int			natts = list_length(plan->target_attnos);

	switch (plan->operation)
	{
		case CMD_INSERT:
			state->sql = shard_dml_insert(relid, plan->target_attnos, 1, plan->do_nothing,
										  plan->returning_attnos);
			break;
		case CMD_UPDATE:
			state->sql = shard_dml_update(relid, plan->target_attnos, plan->returning_attnos);
			break;
		case CMD_DELETE:
			state->sql = shard_dml_delete(relid, plan->returning_attnos);
			natts = 0;
			break;
		default:
			elog(ERROR, "unexpected operation %d", (int) plan->operation);
	}

	if (natts > 0)
	{
		AttrNumber *attnos = palloc(sizeof(AttrNumber) * natts);
		int			i = 0;
		ListCell   *lc;

		foreach(lc, plan->target_attnos)
			attnos[i++] = (AttrNumber) lfirst_int(lc);
		state->encoder = shard_encode_create(RelationGetDescr(state->rel), attnos, natts);
	}
	state->nparams = natts + (by_ctid ? 1 : 0);
	state->params = palloc0(sizeof(char *) * Max(state->nparams, 1));

	state->nreturned = list_length(plan->returning_attnos);
	if (state->nreturned > 0)
		state->decoder = create_returning_decoder(state->rel, plan->returning_attnos);
	state->row_cxt = AllocSetContextCreate(estate->es_query_cxt, "shardfdw modified row",
										   ALLOCSET_SMALL_SIZES);
}

/*
 * An INSERT may go by COPY when nothing but the row's success matters: what
 * the node makes of it (defaults, triggers) is not looked at here, and it is
 * not conditional.
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
	state->serverid = GetForeignServerIdByRelId(RelationGetRelid(state->rel));
	state->userid = shard_result_userid(rinfo, estate);
	state->label = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(state->rel)),
											  RelationGetRelationName(state->rel));
	state->attnos = plan->target_attnos;
	shard_statement_view_pin(estate, state->serverid, state->userid);

	if (shard_modify_by_copy(plan, rinfo))
		state->sink = shard_row_sink_get(estate, mtstate->ps.plan == NULL);
	else
		prepare_statement(state, estate, plan);

	MemoryContextSwitchTo(oldcxt);
	return state;
}

/* ---- begin and end ---- */

void
shardBeginForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo,
						List *fdw_private, int subplan_index, int eflags)
{
	ShardModifyPlan *plan;
	ShardModifyState *state;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	plan = shard_dml_unpack(fdw_private);
	state = create_state(mtstate, rinfo, plan);

	if (plan->operation == CMD_INSERT)
	{
		/* Named directly in the statement: nothing has routed its rows. */
		state->check_partition = state->rel->rd_rel->relispartition;
	}
	else
	{
		Plan	   *subplan = outerPlanState(mtstate)->plan;

		state->check_partition = plan->check_partition && state->rel->rd_rel->relispartition;
		if (state->check_partition)
			state->move = shard_row_move_begin(mtstate->ps.state, rinfo, state->userid);
		state->ctid_attno = ExecFindJunkAttributeInTlist(subplan->targetlist, "ctid");
		if (!AttributeNumberIsValid(state->ctid_attno))
			elog(ERROR, "could not find junk ctid column");
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
}

/* Range table index that the Vars of a routed partition's RETURNING and check options have. */
static Index
returning_varno(ModifyTableState *mtstate, ResultRelInfo *rinfo)
{
	if (rinfo->ri_RangeTableIndex != 0)
		return rinfo->ri_RangeTableIndex;

	/* ExecInitPartitionInfo() maps the attributes but keeps the first result relation's varno */
	return mtstate->resultRelInfo[0].ri_RangeTableIndex;
}

/* COPY FROM a foreign table, or rows routed to it: there is no plan of ours. */
void
shardBeginForeignInsert(ModifyTableState *mtstate, ResultRelInfo *rinfo)
{
	ModifyTable *node = (ModifyTable *) mtstate->ps.plan;
	ShardModifyPlan plan = {0};
	ShardModifyState *state;
	TriggerDesc *triggers = rinfo->ri_TrigDesc;
	List	   *exprs = NIL;
	ListCell   *lc;

	/*
	 * A row that an UPDATE of the key moves would be inserted while, or before,
	 * the same statement updates its new shard, and so might be updated twice.
	 */
	if (rinfo->ri_FdwState != NULL || rinfo->ri_usesFdwDirectModify)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot route tuples into foreign table to be updated \"%s\"",
						RelationGetRelationName(rinfo->ri_RelationDesc))));

	plan.operation = CMD_INSERT;
	if (node != NULL && node->onConflictAction != ONCONFLICT_NONE)
	{
		if (node->onConflictAction != ONCONFLICT_NOTHING)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("ON CONFLICT DO UPDATE is not supported for shard \"%s\"",
							RelationGetRelationName(rinfo->ri_RelationDesc))));
		plan.do_nothing = true;
	}

	foreach(lc, rinfo->ri_WithCheckOptions)
		exprs = lappend(exprs, ((WithCheckOption *) lfirst(lc))->qual);
	exprs = lappend(exprs, rinfo->ri_returningList);
	plan.target_attnos = shard_dml_all_attnos(rinfo->ri_RelationDesc);
	plan.returning_attnos =
		shard_dml_needed_attnos(rinfo->ri_RelationDesc,
								node ? returning_varno(mtstate, rinfo) : 1,
								exprs, triggers && triggers->trig_insert_after_row);

	state = create_state(mtstate, rinfo, &plan);

	/* COPY FROM checks the constraint itself where it has not routed. */
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

/*
 * Runs the statement with returned columns; its row goes to slot.
 * Returns the number of rows that came back.
 */
static int64
run_returning(ShardModifyState *state, EState *estate, TupleTableSlot *slot)
{
	ShardStreamSpec spec = {0};
	ShardStream *stream;
	int64		nrows = 0;

	spec.serverid = state->serverid;
	spec.userid = state->userid;
	spec.sql = state->sql;
	spec.label = state->label;
	spec.ncolumns = shard_decode_nremote(state->decoder);
	spec.as_writer = true;
	spec.workers = -1;
	spec.nparams = state->nparams;
	spec.params = state->params;

	stream = shard_stream_open(state->row_cxt, shard_txn_snapshot(estate->es_query_cxt), &spec);
	for (;;)
	{
		ShardRow	row;
		ShardStreamStatus status = shard_stream_next(stream, &row);

		if (status == SHARD_STREAM_DONE)
			break;
		if (status == SHARD_STREAM_WAIT)
			shard_stream_wait(&stream, 1, NULL);
		else if (nrows++ == 0)
			shard_decode_row(state->decoder, &row, slot, state->row_cxt);
	}
	shard_stream_close(stream);
	return nrows;
}

/* Runs sql with the first nparams parameters; returns the number of rows changed. */
static int64
run_plain(ShardModifyState *state, const char *sql, int nparams)
{
	ShardCommand command = {0};
	int64		nrows;

	command.serverid = state->serverid;
	command.userid = state->userid;
	command.sql = sql;
	command.label = state->label;
	command.nparams = nparams;
	command.params = state->params;
	shard_command_run(&command, 1, SHARD_COMMAND_WRITE, false);
	nrows = strtoi64(PQcmdTuples(command.result), NULL, 10);
	PQclear(command.result);
	return nrows;
}

/* Text of the ctid of the plan's row. Memory: current context. */
static const char *
ctid_param(ShardModifyState *state, TupleTableSlot *planSlot)
{
	bool		isnull;
	Datum		ctid = ExecGetJunkAttribute(planSlot, state->ctid_attno, &isnull);

	if (isnull)
		elog(ERROR, "ctid is NULL");
	return DatumGetCString(DirectFunctionCall1(tidout, ctid));
}

/* A statement for one ctid has changed nrows rows: NULL when none. */
static TupleTableSlot *
one_row(ShardModifyState *state, int64 nrows, TupleTableSlot *slot)
{
	if (nrows > 1)
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("%lld rows of shard %s were changed instead of one",
						(long long) nrows, state->label),
				 errdetail("Node \"%s\" has several rows at one ctid.",
						   GetForeignServer(state->serverid)->servername)));
	return nrows == 1 ? slot : NULL;
}

/*
 * Changes one row by the state's statement.  Returns slot, with the returned
 * columns in it where there are any, or NULL when no row was changed.
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
		state->params[nfixed++] = ctid_param(state, planSlot);
	if (state->encoder != NULL)
		shard_encode_params(state->encoder, slot, state->params + nfixed);

	nrows = state->decoder ? run_returning(state, estate, slot) :
		run_plain(state, state->sql, state->nparams);
	MemoryContextSwitchTo(oldcxt);
	return one_row(state, nrows, slot);
}

/* UPDATE of a row whose new key belongs to another shard. */
static TupleTableSlot *
move_row(ShardModifyState *state, ResultRelInfo *rinfo, TupleTableSlot *slot,
		 TupleTableSlot *planSlot)
{
	MemoryContext oldcxt;

	if (state->move == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot move a row out of shard %s by UPDATE", state->label),
				 errdetail("The new partition key belongs to another shard."),
				 errhint("Delete the row, and insert it with its new key.")));

	MemoryContextReset(state->row_cxt);
	oldcxt = MemoryContextSwitchTo(state->row_cxt);
	if (state->delete_sql == NULL)
		state->delete_sql =
			MemoryContextStrdup(GetMemoryChunkContext(state),
								shard_dml_delete(RelationGetRelid(state->rel), NIL));
	state->params[0] = ctid_param(state, planSlot);
	slot = one_row(state, run_plain(state, state->delete_sql, 1), slot);
	MemoryContextSwitchTo(oldcxt);

	if (slot != NULL)
		shard_row_move_put(state->move, rinfo, slot);
	return slot;
}

/* ---- rows ---- */

TupleTableSlot *
shardExecForeignInsert(EState *estate, ResultRelInfo *rinfo,
					   TupleTableSlot *slot, TupleTableSlot *planSlot)
{
	ShardModifyState *state = rinfo->ri_FdwState;

	if (unlikely(rinfo->ri_WithCheckOptions != NIL))
		ExecWithCheckOptions(WCO_RLS_INSERT_CHECK, rinfo, slot, estate);
	if (unlikely(state->check_partition))
		(void) ExecPartitionCheck(rinfo, slot, estate, true);
	if (state->sink == NULL)
		return modify_row(state, estate, slot, planSlot);

	if (unlikely(state->target == NULL))
		state->target = shard_row_sink_open(state->sink, state->rel, state->userid, state->attnos);
	shard_row_sink_put(state->target, estate, slot);
	return slot;
}

/* Never needed, since the batch size is always 1; core wants it beside the batch size. */
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

			/* keep them dense, but lose none: core clears all of them */
			slots[i] = slots[ninserted];
			slots[ninserted++] = inserted;
		}
	}
	*numSlots = ninserted;
	return slots;
}

/* Core's batches would only copy rows once more: the COPY streams have buffers. */
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
