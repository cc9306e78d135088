/*
 * statement_exec.c
 *	  Runs a whole statement on the only shard that its key selects, or on many shards.
 *
 *	   Begin	resolve shards and decoder; nothing remote
 *	   Exec		first call: evaluate parameters once --> shard of the key --> SQL
 *				 without rows	commands on all shards in parallel; the sum of their
 *								counts is the statement's
 *				 with rows		a stream per shard, read as rows arrive
 *	   End		if it changes rows, and not all were read: read it to its end
 *
 * Statements that change or lock rows run on the transaction's writer.  Statements that only read
 * use readers.
 *
 * Other files contain the choice of these statements (planner/), and connections, transactions and
 * the order of streams on a node (remote/).
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/colocate.h"
#include "catalog/integer.h"
#include "catalog/route.h"
#include "compat.h"
#include "deparse/table_check.h"
#include "replica/replica_read.h"
#include "executor/explain.h"
#include "executor/explain_remote.h"
#include "executor/scan/asked_shards.h"
#include "executor/scan/param.h"
#include "executor/scan/scan.h"
#include "executor/scan/statement_alone.h"
#include "executor/scan/statement_view.h"
#include "executor/shard_run.h"
#include "executor/statement_exec.h"
#include "executor/tied_parts.h"
#include "fault.h"
#include "guc.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "partitioning/partdesc.h"
#include "remote/run/autocommit.h"
#include "remote/run/read_role.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"

typedef struct ShardStatementState
{
	CustomScanState css;		/* must be first */
	ShardStatementPlan *plan;
	ShardParams *params;
	int			nmaps;
	const ShardMap **maps;		/* maps of plan->relids */
	List	   *rels;			/* these tables, open; NULL: closed */
	Oid			userid;			/* the user whose mappings are used */
	ShardRun	run;			/* decoder NULL: no rows are returned */

	/* set from the first call on; in run_cxt */
	MemoryContext run_cxt;
	bool		started;
	Datum	   *datums;			/* values of the parameters, evaluated once */
	bool	   *isnull;
	const char **values;		/* their text forms */
	Bitmapset  *live;			/* shards that run the statement; the targets of run are in their order */
	List	   *rows;			/* List of MinimalTuple: rows that have arrived all together */
} ShardStatementState;

/* ------------------------------------------------------------------------
 * Begin
 * ------------------------------------------------------------------------ */

static void
resolve_maps(ShardStatementState *state)
{
	List	   *relids = state->plan->relids;

	state->nmaps = list_length(relids);
	state->maps = palloc(sizeof(ShardMap *) * state->nmaps);
	for (int i = 0; i < state->nmaps; i++)
	{
		state->maps[i] = shard_map_get_levels_now(list_nth_oid(relids, i));
		if (state->maps[i] == NULL)
			elog(ERROR, "relation %u is not sharded", list_nth_oid(relids, i));
		/* plans are made again after a move; this one was made just before it */
		if (!shard_colocated(list_nth_oid(relids, i), linitial_oid(relids)))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("shards of \"%s\" and \"%s\" have moved apart while the statement began",
							get_rel_name(linitial_oid(relids)), get_rel_name(list_nth_oid(relids, i)))));
	}
}

static void
statement_begin(CustomScanState *node, EState *estate, int eflags)
{
	ShardStatementState *state = (ShardStatementState *) node;
	CustomScan *cscan = (CustomScan *) node->ss.ps.plan;
	ShardStreamSpec *spec = &state->run.spec;

	state->plan = shard_plan_private_unpack(SHARD_PLAN_STATEMENT, cscan->custom_private);
	state->params = shard_param_create(cscan->custom_exprs, &node->ss.ps);
	resolve_maps(state);
	spec->userid = OidIsValid(state->plan->check_as_user) ? state->plan->check_as_user : GetUserId();
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	state->rels = shard_scan_open_rels(estate, state->plan->relids);
	state->run.cxt = state->run_cxt = AllocSetContextCreate(estate->es_query_cxt, "shard statement",
															ALLOCSET_SMALL_SIZES);
	state->run.inlines = true;
	spec->as_writer = state->plan->on_writer;
	spec->only_locks = state->plan->only_locks;
	spec->for_values = state->plan->for_values;
	spec->view = state->plan->on_writer ? NULL : shard_statement_view_create(estate, state->rels);
	/* row locks belong to the savepoint in which the rows are fetched */
	spec->level = state->plan->only_locks ? NULL : shard_txn_level_create(estate->es_query_cxt);
	if (state->plan->only_locks)
		shard_statement_view_add_unchecked(estate, state->plan->relids);
	spec->limit = shard_asked_limit(estate);
	if (state->plan->returns_rows)
		shard_run_set_outputs(&state->run, state->plan->outputs, state->plan->noutputs,
							  node->ss.ss_ScanTupleSlot->tts_tupleDescriptor);
}

