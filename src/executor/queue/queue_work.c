/*
 * queue_work.c
 *	  Makes shards lock and change candidates.  See queue_exec.c.
 */
#include "postgres.h"

#include "byte_order.h"
#include "compat.h"
#include "executor/queue/queue_private.h"
#include "executor/scan/statement_alone.h"
#include "remote/run/autocommit.h"
#include "storage/lockdefs.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Returns the array of the candidates' ctids, as text. */
static char *
ctids_of(List *candidates)
{
	StringInfoData buf;

	initStringInfo(&buf);
	foreach_ptr(const ShardQueueCandidate, candidate, candidates)
	{
		appendStringInfo(&buf, "%c\"(%u,%u)\"", buf.len == 0 ? '{' : ',', ItemPointerGetBlockNumber(&candidate->ctid),
						 ItemPointerGetOffsetNumber(&candidate->ctid));
	}
	appendStringInfoChar(&buf, '}');
	return buf.data;
}

/* Returns the array of their xmins, without duplicates, since a node compares every row with all of them. */
static char *
xmins_of(List *candidates)
{
	List	   *xids = NIL;
	TransactionId last = InvalidTransactionId;
	StringInfoData buf;

	foreach_ptr(const ShardQueueCandidate, candidate, candidates)
		xids = lappend_oid(xids, candidate->xmin);
	list_sort(xids, list_oid_cmp);
	initStringInfo(&buf);
	foreach_oid(xid, xids)
	{
		if (xid != last)
			appendStringInfo(&buf, "%c%u", buf.len == 0 ? '{' : ',', xid);
		last = xid;
	}
	appendStringInfoChar(&buf, '}');
	list_free(xids);
	return buf.data;
}

List *
shard_queue_works_make(List *candidates)
{
	List	   *works = NIL;
	ListCell   *lc2;

	foreach_ptr(ShardQueueCandidate, candidate, candidates)
	{
		ShardQueueWork  *work = NULL;

		foreach(lc2, works)
		{
			work = lfirst(lc2);
			if (work->shardno == candidate->shardno)
				break;
			work = NULL;
		}
		if (work == NULL)
		{
			work = palloc0(sizeof(ShardQueueWork));
			work->shardno = candidate->shardno;
			works = lappend(works, work);
		}
		work->candidates = lappend(work->candidates, candidate);
	}
	return works;
}

char *
shard_queue_work_sql(const ShardMap *map, const ShardTemplate *template, int shardno)
{
	const char *relations[1];
	StringInfoData sql;

	relations[0] = psprintf("ONLY %s", map->shards[shardno].relation);
	initStringInfo(&sql);
	shard_param_render(&sql, template, relations, NULL, false, NULL);
	return sql.data;
}

static void
set_target(const ShardQueueState *state, ShardQueueWork *work, const char *sql, int nparams, const char *const *params)
{
	const Shard *shard = &state->map->shards[work->shardno];

	work->target = (ShardRunTarget) {shard->serverid, shard->name, sql, nparams, params};
}

/* Builds text and parameters for the candidates of works, from template. */
static void
prepare_works(ShardQueueState *state, List *works, const ShardTemplate *template)
{
	const ShardQueuePlan *plan = state->plan;
	bool		by_rows_only = template == plan->lock && plan->operation != CMD_SELECT;
	int			nothers = by_rows_only ? 0 : state->nparams - plan->limit_param;

	foreach_ptr(ShardQueueWork, work, works)
	{
		const char **params = palloc0(sizeof(char *) * (nothers + 3));

		memcpy(params, state->values + plan->limit_param, sizeof(char *) * nothers);
		params[by_rows_only ? 0 : plan->ctids_param - 1] = ctids_of(work->candidates);
		params[by_rows_only ? 1 : nothers] = xmins_of(work->candidates);
		params[by_rows_only ? 2 : nothers + 1] = psprintf("%u", ((ShardQueueCandidate *) linitial(work->candidates))->file);
		set_target(state, work, shard_queue_work_sql(state->map, template, work->shardno), shard_param_count(template, NIL), params);
	}
}

