/*
 * scan.c
 *	  Executes a shard scan: one remote query, sent to every live shard in parallel, whose rows are
 *	  returned as they arrive.
 *
 *	   Begin	resolve shards, parameters and decoder; nothing remote
 *	   Iterate	first call: parameters --> SQL per shard --> streams
 *				then: stream --> ShardRow --> decoder --> slot. Reads the current stream while it
 *				has rows, then the next one; if none has rows, waits for all together
 *	   ReScan	close the streams; the next Iterate opens them again
 *	   End		close the streams, which ends remote queries that still run
 *
 * All live shards are queried in parallel, up to a window per node.  A stream beyond twice the
 * node's connections would only queue, so it is opened when an earlier one ends.  So memory is
 * bounded by the window, not by the number of shards or rows.
 *
 * If the transaction may write on the connections that read, all streams are opened immediately.
 * Before the transaction's first write, queued streams are read and spilled
 * (remote/run/stream_open.c), so that a cursor does not see later writes.
 *
 * Sorted rows are merged (merge.c), which requires all streams to be open at the same time.  Then a
 * statement reads several shards of a node, so that each statement can have a connection.  The node
 * merges these shards.
 *
 * In a table with two levels, the partitions may follow each other in that order, and the first
 * ones may have all rows that are needed.  These are read in a first turn.  When their rows have
 * ended, the next turn reads twice as many partitions, and so on.
 *
 * A node to which this transaction has written is read over the connection that wrote, where each
 * statement has its own snapshot (READ COMMITTED).  There one statement reads all live shards with
 * UNION ALL.  So all are seen at the same moment, and without what the user's statement itself
 * writes.
 *
 * Assumptions: conditions in the remote query need no check here.  Core evaluates the other
 * conditions, which are in plan.qual.  The tables of one scan are colocated: shard i of each makes
 * one remote query.
 *
 * Other files contain connections, snapshots and the order on a node (remote/), pruning of shards
 * by conditions (catalog/route), and decoding of values (tuple/decode).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/reference.h"
#include "catalog/route.h"
#include "compat.h"
#include "deparse/table_check.h"
#include "replica/replica_read.h"
#include "executor/executor.h"
#include "executor/scan/asked_shards.h"
#include "executor/scan/fdw_executor.h"
#include "executor/scan/scan.h"
#include "executor/scan/scan_share.h"
#include "executor/scan/scan_turn.h"
#include "executor/scan/statement_view.h"
#include "guc.h"
#include "miscadmin.h"
#include "remote/run/read_role.h"
#include "utils/memutils.h"

/* If a shard returns more rows than this, COPY pays even for a single stream. */
#define COPY_FETCH_MIN_ROWS	1000

/* Maximum number of open streams of a node, as a multiple of its connections. */
#define WINDOW_FACTOR	2

/* ------------------------------------------------------------------------
 * Begin
 * ------------------------------------------------------------------------ */

/*
 * Looks up the tables' shards.  All tables must be colocated with the first one.  With a cluster
 * snapshot, uses the placement at the moment of the snapshot.
 */
static void
resolve_maps(ShardScanState *state)
{
	const ShardSnapshot *snapshot = state->snapshot;

	state->nmaps = list_length(state->plan->relids);
	state->maps = palloc(sizeof(ShardMap *) * state->nmaps);
	for (int i = 0; i < state->nmaps; i++)
	{
		Oid			relid = list_nth_oid(state->plan->relids, i);

		state->maps[i] = shard_map_get_levels_now(relid);
		if (state->maps[i] == NULL)
			elog(ERROR, "relation %u is not sharded", relid);
		if (snapshot && snapshot->local && !state->plan->locks_rows)
			state->maps[i] = shard_map_as_of(state->maps[i], snapshot->local, snapshot->local_xmin);
		if (state->maps[i]->nshards != state->maps[0]->nshards)
			elog(ERROR, "relations of a shard scan have %d and %d shards",
				 state->maps[0]->nshards, state->maps[i]->nshards);
	}
}

