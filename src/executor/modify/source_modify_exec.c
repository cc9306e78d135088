/*
 * source_modify_exec.c
 *	  INSERT ...  ON CONFLICT and MERGE with rows that are computed on the coordinator.
 *
 *	 child plan --> key --> arrays of its shard		until the child ends
 *	 statement over the arrays --> each shard		all nodes in parallel
 *	 RETURNING <-- streams							or only the counts
 *
 * The child has ended before anything is written, so it sees nothing of that.  All statements of a
 * node run on the transaction's writer, one after the other.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/table.h"
#include "catalog/pg_trigger.h"
#include "catalog/route.h"
#include "catalog/shard_map.h"
#include "catalog/trigger.h"
#include "compat.h"
#include "deparse/table_check.h"
#include "executor/explain.h"
#include "executor/modify/row_arrays.h"
#include "executor/modify/source_modify_exec.h"
#include "executor/scan/asked_shards.h"
#include "executor/scan/nested_write.h"
#include "executor/scan/param.h"
#include "executor/scan/statement_view.h"
#include "executor/shard_run.h"
#include "executor/tied_parts.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "plan/plan_private.h"
#include "tuple/encode.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"

typedef struct SourceState
{
	CustomScanState css;
	ShardSourcePlan *plan;
	PlanState  *child;
	Relation	parent;
	ShardRouting *routing;
	const ShardMap *map;		/* map of the routing */
	ShardParams *params;		/* parameters after the arrays */
	int			nscalars;
	ShardEncoder *encoder;
	ShardRowArrays **rows;		/* by shardno; NULL: no rows */
	MemoryContext row_cxt;		/* for texts of a source row */

	ShardPendingRows *pending;	/* rows that are not written or not returned yet */
	bool		started;
	ShardRun	run;			/* decoder NULL: no columns are returned */
	Oid		   *relids;			/* shards of the targets of run */
	int64		nsource;		/* number of rows of the child, for EXPLAIN */
} SourceState;

/* ---- source rows ---- */

/* Returns the shardno of a source row; -1 if the row must be skipped. */
static int
route_row(SourceState *state, TupleTableSlot *slot)
{
	Datum		values[2 * PARTITION_MAX_KEYS];
	bool		nulls[2 * PARTITION_MAX_KEYS];
	int			nkeys = 0;
	int			shardno;

	foreach_int(column, state->plan->key_columns)
	{
		values[nkeys] = slot_getattr(slot, state->plan->first_column + column, &nulls[nkeys]);
		nkeys++;
	}
	shardno = shard_route_row(state->routing, values, nulls);
	if (shardno < 0 && !state->plan->skip_unrouted)
		shard_route_raise_unrouted(state->routing, values, nulls);
	return shardno;
}

/* Reads the child to its end. */
static void
read_source(SourceState *state)
{
	const char **values = palloc(sizeof(char *) * Max(state->plan->narrays, 1));

	for (;;)
	{
		TupleTableSlot *slot = ExecProcNode(state->child);
		int			shardno;
		MemoryContext oldcxt;

		CHECK_FOR_INTERRUPTS();
		if (TupIsNull(slot))
			break;
		state->nsource++;
		shard_pending_rows_set(state->pending, true);
		MemoryContextReset(state->row_cxt);
		oldcxt = MemoryContextSwitchTo(state->row_cxt);
		shardno = route_row(state, slot);
		if (shardno >= 0)
			shard_encode_params(state->encoder, slot, values);
		MemoryContextSwitchTo(oldcxt);
		if (shardno < 0)
			continue;
		if (state->rows[shardno] == NULL)
			state->rows[shardno] = shard_row_arrays_create(state->plan->narrays,
														   state->map->shards[shardno].name);
		shard_row_arrays_add(state->rows[shardno], values);
	}
}

/* ---- statements ---- */

/*
 * Locks the shard while the statement runs.  Raises if it has triggers on the coordinator, since
 * they would not fire.
 */
static void
lock_shard(SourceState *state, const Shard *shard)
{
	Relation	rel = table_open(shard->relid, RowExclusiveLock);

	if (shard_trigger_fires(rel->trigdesc, TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE | TRIGGER_TYPE_DELETE, true))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot run this statement on sharded table \"%s\"",
						RelationGetRelationName(state->parent)),
				 errdetail("Its shard %s has triggers.", shard->name)));
	if (shard_map_server(RelationGetRelid(rel)) != shard->serverid)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("shard %s has moved to another node while the statement ran", shard->name),
				 errhint("The transaction might succeed if retried.")));
	table_close(rel, NoLock);
}

