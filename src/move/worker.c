/*
 * worker.c
 *	  The process of a job.
 *
 *	 journal, state --> run() of its kind --> done
 *							   `--> error --> undo() of its kind --> failed, or cancelled
 *
 * Recovery removes what undo() leaves, or a process that has died (leftover.c).
 */
#include "postgres.h"

#include "catalog/qualified.h"
#include "catch.h"
#include "miscadmin.h"
#include "move/job/table.h"
#include "remote/wire/wait.h"
#include "service/background_worker.h"
#include "utils/memutils.h"
#include "version.h"

extern PGDLLEXPORT void shard_mover_main(Datum arg);

#define BEGIN_LOCK_MS 5000		/* a session that waits for the job's row may have locked the tables */

/* By ShardJobType. */
static const ShardJobKind *const kinds[] = {&shard_move_kind, &shard_conversion_kind, &shard_import_kind, &shard_series_kind};

/* Makes the state of a job.  Memory: current context. */
static ShardJob *
make_job(const ShardJobKind *kind, const ShardJobArgs *args)
{
	ShardJob   *job = palloc0(kind->size);

	job->cxt = CurrentMemoryContext;
	job->userid = args->userid;
	job->relid = args->relid;
	job->online = args->online;
	job->verify = args->verify;
	job->progress.lag_bytes = -1;
	return job;
}

/* Writes the row of the job, for which the starter waits. */
static void
begin_job(ShardJob *job, const ShardJobKind *kind, const ShardJobArgs *args)
{
	ShardJobRow row = {.mode = job->online ? "online" : "block"};
	const char *name;

	shard_move_begin(job->userid);
	shard_version_check();
	shard_move_limit_locks(BEGIN_LOCK_MS);
	MemoryContextSwitchTo(job->cxt);
	job->id = shard_job_link(args, &job->plan);
	if (OidIsValid(job->relid))
	{
		name = shard_qualified_relation(job->relid);
		row.ntables = 1;
		row.relids = &job->relid;
		row.names = &name;
	}
	kind->describe(job, args, &row);
	shard_job_insert(job, &row);
	shard_move_commit();
}

/* A job that runs. */
typedef struct RunArg
{
	const ShardJobArgs *args;
	const ShardJobKind *kind;
	ShardJob   *job;
} RunArg;

static void
run(void *arg)
{
	const RunArg *running = arg;

	begin_job(running->job, running->kind, running->args);
	running->kind->run(running->job);
	shard_job_end(running->job, NULL);
}

void
shard_mover_main(Datum arg)
{
	ShardJobArgs args;
	RunArg		running = {.args = &args};
	ErrorData  *error;

	memcpy(&args, MyBgworkerEntry->bgw_extra, sizeof(args));
	shard_background_worker_begin(args.database);
	MemoryContextSwitchTo(AllocSetContextCreate(TopMemoryContext, "shardfdw job", ALLOCSET_DEFAULT_SIZES));
	running.kind = kinds[args.type];
	running.job = make_job(running.kind, &args);
	error = shard_catch_transaction(run, &running, NULL, true);
	if (error == NULL)
		return;
	QueryCancelPending = false;
	/* its argument belongs to what has failed */
	shard_wait_set_idle(NULL, NULL);
	if (running.kind->undo)
		running.kind->undo(running.job, error);
	shard_job_end(running.job, error);
}
