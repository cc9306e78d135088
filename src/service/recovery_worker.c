/*
 * recovery_worker.c
 *	  Background workers that recover interrupted commits.
 *
 *	 launcher	knows the databases; every shardfdw.recovery_interval it starts,
 *				one after the other, for each that has the extension and no running worker, a
 *	 worker		which runs recover_prepared_transactions() once for each user who has a mapping to a
 *				node, as that user, and ends.  First for all users the part that resolves transactions
 *				(recover), then for all users the part that removes what jobs have left (remove)
 *
 * The second part may run code of users, which may take any time.  While a worker is in that part, the
 * launcher starts another worker.  That one resolves transactions, and leaves the second part to the
 * first worker.
 *
 * A worker connects to nodes with the same mappings as sessions.  So it can resolve what they have
 * prepared, and no user gets more privileges.  A server that does not answer delays a worker by up
 * to SHARD_COMMAND_SETTLE_MS for each query.  The launcher continues with other databases.
 *
 * Only if the library is in shared_preload_libraries.  Only a worker in a database can find out
 * whether it has the extension.  Databases without it are checked again every RETRY_ROUNDS
 * intervals.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/option.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_user_mapping.h"
#include "catalog_scan.h"
#include "catch.h"
#include "commands/extension.h"
#include "compat.h"
#include "guc.h"
#include "miscadmin.h"
#include "own_lock.h"
#include "own_sql.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "service/background_worker.h"
#include "service/deadlock.h"
#include "service/recover.h"
#include "service/recovery_worker.h"
#include "shared_memory.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "version.h"
#include "wait_event.h"

#define RETRY_ROUNDS 10			/* how rarely databases without the extension are checked */
#define LAUNCHER_RESTART_S 10
#define PATIENCE_MS 2000		/* maximum time for which the launcher waits for a worker while other databases are due */

/* The result of the worker that was started last. */
typedef struct RecoveryShared
{
	Oid			database;		/* its database, since an earlier worker may still run */
	bool		has_extension;
} RecoveryShared;

/* The launcher's information about a database. */
typedef struct WatchedDatabase
{
	Oid			oid;
	int			rounds_to_wait; /* until the next check */
	BackgroundWorkerHandle *worker; /* the worker that runs there; NULL: none */
	bool		seen;			/* the database still exists */
} WatchedDatabase;

static RecoveryShared *shared = NULL;

extern PGDLLEXPORT void shard_recovery_launcher_main(Datum arg);
extern PGDLLEXPORT void shard_recovery_worker_main(Datum arg);

/* ---------- worker ---------- */

/* Returns the users who have a mapping to a node of this database.  OidList; memory: cxt. */
static List *
find_users(MemoryContext cxt)
{
	ShardCatalogScan scan;
	List	   *users = NIL;
	HeapTuple	tuple;
	MemoryContext oldcxt;

	shard_catalog_scan_begin(&scan, UserMappingRelationId);
	while (HeapTupleIsValid(tuple = shard_catalog_scan_next(&scan)))
	{
		Form_pg_user_mapping form = (Form_pg_user_mapping) GETSTRUCT(tuple);

		if (!shard_option_is_our_server(form->umserver))
			continue;
		oldcxt = MemoryContextSwitchTo(cxt);
		/* any role can use the mapping of PUBLIC */
		users = list_append_unique_oid(users, OidIsValid(form->umuser) ? form->umuser : BOOTSTRAP_SUPERUSERID);
		MemoryContextSwitchTo(oldcxt);
	}
	shard_catalog_scan_end(&scan);
	return users;
}

/* Appends a copy of outcome to outcomes. */
static List *
keep_outcome(List *outcomes, const ShardRecoverOutcome *outcome)
{
	ShardRecoverOutcome *kept = palloc(sizeof(ShardRecoverOutcome));

	kept->node = outcome->node ? pstrdup(outcome->node) : NULL;
	kept->gid = outcome->gid ? pstrdup(outcome->gid) : NULL;
	kept->action = outcome->action;
	kept->message = outcome->message ? pstrdup(outcome->message) : NULL;
	return lappend(outcomes, kept);
}

/* Recovery as one user. */
typedef struct RecoverArg
{
	bool		removes;		/* the second part */
	Oid			userid;
	List	   *outcomes;		/* of all users so far */
	MemoryContext cxt;			/* memory for outcomes */
} RecoverArg;