/* ------------------------------------------------------------------------
 * Which shards
 * ------------------------------------------------------------------------ */

/*
 * Fills values of the key's columns. first: number of the first one among the columns of all
 * levels' keys.  False: the column's type cannot represent a value, so no row is equal to it.
 */
static bool
key_values(ShardStatementState *state, PartitionKey key, int first, Datum *values, bool *isnull)
{
	CustomScan *cscan = (CustomScan *) state->css.ss.ps.plan;

	for (int i = 0; i < key->partnatts; i++)
	{
		int			paramno = list_nth_int(state->plan->key_params, first + i);
		Oid			type = getBaseType(exprType(list_nth(cscan->custom_exprs, paramno - 1)));

		values[i] = state->datums[paramno - 1];
		isnull[i] = state->isnull[paramno - 1];
		if (isnull[i] || type == key->parttypid[i] || !shard_integer_is_type(type) || !shard_integer_is_type(key->parttypid[i]))
			continue;
		if (!shard_integer_convert(&values[i], type, key->parttypid[i]))
			return false;
	}
	return true;
}

/*
 * Returns the number of the partition of rel, the parent at one of the levels, that accepts the key.  -1: no row has
 * the key.
 */
static int
route_level(ShardStatementState *state, Relation rel, PartitionDesc partdesc, int first, bool noerror)
{
	Datum		values[PARTITION_MAX_KEYS];
	bool		isnull[PARTITION_MAX_KEYS];
	int			partno = -1;

	if (key_values(state, RelationGetPartitionKey(rel), first, values, isnull))
		partno = shard_route_key(rel, partdesc, values, isnull);
	if (partno < 0 && state->plan->inserts_key && !noerror)
		shard_route_raise_no_shard(rel, values, isnull);
	return partno;
}

/* Returns the shard of the key. noerror: any shard if there is none. */
static int
route_by_key(ShardStatementState *state, bool noerror)
{
	Relation	parent = table_open(linitial_oid(state->plan->relids), NoLock);
	PartitionDesc partdesc;
	int			shardno;

	if (shard_route_pin(parent, &partdesc) != state->maps[0])
		resolve_maps(state);	/* a concurrent detach has ended in between */
	shardno = route_level(state, parent, partdesc, 0, noerror);
	table_close(parent, NoLock);

	/* no row has such a key, so any shard gives the right answer */
	return Max(shardno, 0);
}

/* Looks up the maps again, for a plan that was made for map. */
static void
renew_maps(ShardStatementState *state, const ShardMap *map)
{
	resolve_maps(state);
	if (state->maps[0]->nparts == 0 || state->maps[0]->renames != map->renames ||
		state->maps[0]->read_only != map->read_only || state->maps[0]->has_triggers != map->has_triggers ||
		state->maps[0]->foreign_definition != map->foreign_definition)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("partitions of \"%s\" have changed while the statement began", get_rel_name(map->relid)),
				 errhint("The transaction might succeed if retried.")));
}

/* Does the statement change rows, or lock them? */
static bool
locks_shards(const ShardStatementState *state)
{
	return state->plan->on_writer || !state->plan->returns_rows;
}

/*
 * Like route_by_key(), for a table with two levels.  Locks the partition with the key in all
 * tables, as core would.  A change that this has waited for may have invalidated the plan.
 */