/* Builds the text and parameters of the statement for one shard. */
static void
build_statement(SourceState *state, int shardno, const char *const *scalars)
{
	const Shard *shard = &state->map->shards[shardno];
	ShardRunTarget *target = &state->run.targets[state->run.ntargets];
	ShardRowArrays *rows = state->rows[shardno];
	int			narrays = state->plan->narrays;
	const char **params = palloc(sizeof(char *) * Max(narrays + state->nscalars, 1));
	StringInfoData sql;

	lock_shard(state, shard);
	if (rows == NULL)
		rows = shard_row_arrays_create(narrays, shard->name);
	shard_row_arrays_finish(rows, params);
	for (int i = 0; i < state->nscalars; i++)
		params[narrays + i] = scalars[i];
	initStringInfo(&sql);
	shard_param_render(&sql, state->plan->template, &shard->relation, NULL, false, NULL);
	*target = (ShardRunTarget) {shard->serverid, shard->name, sql.data, narrays + state->nscalars, params};
	if (IsolationUsesXactSnapshot())
		target->check = shard_table_check(&state->map, 1, &shardno, 1, state->css.ss.ps.state->es_range_table,
										  state->run.spec.userid, &target->may_be_gone);
	state->relids[state->run.ntargets++] = shard->relid;
}

static void
start(SourceState *state)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);
	const char *const *scalars;
	Bitmapset  *asked = NULL;

	state->started = true;
	state->rows = palloc0(sizeof(ShardRowArrays *) * state->map->nshards);
	read_source(state);
	if (state->plan->all_shards)
		shard_route_open_parts(state->routing);

	scalars = shard_param_evaluate(state->params, state->css.ss.ps.ps_ExprContext);
	/* the node would see rows that functions of this statement have written */
	if (state->map->nshards > 0 && (state->plan->operation == CMD_MERGE || state->plan->does_update))
		shard_tied_parts_check_unwritten(state->css.ss.ps.state, state->plan->relid, state->map->shards[0].serverid,
											 state->run.spec.userid);
	state->run.targets = palloc(sizeof(ShardRunTarget) * state->map->nshards);
	state->relids = palloc(sizeof(Oid) * state->map->nshards);
	for (int i = 0; i < state->map->nshards; i++)
	{
		if (!state->plan->all_shards && state->rows[i] == NULL)
			continue;
		build_statement(state, i, scalars);
		asked = bms_add_member(asked, i);
	}
	/* MERGE reads its target; rows of an INSERT are sent where they belong */
	if (state->plan->operation == CMD_MERGE)
		shard_asked_add(state->css.ss.ps.state, list_make1_oid(state->plan->relid), state->map, asked);
	if (bms_num_members(asked) > 1)
		shard_map_lock_several(list_make1_oid(state->plan->relid));
	if (state->run.decoder != NULL)
		shard_run_open(&state->run, shard_txn_snapshot(CurrentMemoryContext));
	else
	{
		int64		nchanged = shard_run_commands(&state->run);

		if (!state->plan->returns_rows)
			shard_run_count(&state->css.ss.ps, state->plan->set_processed, nchanged);
	}
	/* a single row is written when it is returned, as in core */
	shard_pending_rows_set(state->pending, state->plan->returns_rows && state->nsource > 1);
	MemoryContextSwitchTo(oldcxt);
}

/* ---- rows that nodes return ---- */

/* RETURNING needs no column from nodes: stores an empty row for each row that they have changed. */
static bool
next_empty_row(ShardRun *run, TupleTableSlot *slot)
{
	while (run->current < run->ntargets && run->targets[run->current].nchanged == 0)
		run->current++;
	if (run->current == run->ntargets)
		return false;
	run->targets[run->current].nchanged--;
	ExecStoreAllNullTuple(slot);
	return true;
}

/* Stores the next row in slot. */
static bool
next_returned(SourceState *state, TupleTableSlot *slot)
{
	int			attno = state->plan->tableoid_attno;

	if (state->run.decoder ? !shard_run_next_slot(&state->run, slot) : !next_empty_row(&state->run, slot))
		return false;
	if (attno > 0)
	{
		slot->tts_values[attno - 1] = ObjectIdGetDatum(state->relids[state->run.current]);
		slot->tts_isnull[attno - 1] = false;
	}
	if (state->plan->set_processed)
		state->css.ss.ps.state->es_processed++;
	return true;
}

/* ---- the node ---- */