/* Locks shards against moves.  False: the table's map has changed. */
static bool
lock_shards(ShardQueueState *state, List *works)
{
	bool		current = true;

	if (state->map->nshards > 1)
		shard_map_lock_several(list_make1_oid(state->plan->relid));
	foreach_ptr(ShardQueueWork, work, works)
		current &= shard_map_lock(state->map, work->shardno,
								  state->plan->operation == CMD_SELECT ? RowShareLock : RowExclusiveLock);
	return current;
}

/* Sets the targets, and what their statements have in common. */
static ShardRun
make_run(const ShardQueueState *state, List *works)
{
	bool		only_locks = state->plan->operation == CMD_SELECT;
	ShardRun	run = {.spec = state->run.spec};

	run.spec.as_writer = true;
	run.spec.only_locks = only_locks;
	run.spec.level = only_locks ? NULL : state->level;
	run.inlines = true;
	run.targets = palloc(sizeof(ShardRunTarget) * list_length(works));
	foreach_ptr(ShardQueueWork, work, works)
		run.targets[run.ntargets++] = work->target;
	return run;
}

/*
 * Runs works on their shards, in parallel on different nodes. take is called with each row and the
 * number of its work.
 */
static void
run_works(ShardQueueState *state, List *works, int ncolumns, ShardQueueRowTaker take)
{
	ShardRun	run = make_run(state, works);

	run.cxt = AllocSetContextCreate(state->run_cxt, "shard works", ALLOCSET_SMALL_SIZES);
	run.spec.ncolumns = ncolumns;
	shard_queue_read(state, &run, shard_txn_snapshot(run.cxt), take, works);
}

/* Decodes the columns of row from first on, as one of the statement's rows. */
static TupleTableSlot *
decode_output(ShardQueueState *state, const ShardRow *row, int first)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
	ShardRow	rest = {row->ncols - first, row->values + first, row->lens + first};

	MemoryContextReset(state->run.row_cxt);
	shard_decode_row(state->run.decoder, &rest, slot, state->run.row_cxt);
	return slot;
}

static void
add_output(ShardQueueState *state, const ShardRow *row, int first)
{
	tuplestore_puttupleslot(state->rows, decode_output(state, row, first));
}

static void
count_changed(ShardQueueState *state, int64 nchanged)
{
	state->nchanged += nchanged;
	shard_run_count(&state->css.ss.ps, state->plan->set_processed, nchanged);
}

static int64
int8_of(const ShardRow *row, int colno)
{
	if (row->lens[colno] != sizeof(int64))
		elog(ERROR, "a node has returned a count of %d bytes", row->lens[colno]);
	return (int64) shard_get_uint64(row->values[colno]);
}

ShardClaimRow
shard_queue_claim_row(const ShardQueueState *state, const ShardQueueCandidate *candidate)
{
	ShardClaimRow row = {state->map->shards[candidate->shardno].relid, candidate->xmin, candidate->ctid};

	return row;
}

/* ---------- one row ---------- */

/* Processes a row of the command that locks and changes one row: whether it was free, and whether it was changed. */
static void
take_one_row(ShardQueueState *state, int i, const ShardRow *row, void *arg)
{
	ShardQueueWork  *work = linitial((List *) arg);
	ShardQueueCandidate  *candidate = linitial(work->candidates);

	if (int8_of(row, 0) == 0)
		return;
	candidate->locked = true;
	if (!state->plan->returns_rows)
	{
		candidate->changed = int8_of(row, 1) > 0;
		count_changed(state, int8_of(row, 1));
	}
	else if (row->lens[1] >= 0)
	{
		candidate->changed = true;
		add_output(state, row, 2);
	}
}