static int
route_by_levels(ShardStatementState *state, bool noerror)
{
	for (;;)
	{
		const ShardMap *map = state->maps[0];
		Relation	rel = table_open(map->relid, NoLock);
		PartitionDesc partdesc = RelationGetPartitionDesc(rel, true);
		int			nfirst = RelationGetPartitionKey(rel)->partnatts;
		int			partno = route_level(state, rel, partdesc, 0, noerror);
		Oid			relid = partno < 0 ? InvalidOid : partdesc->oids[partno];

		table_close(rel, NoLock);
		/* no row has such a key, so any shard gives the right answer */
		if (partno < 0)
			return 0;
		for (int i = 0; i < state->nmaps && partno < state->maps[i]->nparts; i++)
			LockRelationOid(state->maps[i]->parts[partno].relid,
							locks_shards(state) ? RowExclusiveLock : AccessShareLock);
		if (shard_map_is_current(map) && partno < map->nparts && map->parts[partno].relid == relid)
		{
			const ShardPart *part = &map->parts[partno];
			int			shardno;

			rel = table_open(relid, NoLock);
			partdesc = RelationGetPartitionDesc(rel, true);
			shardno = route_level(state, rel, partdesc, nfirst, noerror);
			relid = shardno < 0 ? InvalidOid : partdesc->oids[shardno];
			table_close(rel, NoLock);
			if (shardno < 0)
				return part->first;
			if (shardno < part->nshards && map->shards[part->first + shardno].relid == relid)
				return part->first + shardno;
		}
		CHECK_FOR_INTERRUPTS();
		renew_maps(state, map);
	}
}

/* Returns the numbers of the shards that run the statement.  The key's parameters must have been evaluated. */
static Bitmapset *
live_shards(ShardStatementState *state, bool noerror)
{
	const ShardMap *map = state->maps[0];

	if (state->plan->key_params != NIL)
		return bms_make_singleton(map->nparts > 0 ? route_by_levels(state, noerror) : route_by_key(state, noerror));
	return shard_map_numbers(map, state->plan->all_shards, state->plan->shards);
}

/* ------------------------------------------------------------------------
 * Exec
 * ------------------------------------------------------------------------ */

/* Returns the template for a shard. *first: number of values before those of its parameters. */
static const ShardTemplate *
template_of(const ShardStatementState *state, int shardno, int *first)
{
	int			i = 0;

	*first = 0;
	foreach_oid(shard, state->plan->shard_texts != NIL ? state->plan->shards : NIL)
	{
		if (shard == state->maps[0]->shards[shardno].relid)
		{
			*first = list_nth_int(state->plan->shard_params, i);
			return list_nth(state->plan->shard_texts, i);
		}
		i++;
	}
	return state->plan->template;
}

/*
 * Returns the statement's text for one shard. literals: contains the values of parameters.  Memory:
 * current context.
 */
static char *
render(const ShardStatementState *state, int shardno, bool literals)
{
	const char *names[8];
	const char **relations = names;
	int			first;
	const ShardTemplate *template = template_of(state, shardno, &first);
	StringInfoData sql;

	if (state->nmaps > lengthof(names))
		relations = palloc(sizeof(char *) * state->nmaps);
	for (int i = 0; i < state->nmaps; i++)
		relations[i] = state->maps[i]->shards[shardno].relation;
	initStringInfo(&sql);
	shard_param_render(&sql, template, relations, NULL, literals, literals ? state->values + first : NULL);
	return sql.data;
}

/*
 * Returns the shards that run the statement.  If it changes or locks rows, they are locked against
 * moves until the transaction ends.  If this has waited for a move, the map has changed, and
 * further shards may have to be locked.
 */
static Bitmapset *
lock_live_shards(ShardStatementState *state)
{
	bool		locks = locks_shards(state);
	int			lockmode = state->plan->only_locks ? RowShareLock : RowExclusiveLock;
	Bitmapset  *live;
	bool		current;

	do
	{
		int			shardno = -1;

		live = live_shards(state, false);
		current = true;
		if (locks && bms_num_members(live) > 1)
			shard_map_lock_several(state->plan->relids);
		while (locks && (shardno = bms_next_member(live, shardno)) >= 0)
			current &= shard_map_lock(state->maps[0], shardno, lockmode);
		if (!current)
			resolve_maps(state);
	} while (!current);
	return live;
}

static void
make_targets(ShardStatementState *state)
{
	ShardRun   *run = &state->run;
	int			shardno = -1;
	int			first;

	state->live = lock_live_shards(state);
	/* rows of VALUES are sent where they belong */
	if (!state->plan->inserts_values)
		shard_asked_add(state->css.ss.ps.state, state->plan->relids, state->maps[0], state->live);
	run->ntargets = 0;
	run->targets = palloc0(sizeof(ShardRunTarget) * Max(bms_num_members(state->live), 1));
	while ((shardno = bms_next_member(state->live, shardno)) >= 0)
	{
		ShardRunTarget *target = &run->targets[run->ntargets++];

		target->label = state->maps[0]->shards[shardno].name;
		target->sql = render(state, shardno, false);
		target->nparams = shard_param_count(template_of(state, shardno, &first), NIL);
		target->params = state->values + first;
	}
}