/*
 * Core opens the tables only of scans with a scanrelid.  While a table is open, the session itself
 * cannot alter or drop it (55006), under a cursor or in the loop of a function.  Otherwise such a
 * command would wait indefinitely for the scan's transactions on the nodes, or would change what
 * the scan is about to read there.  Reference tables are opened, too, since the nodes may read any
 * of them for the scan.
 */
List *
shard_scan_open_rels(const EState *estate, List *relids)
{
	List	   *rels = NIL;

	foreach_oid(relid, relids)
		rels = lappend(rels, table_open(relid, NoLock));
	foreach_node(RangeTblEntry, rte, estate->es_range_table)
	{
		if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_RELATION &&
			rte->relid >= FirstNormalObjectId && shard_reference_is(rte->relid))
			rels = lappend(rels, table_open(rte->relid, NoLock));
	}
	return rels;
}

void
shard_scan_close_rels(List *rels)
{
	ListCell   *lc;

	foreach(lc, rels)
		table_close((Relation) lfirst(lc), NoLock);
}

/* Does the statement of estate change rows of several tables or partitions, or lock rows there? */
static bool
locks_several(const EState *estate)
{
	int			n = shard_result_relation_count(estate->es_plannedstmt);

	foreach_node(PlanRowMark, mark, estate->es_plannedstmt->rowMarks)
		n += !mark->isParent && mark->strength != LCS_NONE;
	return n > 1;
}

/* Does LockRows take the rows of the relation as the scan has read them? */
static bool
is_copied(const EState *estate, Index rtindex)
{
	const ExecRowMark *mark = estate->es_rowmarks == NULL || rtindex == 0 ? NULL : estate->es_rowmarks[rtindex - 1];

	return mark != NULL && mark->markType == ROW_MARK_COPY && mark->strength != LCS_NONE;
}

/*
 * Locks the shards of a scan that locks rows against moves, until the transaction ends.  Row locks
 * on a node that no longer has the shard protect nothing.  If this waits for a move, the shard is
 * found in its new place.
 */
static void
lock_shards(ShardScanState *state)
{
	bool		current = true;
	int			shardno = -1;

	while ((shardno = bms_next_member(state->live, shardno)) >= 0)
		current &= shard_map_lock(state->maps[0], shardno, RowShareLock);
	if (!current)
		resolve_maps(state);
}

/* Prunes planned shards by conditions with parameters.  Memory: current context. */
static Bitmapset *
prune_by_parameters(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;
	List	   *quals = shard_param_bind(state->params, node->ss.ps.ps_ExprContext,
										 state->plan->prune_quals);

	if (OidIsValid(state->plan->prune_parent))
	{
		const ShardMap *parent = shard_map_get(state->plan->prune_parent);
		int			shardno = parent ? shard_map_find(parent, linitial_oid(state->plan->relids)) : -1;

		return shardno < 0 || bms_is_member(shardno, shard_route_prune(state->plan->prune_parent, quals)) ?
			bms_copy(state->planned) : NULL;
	}
	return shard_route_prune_shards(state->maps[0], quals, state->planned);
}

/*
 * Tells the transaction layer how many streams each node will get, so that a node with a single
 * stream needs no transaction.  A scan that may run again announces one more, since its runs must
 * use the same snapshot.
 */
static void
announce_streams(const ShardScanState *state, bool may_rescan)
{
	const ShardMap *map = state->maps[0];
	int		   *nstreams = palloc0(sizeof(int) * Max(map->nnodes, 1));
	int			shardno = -1;

	while ((shardno = bms_next_member(state->live, shardno)) >= 0)
		nstreams[map->shards[shardno].nodeno]++;
	for (int i = 0; i < map->nnodes; i++)
	{
		int			per_statement;

		if (nstreams[i] == 0)
			continue;
		per_statement = shard_share_per_statement(state, nstreams[i]);
		nstreams[i] = (nstreams[i] + per_statement - 1) / per_statement;
		if (state->plan->first_parts > 0)
			nstreams[i]++;		/* there may be a second turn */
		shard_snapshot_expect(state->snapshot, map->nodes[i].serverid, state->userid,
							  nstreams[i] + (may_rescan ? 1 : 0));
	}
	pfree(nstreams);
}

