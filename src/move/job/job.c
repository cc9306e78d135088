/*
 * job.c
 *	  The journal of jobs, and the SQL functions that start, cancel and await them.
 *
 * - start_job() registers a background worker, and waits until the worker has written its row.
 * - The worker numbers the job, claims it (catalog/moving.h), and writes its row.
 * - wait_job() reads the row until the job has ended.
 *
 * None of these functions assigns an xid to the caller's transaction.  If a node is a database of this server, a job
 * waits for all transactions with an xid, and the caller may wait for the job.
 *
 * If a row has state "running" but no process holds the job's lock, the job's process has died.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/group.h"
#include "catalog/moving.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "catalog_scan.h"
#include "commands/sequence.h"
#include "compat.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "identity.h"
#include "miscadmin.h"
#include "move/job/job.h"
#include "move/job/table.h"
#include "own_right.h"
#include "own_schema.h"
#include "own_sql.h"
#include "own_table.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "service/background_worker.h"
#include "storage/dsm.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/wait_event.h"
#include "wait_event.h"

#define POLL_MS 50				/* interval for reading a row that a session waits for */
#define DROP_PATIENCE_MS 2000	/* how long a caller waits for the old table to be dropped */
#define PROGRESS_MS 1000
#define MOVER_MAIN "shard_mover_main"	/* move/worker.c */
#define KEPT_JOBS 1000			/* an ended job is deleted when a job of the same role has a number this much higher */

PG_FUNCTION_INFO_V1(shardfdw_job_is_running);
PG_FUNCTION_INFO_V1(shardfdw_job_works_on);
PG_FUNCTION_INFO_V1(shardfdw_job_token);
PG_FUNCTION_INFO_V1(shardfdw_start_job);
PG_FUNCTION_INFO_V1(shardfdw_wait_move);
PG_FUNCTION_INFO_V1(shardfdw_wait_job);
PG_FUNCTION_INFO_V1(shardfdw_cancel_job);
PG_FUNCTION_INFO_V1(shardfdw_cut_over);

/* The fields of a row. */
typedef struct JobRow
{
	char	   *kind;
	char	   *state;
	char	   *stage;
	char	   *mode;
	Oid			role;
	int			pid;
	List	   *relids;
	char	   *source;			/* these fields may be NULL from here on */
	char	   *waits_for;
	char	   *sqlstate;
	char	   *message;
	char	   *detail;
	char	   *hint;
} JobRow;

/* job_is_running(id bigint) -> boolean */
Datum
shardfdw_job_is_running(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(shard_moving_is_running(PG_GETARG_INT64(0)));
}

/*
 * job_token() -> text: random hexadecimal digits, the same ones during the life of the process.  A process runs one job.
 */
Datum
shardfdw_job_token(PG_FUNCTION_ARGS)
{
	static uint32 token = 0;

	if (token == 0 && !pg_strong_random(&token, sizeof(token)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%08x", token)));
}

/* ---------- writing ---------- */

/* Writes the journal in a separate transaction, or in the current one if there is one. */
static void
run_by_itself(const char *sql, int nparams, const ShardSqlParam *params)
{
	bool		begun = IsTransactionState();

	if (!begun)
		StartTransactionCommand();
	(void) shard_own_sql_run(sql, nparams, params);
	if (!begun)
		CommitTransactionCommand();
}

/* params are $2 and following in assignments. */
static void
update_row(const ShardJob *job, const char *assignments, int nparams, const ShardSqlParam *params)
{
	ShardSqlParam all[8] = {shard_sql_int8(job->id)};

	Assert(nparams < lengthof(all));
	for (int i = 0; i < nparams; i++)
		all[i + 1] = params[i];
	run_by_itself(psprintf("UPDATE " SHARD_INTERNAL_SCHEMA ".job SET %s WHERE id = $1", assignments), nparams + 1, all);
}

static ShardSqlParam
oid_array(const Oid *oids, int n)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		values[i] = ObjectIdGetDatum(oids[i]);
	return (ShardSqlParam) {OIDARRAYOID, PointerGetDatum(construct_array(values, n, OIDOID, sizeof(Oid), true, TYPALIGN_INT)), false};
}

static ShardSqlParam
text_array(const char *const *texts, int n)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		values[i] = CStringGetTextDatum(texts[i]);
	return (ShardSqlParam) {TEXTARRAYOID, PointerGetDatum(construct_array(values, n, TEXTOID, -1, false, TYPALIGN_INT)), false};
}

