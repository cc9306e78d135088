/*
 * take_exec.c
 *	  Takes rows of a table as jobs from a queue, over all of its shards: SELECT ... LIMIT n FOR UPDATE [SKIP LOCKED],
 *	  and UPDATE or DELETE of just these rows.
 *
 *	 candidates: the first rows of each node, not locked --> merged in the statement's order
 *	   one row is wanted	locked and changed by one command of its shard; if it is not free any more the next one
 *	   several				as many as are wanted are locked on their shards at the same time; then as many as
 *							were not free; in the end all are changed
 *	 all candidates tried, but nodes have more --> more candidates
 *
 * Sessions of a server claim rows before they ask for them (take_claim.c), and read candidates for each other
 * (take_read.c).  take_candidates.c reads and sorts them, take_choose.c says which are tried, take_work.c has shards lock
 * and change them.
 *
 * Why the result is that of a plain table.  A candidate is known by ctid and xmin in a file.  No two versions of rows
 * there have both in common: what is inserted after the candidates were read has another xmin, and who moves rows with
 * theirs (VACUUM FULL) makes another file.  So a row that is locked is the version that was read, and the statement's
 * conditions hold for it.  What is not found somebody has locked, or has changed
 * meanwhile; then it is left out, as if he had it locked still.  Candidates are tried in their order, and only as
 * long as all nodes have given theirs up to there; no more are locked than are wanted.
 *
 * Rows that come into the table while candidates are read anew are taken only if they are behind those that were
 * tried, so rows are returned in order.
 *
 * Without SKIP LOCKED, who has a row is waited for, and rows are locked in the statement's order, one after the other, so
 * that sessions do not wait for each other in a circle where those of one server would not.  What is not found then has been
 * changed, and its new version may be wanted, or not: candidates are read anew.  What is locked stays as it is, so in the end
 * all that are wanted, as they were read last, are locked.  A row that is changed all the time may be another one each time; then
 * the shard locks its first rows up to that one by itself, as it does for its own clients, in whatever order that is.
 *
 * In transactions with one snapshot, and with shardfdw.snapshot = 'cluster', candidates are read by the transaction that
 * locks them.
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "executor/explain.h"
#include "executor/returned.h"
#include "executor/scan/asked_shards.h"
#include "executor/scan/scan.h"
#include "executor/take/take_exec.h"
#include "executor/take/take_private.h"
#include "miscadmin.h"
#include "utils/memutils.h"

static void
take_begin(CustomScanState *node, EState *estate, int eflags)
{
	ShardTakeState *state = (ShardTakeState *) node;
	CustomScan *cscan = (CustomScan *) node->ss.ps.plan;

	state->plan = shard_plan_private_unpack_take(cscan->custom_private);
	state->nparams = list_length(cscan->custom_exprs);
	state->params = shard_param_create(cscan->custom_exprs, &node->ss.ps);
	shard_take_resolve_map(state);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	state->userid = OidIsValid(state->plan->check_as_user) ? state->plan->check_as_user : GetUserId();
	state->level = shard_txn_level_create(estate->es_query_cxt);
	state->rels = shard_scan_open_rels(estate, list_make1_oid(state->plan->relid));
	state->run_cxt = AllocSetContextCreate(estate->es_query_cxt, "shard take", ALLOCSET_DEFAULT_SIZES);
	state->row_cxt = AllocSetContextCreate(estate->es_query_cxt, "shard take row", ALLOCSET_SMALL_SIZES);
	shard_take_candidates_init(state);
	if (state->plan->returns_rows)
	{
		TupleDesc	desc = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;

		state->decoder = shard_returned_decoder(state->plan->outputs, state->plan->noutputs, desc);
		state->row_slot = shard_make_tuple_slot(desc, &TTSOpsMinimalTuple);
	}
}

/* Values of the parameters, each evaluated once. */
static void
evaluate(ShardTakeState *state)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;

	state->values = palloc0(sizeof(char *) * state->nparams);
	for (int i = 1; i <= state->nparams; i++)
	{
		bool		isnull;
		Datum		value = shard_param_value(state->params, i, econtext, &isnull);

		if (i == state->plan->limit_param)
		{
			if (!isnull && DatumGetInt64(value) < 0)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_ROW_COUNT_IN_LIMIT_CLAUSE),
						 errmsg("LIMIT must not be negative")));
			state->nwanted = isnull ? PG_UINT64_MAX : DatumGetInt64(value);
		}
		else if (!isnull)
			state->values[i - 1] = shard_param_text(state->params, i, value);
	}
}