void
shardBeginForeignScan(ForeignScanState *node, int eflags)
{
	ForeignScan *fsplan = (ForeignScan *) node->ss.ps.plan;
	EState	   *estate = node->ss.ps.state;
	ShardScanState *state = palloc0(sizeof(ShardScanState));

	node->fdw_state = state;
	state->plan = shard_plan_private_unpack(SHARD_PLAN_SCAN, fsplan->fdw_private);
	state->params = shard_param_create(fsplan->fdw_exprs, (PlanState *) node);
	/* before the maps, since a shard may be moved in between */
	if (!(eflags & EXEC_FLAG_EXPLAIN_ONLY))
		state->snapshot = shard_txn_snapshot(estate->es_query_cxt);
	resolve_maps(state);
	state->userid = OidIsValid(state->plan->check_as_user) ? state->plan->check_as_user : GetUserId();
	state->rtable = estate->es_range_table;
	state->level = shard_txn_level_create(estate->es_query_cxt);
	state->planned = shard_map_numbers(state->maps[0], state->plan->all_shards, state->plan->shards);
	state->live = state->planned;
	state->max_streams = shard_guc_max_connections_per_node;

	if (state->plan->prune_quals != NIL && !(eflags & SHARD_EXEC_FLAG_NO_PARAMS))
	{
		state->prune_each_start =
			!shard_param_known_at_start(state->params, state->plan->prune_quals);
		if (!state->prune_each_start)
			state->live = prune_by_parameters(node);
	}

	state->split = shard_key_split_create(state->plan);

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	state->rels = shard_scan_open_rels(estate, state->plan->relids);
	state->view = state->plan->locks_rows ?
		shard_statement_view_create_locking(estate, state->rels, fsplan->scan.scanrelid) :
		shard_statement_view_create(estate, state->rels);
	state->decoder = shard_decode_create(node->ss.ss_ScanTupleSlot->tts_tupleDescriptor, state->plan->outputs, state->plan->noutputs);
	state->run_cxt = AllocSetContextCreate(estate->es_query_cxt, "shard scan",
										   ALLOCSET_DEFAULT_SIZES);
	state->limit = shard_asked_limit(estate);
	if (state->plan->locks_rows)
		lock_shards(state);
	if (state->plan->locks_rows && is_copied(estate, fsplan->scan.scanrelid))
		shard_statement_view_add_unchecked(estate, state->plan->relids);
	if (state->snapshot->local == NULL || state->plan->locks_rows)
		shard_map_check_unmoved(state->maps[0], state->planned);
	if (node->ss.ps.state->es_instrument)
		state->figures = palloc0(sizeof(ShardScanFigures) * state->maps[0]->nshards);
	/* cursors are read on the connection that writes, whose transaction has its own snapshots */
	if (!state->plan->locks_late)
		announce_streams(state, shard_param_has_exec(state->params) ||
						 (eflags & EXEC_FLAG_REWIND) != 0);
}

/* ------------------------------------------------------------------------
 * Starting
 * ------------------------------------------------------------------------ */

/*
 * Does the statement run in a transaction on the node that contains other statements?  Then it
 * needs its own savepoint.  The scan may be closed before the node reaches a row that fails, or may
 * belong to a cursor whose FETCH fails in a savepoint.  COPY creates the savepoint in the same
 * message.
 */
static bool
reads_in_transaction(const ShardScanState *state, int nodeno)
{
	return IsolationUsesXactSnapshot() ||
		shard_txn_uses_writer(shard_pool_get(state->maps[0]->nodes[nodeno].serverid, state->userid),
							  state->snapshot);
}

/* Renders the next statement over shards of scan_node.  Returns their name for messages. */
static const char *
render_next(ShardScanState *state, ShardScanNode *scan_node, bool use_copy, StringInfo buf)
{
	const int  *shardnos = scan_node->shardnos + scan_node->nopened;
	int			nshards = Min(scan_node->per_statement, scan_node->nlive - scan_node->nopened);
	const char *name = state->maps[0]->shards[shardnos[0]].name;

	scan_node->nopened += nshards;
	shard_scan_sql(state, shardnos, nshards, use_copy, buf);
	return nshards == 1 ? name : psprintf(_("%s and %d more"), name, nshards - 1);
}