int64
shard_job_link(const ShardJobArgs *args, char **plan)
{
	dsm_segment *segment = dsm_attach(args->link);
	ShardJobLink *link;
	int64		id;

	if (segment == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("the session that started the job has ended")));
	link = dsm_segment_address(segment);
	*plan = pstrdup(link->plan);
	/* a session that checks whether this job is running holds the lock for a moment */
	do
		id = nextval_internal(shard_own_relation("job_id", false), false);
	while (!shard_moving_claim(id));
	pg_atomic_write_u64(&link->number, id);
	dsm_detach(segment);
	return id;
}

void
shard_job_insert(const ShardJob *job, const ShardJobRow *row)
{
	const ShardSqlParam params[] = {
		shard_sql_int8(job->id), shard_sql_text(row->kind), oid_array(row->relids, row->ntables), text_array(row->names, row->ntables),
		shard_sql_text(row->source_name), shard_sql_text(row->target_name), shard_sql_text(row->mode),
		shard_sql_oid(job->userid), shard_sql_int4(MyProcPid), shard_sql_int8(job->id - KEPT_JOBS)
	};

	run_by_itself("DELETE FROM " SHARD_INTERNAL_SCHEMA ".job WHERE state <> 'running' AND role = $8 AND id <= $10; "
				  "INSERT INTO " SHARD_INTERNAL_SCHEMA ".job (id, kind, state, stage, tables, names, source, target, mode, role, pid, started)"
				  " VALUES ($1, $2, 'running', 'starting', $3, $4, $5, $6, $7, $8, $9, clock_timestamp())", lengthof(params), params);
}

void
shard_job_enter_stage(const ShardJob *job, const char *stage)
{
	ShardSqlParam param = shard_sql_text(stage);

	pgstat_report_activity(STATE_RUNNING, psprintf("job " INT64_FORMAT ": %s", job->id, stage));
	update_row(job, "stage = $2, waits_for = NULL", 1, &param);
}

void
shard_job_set_nodes(const ShardJob *job, const char *source_name, const char *target_name)
{
	const ShardSqlParam params[] = {shard_sql_text(source_name), shard_sql_text(target_name)};

	update_row(job, "source = $2, target = $3", lengthof(params), params);
}

void
shard_job_set_tables(const ShardJob *job, const List *names)
{
	const char **texts = palloc(sizeof(char *) * Max(list_length(names), 1));
	ShardSqlParam param;
	const ListCell *lc;

	foreach(lc, names)
		texts[foreach_current_index(lc)] = lfirst(lc);
	param = text_array(texts, list_length(names));
	update_row(job, "tables = $2::regclass[]::oid[]", 1, &param);
}

void
shard_job_set_progress(ShardJob *job)
{
	ShardJobProgress *progress = &job->progress;

	/* called many times */
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw journal", ALLOCSET_SMALL_SIZES);
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardSqlParam params[] = {
		shard_sql_int8(progress->nrows), shard_sql_int8(progress->nbytes), shard_sql_int8(progress->nchanges), shard_sql_int8(progress->lag_bytes)
	};

	params[3].isnull = progress->lag_bytes < 0;
	progress->noted_at = GetCurrentTimestamp();
	update_row(job, "rows_copied = $2, bytes_copied = $3, changes_applied = $4, lag_bytes = $5", lengthof(params), params);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextDelete(cxt);
}

void
shard_job_note_progress(void *job)
{
	if (!IsTransactionState() && TimestampDifferenceExceeds(((ShardJob *) job)->progress.noted_at, GetCurrentTimestamp(), PROGRESS_MS))
		shard_job_set_progress(job);
}

void
shard_job_set_pause(const ShardJob *job, int64 pause_us)
{
	ShardSqlParam param = shard_sql_float8(pause_us / 1000000.0);

	update_row(job, "write_pause = make_interval(secs => $2)", 1, &param);
}