static void
source_begin(CustomScanState *node, EState *estate, int eflags)
{
	SourceState *state = (SourceState *) node;
	CustomScan *cscan = (CustomScan *) node->ss.ps.plan;
	ShardSourcePlan *plan = shard_plan_private_unpack(SHARD_PLAN_SOURCE, cscan->custom_private);
	AttrNumber *attnos;

	state->plan = plan;
	state->child = ExecInitNode(linitial(cscan->custom_plans), estate, eflags);
	node->custom_ps = list_make1(state->child);
	state->run.cxt = estate->es_query_cxt;
	state->run.spec.userid = OidIsValid(plan->check_as_user) ? plan->check_as_user : GetUserId();
	state->run.spec.as_writer = true;
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	/* in WITH: registered in the same way as ModifyTable, so that the executor runs it to its end */
	if (!plan->set_processed)
		estate->es_auxmodifytables = lcons(node, estate->es_auxmodifytables);

	state->parent = table_open(plan->relid, RowExclusiveLock);
	state->routing = shard_route_open(state->parent);
	if (state->routing == NULL)
		elog(ERROR, "relation %u is not sharded", plan->relid);
	state->map = state->routing->map;
	state->pending = shard_pending_rows_create(estate, plan->relid);
	state->params = shard_param_create(cscan->custom_exprs, &node->ss.ps);
	state->nscalars = list_length(cscan->custom_exprs);
	state->row_cxt = AllocSetContextCreate(estate->es_query_cxt, "shardfdw source row",
										   ALLOCSET_DEFAULT_SIZES);
	attnos = palloc(sizeof(AttrNumber) * Max(plan->narrays, 1));
	for (int i = 0; i < plan->narrays; i++)
		attnos[i] = plan->first_column + i + 1;
	state->encoder = shard_encode_create(ExecGetResultType(state->child), attnos, plan->narrays);
	if (plan->returns_rows && plan->noutputs > 0)
		shard_run_set_outputs(&state->run, plan->outputs, plan->noutputs, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor);
	for (int i = 0; i < state->map->nnodes; i++)
		shard_statement_view_pin(estate, state->map->nodes[i].serverid, state->run.spec.userid);
}

static TupleTableSlot *
source_exec(CustomScanState *node)
{
	SourceState *state = (SourceState *) node;
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	if (!state->started)
		start(state);
	if (!state->plan->returns_rows || !next_returned(state, slot))
	{
		shard_pending_rows_set(state->pending, false);
		return NULL;
	}

	ResetExprContext(econtext);
	econtext->ecxt_scantuple = slot;
	return node->ss.ps.ps_ProjInfo ? ExecProject(node->ss.ps.ps_ProjInfo) : slot;
}

static void
source_end(CustomScanState *node)
{
	SourceState *state = (SourceState *) node;

	shard_run_finish(&state->run);
	ExecEndNode(state->child);
	if (state->routing != NULL)
		shard_route_close(state->routing);
	if (state->parent != NULL)
		table_close(state->parent, NoLock);
}

static void
source_rescan(CustomScanState *node)
{
	elog(ERROR, "a statement that writes cannot be scanned again");
}

static void
source_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	SourceState *state = (SourceState *) node;
	const ShardMap *map = shard_map_get_levels(state->plan->relid, true);
	StringInfoData sql;

	ExplainPropertyText("Operation", state->plan->operation == CMD_INSERT ? "Insert" : "Merge", es);
	if (map == NULL)
		return;
	if (es->analyze)
		shard_explain_shards(map, NULL, state->run.ntargets, es);
	if (!es->verbose)
		return;
	initStringInfo(&sql);
	shard_param_render(&sql, state->plan->template, &map->shards[0].relation, NULL, false, NULL);
	ExplainPropertyText(SHARD_PROP_REMOTE_SQL, sql.data, es);
	pfree(sql.data);
}

static const CustomExecMethods exec_methods = {
	.CustomName = SHARD_SOURCE_NAME,
	.BeginCustomScan = source_begin,
	.ExecCustomScan = source_exec,
	.EndCustomScan = source_end,
	.ReScanCustomScan = source_rescan,
	.ExplainCustomScan = source_explain
};

static Node *
source_create(CustomScan *cscan)
{
	SourceState *state = palloc0(sizeof(SourceState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;
	return (Node *) state;
}

static const CustomScanMethods scan_methods = {
	.CustomName = SHARD_SOURCE_NAME,
	.CreateCustomScanState = source_create
};

void
shard_source_register(void)
{
	RegisterCustomScanMethods(&scan_methods);
}