/* Opens the next statement on node nodeno as source i. */
static void
open_source(ShardScanState *state, int i, int nodeno)
{
	const ShardMap *map = state->maps[0];
	ShardScanNode *scan_node = &state->nodes[nodeno];
	ShardScanSource *source = &state->sources[i];
	int			shardno = scan_node->shardnos[scan_node->nopened];
	ShardStreamSpec spec = {0};

	spec.use_copy = state->use_copy || (state->may_copy && reads_in_transaction(state, nodeno));
	source->nodeno = nodeno;
	source->shardno = shardno;
	source->has_rows = source->counted = false;
	if (state->figures != NULL)
		INSTR_TIME_SET_CURRENT(source->opened);
	if (source->sql.data == NULL)
		initStringInfo(&source->sql);
	else
		resetStringInfo(&source->sql);
	/* a statement that locks rows takes its snapshot after its locks, unless the transaction has one */
	if (!state->plan->locks_rows || IsolationUsesXactSnapshot())
		spec.check = shard_table_check(state->maps, state->nmaps, scan_node->shardnos + scan_node->nopened,
									   Min(scan_node->per_statement, scan_node->nlive - scan_node->nopened),
									   state->rtable, state->userid, &spec.may_be_gone);
	spec.label = render_next(state, scan_node, spec.use_copy || state->plan->locks_late, &source->sql);

	spec.serverid = map->shards[shardno].serverid;
	spec.userid = state->userid;
	spec.sql = source->sql.data;
	spec.ncolumns = shard_decode_nremote(state->decoder);
	spec.portable_text = shard_decode_has_styled_text(state->decoder);
	spec.is_prepared = state->plan->is_prepared;
	spec.for_values = state->plan->for_values;
	spec.as_writer = state->plan->locks_rows;
	spec.only_locks = state->plan->locks_rows;
	spec.view = state->view;
	/* row locks belong to the savepoint in which the rows are fetched */
	spec.level = state->plan->locks_rows ? NULL : state->level;
	spec.limit = state->limit;
	spec.workers = shard_share_workers(state, nodeno, scan_node);
	spec.cpu_factor = shard_share_cpu_factor(state, nodeno, scan_node);
	if (!spec.use_copy && !state->plan->locks_late)
	{
		spec.nparams = shard_param_count(state->plan->template, state->plan->shard_template);
		/* a statement over several shards gets the values that are valid for all shards */
		spec.params = scan_node->per_statement == 1 ? shard_scan_values(state, shardno) :
			state->param_values;
	}
	else
		spec.has_values = shard_param_count(state->plan->template, state->plan->shard_template) > 0;
	if (state->plan->locks_late)
		shard_scan_cursor_declare(state, source, &spec);
	state->streams[i] = shard_stream_open(state->run_cxt, state->snapshot, &spec);
}

/*
 * Is the node read on the connection that writes, or will it be when this statement begins to
 * write?  Then each of the scan's statements there would see what was written before it.
 */
static bool
reads_as_writer(const ForeignScanState *node, int nodeno)
{
	const ShardScanState *state = node->fdw_state;
	ShardPool  *pool = shard_pool_get(state->maps[0]->nodes[nodeno].serverid, state->userid);

	return (IsolationUsesXactSnapshot() && shard_statement_view_writes(node->ss.ps.state)) ||
		shard_txn_uses_writer(pool, state->snapshot);
}

/*
 * Distributes live shards to their nodes.  Returns the number of streams to open first.  A node
 * that is read as a writer gets one statement, which sees one moment.
 */