void
shard_job_set_waiting(const ShardJob *job, const char *waits_for)
{
	ShardSqlParam param = shard_sql_text(waits_for);

	update_row(job, "waits_for = $2", 1, &param);
}

void
shard_job_set_remark(const ShardJob *job, const char *remark)
{
	ShardSqlParam param = shard_sql_text(remark);

	update_row(job, "message = $2", 1, &param);
}

void
shard_job_end(const ShardJob *job, const ErrorData *error)
{
	if (error == NULL)
		update_row(job, "state = 'done', stage = 'done', waits_for = NULL, lag_bytes = NULL, ended = clock_timestamp()", 0, NULL);
	else
	{
		const ShardSqlParam params[] = {
			shard_sql_text(error->sqlerrcode == ERRCODE_QUERY_CANCELED ? "cancelled" : "failed"), shard_sql_text(unpack_sql_state(error->sqlerrcode)),
			shard_sql_text(error->message), shard_sql_text(error->detail), shard_sql_text(error->hint)
		};

		update_row(job, "state = $2, waits_for = NULL, lag_bytes = NULL, ended = clock_timestamp(), sqlstate = $3, message = $4, detail = $5, hint = $6",
				   lengthof(params), params);
	}
}

void
shard_job_name_dropped(const ShardJob *job, ErrorData *error)
{
	MemoryContext cxt = CurrentMemoryContext;
	char	   *name;

	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED || error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN)
		return;
	StartTransactionCommand();
	name = shard_own_sql_value(psprintf("SELECT min(x.name) FROM " SHARD_INTERNAL_SCHEMA ".job j, ROWS FROM (pg_catalog.unnest(j.tables), pg_catalog.unnest(j.names)) x(relation, name) "
											  "WHERE j.id OPERATOR(pg_catalog.=) " INT64_FORMAT " AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) x.relation)", job->id), InvalidSnapshot);
	if (name)
	{
		error->sqlerrcode = ERRCODE_UNDEFINED_TABLE;
		error->detail = error->message;
		error->message = MemoryContextStrdup(cxt, psprintf("table %s was dropped while the job worked on it", name));
		error->hint = NULL;
	}
	CommitTransactionCommand();
	MemoryContextSwitchTo(cxt);
}

/* ---------- reading ---------- */

/* Reads the row of job id as it is now, whatever the transaction's snapshot.  Returns false if there is none. */
static bool
read_row(int64 id, JobRow *row)
{
	ShardOwnTable jobs;
	Datum	   *relids;
	int			nrelids;
	bool		found;

	shard_own_table_open(&jobs, SHARD_JOB_TABLE, AccessShareLock);
	shard_own_table_key(&jobs, SHARD_JOB_ID, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	shard_own_table_begin(&jobs, NULL);
	found = shard_own_table_next(&jobs);
	if (found)
	{
		row->kind = shard_own_table_text(&jobs, SHARD_JOB_KIND);
		row->state = shard_own_table_text(&jobs, SHARD_JOB_STATE);
		row->stage = shard_own_table_text(&jobs, SHARD_JOB_STAGE);
		row->source = shard_own_table_name(&jobs, SHARD_JOB_SOURCE);
		row->mode = shard_own_table_text(&jobs, SHARD_JOB_MODE);
		row->role = DatumGetObjectId(jobs.values[SHARD_JOB_ROLE]);
		row->pid = DatumGetInt32(jobs.values[SHARD_JOB_PID]);
		row->relids = NIL;
		deconstruct_array(DatumGetArrayTypeP(jobs.values[SHARD_JOB_TABLES]), OIDOID, sizeof(Oid), true, TYPALIGN_INT, &relids, NULL, &nrelids);
		for (int i = 0; i < nrelids; i++)
			row->relids = lappend_oid(row->relids, DatumGetObjectId(relids[i]));
		row->waits_for = shard_own_table_text(&jobs, SHARD_JOB_WAITS_FOR);
		row->sqlstate = shard_own_table_text(&jobs, SHARD_JOB_SQLSTATE);
		row->message = shard_own_table_text(&jobs, SHARD_JOB_MESSAGE);
		row->detail = shard_own_table_text(&jobs, SHARD_JOB_DETAIL);
		row->hint = shard_own_table_text(&jobs, SHARD_JOB_HINT);
	}
	shard_own_table_end(&jobs);
	shard_own_table_close(&jobs);
	return found;
}

/* job_works_on(id bigint, kind text, relation regclass) -> boolean */
Datum
shardfdw_job_works_on(PG_FUNCTION_ARGS)
{
	JobRow		row;

	if (!read_row(PG_GETARG_INT64(0), &row) || strcmp(row.kind, text_to_cstring(PG_GETARG_TEXT_PP(1))) != 0)
		PG_RETURN_BOOL(false);
	PG_RETURN_BOOL(list_member_oid(row.relids, PG_GETARG_OID(2)));
}

/* Reads the row of a job.  Raises an error if there is none. */
static void
get_row(int64 id, JobRow *row)
{
	if (!read_row(id, row))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("job " INT64_FORMAT " does not exist", id)));
}