/* Runs recover_prepared_transactions() as a user, in a separate transaction. */
static void
recover_as(void *arg)
{
	RecoverArg *recover = arg;
	ShardOwnSql own;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(recover->userid)))
	{
		List	   *found;
		MemoryContext oldcxt;

		shard_own_sql_become(&own, recover->userid);
		found = recover->removes ? shard_recover_remove(NIL) : shard_recover_run(false);
		if (superuser() && !recover->removes)
			shard_deadlock_end_local();
		shard_own_sql_return(&own);
		oldcxt = MemoryContextSwitchTo(recover->cxt);
		foreach_ptr(const ShardRecoverOutcome, outcome, found)
			recover->outcomes = keep_outcome(recover->outcomes, outcome);
		MemoryContextSwitchTo(oldcxt);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* Runs one of the two parts for all users. */
static void
recover_all(List *users, bool removes, MemoryContext cxt)
{
	RecoverArg	recover = {.removes = removes, .cxt = cxt};

	foreach_oid(user, users)
	{
		recover.userid = user;
		/* a failure is only logged */
		(void) shard_catch_transaction(recover_as, &recover, NULL, true);
	}
	shard_recover_log(recover.outcomes);
}

/*
 * Returns false if another worker removes leftovers of jobs.  Otherwise the session keeps the lock for that work, and a
 * lock by which the launcher sees it.
 */
static bool
begin_removing(void)
{
	LOCKTAG		all = shard_own_lock(SHARD_LOCK_RECOVERY, 0, 0);
	LOCKTAG		mine = shard_own_lock(SHARD_LOCK_RECOVERY, MyProcPid, 0);

	if (LockAcquire(&all, ExclusiveLock, true, true) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	(void) LockAcquire(&mine, ExclusiveLock, true, false);
	return true;
}

/* arg: OID of the database. */
void
shard_recovery_worker_main(Datum arg)
{
	MemoryContext cxt;
	List	   *users = NIL;
	bool		has_extension;

	shard_background_worker_begin(DatumGetObjectId(arg));
	cxt = AllocSetContextCreate(TopMemoryContext, "shardfdw recovery", ALLOCSET_DEFAULT_SIZES);

	StartTransactionCommand();
	has_extension = OidIsValid(get_extension_oid("shardfdw", true));
	if (shared->database == MyDatabaseId)
		shared->has_extension = has_extension;
	if (has_extension && shard_version_check_noerror())
		users = find_users(cxt);
	CommitTransactionCommand();

	MemoryContextSwitchTo(cxt);
	recover_all(users, false, cxt);
	if (users != NIL && begin_removing())
		recover_all(users, true, cxt);
}

/* ---------- launcher ---------- */

/* Updates the list of databases.  Memory: cxt. */
static List *
refresh_databases(List *watched, MemoryContext cxt)
{
	Relation	databases;
	TableScanDesc scan;
	HeapTuple	tuple;
	ListCell   *lc;

	foreach(lc, watched)
		((WatchedDatabase *) lfirst(lc))->seen = false;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	databases = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(databases, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		WatchedDatabase *database = NULL;

		/* a negative connection limit marks a database whose DROP was interrupted */
		if (!form->datallowconn || form->datistemplate || form->datconnlimit < -1)
			continue;
		foreach(lc, watched)
		{
			if (((WatchedDatabase *) lfirst(lc))->oid == form->oid)
				database = lfirst(lc);
		}
		if (database == NULL)
		{
			MemoryContext oldcxt = MemoryContextSwitchTo(cxt);

			database = palloc0(sizeof(WatchedDatabase));
			database->oid = form->oid;
			watched = lappend(watched, database);
			MemoryContextSwitchTo(oldcxt);
		}
		database->seen = true;
	}
	table_endscan(scan);
	table_close(databases, AccessShareLock);
	CommitTransactionCommand();

	foreach(lc, watched)
	{
		WatchedDatabase *database = lfirst(lc);

		if (!database->seen)
		{
			watched = foreach_delete_current(watched, lc);
			if (database->worker)
				pfree(database->worker);
			pfree(database);
		}
	}
	return watched;
}

/* Has the worker in the database ended, or does it end within ms? */
static bool
has_ended(WatchedDatabase *database, int ms)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms);

	while (database->worker)
	{
		pid_t		pid;
		BgwHandleStatus status = GetBackgroundWorkerPid(database->worker, &pid);
		long		left_ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);

		if (status == BGWH_POSTMASTER_DIED)
			proc_exit(1);
		if (status == BGWH_STOPPED)
		{
			pfree(database->worker);
			database->worker = NULL;
			break;
		}
		if (left_ms <= 0)
			return false;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left_ms, shard_wait_event(SHARD_WAIT_RECOVERY));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/* Has the worker resolved all transactions, and is it now removing leftovers of jobs? */