static int
group_by_node(ForeignScanState *node, int window)
{
	ShardScanState *state = node->fdw_state;
	const ShardMap *map = state->maps[0];
	int			total = 0;
	int			shardno = -1;

	state->nodes = palloc0(sizeof(ShardScanNode) * Max(map->nnodes, 1));
	while ((shardno = bms_next_member(state->turn, shardno)) >= 0)
		state->nodes[map->shards[shardno].nodeno].nlive++;
	for (int i = 0; i < map->nnodes; i++)
	{
		ShardScanNode *scan_node = &state->nodes[i];

		if (scan_node->nlive == 0)
			continue;
		scan_node->shardnos = palloc(sizeof(int) * scan_node->nlive);
		scan_node->per_statement = shard_share_per_statement(state, scan_node->nlive);
		if (!state->plan->locks_rows && reads_as_writer(node, i))
			scan_node->per_statement = scan_node->nlive;
		total += Min(shard_share_statements(scan_node), window);
		scan_node->nlive = 0;
	}
	shardno = -1;
	while ((shardno = bms_next_member(state->turn, shardno)) >= 0)
	{
		ShardScanNode *scan_node = &state->nodes[map->shards[shardno].nodeno];

		scan_node->shardnos[scan_node->nlive++] = shardno;
	}
	return total;
}

bool
shard_scan_sees_one_moment(const ForeignScanState *node, bool others_run)
{
	const ShardScanState *state = node->fdw_state;

	if (others_run && IsolationUsesXactSnapshot() && !XactReadOnly)
		return false;
	for (int i = 0; i < state->maps[0]->nnodes; i++)
	{
		if (reads_as_writer(node, i))
			return false;
	}
	return true;
}

void
shard_scan_set_part(ForeignScanState *node, ShardScanPart part)
{
	ShardScanState *state = node->fdw_state;

	Assert(!state->running);
	Assert(part == SHARD_SCAN_ALL || state->first_shards != NULL);
	state->part = part;
}

void
shard_scan_bind(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;
	MemoryContext oldcxt = MemoryContextSwitchTo(state->run_cxt);

	state->param_values = shard_param_evaluate(state->params, node->ss.ps.ps_ExprContext);
	if (state->prune_each_start)
		state->live = prune_by_parameters(node);
	state->unsplit = state->live;
	state->split_values = state->split == NULL ? NULL :
		shard_key_split_run(state->split, state->maps[0], state->params,
							node->ss.ps.ps_ExprContext, &state->live);
	if (state->part == SHARD_SCAN_FIRST)
		state->live = bms_intersect(state->live, state->first_shards);
	else if (state->part == SHARD_SCAN_OTHERS)
		state->live = bms_difference(state->live, state->first_shards);
	MemoryContextSwitchTo(oldcxt);
	shard_asked_add(node->ss.ps.state, state->plan->relids, state->maps[0], state->live);
	/* core has a scan for each shard, and this may be one of them */
	if (state->plan->locks_rows && (bms_num_members(state->live) > 1 || locks_several(node->ss.ps.state)))
		shard_map_lock_several(state->plan->relids);
}

/*
 * May partitions be read in turns?  Not on connections that write, or may write before the last
 * turn, since a statement there sees what was written before it.
 */
static bool
reads_in_turns(const ForeignScanState *node)
{
	const ShardScanState *state = node->fdw_state;

	if (state->plan->first_parts == 0 || state->plan->at_once || state->plan->locks_rows ||
		(IsolationUsesXactSnapshot() && !XactReadOnly))
		return false;
	for (int i = 0; i < state->maps[0]->nnodes; i++)
	{
		if (reads_as_writer(node, i))
			return false;
	}
	return true;
}

/* Maximum number of open streams of a node. */
static int
window_size(const ShardScanState *state)
{
	bool		may_write = IsolationUsesXactSnapshot() && !XactReadOnly;

	if (state->plan->sort_columns != NIL || (may_write && !state->plan->locks_rows))
		return state->maps[0]->nshards;
	return WINDOW_FACTOR * shard_guc_max_connections_per_node;
}

/*
 * COPY sends what must precede a statement in the same message.  So it is also used for the
 * statements of one node that share a snapshot.
 */
static bool
fetches_by_copy(const ShardScanState *state)
{
	int			nlive = bms_num_members(state->turn);
	int			nqueries = 0;

	if (!state->may_copy)
		return false;
	for (int i = 0; i < state->maps[0]->nnodes; i++)
	{
		const ShardScanNode *scan_node = &state->nodes[i];

		if (scan_node->nlive == 0)
			continue;
		if (shard_share_statements(scan_node) > 1)
			return true;
		nqueries++;
	}
	return state->plan->rows_per_shard * nlive > (double) COPY_FETCH_MIN_ROWS * nqueries;
}