/* The name of the job's role, or its OID as text if the role was dropped. */
static const char *
role_name(const JobRow *row)
{
	const char *name = GetUserNameFromId(row->role, true);

	return name ? name : psprintf("%u", row->role);
}

/* Does the current user have the rights of the job's role? */
static bool
may_use(const JobRow *row)
{
	return superuser() || has_privs_of_role(GetUserId(), row->role);
}

/* May the current user see the job's errors?  The rule of the view jobs. */
static bool
may_see(const JobRow *row)
{
	return may_use(row) || has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

/* May the current user cancel the job?  The rule of pg_cancel_backend() for a session of the job's role. */
static bool
may_cancel(const JobRow *row)
{
	return may_use(row) ||
		(!superuser_arg(row->role) && has_privs_of_role(GetUserId(), ROLE_PG_SIGNAL_BACKEND));
}

bool
shard_job_may_clear(int64 id, bool *is_in_journal)
{
	JobRow		row;

	*is_in_journal = read_row(id, &row);
	return !*is_in_journal || may_use(&row);
}

static void
pause_for_poll(void)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, POLL_MS,
					 shard_wait_event(SHARD_WAIT_JOB));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/* Raises the error with which a job has ended. */
static void
raise_error(int64 id, const JobRow *row)
{
	int			code = ERRCODE_INTERNAL_ERROR;

	if (row->sqlstate && strlen(row->sqlstate) == 5)
		code = MAKE_SQLSTATE(row->sqlstate[0], row->sqlstate[1], row->sqlstate[2], row->sqlstate[3], row->sqlstate[4]);
	if (!may_see(row))
		ereport(ERROR,
				(errcode(code),
				 errmsg("job " INT64_FORMAT " has failed", id)));
	ereport(ERROR,
			(errcode(code),
			 errmsg("%s", row->message ? row->message : "unknown error"),
			 row->detail ? errdetail("%s", row->detail) : 0,
			 row->hint ? errhint("%s", row->hint) : 0,
			 errcontext("job " INT64_FORMAT, id)));
}

/* Does process pid wait for a lock of this transaction, directly or indirectly? */
static bool
is_blocked_here(int pid)
{
	List	   *pids = list_make1_int(pid);
	bool		result;

	for (int i = 0; i < list_length(pids); i++)
	{
		ArrayType  *array = DatumGetArrayTypeP(DirectFunctionCall1(pg_blocking_pids, Int32GetDatum(list_nth_int(pids, i))));
		Datum	   *blockers;
		int			nblockers;

		deconstruct_array(array, INT4OID, sizeof(int32), true, TYPALIGN_INT, &blockers, NULL, &nblockers);
		for (int j = 0; j < nblockers; j++)
			pids = list_append_unique_int(pids, DatumGetInt32(blockers[j]));
	}
	result = list_member_int(pids, MyProcPid);
	list_free(pids);
	return result;
}

/*
 * List of the processes that wait for a lock of this transaction, directly or indirectly.  Leaves out processes that
 * wait for the end of the transaction, as CREATE INDEX CONCURRENTLY does.  They have no xid then, so no job waits for
 * them.
 */
