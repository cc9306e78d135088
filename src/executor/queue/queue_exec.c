/*
 * queue_exec.c
 *	  Takes rows of a table as jobs from a queue, over all of its shards: SELECT ...  LIMIT n FOR
 *	  UPDATE [SKIP LOCKED], and UPDATE or DELETE of exactly these rows.
 *
 *	 candidates: the first rows of each node, without locks --> merged in the statement's order
 *	   one row is wanted	one command of its shard locks and changes it; if it is no longer free, the next one
 *	   several				as many as are wanted are locked on their shards in parallel; then as many as
 *							were not free; at the end all are changed
 *	 all candidates tried, but nodes have more --> more candidates
 *
 * Sessions of a server claim rows before they try to lock them (queue_claim.c), and read candidates
 * for each other (queue_read.c). queue_candidates.c reads and sorts candidates. queue_choose.c chooses
 * which are tried. queue_work.c makes shards lock and change them.
 *
 * Why the result is that of a plain table.  A candidate is identified by its ctid and xmin in a
 * file of the shard.  No two row versions in a file have the same ctid and xmin.  A row that is
 * inserted after the candidates were read has another xmin, and a command that moves rows and keeps
 * their xmin (VACUUM FULL) creates another file.  So a row that was locked is the version that was
 * read, and satisfies the statement's conditions.  If a candidate is not found, another session has
 * locked it or has changed it since.  Then it is skipped, as if that session still had it locked.
 * Candidates are tried in their order, and only as far as all nodes have returned candidates.  No more
 * rows are locked than wanted.
 *
 * Rows that are inserted while candidates are read again are taken only if they follow those that
 * were tried.  So rows are returned in order.
 *
 * Without SKIP LOCKED the statement waits for sessions that have locked a row.  Rows are locked in
 * the statement's order, one after the other, so that sessions do not wait for each other in a
 * circle if sessions of one server would not.  If a candidate is not found, it was changed, and its
 * new version may or may not be wanted.  So candidates are read again.  Locked rows stay unchanged,
 * so at the end all wanted rows, as they were last read, are locked.  If a row is changed all the
 * time, each read may return another version.  Then the shard itself locks its first rows up to
 * that one, in any order, as it does for its own clients.
 *
 * In transactions with a single snapshot, and with shardfdw.snapshot = 'cluster', the transaction
 * that locks candidates also reads them.
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "executor/explain.h"
#include "executor/queue/queue_exec.h"
#include "executor/queue/queue_private.h"
#include "executor/scan/asked_shards.h"
#include "executor/scan/scan.h"
#include "executor/scan/statement_view.h"
#include "executor/tied_parts.h"
#include "miscadmin.h"
#include "utils/memutils.h"

static void
queue_begin(CustomScanState *node, EState *estate, int eflags)
{
	ShardQueueState *state = (ShardQueueState *) node;
	CustomScan *cscan = (CustomScan *) node->ss.ps.plan;

	state->plan = shard_plan_private_unpack(SHARD_PLAN_QUEUE, cscan->custom_private);
	state->nparams = list_length(cscan->custom_exprs);
	state->params = shard_param_create(cscan->custom_exprs, &node->ss.ps);
	shard_queue_resolve_map(state);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	state->run.spec.userid = OidIsValid(state->plan->check_as_user) ? state->plan->check_as_user : GetUserId();
	state->level = shard_txn_level_create(estate->es_query_cxt);
	state->rels = shard_scan_open_rels(estate, list_make1_oid(state->plan->relid));
	if (state->plan->operation == CMD_SELECT)
		shard_statement_view_add_unchecked(estate, list_make1_oid(state->plan->relid));
	state->run_cxt = AllocSetContextCreate(estate->es_query_cxt, "shard queue", ALLOCSET_DEFAULT_SIZES);
	shard_queue_candidates_init(state);
	if (state->plan->returns_rows)
	{
		TupleDesc	desc = node->ss.ss_ScanTupleSlot->tts_tupleDescriptor;

		shard_run_set_outputs(&state->run, state->plan->outputs, state->plan->noutputs, desc);
		state->row_slot = shard_make_tuple_slot(desc, &TTSOpsMinimalTuple);
	}
}

/* Evaluates each parameter once. */
static void
evaluate(ShardQueueState *state)
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

