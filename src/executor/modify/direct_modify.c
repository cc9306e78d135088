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

#include "catalog/route.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "executor/returned.h"
#include "executor/scan/asked_shards.h"
#include "executor/scan/fdw_executor.h"
#include "executor/scan/param.h"
#include "executor/scan/statement_view.h"
#include "lib/ilist.h"
#include "plan/plan_private.h"
#include "remote/run/command.h"
#include "remote/run/stream.h"
#include "tuple/decode.h"
#include "utils/memutils.h"

/* fdw_state of the ForeignScan. */
typedef struct ShardDirectState
{
	ShardDirectPlan *plan;
	const Shard *shard;
	Oid			userid;
	ShardParams *params;
	const char *const *param_values;
	const char *sql;			/* NULL: the shard has no rows for the parameters' values */
	bool		counted;		/* its rows are included in es_processed */
	struct ShardDirectGroup *group;

	/* RETURNING columns of the shard */
	ShardDecoder *decoder;		/* NULL: none */
	ShardStream *stream;
	bool		finished;		/* all rows were read */
	MemoryContext row_cxt;		/* values of the current row */

	/* RETURNING no columns of the shard */
	int64		nchanged;		/* number of changed rows */
	int64		nleft;			/* number of these not returned yet */
} ShardDirectState;

/* The shards of one UPDATE or DELETE, whose statements are run together. */
typedef struct ShardDirectGroup
{
	slist_node	link;			/* in groups */
	EState	   *estate;
	ResultRelInfo *root;		/* the table named in the UPDATE or DELETE */
	List	   *members;		/* of ForeignScanState */
	bool		started;
	Oid			pruned_for;		/* parent of the shards in live; InvalidOid: none yet */
	const Bitmapset *live;		/* shardnos of pruned_for's shards that can have rows */
} ShardDirectGroup;

/* Groups of running statements, innermost first. */
static slist_head groups = SLIST_STATIC_INIT(groups);

static void
forget_group(void *arg)
{
	slist_delete(&groups, &((ShardDirectGroup *) arg)->link);
}

/* Adds node to the group of its UPDATE or DELETE.  Memory: current context, the query's. */
static ShardDirectGroup *
join_group(ForeignScanState *node)
{
	EState	   *estate = node->ss.ps.state;
	ResultRelInfo *root = node->resultRelInfo->ri_RootResultRelInfo;
	ShardDirectGroup *group;
	MemoryContextCallback *callback;
	slist_iter	iter;

	if (root == NULL)
		root = node->resultRelInfo;
	slist_foreach(iter, &groups)
	{
		group = slist_container(ShardDirectGroup, link, iter.cur);
		if (group->estate == estate && group->root == root)
		{
			group->members = lappend(group->members, node);
			return group;
		}
	}

	group = palloc0(sizeof(ShardDirectGroup));
	group->estate = estate;
	group->root = root;
	group->members = list_make1(node);
	slist_push_head(&groups, &group->link);
	callback = palloc0(sizeof(MemoryContextCallback));
	callback->func = forget_group;
	callback->arg = group;
	MemoryContextRegisterResetCallback(estate->es_query_cxt, callback);
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
	state->userid = shard_result_userid(node->resultRelInfo, estate);
	state->params = shard_param_create(fsplan->fdw_exprs, &node->ss.ps);
	if (state->plan->has_returning && state->plan->noutputs > 0)
	{
		state->decoder = shard_returned_decoder(state->plan->outputs, state->plan->noutputs,
												node->ss.ss_ScanTupleSlot->tts_tupleDescriptor);
		state->row_cxt = AllocSetContextCreate(estate->es_query_cxt, "shardfdw returned row",
											   ALLOCSET_SMALL_SIZES);
	}
	state->group = join_group(node);
	node->fdw_state = state;
	shard_statement_view_pin(estate, state->shard->serverid, state->userid);
}

/* Builds the text and the parameters.  Memory: current context. */
static void
build_statement(ForeignScanState *node)
{
	ShardDirectState *state = node->fdw_state;
	StringInfoData sql;

	state->param_values = shard_param_evaluate(state->params, node->ss.ps.ps_ExprContext);
	initStringInfo(&sql);
	shard_param_render(&sql, state->plan->template, &state->shard->relation, NULL, false,
					   state->param_values);
	state->sql = sql.data;
}