static List *
find_blocked_here(void)
{
	LockData   *locks = GetLockStatusData();
	List	   *pids = NIL;

	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];

		if (lock->waitLockMode != NoLock && lock->locktag.locktag_type != LOCKTAG_VIRTUALTRANSACTION &&
			lock->pid != MyProcPid && is_blocked_here(lock->pid))
			pids = list_append_unique_int(pids, lock->pid);
	}
	return pids;
}

/* The processes that waited for this transaction at the last check. */
typedef struct BlockedLook
{
	TimestampTz at;
	List	   *pids;
} BlockedLook;

/*
 * Raises an error if the job, or a transaction that it may wait for, waits for a lock of this transaction, directly or
 * indirectly.  Otherwise the session that waits for the job would wait indefinitely.
 *
 * Core finds no deadlock.  This process waits for no lock, and neither does a job that waits for transactions to end.
 * Only the node has the list of these transactions.  So this function takes a process for one of them if it has waited
 * in two checks. Memory: cxt, for the contents of look.
 */
static void
check_not_blocked(int64 id, const JobRow *row, BlockedLook *look, MemoryContext cxt)
{
	PGPROC	   *proc = BackendPidGetProc(row->pid);
	bool		waits;
	List	   *again;
	List	   *pids;
	MemoryContext oldcxt;

	/* reading all locks blocks other sessions; so only if the process waits for a lock, and not often */
	if (proc && (proc->wait_event_info & 0xFF000000) == PG_WAIT_LOCK && is_blocked_here(row->pid))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("job " INT64_FORMAT " waits for a lock of this transaction", id),
				 errdetail("The transaction would wait for the job, and the job for the transaction."),
				 errhint("Wait for the job in a separate transaction.")));
	/* before its turn the job waits for another job, not for transactions */
	waits = row->waits_for && strcmp(row->stage, "waiting for its turn") != 0;
	if (waits && !TimestampDifferenceExceeds(look->at, GetCurrentTimestamp(), DeadlockTimeout))
		return;
	pids = waits ? find_blocked_here() : NIL;
	again = list_intersection_int(pids, look->pids);
	if (again != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("job " INT64_FORMAT " waits for other transactions, and process %d for a lock of this one", id, linitial_int(again)),
				 errdetail("The transaction would wait for the job's end, and the job perhaps for that process."),
				 errhint("Wait for the job in a separate transaction.")));
	list_free(look->pids);
	oldcxt = MemoryContextSwitchTo(cxt);
	look->pids = list_copy(pids);
	MemoryContextSwitchTo(oldcxt);
	look->at = GetCurrentTimestamp();
}

/* If this process runs a series, returns its id, otherwise 0. */
static int
process_of_series(void)
{
	ShardJobArgs args;

	if (MyBgworkerEntry == NULL || strcmp(MyBgworkerEntry->bgw_function_name, MOVER_MAIN) != 0)
		return 0;
	memcpy(&args, MyBgworkerEntry->bgw_extra, sizeof(args));
	return args.type == SHARD_JOB_SERIES ? MyProcPid : 0;
}

/* The event of a job that a session waits for. */
typedef enum Awaited
{
	AWAIT_END,
	AWAIT_PLACE,				/* the shards have moved, or an import has begun to follow its source; later cleanup does not count */
	AWAIT_CUT_OVER				/* users can write to the imported table */
} Awaited;