static bool
is_removing(const WatchedDatabase *database)
{
	LOCKTAG		tag;
	pid_t		pid;

	if (GetBackgroundWorkerPid(database->worker, &pid) != BGWH_STARTED)
		return false;
	tag = shard_own_lock_in(database->oid, SHARD_LOCK_RECOVERY, pid, 0);
	return shard_own_lock_is_held(&tag, ShareLock);
}

/* Runs a worker in the database, and waits some time for its end.  Memory: cxt. */
static void
run_worker(WatchedDatabase *database, MemoryContext cxt)
{
	BackgroundWorker worker = shard_background_worker("shard_recovery_worker_main", "shardfdw recovery worker");
	MemoryContext oldcxt;
	bool		registered;

	worker.bgw_notify_pid = MyProcPid;
	worker.bgw_main_arg = ObjectIdGetDatum(database->oid);

	/* a worker that cannot connect (the database is being dropped) leaves this unchanged */
	shared->database = database->oid;
	shared->has_extension = false;
	oldcxt = MemoryContextSwitchTo(cxt);
	registered = RegisterDynamicBackgroundWorker(&worker, &database->worker);
	MemoryContextSwitchTo(oldcxt);
	if (!registered)
	{
		database->worker = NULL;
		ereport(LOG,
				(errmsg("no background worker is free for recovery"),
				 errhint("Increase max_worker_processes.")));
		return;
	}
	database->rounds_to_wait = !has_ended(database, PATIENCE_MS) || shared->has_extension ? 0 : RETRY_ROUNDS - 1;
}

/* Runs a worker in each database that is due.  Returns the databases. */
static List *
run_round(List *watched, MemoryContext cxt)
{
	watched = refresh_databases(watched, cxt);
	foreach_ptr(WatchedDatabase, database, watched)
	{
		if (!has_ended(database, 0))
		{
			if (!is_removing(database))
				continue;
			pfree(database->worker);
			database->worker = NULL;
		}
		if (database->rounds_to_wait > 0)
			database->rounds_to_wait--;
		else
			run_worker(database, cxt);
	}
	return watched;
}

void
shard_recovery_launcher_main(Datum arg)
{
	MemoryContext cxt;
	List	   *watched = NIL;
	TimestampTz next_round = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	cxt = AllocSetContextCreate(TopMemoryContext, "shardfdw recovery", ALLOCSET_DEFAULT_SIZES);

	for (;;)
	{
		int			interval_s = shard_guc_recovery_interval_s;
		TimestampTz now = GetCurrentTimestamp();
		long		timeout_ms = -1;

		if (interval_s > 0)
		{
			/* the end of a worker wakes the launcher, too */
			if (now >= next_round)
			{
				watched = run_round(watched, cxt);
				now = GetCurrentTimestamp();
				next_round = TimestampTzPlusMilliseconds(now, interval_s * INT64CONST(1000));
			}
			timeout_ms = TimestampDifferenceMilliseconds(now, next_round);
		}

		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (timeout_ms >= 0 ? WL_TIMEOUT : 0),
						 timeout_ms, shard_wait_event(SHARD_WAIT_RECOVERY));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			next_round = 0;
		}
	}
}

/* ---------- registration ---------- */

static const ShardSharedArea shared_area = {"shardfdw_recovery", sizeof(RecoveryShared), 0, (void **) &shared, NULL};

void
shard_recovery_worker_init(void)
{
	BackgroundWorker launcher = shard_background_worker("shard_recovery_launcher_main", "shardfdw recovery launcher");

	if (!process_shared_preload_libraries_in_progress)
		return;

	shard_shared_memory_request(&shared_area);
	/* nothing may change while pg_upgrade runs */
	if (IsBinaryUpgrade)
		return;
	launcher.bgw_restart_time = LAUNCHER_RESTART_S;
	RegisterBackgroundWorker(&launcher);
}