/* Sets the servers of the targets, once it is known which map is used, and what to check there. */
static void
set_servers(ShardStatementState *state)
{
	int			shardno = -1;

	for (int i = 0; i < state->run.ntargets; i++)
	{
		shardno = bms_next_member(state->live, shardno);
		state->run.targets[i].serverid = state->maps[0]->shards[shardno].serverid;
		if (!locks_shards(state) || IsolationUsesXactSnapshot())
			state->run.targets[i].check = shard_table_check(state->maps, state->nmaps, &shardno, 1,
															state->css.ss.ps.state->es_range_table, state->run.spec.userid,
															&state->run.targets[i].may_be_gone);
	}
}

/* Runs the statement on all targets.  They return only counts. */
static void
run_commands(ShardStatementState *state)
{
	int64		nchanged = 0;
	ShardCommand command;

	if (state->run.ntargets == 1 && shard_autocommit_possible() && shard_statement_is_alone(state->css.ss.ps.state))
	{
		command = shard_run_command(&state->run, 0);
		if (!shard_autocommit_run(&command, &nchanged))
			nchanged = shard_run_commands(&state->run);
	}
	else
		nchanged = shard_run_commands(&state->run);
	shard_run_count(&state->css.ss.ps, state->plan->set_processed, nchanged);
}

/*
 * May the node commit the statement by itself although it returns rows?  After the commit nothing
 * may fail.  So there must be few rows, of types whose binary form is accepted without checks, and
 * the client must be able to receive them.
 */
static bool
may_commit_returning(const ShardStatementState *state)
{
	const ShardStatementPlan *plan = state->plan;

	if (!plan->inserts_values || state->run.ntargets != 1 || state->run.targets[0].nparams == 0)
		return false;
	for (int i = 0; i < plan->noutputs; i++)
	{
		if (plan->outputs[i].kind != SHARD_OUTPUT_VALUE || plan->outputs[i].type >= FirstGenbkiObjectId)
			return false;
	}
	return shard_autocommit_possible() && shard_statement_is_alone(state->css.ss.ps.state) &&
		shard_statement_client_takes_rows();
}

/* An error after the node's commit (out of memory) must not look as if nothing had been done. */
static void
committed_already(void *arg)
{
	errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN);
	errcontext("rows of a statement that a node has committed");
}

/* Runs an INSERT that is the whole transaction, and reads its rows.  False: it was not run. */
static bool
run_returning(ShardStatementState *state)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
	PGresult   *res;
	ShardCommand command;
	ShardRow	row;
	ErrorContextCallback callback = {.callback = committed_already, .previous = error_context_stack};

	if (!may_commit_returning(state))
		return false;
	command = shard_run_command(&state->run, 0);
	res = shard_autocommit_returning(&command);
	if (res == NULL)
		return false;
	error_context_stack = &callback;
	SHARD_FAULT_POINT("autocommit_returned");
	row.ncols = PQnfields(res);
	row.values = palloc(sizeof(char *) * Max(row.ncols, 1));
	row.lens = palloc(sizeof(int) * Max(row.ncols, 1));
	for (int n = 0; n < PQntuples(res); n++)
	{
		for (int i = 0; i < row.ncols; i++)
		{
			row.values[i] = PQgetvalue(res, n, i);
			row.lens[i] = PQgetisnull(res, n, i) ? -1 : PQgetlength(res, n, i);
		}
		MemoryContextReset(state->run.row_cxt);
		shard_decode_row(state->run.decoder, &row, slot, state->run.row_cxt);
		state->rows = lappend(state->rows, ExecCopySlotMinimalTuple(slot));
	}
	error_context_stack = callback.previous;
	ExecClearTuple(slot);
	return true;
}

static void
open_streams(ShardStatementState *state, ShardSnapshot *snapshot)
{
	for (int i = 0; i < state->run.ntargets && !state->plan->on_writer; i++)
	{
		Oid			serverid = state->run.targets[i].serverid;

		shard_snapshot_expect(snapshot, serverid, state->run.spec.userid, 1);
		if (shard_guc_read_from != SHARD_READ_PRIMARY && shard_statement_view_only_reads(state->css.ss.ps.state))
			shard_read_role_choose(snapshot, list_make1_oid(serverid), state->run.spec.userid);
	}
	shard_run_open(&state->run, snapshot);
}