/* Waits for a job. */
static char *
await(int64 id, Awaited awaited)
{
	TimestampTz dropping_since = 0;
	BlockedLook look = {0};
	MemoryContext poll_cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw wait for a job", ALLOCSET_SMALL_SIZES);
	MemoryContext caller_cxt = MemoryContextSwitchTo(poll_cxt);
	JobRow		row;

	shard_moving_begin_wait();
	for (;;)
	{
		bool		running = shard_moving_is_running(id);

		MemoryContextReset(poll_cxt);

		/* in this order, since the row is written before the process ends */
		get_row(id, &row);
		if (strcmp(row.state, "running") != 0)
			break;
		if (!running)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("job " INT64_FORMAT " was interrupted", id),
					 errdetail("Its process has ended without a result; the view shardfdw.shards shows where the shards are."),
					 errhint("The server's log may have more. What the job has left on nodes is removed by SELECT shardfdw.recover_prepared_transactions().")));
		if ((awaited == AWAIT_PLACE && strcmp(row.stage, SHARD_JOB_FOLLOWING) == 0) ||
			(awaited == AWAIT_CUT_OVER && strcmp(row.stage, "dropping") == 0))
			break;
		/*
		 * A series has only one worker for its steps, and the step keeps it until the old table is dropped.  So waits
		 * for the end of the step.
		 */
		if (awaited == AWAIT_PLACE && strcmp(row.stage, "dropping") == 0 && process_of_series() == 0)
		{
			if (dropping_since == 0)
				dropping_since = GetCurrentTimestamp();
			if (TimestampDifferenceExceeds(dropping_since, GetCurrentTimestamp(), DROP_PATIENCE_MS))
			{
				ereport(NOTICE,
						(errmsg("job " INT64_FORMAT " goes on in the background", id),
						 errdetail("The shards are where they should be; their old tables are dropped when transactions that may read them have ended.")));
				break;
			}
		}
		check_not_blocked(id, &row, &look, caller_cxt);
		pause_for_poll();
	}
	MemoryContextSwitchTo(caller_cxt);
	shard_moving_end_wait();
	if (strcmp(row.state, "done") != 0 && strcmp(row.state, "running") != 0)
		raise_error(id, &row);
	return row.state;
}

/* wait_job(id bigint) -> text: state of the job */
Datum
shardfdw_wait_job(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	JobRow		row;
	const char *state;

	get_row(id, &row);
	if (strcmp(row.state, "running") == 0)
		shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_wait('wait_job', %s, %s)",
								 row.source ? quote_literal_cstr(row.source) : "NULL", quote_literal_cstr(row.mode)));
	state = await(id, AWAIT_END);
	get_row(id, &row);
	/* what a job that is done has left undone */
	if (row.message && may_see(&row))
		ereport(WARNING,
				(errmsg("%s", row.message),
				 errcontext("job " INT64_FORMAT, id)));
	PG_RETURN_TEXT_P(cstring_to_text(state));
}

/* wait_move(id bigint) -> void */
Datum
shardfdw_wait_move(PG_FUNCTION_ARGS)
{
	(void) await(PG_GETARG_INT64(0), AWAIT_PLACE);
	PG_RETURN_VOID();
}

/* cancel_job(id bigint) -> boolean */
Datum
shardfdw_cancel_job(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	int			pid;
	JobRow		row;

	get_row(id, &row);
	if (!may_cancel(&row))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be a member of role \"%s\" to cancel job " INT64_FORMAT, role_name(&row), id)));
	/* the process that holds the lock, whatever the row says */
	pid = strcmp(row.state, "running") == 0 ? shard_moving_process(id) : 0;
	PG_RETURN_BOOL(pid != 0 && pid != MyProcPid && kill(pid, SIGINT) == 0);
}

/* cut_over(job bigint, lock boolean) -> void */
Datum
shardfdw_cut_over(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	JobRow		row;
	PGPROC	   *proc;

	get_row(id, &row);
	if (!may_use(&row))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be a member of role \"%s\" to have job " INT64_FORMAT " cut over", role_name(&row), id)));
	if (strcmp(row.kind, "import") != 0 || strcmp(row.mode, "online") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("job " INT64_FORMAT " does not follow a table of another server", id)));
	if (strcmp(row.state, "running") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("job " INT64_FORMAT " has ended", id)));
	shard_moving_ask_cut_over(id, PG_GETARG_BOOL(1));
	proc = BackendPidGetProc(shard_moving_process(id));
	if (proc)
		SetLatch(&proc->procLatch);
	(void) await(id, AWAIT_CUT_OVER);
	PG_RETURN_VOID();
}

/* ---------- starting ---------- */