/* Opens the streams of state->turn.  Memory: current context, run_cxt. */
static void
open_turn(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;
	int			window = window_size(state);
	int			nnodes = state->maps[0]->nnodes;
	int			nstreams = group_by_node(node, window);

	state->use_copy = fetches_by_copy(state);
	state->streams = palloc0(sizeof(ShardStream *) * Max(nstreams, 1));
	state->sources = palloc0(sizeof(ShardScanSource) * Max(nstreams, 1));
	state->nsources = 0;
	state->current = 0;
	state->merging = state->plan->sort_columns != NIL && nstreams > 1;

	/* one per node in each round, so that all nodes start early */
	while (state->nsources < nstreams)
	{
		for (int i = 0; i < nnodes; i++)
		{
			ShardScanNode *scan_node = &state->nodes[i];

			if (scan_node->nopened < scan_node->nlive &&
				scan_node->nopened < window * scan_node->per_statement)
				open_source(state, state->nsources++, i);
		}
	}
}

/* Chooses the servers of the nodes that the scan reads, for all of its turns. */
static void
choose_servers(ForeignScanState *node)
{
	const ShardScanState *state = node->fdw_state;
	const ShardMap *map = state->maps[0];
	List	   *serverids = NIL;
	int			shardno = -1;

	if (shard_guc_read_from == SHARD_READ_PRIMARY || !shard_statement_view_only_reads(node->ss.ps.state))
		return;
	while ((shardno = bms_next_member(state->live, shardno)) >= 0)
		serverids = list_append_unique_oid(serverids, map->shards[shardno].serverid);
	shard_read_role_choose(state->snapshot, serverids, state->userid);
}

/* May the scan read replicas of shards whose primary is unavailable? */
static bool
reads_replicas(ForeignScanState *node)
{
	const ShardScanState *state = node->fdw_state;

	/* a snapshot of an earlier moment is one of the primaries */
	return !state->plan->locks_rows && !(state->snapshot && state->snapshot->local) &&
		shard_statement_view_only_reads(node->ss.ps.state);
}

void
shard_scan_start(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;
	MemoryContext oldcxt;

	if (state->running)
		return;

	shard_scan_bind(node);
	oldcxt = MemoryContextSwitchTo(state->run_cxt);
	state->may_copy = shard_guc_enable_copy_fetch && !state->plan->locks_rows;
	state->wait_set = shard_wait_set_create(state->run_cxt);
	state->running = true;
	if (state->maps[0]->has_replicas && reads_replicas(node))
		state->maps[0] = shard_replica_read_map(state->maps[0], state->live, state->snapshot, state->userid);
	choose_servers(node);
	shard_scan_turn_first(state, reads_in_turns(node));
	open_turn(node);
	MemoryContextSwitchTo(oldcxt);
}

/* All rows of a turn were read.  Starts the next turn, if there is one. */
static bool
next_turn(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;
	MemoryContext oldcxt;

	if (bms_is_empty(state->later))
		return false;
	shard_scan_close_streams(node);
	oldcxt = MemoryContextSwitchTo(state->run_cxt);
	shard_scan_turn_next(state);
	open_turn(node);
	MemoryContextSwitchTo(oldcxt);
	return true;
}

/* ------------------------------------------------------------------------
 * Running
 * ------------------------------------------------------------------------ */

/*
 * Source i has no more rows.  The next shard of its node takes its place.  If its node has none
 * left, the last source takes it.
 */
static void
finish_source(ForeignScanState *node, int i)
{
	ShardScanState *state = node->fdw_state;
	int			nodeno = state->sources[i].nodeno;

	if (shard_scan_cursor_next(node, i))
		return;
	shard_scan_close_stream(node, i);
	if (state->nodes[nodeno].nopened < state->nodes[nodeno].nlive)
	{
		MemoryContext oldcxt = MemoryContextSwitchTo(state->run_cxt);

		open_source(state, i, nodeno);
		MemoryContextSwitchTo(oldcxt);
	}
	else
	{
		ShardScanSource last = state->sources[state->nsources - 1];

		state->nsources--;
		state->streams[i] = state->streams[state->nsources];
		state->sources[state->nsources] = state->sources[i];
		state->sources[i] = last;
		state->streams[state->nsources] = NULL;
		if (state->current >= state->nsources)
			state->current = 0;
	}
}

