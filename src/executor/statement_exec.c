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
#include "replica/replica_read.h"
#include "executor/explain.h"
#include "executor/explain_remote.h"
#include "executor/returned.h"
#include "executor/scan/asked_shards.h"
#include "executor/scan/param.h"
#include "executor/scan/scan.h"
#include "executor/scan/statement_alone.h"
#include "executor/scan/statement_view.h"
#include "executor/statement_exec.h"
#include "fault.h"
#include "guc.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "partitioning/partdesc.h"
#include "remote/run/autocommit.h"
#include "remote/run/command.h"
#include "remote/run/read_role.h"
#include "remote/run/stream.h"
#include "storage/lmgr.h"
#include "tuple/decode.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"

/* A shard, or a set of colocated shards, on which the statement runs. */
typedef struct StatementTarget
{
	int			shardno;
	const char *sql;
	int			nparams;
	const char *const *params;
	ShardStream *stream;		/* NULL: no rows, or ended */
} StatementTarget;

typedef struct ShardStatementState
{
	CustomScanState css;		/* must be first */
	ShardStatementPlan *plan;
	ShardParams *params;
	int			nmaps;
	const ShardMap **maps;		/* maps of plan->relids */
	List	   *rels;			/* these tables, open; NULL: closed */
	Oid			userid;			/* the user whose mappings are used */
	ShardTxnLevel *level;		/* when the statement began */
	const ShardStreamView *view;
	ShardStreamLimit *limit;
	ShardDecoder *decoder;		/* NULL: no rows are returned */
	MemoryContext row_cxt;		/* for values of the current row */

	/* set from the first call on; in run_cxt */
	MemoryContext run_cxt;
	bool		started;
	Datum	   *datums;			/* values of the parameters, evaluated once */
	bool	   *isnull;
	const char **values;		/* their text forms */
	int			ntargets;
	StatementTarget *targets;
	ShardStream **streams;		/* of the targets, for waiting */
	ShardWaitSet *wait_set;
	int			current;		/* target from which rows are read */
	int			nopen;			/* number of streams that have not ended */
	List	   *rows;			/* List of MinimalTuple: rows that have arrived all together */
	uint64		nrows;			/* received; for EXPLAIN ANALYZE */
	uint64		nbytes;
	List	   *conns;			/* the distinct connections that were used */
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

	state->plan = shard_plan_private_unpack(SHARD_PLAN_STATEMENT, cscan->custom_private);
	state->params = shard_param_create(cscan->custom_exprs, &node->ss.ps);
	resolve_maps(state);
	state->userid = OidIsValid(state->plan->check_as_user) ? state->plan->check_as_user : GetUserId();
	state->level = shard_txn_level_create(estate->es_query_cxt);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	state->rels = shard_scan_open_rels(estate, state->plan->relids);
	state->view = shard_statement_view_create(estate, state->rels);
	state->limit = shard_asked_limit("Custom Scan (" SHARD_STATEMENT_NAME ")", state->plan->relids);
	state->run_cxt = AllocSetContextCreate(estate->es_query_cxt, "shard statement",
										   ALLOCSET_SMALL_SIZES);
	if (state->plan->returns_rows)
	{
		state->decoder = shard_returned_decoder(state->plan->outputs, state->plan->noutputs, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor);
		state->row_cxt = AllocSetContextCreate(estate->es_query_cxt, "shard statement row",
											   ALLOCSET_SMALL_SIZES);
	}
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

/* Returns the shard of the key. noerror: any shard if there is none. */
static int
route_by_key(ShardStatementState *state, bool noerror)
{
	Relation	parent = table_open(linitial_oid(state->plan->relids), NoLock);
	PartitionKey key = RelationGetPartitionKey(parent);
	PartitionDesc partdesc;
	Datum		values[PARTITION_MAX_KEYS];
	bool		isnull[PARTITION_MAX_KEYS];
	bool		known;
	int			shardno = -1;

	if (shard_route_pin(parent, &partdesc) != state->maps[0])
		resolve_maps(state);	/* a concurrent detach has ended in between */
	known = key_values(state, key, 0, values, isnull);
	if (known)
		shardno = shard_route_key(parent, partdesc, values, isnull);
	if (shardno < 0 && state->plan->inserts_key && !noerror)
		shard_route_raise_no_shard(parent, values, isnull);
	table_close(parent, NoLock);

	/* no row has such a key, so any shard gives the right answer */
	return Max(shardno, 0);
}

/*
 * Returns the number of the partition of rel, the parent at one of the levels, that accepts the
 * key, and sets *relid. -1: no row has the key.
 */
static int
route_level(ShardStatementState *state, Relation rel, int first, bool noerror, Oid *relid)
{
	Datum		values[PARTITION_MAX_KEYS];
	bool		isnull[PARTITION_MAX_KEYS];
	PartitionDesc partdesc = RelationGetPartitionDesc(rel, true);
	int			partno = -1;

	if (key_values(state, RelationGetPartitionKey(rel), first, values, isnull))
		partno = shard_route_key(rel, partdesc, values, isnull);
	if (partno < 0 && state->plan->inserts_key && !noerror)
		shard_route_raise_no_shard(rel, values, isnull);
	*relid = partno >= 0 ? partdesc->oids[partno] : InvalidOid;
	return partno;
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
		int			nfirst = RelationGetPartitionKey(rel)->partnatts;
		Oid			relid;
		int			partno = route_level(state, rel, 0, noerror, &relid);
		int			shardno;

		table_close(rel, NoLock);
		/* no row has such a key, so any shard gives the right answer */
		if (partno < 0)
			return 0;
		for (int i = 0; i < state->nmaps && partno < state->maps[i]->nparts; i++)
			LockRelationOid(state->maps[i]->parts[partno].relid,
							locks_shards(state) ? RowExclusiveLock : AccessShareLock);
		if (shard_map_get_levels(map->relid, true) == map && partno < map->nparts && map->parts[partno].relid == relid)
		{
			const ShardPart *part = &map->parts[partno];

			rel = table_open(relid, NoLock);
			shardno = route_level(state, rel, nfirst, noerror, &relid);
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
	ListCell   *lc;

	*first = 0;
	foreach(lc, state->plan->shard_texts != NIL ? state->plan->shards : NIL)
	{
		if (lfirst_oid(lc) == state->maps[0]->shards[shardno].relid)
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
	Bitmapset  *live = lock_live_shards(state);
	int			shardno = -1;
	int			first;

	/* rows of VALUES are sent where they belong */
	if (!state->plan->inserts_values)
		shard_asked_add(state->css.ss.ps.state, state->plan->relids, state->maps[0], live);
	state->ntargets = 0;
	state->targets = palloc0(sizeof(StatementTarget) * Max(bms_num_members(live), 1));
	while ((shardno = bms_next_member(live, shardno)) >= 0)
	{
		StatementTarget *target = &state->targets[state->ntargets++];

		target->shardno = shardno;
		target->sql = render(state, shardno, false);
		target->nparams = shard_param_count(template_of(state, shardno, &first), NIL);
		target->params = state->values + first;
	}
}

static void
fill_command(const ShardStatementState *state, int targetno, ShardCommand *command)
{
	const StatementTarget *target = &state->targets[targetno];
	const Shard *shard = &state->maps[0]->shards[target->shardno];

	command->serverid = shard->serverid;
	command->userid = state->userid;
	command->sql = target->sql;
	command->label = shard->name;
	command->nparams = target->nparams;
	command->params = target->params;
}

/* Runs the statement on all targets.  They return only counts. */
static void
run_commands(ShardStatementState *state)
{
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * Max(state->ntargets, 1));
	EState	   *estate = state->css.ss.ps.state;
	int64		nchanged = 0;

	for (int i = 0; i < state->ntargets; i++)
	{
		fill_command(state, i, &commands[i]);
		commands[i].inlines = true;
		commands[i].for_values = state->plan->for_values;
	}
	if (state->ntargets != 1 || !shard_autocommit_possible() || !shard_statement_is_alone(estate) ||
		!shard_autocommit_run(&commands[0], &nchanged))
	{
		shard_command_run(commands, state->ntargets, SHARD_COMMAND_WRITE, false);
		for (int i = 0; i < state->ntargets; i++)
			nchanged += strtoi64(PQcmdTuples(commands[i].result), NULL, 10);
		shard_command_free(commands, state->ntargets);
	}
	if (state->plan->set_processed)
		estate->es_processed += nchanged;
	if (state->css.ss.ps.instrument)
		state->css.ss.ps.instrument->tuplecount += nchanged;
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

	if (!plan->inserts_values || state->ntargets != 1 || state->targets[0].nparams == 0)
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
	ShardAutocommitRows rows = {.ncolumns = shard_decode_nremote(state->decoder)};
	ShardCommand command = {0};
	ShardRow	row;
	ErrorContextCallback callback = {.callback = committed_already, .previous = error_context_stack};

	if (!may_commit_returning(state))
		return false;
	fill_command(state, 0, &command);
	if (!shard_autocommit_returning(&command, &rows))
		return false;
	error_context_stack = &callback;
	SHARD_FAULT_POINT("autocommit_returned");
	row.ncols = rows.ncolumns;
	row.values = palloc(sizeof(char *) * Max(row.ncols, 1));
	row.lens = palloc(sizeof(int) * Max(row.ncols, 1));
	for (int n = 0; n < rows.nresults; n++)
	{
		PGresult   *res = rows.results[n];

		for (int i = 0; i < row.ncols; i++)
		{
			row.values[i] = PQgetvalue(res, 0, i);
			row.lens[i] = PQgetisnull(res, 0, i) ? -1 : PQgetlength(res, 0, i);
		}
		MemoryContextReset(state->row_cxt);
		shard_decode_row(state->decoder, &row, slot, state->row_cxt);
		state->rows = lappend(state->rows, ExecCopySlotMinimalTuple(slot));
		PQclear(res);
	}
	error_context_stack = callback.previous;
	ExecClearTuple(slot);
	return true;
}

static void
open_streams(ShardStatementState *state, ShardSnapshot *snapshot)
{
	const ShardMap *map = state->maps[0];

	state->streams = palloc0(sizeof(ShardStream *) * Max(state->ntargets, 1));
	state->wait_set = shard_wait_set_create(state->run_cxt);
	for (int i = 0; i < state->ntargets; i++)
	{
		Oid			serverid = map->shards[state->targets[i].shardno].serverid;

		if (state->plan->on_writer)
			continue;
		shard_snapshot_expect(snapshot, serverid, state->userid, 1);
		if (shard_guc_read_from != SHARD_READ_PRIMARY && shard_statement_view_only_reads(state->css.ss.ps.state))
			shard_read_role_choose(snapshot, list_make1_oid(serverid), state->userid);
	}
	for (int i = 0; i < state->ntargets; i++)
	{
		const Shard *shard = &map->shards[state->targets[i].shardno];
		ShardStreamSpec spec = {0};

		spec.serverid = shard->serverid;
		spec.userid = state->userid;
		spec.sql = state->targets[i].sql;
		spec.label = shard->name;
		spec.ncolumns = shard_decode_nremote(state->decoder);
		spec.portable_text = shard_decode_has_styled_text(state->decoder);
		spec.as_writer = state->plan->on_writer;
		spec.only_locks = state->plan->only_locks;
		spec.view = state->plan->on_writer ? NULL : state->view;
		/* row locks belong to the savepoint in which the rows are fetched */
		spec.level = state->plan->only_locks ? NULL : state->level;
		spec.limit = state->limit;
		spec.workers = -1;
		spec.for_values = state->plan->for_values;
		spec.nparams = state->targets[i].nparams;
		spec.params = state->targets[i].params;
		state->streams[i] = shard_stream_open(state->run_cxt, snapshot, &spec);
		state->nopen++;
	}
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

/* Raises if a shard was moved after the transaction's snapshot. */
static void
check_unmoved(const ShardStatementState *state)
{
	Bitmapset  *live = NULL;

	if (!IsolationUsesXactSnapshot())
		return;
	for (int i = 0; i < state->ntargets; i++)
		live = bms_add_member(live, state->targets[i].shardno);
	shard_map_check_unmoved(state->maps[0], live);
}

/* Reads replicas instead of shards whose primary is unavailable. */
static void
read_replicas(ShardStatementState *state, ShardSnapshot *snapshot)
{
	Bitmapset  *live = NULL;

	for (int i = 0; i < state->ntargets; i++)
		live = bms_add_member(live, state->targets[i].shardno);
	if (live != NULL)
		state->maps[0] = shard_replica_read_map(state->maps[0], live, snapshot, state->userid);
}

/* Starts the statement on all of its shards. */
static void
start(ShardStatementState *state)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(state->run_cxt);
	ShardSnapshot *snapshot = NULL;

	state->started = true;
	evaluate_all(state);
	/* before the map is read, since a shard may be moved in between */
	if (state->plan->returns_rows)
		snapshot = shard_txn_snapshot(state->css.ss.ps.state->es_query_cxt);
	if (state->plan->returns_rows && !state->plan->on_writer)
		resolve_maps(state);
	make_targets(state);
	if (snapshot && snapshot->local && !state->plan->on_writer)
		state->maps[0] = shard_map_as_of(state->maps[0], snapshot->local, snapshot->local_xmin);
	else
		check_unmoved(state);
	if (state->maps[0]->has_replicas && state->plan->returns_rows && !state->plan->on_writer && !snapshot->local &&
		shard_statement_view_only_reads(state->css.ss.ps.state))
		read_replicas(state, snapshot);
	if (!state->plan->returns_rows)
		run_commands(state);
	else if (!run_returning(state))
		open_streams(state, snapshot);
	MemoryContextSwitchTo(oldcxt);
}

/* Stream i has returned all of its rows. */
static void
end_stream(ShardStatementState *state, int i)
{
	ShardStream *stream = state->streams[i];

	state->nrows += shard_stream_rows(stream);
	state->nbytes += shard_stream_bytes(stream);
	if (state->css.ss.ps.instrument)
		state->conns = list_append_unique_ptr(state->conns,
											  unconstify(void *, shard_stream_conn_id(stream)));
	shard_stream_close(stream);
	state->streams[i] = NULL;
	state->nopen--;
}

/* Stores the next row in slot.  False at the end of all streams. */
static bool
next_row(ShardStatementState *state, TupleTableSlot *slot)
{
	int			nidle = 0;		/* number of consecutive streams without a row */

	if (state->rows != NIL)
	{
		ExecForceStoreMinimalTuple(linitial(state->rows), slot, false);
		state->rows = list_delete_first(state->rows);
		return true;
	}
	while (state->nopen > 0)
	{
		int			i = state->current;
		ShardRow	row;

		if (state->streams[i] != NULL)
		{
			switch (shard_stream_next(state->streams[i], &row))
			{
				case SHARD_STREAM_ROW:
					MemoryContextReset(state->row_cxt);
					shard_decode_row(state->decoder, &row, slot, state->row_cxt);
					return true;
				case SHARD_STREAM_DONE:
					end_stream(state, i);
					break;
				case SHARD_STREAM_WAIT:
					break;
			}
		}
		state->current = (i + 1) % state->ntargets;
		if (++nidle >= state->ntargets && state->nopen > 0)
		{
			shard_stream_wait(state->streams, state->ntargets, state->wait_set);
			nidle = 0;
		}
	}
	return false;
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
close_streams(ShardStatementState *state)
{
	for (int i = 0; i < state->ntargets; i++)
	{
		if (state->streams[i] != NULL)
			shard_stream_close(state->streams[i]);
		state->streams[i] = NULL;
	}
	state->nopen = 0;
}

static void
statement_end(CustomScanState *node)
{
	ShardStatementState *state = (ShardStatementState *) node;

	if (!state->started || state->nopen == 0)
	{
		shard_scan_close_rels(state->rels);
		return;
	}

	/* closing the stream of a running change would cancel it, and thus abort the transaction */
	if (state->plan->operation != CMD_SELECT || node->ss.ps.state->es_plannedstmt->hasModifyingCTE)
	{
		TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

		while (next_row(state, ExecClearTuple(slot)))
			CHECK_FOR_INTERRUPTS();
	}
	close_streams(state);
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
	state->current = 0;
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
	ListCell   *lc;

	if (state->started)
	{
		Bitmapset  *live = NULL;

		for (int i = 0; i < state->ntargets; i++)
			live = bms_add_member(live, state->targets[i].shardno);
		return live;
	}
	foreach(lc, state->plan->key_params)
	{
		if (contain_volatile_functions(list_nth(cscan->custom_exprs, lfirst_int(lc) - 1)))
			return NULL;
	}
	if (state->plan->key_params != NIL)
	{
		if (state->css.ss.ps.state->es_top_eflags & SHARD_EXEC_FLAG_NO_PARAMS)
			return NULL;
		alloc_values(state);
		foreach(lc, state->plan->key_params)
			evaluate(state, lfirst_int(lc));
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
		close_streams(state);
	shard_explain_remote_statement(&state->maps[0]->shards[shardno], state->userid, sql,
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
	shard_explain_remote_sql(render(state, shardno, false), es);
	if (es->analyze && state->plan->returns_rows)
		shard_explain_received(state->nrows, state->nbytes, list_length(state->conns), es);
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