/* Does all that the statement does. */
static void
run(ShardTakeState *state)
{
	static int	turn = -1;
	MemoryContext oldcxt = MemoryContextSwitchTo(state->run_cxt);
	ListCell   *lc;

	state->started = true;
	evaluate(state);
	if (state->plan->returns_rows)
		state->rows = tuplestore_begin_heap(false, false, work_mem);
	shard_take_resolve_map(state);
	if (IsolationUsesXactSnapshot())
		shard_map_check_unmoved(state->map, NULL);
	shard_asked_add(state->css.ss.ps.state, list_make1_oid(state->plan->relid), state->map,
					bms_add_range(NULL, 0, state->map->nshards - 1));
	if (state->plan->nsort > 0)
		(void) shard_take_from(state, 0, state->map->nnodes);
	else
	{
		/* any rows will do: each session begins with another node, and goes on with the next one */
		turn = (turn < 0 ? MyProcPid : turn + 1) % state->map->nnodes;
		for (int i = 0; i < state->map->nnodes && !shard_take_has_enough(state); i++)
		{
			if (!shard_take_from(state, (turn + i) % state->map->nnodes, 1))
				break;
		}
	}
	if (state->plan->operation == CMD_SELECT)
	{
		foreach(lc, state->locked)
		{
			ExecStoreMinimalTuple(((ShardTakeCandidate *) lfirst(lc))->row, state->row_slot, false);
			tuplestore_puttupleslot(state->rows, state->row_slot);
		}
	}
	else if (state->nwanted > 1 && state->locked != NIL)
		shard_take_works_change(state);
	MemoryContextSwitchTo(oldcxt);
}

static TupleTableSlot *
take_exec(CustomScanState *node)
{
	ShardTakeState *state = (ShardTakeState *) node;

	if (!state->started)
		run(state);
	if (state->rows == NULL)
		return ExecClearTuple(node->ss.ss_ScanTupleSlot);
	/* row by row, as SPI, which may want no more than two, compares the count with what it has got */
	if (tuplestore_gettupleslot(state->rows, true, false, state->row_slot) && state->plan->set_processed)
		node->ss.ps.state->es_processed++;
	return state->row_slot;
}

static void
take_end(CustomScanState *node)
{
	ShardTakeState *state = (ShardTakeState *) node;

	if (state->rows != NULL)
	{
		ExecClearTuple(state->row_slot);
		tuplestore_end(state->rows);
	}
	shard_scan_close_rels(state->rels);
}

static void
take_rescan(CustomScanState *node)
{
	if (((ShardTakeState *) node)->started)
		elog(ERROR, "a statement that changes or locks rows cannot be run again");
}

/* ---------- EXPLAIN ---------- */

static void
take_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	ShardTakeState *state = (ShardTakeState *) node;
	const ShardTakePlan *plan = state->plan;
	Bitmapset  *all = bms_add_range(NULL, 0, state->map->nshards - 1);

	shard_explain_shards(state->map, all, state->map->nshards, es);
	shard_explain_remote_sql(shard_take_candidates_sql(state, 0, 0), es);
	if (es->verbose)
		shard_explain_lock_sql(shard_take_work_sql(state->map, plan->take ? plan->take : plan->lock, 0), es);
	if (es->analyze && plan->returns_rows)
		shard_explain_received(state->nrows, state->nbytes, 0, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = SHARD_TAKE_NAME,
	.BeginCustomScan = take_begin,
	.ExecCustomScan = take_exec,
	.EndCustomScan = take_end,
	.ReScanCustomScan = take_rescan,
	.ExplainCustomScan = take_explain
};

static Node *
take_create(CustomScan *cscan)
{
	ShardTakeState *state = palloc0(sizeof(ShardTakeState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;
	return (Node *) state;
}

static const CustomScanMethods scan_methods = {
	SHARD_TAKE_NAME,
	take_create
};

void
shard_take_register(void)
{
	RegisterCustomScanMethods(&scan_methods);
}