/* Evaluates parameter paramno (1-based). */
static void
evaluate(ShardStatementState *state, int paramno)
{
	state->datums[paramno - 1] = shard_param_value(state->params, paramno,
												   state->css.ss.ps.ps_ExprContext,
												   &state->isnull[paramno - 1]);
}

static void
alloc_values(ShardStatementState *state)
{
	int			nparams = list_length(((CustomScan *) state->css.ss.ps.plan)->custom_exprs);

	state->datums = palloc0(sizeof(Datum) * Max(nparams, 1));
	state->isnull = palloc0(sizeof(bool) * Max(nparams, 1));
}

/* Evaluates each parameter once. */
static void
evaluate_all(ShardStatementState *state)
{
	int			nparams = list_length(((CustomScan *) state->css.ss.ps.plan)->custom_exprs);
	int			nsent = state->plan->shard_texts != NIL ? nparams : shard_param_count(state->plan->template, NIL);

	alloc_values(state);
	for (int i = 1; i <= nparams; i++)
		evaluate(state, i);
	state->values = palloc0(sizeof(char *) * Max(nsent, 1));
	for (int i = 0; i < nsent; i++)
	{
		if (!state->isnull[i])
			state->values[i] = shard_param_text(state->params, i + 1, state->datums[i]);
	}
}

/*
 * Raises if functions that gave values of parameters have written to tables of the statement, or foreign keys because of
 * what they have written.  The node would see these
 * rows, which the statement must not read, change or lock.  They do not matter for a table into which it only inserts.
 */
static void
check_unwritten(const ShardStatementState *state)
{
	EState	   *estate = state->css.ss.ps.state;

	if (!state->plan->on_writer)
		return;
	foreach_ptr(const ShardPermissions, permission, shard_estate_permissions(estate))
	{
		bool		only_inserts = estate->es_plannedstmt->commandType == CMD_INSERT &&
			(permission->requiredPerms & (ACL_INSERT | ACL_UPDATE)) == ACL_INSERT;

		if (permission->requiredPerms == 0 || only_inserts)
			continue;
		shard_tied_parts_check_unwritten(estate, permission->relid, state->maps[0]->shards[0].serverid, state->run.spec.userid);
	}
}

/* Starts the statement on all of its shards. */
static void
start(ShardStatementState *state)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(state->run_cxt);
	ShardSnapshot *snapshot = NULL;

	state->started = true;
	evaluate_all(state);
	check_unwritten(state);
	/* before the map is read, since a shard may be moved in between */
	if (state->plan->returns_rows)
		snapshot = shard_txn_snapshot(state->css.ss.ps.state->es_query_cxt);
	if (state->plan->returns_rows && !state->plan->on_writer)
		resolve_maps(state);
	make_targets(state);
	if (snapshot && snapshot->local && !state->plan->on_writer)
		state->maps[0] = shard_map_as_of(state->maps[0], snapshot->local, snapshot->local_xmin);
	else if (IsolationUsesXactSnapshot())
		shard_map_check_unmoved(state->maps[0], state->live);
	if (state->maps[0]->has_replicas && state->live != NULL && state->plan->returns_rows && !state->plan->on_writer && !snapshot->local &&
		shard_statement_view_only_reads(state->css.ss.ps.state))
		state->maps[0] = shard_replica_read_map(state->maps[0], state->live, snapshot, state->run.spec.userid);
	set_servers(state);
	if (locks_shards(state))
		shard_run_checks(&state->run);
	if (!state->plan->returns_rows)
		run_commands(state);
	else if (!run_returning(state))
		open_streams(state, snapshot);
	MemoryContextSwitchTo(oldcxt);
}

/* Stores the next row in slot.  False at the end of all streams. */
static bool
next_row(ShardStatementState *state, TupleTableSlot *slot)
{
	if (state->rows == NIL)
		return shard_run_next_slot(&state->run, slot);
	ExecForceStoreMinimalTuple(linitial(state->rows), slot, false);
	state->rows = list_delete_first(state->rows);
	return true;
}