/* Runs the whole statement. */
static void
run(ShardQueueState *state)
{
	static int	turn = -1;
	MemoryContext oldcxt = MemoryContextSwitchTo(state->run_cxt);

	state->started = true;
	evaluate(state);
	if (state->plan->returns_rows)
		state->rows = tuplestore_begin_heap(false, false, work_mem);
	shard_queue_resolve_map(state);
	shard_tied_parts_check_unwritten(state->css.ss.ps.state, state->plan->relid, state->map->shards[0].serverid,
										 state->run.spec.userid);
	if (IsolationUsesXactSnapshot())
		shard_map_check_unmoved(state->map, NULL);
	shard_asked_add(state->css.ss.ps.state, list_make1_oid(state->plan->relid), state->map,
					bms_add_range(NULL, 0, state->map->nshards - 1));
	if (state->plan->nsort > 0)
		(void) shard_queue_from(state, 0, state->map->nnodes);
	else
	{
		/* any rows will do: sessions begin with different nodes, and continue with the next one */
		turn = (turn < 0 ? MyProcPid : turn + 1) % state->map->nnodes;
		for (int i = 0; i < state->map->nnodes && !shard_queue_has_enough(state); i++)
		{
			if (!shard_queue_from(state, (turn + i) % state->map->nnodes, 1))
				break;
		}
	}
	if (state->plan->operation == CMD_SELECT)
	{
		foreach_ptr(ShardQueueCandidate, candidate, state->locked)
		{
			ExecStoreMinimalTuple(candidate->row, state->row_slot, false);
			tuplestore_puttupleslot(state->rows, state->row_slot);
		}
	}
	else if (state->nwanted > 1 && state->locked != NIL)
		shard_queue_works_change(state);
	MemoryContextSwitchTo(oldcxt);
}

static TupleTableSlot *
queue_exec(CustomScanState *node)
{
	ShardQueueState *state = (ShardQueueState *) node;

	if (!state->started)
		run(state);
	if (state->rows == NULL)
		return ExecClearTuple(node->ss.ss_ScanTupleSlot);
	/* counts row by row: SPI compares the count with the rows it has received, and may stop after two */
	if (tuplestore_gettupleslot(state->rows, true, false, state->row_slot) && state->plan->set_processed)
		node->ss.ps.state->es_processed++;
	return state->row_slot;
}

static void
queue_end(CustomScanState *node)
{
	ShardQueueState *state = (ShardQueueState *) node;

	if (state->rows != NULL)
	{
		ExecClearTuple(state->row_slot);
		tuplestore_end(state->rows);
	}
	shard_scan_close_rels(state->rels);
}

static void
queue_rescan(CustomScanState *node)
{
	if (((ShardQueueState *) node)->started)
		elog(ERROR, "a statement that changes or locks rows cannot be run again");
}

/* ---------- EXPLAIN ---------- */

static void
queue_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	ShardQueueState *state = (ShardQueueState *) node;
	const ShardQueuePlan *plan = state->plan;
	Bitmapset  *all = bms_add_range(NULL, 0, state->map->nshards - 1);

	shard_explain_shards(state->map, all, state->map->nshards, es);
	ExplainPropertyText(SHARD_PROP_REMOTE_SQL, shard_queue_candidates_sql(state, 0, 0), es);
	if (es->verbose)
		ExplainPropertyText(SHARD_PROP_LOCK_SQL,
							shard_queue_work_sql(state->map, plan->lock_and_change ? plan->lock_and_change : plan->lock, 0), es);
	if (es->analyze && plan->returns_rows)
		shard_explain_received(state->run.nrows, state->run.nbytes, 0, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = SHARD_QUEUE_NAME,
	.BeginCustomScan = queue_begin,
	.ExecCustomScan = queue_exec,
	.EndCustomScan = queue_end,
	.ReScanCustomScan = queue_rescan,
	.ExplainCustomScan = queue_explain
};

static Node *
queue_create(CustomScan *cscan)
{
	ShardQueueState *state = palloc0(sizeof(ShardQueueState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;
	return (Node *) state;
}

static const CustomScanMethods scan_methods = {
	SHARD_QUEUE_NAME,
	queue_create
};

void
shard_queue_register(void)
{
	RegisterCustomScanMethods(&scan_methods);
}