/* Waits until the worker has reported its number and written its row, or has ended without that. */
static int64
await_row(BackgroundWorkerHandle *handle, ShardJobLink *link)
{
	JobRow		row;
	pid_t		pid;

	for (;;)
	{
		BgwHandleStatus status = GetBackgroundWorkerPid(handle, &pid);
		int64		id = pg_atomic_read_u64(&link->number);

		if (id != 0 && read_row(id, &row))
			return id;
		if (status == BGWH_STOPPED || status == BGWH_POSTMASTER_DIED)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
					 errmsg("the process of the job could not start"),
					 errhint("See the server's log.")));
		pause_for_poll();
	}
}

/* Stores the shards of the job. */
static void
take_shards(ArrayType *array, ShardJobArgs *args)
{
	Datum	   *shards;
	bool	   *nulls;

	deconstruct_array(array, REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT, &shards, &nulls, &args->nshards);
	if (args->nshards < 1 || args->nshards > SHARD_MOVE_MAX_SHARDS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a job cannot work on %d shards", args->nshards)));
	for (int i = 0; i < args->nshards; i++)
	{
		if (nulls[i] || shard_group_find(DatumGetObjectId(shards[i])) == NIL)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("relation %u is not a shard", nulls[i] ? InvalidOid : DatumGetObjectId(shards[i]))));
		if (!shard_class_ownercheck(DatumGetObjectId(shards[i]), GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_TABLE, get_rel_name(DatumGetObjectId(shards[i])));
		args->shards[i] = DatumGetObjectId(shards[i]);
	}
}

/* The process of a job does not see what this transaction creates, and would wait for tables that it has changed. */
static void
check_unchanged(Oid relid)
{
	HeapTuple	tuple = shard_catalog_row(RELOID, relid);

	if (TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("table \"%s\" has been made or changed in this transaction", NameStr(((Form_pg_class) GETSTRUCT(tuple))->relname)),
				 errdetail("A separate process does the work. It does not see uncommitted changes."),
				 errhint("Commit first.")));
	ReleaseSysCache(tuple);
}

int64
shard_job_start(ShardJobArgs *args, const char *plan)
{
	Size		size = offsetof(ShardJobLink, plan) + strlen(plan) + 1;
	dsm_segment *segment = dsm_create(size, 0);
	ShardJobLink *link = dsm_segment_address(segment);
	BackgroundWorker worker = shard_background_worker(MOVER_MAIN, "shardfdw mover");
	BackgroundWorkerHandle *handle;
	int64		id;

	StaticAssertStmt(sizeof(ShardJobArgs) <= BGW_EXTRALEN, "arguments of a job do not fit");
	shard_identity_require();
	if (OidIsValid(args->relid))
		check_unchanged(args->relid);
	for (int i = 0; i < args->nshards; i++)
		check_unchanged(args->shards[i]);
	pg_atomic_init_u64(&link->number, 0);
	strcpy(link->plan, plan);
	args->link = dsm_segment_handle(segment);
	args->database = MyDatabaseId;
	args->userid = GetUserId();
	args->series = process_of_series();

	worker.bgw_notify_pid = MyProcPid;
	memcpy(worker.bgw_extra, args, sizeof(*args));
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("no background worker is free for a job"),
				 errhint("Increase max_worker_processes.")));
	PG_TRY();
	{
		id = await_row(handle, link);
	}
	PG_CATCH();
	{
		/* no session would learn its number */
		TerminateBackgroundWorker(handle);
		PG_RE_THROW();
	}
	PG_END_TRY();
	dsm_detach(segment);
	return id;
}

/*
 * start_job(shards regclass[], target oid, pieces integer, at text[], online boolean, verify boolean) -> bigint
 */
Datum
shardfdw_start_job(PG_FUNCTION_ARGS)
{
	ShardJobArgs args = {0};

	take_shards(PG_GETARG_ARRAYTYPE_P(0), &args);
	args.target = PG_GETARG_OID(1);
	args.npieces = PG_GETARG_INT32(2);
	args.online = PG_GETARG_BOOL(4);
	args.verify = PG_GETARG_BOOL(5);
	shard_own_right_check(args.npieces > 1 ? "split_shard" : args.nshards > 1 ? "merge_shards" : "move_shard");
	PG_RETURN_INT64(shard_job_start(&args, OidOutputFunctionCall(F_ARRAY_OUT, PG_GETARG_DATUM(3))));
}