static TupleTableSlot *
statement_exec(CustomScanState *node)
{
	ShardStatementState *state = (ShardStatementState *) node;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	if (!state->started)
		start(state);
	/* counts row by row: SPI compares the count with the rows it has received, and may stop after two */
	if (state->plan->returns_rows && next_row(state, slot) && state->plan->set_processed)
		node->ss.ps.state->es_processed++;
	return slot;
}

static void
statement_end(CustomScanState *node)
{
	ShardStatementState *state = (ShardStatementState *) node;

	if (state->plan->operation != CMD_SELECT || node->ss.ps.state->es_plannedstmt->hasModifyingCTE)
		shard_run_finish(&state->run);
	shard_run_close(&state->run);
	shard_scan_close_rels(state->rels);
}

static void
statement_rescan(CustomScanState *node)
{
	ShardStatementState *state = (ShardStatementState *) node;

	if (!state->started)
		return;
	if (state->plan->on_writer)
		elog(ERROR, "a statement that changes or locks rows cannot be run again");
	statement_end(node);
	state->started = false;
	MemoryContextReset(state->run_cxt);
}

/* ------------------------------------------------------------------------
 * EXPLAIN
 * ------------------------------------------------------------------------ */

/* Returns the shards, as far as they are known without running anything; NULL: unknown. */
static Bitmapset *
explained_shards(ShardStatementState *state)
{
	CustomScan *cscan = (CustomScan *) state->css.ss.ps.plan;

	if (state->started)
		return state->live;
	foreach_int(param, state->plan->key_params)
	{
		if (contain_volatile_functions(list_nth(cscan->custom_exprs, param - 1)))
			return NULL;
	}
	if (state->plan->key_params != NIL)
	{
		if (state->css.ss.ps.state->es_top_eflags & SHARD_EXEC_FLAG_NO_PARAMS)
			return NULL;
		alloc_values(state);
		foreach_int(param, state->plan->key_params)
			evaluate(state, param);
	}
	return live_shards(state, true);
}

/* Evaluates all parameters, if their values can be known without running anything that might change data. */
static bool
explained_values(ShardStatementState *state, bool analyze)
{
	CustomScan *cscan = (CustomScan *) state->css.ss.ps.plan;

	if (state->started || cscan->custom_exprs == NIL)
		return true;
	if (analyze || shard_param_has_exec(state->params) ||
		contain_volatile_functions((Node *) cscan->custom_exprs) ||
		(state->css.ss.ps.state->es_top_eflags & SHARD_EXEC_FLAG_NO_PARAMS))
		return false;
	evaluate_all(state);
	return true;
}

/* Shows what the node does. */
static void
explain_remote(ShardStatementState *state, int shardno, ExplainState *es)
{
	bool		known = explained_values(state, es->analyze);
	bool		reads = state->plan->operation == CMD_SELECT && state->plan->returns_rows && !state->plan->on_writer;
	char	   *sql = render(state, shardno, known);

	/* no more rows will be requested, and the connections may be needed */
	if (state->started && reads)
		shard_run_close(&state->run);
	shard_explain_remote_statement(&state->maps[0]->shards[shardno], state->run.spec.userid, sql,
								   es->analyze && state->started && reads, !known, es);
}

static void
statement_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	ShardStatementState *state = (ShardStatementState *) node;
	Bitmapset  *live = explained_shards(state);
	int			shardno = Max(bms_next_member(live, -1), 0);

	shard_explain_shards(state->maps[0], live,
						 state->plan->key_params != NIL ? 1 : bms_num_members(live), es);
	ExplainPropertyText(SHARD_PROP_REMOTE_SQL, render(state, shardno, false), es);
	if (es->analyze && state->plan->returns_rows)
		shard_explain_received(state->run.nrows, state->run.nbytes, list_length(state->run.conns), es);
	if (shard_guc_explain_remote && es->verbose)
		explain_remote(state, shardno, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = SHARD_STATEMENT_NAME,
	.BeginCustomScan = statement_begin,
	.ExecCustomScan = statement_exec,
	.EndCustomScan = statement_end,
	.ReScanCustomScan = statement_rescan,
	.ExplainCustomScan = statement_explain
};

static Node *
statement_create(CustomScan *cscan)
{
	ShardStatementState *state = palloc0(sizeof(ShardStatementState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;
	return (Node *) state;
}

static const CustomScanMethods scan_methods = {
	SHARD_STATEMENT_NAME,
	statement_create
};

void
shard_statement_register(void)
{
	RegisterCustomScanMethods(&scan_methods);
}