static void
open_stream(ForeignScanState *node)
{
	ShardDirectState *state = node->fdw_state;
	EState	   *estate = node->ss.ps.state;
	ShardStreamSpec spec = {0};

	spec.serverid = state->shard->serverid;
	spec.userid = state->userid;
	spec.sql = state->sql;
	spec.label = state->shard->name;
	spec.ncolumns = shard_decode_nremote(state->decoder);
	spec.portable_text = shard_decode_has_styled_text(state->decoder);
	spec.as_writer = true;
	spec.workers = -1;
	spec.nparams = shard_param_count(state->plan->template, NIL);
	spec.params = state->param_values;
	state->stream = shard_stream_open(estate->es_query_cxt,
									  shard_txn_snapshot(estate->es_query_cxt), &spec);
}

/* Runs the statements of the group that return no columns. */
static void
run_plain(ShardDirectGroup *group)
{
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * list_length(group->members));
	ShardDirectState **states = palloc(sizeof(ShardDirectState *) * list_length(group->members));
	int			ncommands = 0;
	ListCell   *lc;

	foreach(lc, group->members)
	{
		ShardDirectState *state = ((ForeignScanState *) lfirst(lc))->fdw_state;
		ShardCommand *command = &commands[ncommands];

		if (state->decoder != NULL || state->sql == NULL)
			continue;
		command->serverid = state->shard->serverid;
		command->userid = state->userid;
		command->sql = state->sql;
		command->label = state->shard->name;
		command->nparams = shard_param_count(state->plan->template, NIL);
		command->params = state->param_values;
		states[ncommands++] = state;
	}
	if (ncommands == 0)
		return;
	shard_command_run(commands, ncommands, SHARD_COMMAND_WRITE, false);
	for (int i = 0; i < ncommands; i++)
	{
		states[i]->nchanged = strtoi64(PQcmdTuples(commands[i].result), NULL, 10);
		states[i]->nleft = states[i]->nchanged;
	}
	shard_command_free(commands, ncommands);
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
	MemoryContext oldcxt = MemoryContextSwitchTo(group->estate->es_query_cxt);

	group->started = true;
	foreach_ptr(ForeignScanState, node, group->members)
	{
		const ShardDirectState *state = node->fdw_state;

		if (!is_live(group, node))
			continue;
		shard_asked_add(group->estate, list_make1_oid(state->plan->relid), shard_map_get(state->plan->relid),
						bms_make_singleton(0));
		build_statement(node);
		if (state->decoder != NULL)
			open_stream(node);
	}
	run_plain(group);
	MemoryContextSwitchTo(oldcxt);
}

/* Stores the next returned row in slot.  False at the end. */
static bool
next_returned(ShardDirectState *state, TupleTableSlot *slot)
{
	ShardRow	row;

	if (state->decoder == NULL)
	{
		/* RETURNING has only constants: an empty row for each changed row */
		if (state->nleft == 0)
			return false;
		state->nleft--;
		ExecStoreAllNullTuple(slot);
		return true;
	}
	if (state->stream == NULL)
		return false;
	if (!shard_stream_next_row(state->stream, &row))
	{
		state->finished = true;
		return false;
	}
	MemoryContextReset(state->row_cxt);
	shard_decode_row(state->decoder, &row, slot, state->row_cxt);
	if (shard_decode_has_header(state->decoder))
		shard_decode_add_header(state->decoder, slot, state->row_cxt);
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
	if (state->decoder == NULL && !state->counted)
	{
		state->counted = true;
		if (state->plan->set_processed && rinfo->ri_projectReturning == NULL)
			node->ss.ps.state->es_processed += state->nchanged;
		if (node->ss.ps.instrument)
			node->ss.ps.instrument->tuplecount += state->nchanged;
	}

	if (rinfo->ri_projectReturning == NULL)
		return slot;
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

	if (state == NULL || state->stream == NULL)
		return;

	/* closing a running stream would cancel it, and thus abort the transaction */
	while (!state->finished)
	{
		TupleTableSlot *slot = ExecClearTuple(node->ss.ss_ScanTupleSlot);

		(void) next_returned(state, slot);
	}
	shard_stream_close(state->stream);
	state->stream = NULL;
}
