/*
 * direct_modify.c
 *	  UPDATE and DELETE that run completely on the node of one shard.
 *
 * The planner has made one remote statement of them (ShardDirectPlan), which runs on the
 * transaction's writer on the shard's node.  The statements of all shards that an UPDATE or DELETE
 * changes are started together, when the first one is asked for a row.  So all nodes work in
 * parallel, and no statement sees what is done with rows that another one has returned.
 *
 *	 without RETURNING	all are run, and return only command tags
 *	 with RETURNING		rows are streamed
 *
 * Shards without rows for values that are known only at run time (keys = ANY (ARRAY(SELECT ...)))
 * are skipped.  Core may prune other shards by values that it learns after the start.  The
 * statement of such a shard has then run already, but has changed nothing, since it contains the
 * condition by which core prunes.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/route.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "deparse/table_check.h"
#include "executor/scan/asked_shards.h"
#include "executor/scan/fdw_executor.h"
#include "executor/scan/param.h"
#include "executor/scan/statement_view.h"
#include "executor/shard_run.h"
#include "executor/tied_parts.h"
#include "plan/plan_private.h"
#include "plan/statement_entry.h"

/* fdw_state of the ForeignScan. */
typedef struct ShardDirectState
{
	ShardDirectPlan *plan;
	const Shard *shard;
	ShardParams *params;
	ShardRunTarget target;		/* sql NULL: the shard has no rows for the parameters' values */
	ShardRun	run;			/* of this target; decoder NULL: RETURNING has no columns of the shard */
	struct ShardDirectGroup *group;
} ShardDirectState;

/* The shards of one UPDATE or DELETE, whose statements are run together. */
typedef struct ShardDirectGroup
{
	ShardStatementEntry entry;	/* in groups; the key is the table named in the UPDATE or DELETE */
	List	   *members;		/* of ForeignScanState */
	bool		started;
	Oid			pruned_for;		/* parent of the shards in live; InvalidOid: none yet */
	const Bitmapset *live;		/* shardnos of pruned_for's shards that can have rows */
} ShardDirectGroup;

/* Groups of running statements, innermost first. */
static slist_head groups = SLIST_STATIC_INIT(groups);

/* Adds node to the group of its UPDATE or DELETE.  Memory: current context, the query's. */
static ShardDirectGroup *
join_group(ForeignScanState *node)
{
	EState	   *estate = node->ss.ps.state;
	ResultRelInfo *root = node->resultRelInfo->ri_RootResultRelInfo;
	Datum		key = PointerGetDatum(root ? root : node->resultRelInfo);
	ShardDirectGroup *group = shard_statement_entry_find(&groups, estate, key);

	if (group == NULL)
		group = shard_statement_entry_add(&groups, estate, key, sizeof(ShardDirectGroup));
	group->members = lappend(group->members, node);
	return group;
}

void
shardBeginDirectModify(ForeignScanState *node, int eflags)
{
	ForeignScan *fsplan = castNode(ForeignScan, node->ss.ps.plan);
	EState	   *estate = node->ss.ps.state;
	ShardDirectState *state;
	const ShardMap *map;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	state = palloc0(sizeof(ShardDirectState));
	state->plan = shard_plan_private_unpack(SHARD_PLAN_DIRECT, fsplan->fdw_private);
	map = shard_map_get(state->plan->relid);
	if (map == NULL)
		elog(ERROR, "relation %u is not a shard", state->plan->relid);
	shard_map_check_unmoved(map, NULL);	/* core has locked it */
	state->shard = &map->shards[0];
	state->target.serverid = state->shard->serverid;
	state->target.label = state->shard->name;
	state->params = shard_param_create(fsplan->fdw_exprs, &node->ss.ps);
	state->run.cxt = estate->es_query_cxt;
	state->run.spec.userid = shard_result_userid(node->resultRelInfo, estate);
	state->run.spec.as_writer = true;
	state->run.ntargets = 1;
	state->run.targets = &state->target;
	if (state->plan->has_returning && state->plan->noutputs > 0)
		shard_run_set_outputs(&state->run, state->plan->outputs, state->plan->noutputs,
							  node->ss.ss_ScanTupleSlot->tts_tupleDescriptor);
	state->group = join_group(node);
	node->fdw_state = state;
	shard_statement_view_pin(estate, state->shard->serverid, state->run.spec.userid);
}