/*
 * Takes the next row from any stream that has one.  False if none has.  At the end of the scan
 * nsources is 0.
 */
static bool
take_row(ForeignScanState *node, ShardRow *row)
{
	ShardScanState *state = node->fdw_state;
	int			nwaiting = 0;

	while (nwaiting < state->nsources)
	{
		switch (shard_stream_next(state->streams[state->current], row))
		{
			case SHARD_STREAM_ROW:
				return true;
			case SHARD_STREAM_DONE:
				/* continue with the source that takes its place */
				finish_source(node, state->current);
				break;
			case SHARD_STREAM_WAIT:
				nwaiting++;
				state->current = (state->current + 1) % state->nsources;
				break;
		}
	}
	return false;
}

/* Returns the next row of the present turn; see shardIterateForeignScan(). */
static TupleTableSlot *
fetch_row_of_turn(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ShardRow	row;

	if (state->merging)
		return shard_merge_next(node);
	while (!take_row(node, &row))
	{
		if (state->nsources == 0)
			return ExecClearTuple(slot);
		if (state->async_mode)
		{
			state->would_wait = true;
			return ExecClearTuple(slot);
		}
		shard_stream_wait(state->streams, state->nsources, state->wait_set);
	}
	/* core resets the memory of the values before it asks for the next row */
	shard_scan_store_row(node, state->current, &row, slot,
						 node->ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
	return slot;
}

/*
 * Returns the next row, in the scan's slot or in a slot of merge.c.  Empty at the end, or if
 * async_mode forbids waiting.
 */
TupleTableSlot *
shardIterateForeignScan(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;
	TupleTableSlot *slot;

	shard_scan_start(node);
	do
		slot = fetch_row_of_turn(node);
	while (TupIsNull(slot) && !state->would_wait && next_turn(node));
	return slot;
}

void
shard_scan_close_streams(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;

	/* before closing, which takes time if queries must be cancelled */
	for (int i = 0; i < state->nsources && state->figures != NULL; i++)
	{
		if (state->streams[i] != NULL)
			shard_scan_count_source(state, i);
	}
	for (int i = 0; i < state->nsources; i++)
	{
		if (state->streams[i] != NULL)
			shard_scan_close_stream(node, i);
	}
	shard_scan_cursor_close_all(node);
	state->nsources = 0;
	if (state->merge != NULL)
		shard_merge_reset(state->merge);
}

/* Ends the current run.  The next Iterate starts a new one. */
static void
stop_run(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;

	if (!state->running)
		return;
	shard_scan_close_streams(node);
	state->live = state->prune_each_start ? state->planned : state->unsplit;
	state->running = false;
	MemoryContextReset(state->run_cxt);
}

void
shardReScanForeignScan(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;

	/* The parameters' values may have changed even if chgParam is no longer set, so a run is never kept. */
	state->would_wait = false;
	if (state->plan->locks_rows)
		shard_statement_view_read_again(node->ss.ps.state, state->view);
	stop_run(node);
}

void
shardEndForeignScan(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;

	/* NULL if Begin failed or was not called */
	if (state == NULL || state->run_cxt == NULL)
		return;
	stop_run(node);
	shard_scan_close_rels(state->rels);
	MemoryContextDelete(state->run_cxt);
	state->run_cxt = NULL;
}

/*
 * For EvalPlanQual.  A scan of one relation gets the row from core and has its remote conditions in
 * fdw_recheck_quals, which core checks.  A scan without scanrelid must return rows itself: core
 * calls this function in place of Iterate, for a sharded table in a subquery that is evaluated
 * again.
 */
bool
shardRecheckForeignScan(ForeignScanState *node, TupleTableSlot *slot)
{
	TupleTableSlot *row;

	if (((Scan *) node->ss.ps.plan)->scanrelid > 0)
		return true;
	row = shardIterateForeignScan(node);
	if (row != slot)
		ExecCopySlot(slot, row);
	return !TupIsNull(slot);
}