/* If the row of work is free, locks and changes it. */
static void
take_one(ShardQueueState *state, ShardQueueWork *work)
{
	ShardQueueCandidate  *candidate = linitial(work->candidates);
	int64		nlocked;
	int64		nchanged;

	prepare_works(state, list_make1(work), state->plan->lock_and_change);
	if (!state->plan->returns_rows && shard_autocommit_possible() && shard_statement_is_alone(state->css.ss.ps.state))
	{
		ShardRun	run = make_run(state, list_make1(work));
		ShardCommand command = shard_run_command(&run, 0);

		if (shard_autocommit_take(&command, &nlocked, &nchanged))
		{
			candidate->locked = nlocked > 0;
			candidate->changed = nchanged > 0;
			count_changed(state, nchanged);
			return;
		}
	}
	run_works(state, list_make1(work), 2 + (state->plan->returns_rows ? state->plan->noutputs : 0), take_one_row);
}

/* ---------- several rows ---------- */

/* Processes a row that was locked: its ctid, and what SELECT returns of it. */
static void
take_locked_row(ShardQueueState *state, int i, const ShardRow *row, void *arg)
{
	ShardQueueWork  *work = list_nth((List *) arg, i);
	ShardQueueCandidate	key = {.shardno = work->shardno};
	ShardQueueCandidate  *candidate;

	if (row->lens[0] != sizeof(uint32) + sizeof(uint16))
		elog(ERROR, "a node has returned a ctid of %d bytes", row->lens[0]);
	ItemPointerSet(&key.ctid, shard_get_uint32(row->values[0]), shard_get_uint16(row->values[0] + sizeof(uint32)));
	candidate = shard_queue_candidates_find(work->candidates, &key);
	if (candidate == NULL)
		elog(ERROR, "a node has locked a row that was not asked for");
	candidate->locked = true;
	if (state->plan->operation == CMD_SELECT)
		candidate->row = ExecCopySlotMinimalTuple(decode_output(state, row, 1));
}

static void
lock_several(ShardQueueState *state, List *works)
{
	foreach_ptr(ShardQueueWork, work, works)
		list_sort(work->candidates, shard_queue_compare_places);
	prepare_works(state, works, state->plan->lock);
	run_works(state, works, 1 + (state->plan->operation == CMD_SELECT ? state->plan->noutputs : 0), take_locked_row);
}

/* Processes a row of UPDATE or DELETE ...  RETURNING. */
static void
take_changed_row(ShardQueueState *state, int i, const ShardRow *row, void *arg)
{
	add_output(state, row, 1);
	state->nchanged++;
}

void
shard_queue_works_change(ShardQueueState *state)
{
	List	   *works = shard_queue_works_make(state->locked);

	prepare_works(state, works, state->plan->change);
	if (state->plan->returns_rows)
		run_works(state, works, 1 + state->plan->noutputs, take_changed_row);
	else
	{
		ShardRun	run = make_run(state, works);

		count_changed(state, shard_run_commands(&run));
	}
	foreach_ptr(ShardQueueCandidate, candidate, state->nchanged == list_length(state->locked) ? state->locked : NIL)
	{
		ShardClaimRow row = shard_queue_claim_row(state, candidate);

		shard_claim_end(&row, true);
	}
}

/* ---------- the first rows of a shard ---------- */

static void
ignore_row(ShardQueueState *state, int i, const ShardRow *row, void *arg)
{
}

void
shard_queue_works_lock_first(ShardQueueState *state, int shardno, int n)
{
	ShardQueueWork *work = palloc0(sizeof(ShardQueueWork));

	work->shardno = shardno;
	set_target(state, work,
			   psprintf("%s LIMIT %d %s", shard_queue_work_sql(state->map, state->plan->candidates, shardno), n, state->plan->locking),
			   shard_param_count(state->plan->candidates, NIL), state->values);
	run_works(state, list_make1(work), SHARD_QUEUE_CANDIDATE_COLUMNS + state->plan->nsort, ignore_row);
}

/* ---------- all ---------- */

bool
shard_queue_works_try(ShardQueueState *state, List *works, bool has_locks)
{
	if (!lock_shards(state, works))
	{
		shard_queue_resolve_map(state);
		if (!has_locks)
			return false;
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("shards of \"%s\" have moved while the statement ran", get_rel_name(state->plan->relid)),
				 errhint("The transaction might succeed if retried.")));
	}
	if (state->nwanted == 1 && state->plan->operation != CMD_SELECT)
		take_one(state, linitial(works));
	else
		lock_several(state, works);
	return true;
}