/* Builds the text and the parameters.  Memory: current context. */
static void
build_statement(ForeignScanState *node)
{
	ShardDirectState *state = node->fdw_state;
	StringInfoData sql;

	/* at lower levels, a statement takes its snapshot after its locks */
	if (IsolationUsesXactSnapshot())
	{
		const ShardMap *map = shard_map_get(state->plan->relid);
		int			shardno = 0;

		state->target.check = shard_table_check(&map, 1, &shardno, 1, node->ss.ps.state->es_range_table,
												state->run.spec.userid, &state->target.may_be_gone);
	}
	state->target.nparams = shard_param_count(state->plan->template, NIL);
	state->target.params = shard_param_evaluate(state->params, node->ss.ps.ps_ExprContext);
	shard_tied_parts_check_unwritten(node->ss.ps.state, state->plan->relid, state->shard->serverid,
										 state->run.spec.userid);
	initStringInfo(&sql);
	shard_param_render(&sql, state->plan->template, &state->shard->relation, NULL, false, NULL);
	state->target.sql = sql.data;
}

/* Runs the statements of the group that return no columns. */
static void
run_plain(ShardDirectGroup *group)
{
	ShardDirectState **states = palloc(sizeof(ShardDirectState *) * list_length(group->members));
	ShardRun	run = {0};

	run.targets = palloc(sizeof(ShardRunTarget) * list_length(group->members));
	foreach_ptr(ForeignScanState, node, group->members)
	{
		ShardDirectState *state = node->fdw_state;

		if (state->run.decoder != NULL || state->target.sql == NULL)
			continue;
		run.spec.userid = state->run.spec.userid;
		states[run.ntargets] = state;
		run.targets[run.ntargets++] = state->target;
	}
	if (run.ntargets == 0)
		return;
	(void) shard_run_commands(&run);
	for (int i = 0; i < run.ntargets; i++)
		states[i]->target.nchanged = run.targets[i].nchanged;
}

/*
 * Can the shard have rows for the parameters' values?  Members with the same parent have the same
 * conditions, and are adjacent.
 */
static bool
is_live(ShardDirectGroup *group, ForeignScanState *node)
{
	const ShardDirectState *state = node->fdw_state;
	const ShardMap *map = state->plan->prune_quals != NIL ? shard_map_get(state->plan->parent) : NULL;
	int			shardno = map ? shard_map_find(map, state->plan->relid) : -1;

	if (shardno < 0)
		return true;
	if (group->pruned_for != state->plan->parent)
	{
		group->live = shard_route_prune(state->plan->parent, shard_param_bind(state->params, node->ss.ps.ps_ExprContext, state->plan->prune_quals));
		group->pruned_for = state->plan->parent;
	}
	return bms_is_member(shardno, group->live);
}

/* Starts the statements of all members that can have rows. */
static void
start_group(ShardDirectGroup *group)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(group->entry.estate->es_query_cxt);

	group->started = true;
	/* the members are partitions of one table */
	if (list_length(group->members) > 1)
	{
		const ShardDirectState *state = linitial_node(ForeignScanState, group->members)->fdw_state;

		shard_map_lock_several(list_make1_oid(state->plan->relid));
	}
	foreach_ptr(ForeignScanState, node, group->members)
	{
		ShardDirectState *state = node->fdw_state;

		if (!is_live(group, node))
			continue;
		shard_asked_add(group->entry.estate, list_make1_oid(state->plan->relid), shard_map_get(state->plan->relid),
						bms_make_singleton(0));
		build_statement(node);
		if (state->run.decoder != NULL)
			shard_run_open(&state->run, shard_txn_snapshot(CurrentMemoryContext));
	}
	run_plain(group);
	MemoryContextSwitchTo(oldcxt);
}

/* Stores the next returned row in slot.  False at the end. */
static bool
next_returned(ShardDirectState *state, TupleTableSlot *slot)
{
	if (state->run.decoder != NULL)
		return shard_run_next_slot(&state->run, slot);

	/* RETURNING has only constants: an empty row for each changed row */
	if (state->target.nchanged == 0)
		return false;
	state->target.nchanged--;
	ExecStoreAllNullTuple(slot);
	return true;
}

TupleTableSlot *
shardIterateDirectModify(ForeignScanState *node)
{
	ShardDirectState *state = node->fdw_state;
	ResultRelInfo *rinfo = node->resultRelInfo;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	if (!state->group->started)
		start_group(state->group);
	if (rinfo->ri_projectReturning == NULL)
	{
		shard_run_count(&node->ss.ps, state->plan->set_processed, state->target.nchanged);
		state->target.nchanged = 0;
		return slot;
	}
	if (!next_returned(state, slot))
		return ExecClearTuple(slot);

	if (state->plan->set_processed)
		node->ss.ps.state->es_processed++;

	/* core's ExecProcessReturning() takes the row from there */
	rinfo->ri_projectReturning->pi_exprContext->ecxt_scantuple = slot;
	return slot;
}

void
shardEndDirectModify(ForeignScanState *node)
{
	ShardDirectState *state = node->fdw_state;

	if (state != NULL)
	{
		shard_run_finish(&state->run);
		shard_run_close(&state->run);
	}
}
