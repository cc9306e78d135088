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
#include "move/job/attempt.h"
#include "move/job/table.h"
#include "own_lock.h"
#include "remote/wire/wait.h"
#include "service/background_worker.h"
#include "utils/acl.h"
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

/* ---------- background workers of roles ---------- */

/*
 * Jobs of ordinary roles leave workers for recovery and for jobs of other roles, even if they wait for a long time.  Each of
 * these jobs holds a lock for its role, and a lock for all ordinary roles.  A series needs two workers, for itself and for
 * the job that it waits for.
 */
typedef struct WorkerLocks
{
	LOCKTAG		tags[4];
	int			ntags;
} WorkerLocks;

/* Locks n of the numbers below limit that no other process has locked.  False: there are fewer. */
static bool
lock_workers(WorkerLocks *locks, ShardLockKind kind, uint32 key, int limit, int n)
{
	for (int i = 0; i < limit && n > 0; i++)
	{
		LOCKTAG		tag = shard_own_lock_in(InvalidOid, kind, key, i);

		if (LockAcquire(&tag, ExclusiveLock, true, true) == LOCKACQUIRE_NOT_AVAIL)
			continue;
		locks->tags[locks->ntags++] = tag;
		n--;
	}
	return n == 0;
}

static void
unlock_workers(WorkerLocks *locks)
{
	while (locks->ntags > 0)
		LockRelease(&locks->tags[--locks->ntags], ExclusiveLock, true);
}

static void
check_workers(WorkerLocks *locks, const ShardJobArgs *args)
{
	int			n = args->type == SHARD_JOB_SERIES ? 2 : 1;
	int			of_role = Max(max_worker_processes / 4, 2);
	int			of_all = Max(max_worker_processes / 2, 2);
	bool		role_has;

	shard_move_begin(args->userid);
	/* the series has locked the worker */
	if (!superuser_arg(args->userid) &&
		(args->series == 0 || !lock_workers(locks, SHARD_LOCK_JOB_STEP, args->series, 1, 1)))
	{
		role_has = lock_workers(locks, SHARD_LOCK_JOB_WORKER, args->userid, of_role, n);
		if (!role_has || !lock_workers(locks, SHARD_LOCK_JOB_WORKER, 0, of_all, n))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
					 role_has ? errmsg("too many jobs of roles that are not superusers are running") :
					 errmsg("too many jobs of role \"%s\" are running", GetUserNameFromId(args->userid, false)),
					 errdetail("They may use %d background workers.", role_has ? of_all : of_role),
					 errhint("Start the job again when another job has ended, or increase max_worker_processes.")));
	}
	shard_move_commit();
}

/* A job that runs. */
typedef struct RunArg
{
	const ShardJobArgs *args;
	const ShardJobKind *kind;
	ShardJob   *job;
	WorkerLocks locks;
} RunArg;

static void
run(void *arg)
{
	RunArg	   *running = arg;

	begin_job(running->job, running->kind, running->args);
	check_workers(&running->locks, running->args);
	running->kind->run(running->job);
	/* the next job may start as soon as this one has ended */
	unlock_workers(&running->locks);
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
	shard_attempts_name_awaited(running.job, error);
	QueryCancelPending = false;
	/* its argument belongs to what has failed */
	shard_wait_set_idle(NULL, NULL);
	if (running.kind->undo)
		running.kind->undo(running.job, error);
	unlock_workers(&running.locks);
	shard_job_end(running.job, error);
}
