/*
 * moving.c
 *	  Finds out which jobs are running, and on which shards.
 *
 * A job's row in shardfdw_internal.job lists the tables of the job.  While the job is running, its process holds a
 * lock.
 */
#include "postgres.h"

#include "catalog/moving.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_type.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "own_lock.h"
#include "own_schema.h"
#include "own_sql.h"
#include "own_table.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(shardfdw_hold_shards);

/* Returns the lock of this kind for job id. */
static LOCKTAG
job_lock(ShardLockKind kind, int64 id)
{
	return shard_own_lock(kind, (uint32) (id >> 32), (uint32) id);
}

/*
 * Lock modes.  The mode of a job's process conflicts with all of the others.  The mode of a session that removes
 * leftovers is another one, so other sessions can see that the job is not running.
 */
#define RUN_MODE ExclusiveLock
#define CLEAR_MODE ShareUpdateExclusiveLock
#define LOOK_MODE RowShareLock

bool
shard_moving_claim(int64 id)
{
	LOCKTAG		tag = job_lock(SHARD_LOCK_JOB, id);

	return LockAcquire(&tag, RUN_MODE, true, true) != LOCKACQUIRE_NOT_AVAIL;
}

/*
 * The lock of a job that is not in the journal.  Any role can claim any such number, so the lock
 * blocks no other role.
 */
static LOCKTAG
left_lock(int64 id)
{
	return shard_own_lock(SHARD_LOCK_JOB_LEFT, GetUserId(), (uint32) id);
}

bool
shard_moving_claim_leftovers(int64 id, bool is_in_journal)
{
	LOCKTAG		tag = is_in_journal ? job_lock(SHARD_LOCK_JOB, id) : left_lock(id);

	if (!is_in_journal && shard_moving_is_running(id))
		return false;
	return LockAcquire(&tag, is_in_journal ? CLEAR_MODE : ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

bool
shard_moving_is_claimed_here(int64 id)
{
	LOCKTAG		tag = job_lock(SHARD_LOCK_JOB, id);
	LOCKTAG		left = left_lock(id);

	return shard_lock_held_by_me(&tag, RUN_MODE) || shard_lock_held_by_me(&tag, CLEAR_MODE) || shard_lock_held_by_me(&left, ExclusiveLock);
}

bool
shard_moving_is_running(int64 id)
{
	LOCKTAG		tag = job_lock(SHARD_LOCK_JOB, id);

	return shard_own_lock_is_held(&tag, LOOK_MODE);
}

bool
shard_moving_try_turn(Oid classid, Oid objid)
{
	LOCKTAG		tag = shard_own_lock(SHARD_LOCK_JOB_TURN, classid, objid);

	return LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL;
}

void
shard_moving_take_turn(Oid classid, Oid objid)
{
	LOCKTAG		tag = shard_own_lock(SHARD_LOCK_JOB_TURN, classid, objid);

	(void) LockAcquire(&tag, ExclusiveLock, true, false);
}

void
shard_moving_give_turn(Oid classid, Oid objid)
{
	LOCKTAG		tag = shard_own_lock(SHARD_LOCK_JOB_TURN, classid, objid);

	LockRelease(&tag, ExclusiveLock, true);
}

/*
 * hold_shards(relation regclass) -> void
 *
 * Locks the shards of a table in the same way as a session that locks rows of them.  So they are
 * not moved until the transaction ends.
 */
Datum
shardfdw_hold_shards(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	AclResult	result = pg_class_aclcheck(relid, GetUserId(), ACL_SELECT | ACL_INSERT | ACL_UPDATE | ACL_DELETE);
	const ShardMap *map;

	if (result != ACLCHECK_OK)
		aclcheck_error(result, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));
	LockRelationOid(relid, AccessShareLock);
	map = shard_map_get(relid);
	for (int i = 0; map && i < map->nshards; i++)
		(void) shard_map_lock(map, i, RowShareLock);
	PG_RETURN_VOID();
}

void
shard_moving_begin_wait(void)
{
	LOCKTAG		tag = job_lock(SHARD_LOCK_JOB_WAIT, 0);

	(void) LockAcquire(&tag, ShareLock, false, false);
}

void
shard_moving_end_wait(void)
{
	LOCKTAG		tag = job_lock(SHARD_LOCK_JOB_WAIT, 0);

	LockRelease(&tag, ShareLock, false);
}

VirtualTransactionId *
shard_moving_waiting(int *n)
{
	LOCKTAG		tag = job_lock(SHARD_LOCK_JOB_WAIT, 0);

	return GetLockConflicts(&tag, ExclusiveLock, n);
}

void
shard_moving_ask_cut_over(int64 id, bool lock)
{
	LOCKTAG		tag = job_lock(lock ? SHARD_LOCK_CUT_OVER : SHARD_LOCK_CUT_OVER_FREE, id);

	(void) LockAcquire(&tag, ShareLock, false, false);
}

/* Does another process hold the lock? */
static bool
is_asked(int64 id, ShardLockKind kind)
{
	LOCKTAG		tag = job_lock(kind, id);

	return shard_own_lock_is_held(&tag, ExclusiveLock);
}

ShardCutOver
shard_moving_cut_over_asked(int64 id)
{
	if (is_asked(id, SHARD_LOCK_CUT_OVER))
		return SHARD_CUT_OVER_LOCK;
	return is_asked(id, SHARD_LOCK_CUT_OVER_FREE) ? SHARD_CUT_OVER_FREE : SHARD_CUT_OVER_NONE;
}

/* Has the journal row any of these tables? */
static bool
concerns(const ShardOwnTable *job, const Oid *relids, int nrelids)
{
	Datum	   *elems;
	int			nelems;

	if (job->nulls[SHARD_JOB_TABLES])
		return false;
	deconstruct_array(DatumGetArrayTypeP(job->values[SHARD_JOB_TABLES]), OIDOID, sizeof(Oid), true, TYPALIGN_INT, &elems, NULL, &nelems);
	for (int i = 0; i < nelems; i++)
	{
		for (int j = 0; j < nrelids; j++)
		{
			if (DatumGetObjectId(elems[i]) == relids[j])
				return true;
		}
	}
	return false;
}

/* Does a column of a journal row contain this name? */
static bool
is_named(const ShardOwnTable *job, AttrNumber column, const char *name)
{
	return !job->nulls[column] && strcmp(NameStr(*DatumGetName(job->values[column])), name) == 0;
}

/* Search condition: the job satisfies one of the following. */
typedef struct JobSearch
{
	const Oid  *relids;			/* works on one of these tables */
	int			nrelids;
	const char *server;			/* works on the server with this name; NULL: any */
	int			pid;			/* runs in this process; 0: any */
} JobSearch;

static bool
fits(const ShardOwnTable *job, const JobSearch *search)
{
	if (concerns(job, search->relids, search->nrelids))
		return true;
	if (search->server && (is_named(job, SHARD_JOB_SOURCE, search->server) || is_named(job, SHARD_JOB_TARGET, search->server)))
		return true;
	return search->pid != 0 && DatumGetInt32(job->values[SHARD_JOB_PID]) == search->pid;
}

/* Returns the number of a job that satisfies search and runs in another process; 0: none. */
static int64
find_running(const JobSearch *search)
{
	ShardOwnTable jobs;
	int64		found = 0;

	if (!OidIsValid(shard_own_relation(SHARD_JOB_TABLE, true)))
		return 0;
	shard_own_table_open(&jobs, SHARD_JOB_TABLE, AccessShareLock);
	shard_own_table_begin(&jobs, NULL);
	while (found == 0 && shard_own_table_next(&jobs))
	{
		int64		id = DatumGetInt64(jobs.values[SHARD_JOB_ID]);

		if (strcmp(shard_own_table_text(&jobs, SHARD_JOB_STATE), "running") == 0 && fits(&jobs, search) && shard_moving_is_running(id))
			found = id;
	}
	shard_own_table_end(&jobs);
	shard_own_table_close(&jobs);
	return found;
}

/* Returns the process that holds a lock in a mode; 0: none. */
static int
find_holder(const LOCKTAG *tag, LOCKMODE mode)
{
	LockData   *locks = GetLockStatusData();

	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];

		if (memcmp(&lock->locktag, tag, sizeof(*tag)) == 0 && (lock->holdMask & LOCKBIT_ON(mode)))
			return lock->pid;
	}
	return 0;
}

int
shard_moving_process(int64 id)
{
	LOCKTAG		tag = job_lock(SHARD_LOCK_JOB, id);

	return find_holder(&tag, RUN_MODE);
}

int64
shard_moving_turn_holder(Oid classid, Oid objid)
{
	LOCKTAG		tag = shard_own_lock(SHARD_LOCK_JOB_TURN, classid, objid);
	JobSearch	search = {0};

	search.pid = find_holder(&tag, ExclusiveLock);
	return search.pid != 0 ? find_running(&search) : 0;
}

void
shard_moving_check(const Oid *relids, int nrelids)
{
	JobSearch	search = {.relids = relids, .nrelids = nrelids};
	int64		id = nrelids > 0 ? find_running(&search) : 0;

	if (id != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("the definition of the table cannot be changed while job " INT64_FORMAT " moves a shard of it", id),
				 errhint("Wait for it (SELECT shardfdw.wait_job(" INT64_FORMAT ")) or cancel it (SELECT shardfdw.cancel_job(" INT64_FORMAT ")).", id, id)));
}

void
shard_moving_check_names(const Oid *relids, int nrelids)
{
	JobSearch	search = {.relids = relids, .nrelids = nrelids};
	ShardOwnTable jobs;
	StringInfoData ids;
	StringInfoData nodes;

	if (nrelids == 0 || !OidIsValid(shard_own_relation(SHARD_JOB_TABLE, true)))
		return;
	initStringInfo(&ids);
	initStringInfo(&nodes);
	shard_own_table_open(&jobs, SHARD_JOB_TABLE, AccessShareLock);
	shard_own_table_begin(&jobs, NULL);
	while (shard_own_table_next(&jobs))
	{
		int64		id = DatumGetInt64(jobs.values[SHARD_JOB_ID]);

		if (!fits(&jobs, &search) || strcmp(shard_own_table_text(&jobs, SHARD_JOB_STATE), "done") == 0 || shard_moving_is_running(id))
			continue;
		appendStringInfo(&ids, "%s" INT64_FORMAT, ids.len > 0 ? ", " : "", id);
		for (AttrNumber column = SHARD_JOB_SOURCE; column <= SHARD_JOB_TARGET; column++)
		{
			if (!jobs.nulls[column])
				appendStringInfo(&nodes, "%s%s", nodes.len > 0 ? ", " : "", quote_literal_cstr(NameStr(*DatumGetName(jobs.values[column]))));
		}
	}
	shard_own_table_end(&jobs);
	shard_own_table_close(&jobs);
	if (ids.len == 0)
		return;
	(void) shard_own_sql_rows(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".check_no_traces(ARRAY[%s]::bigint[], ARRAY[%s]::name[])", ids.data, nodes.data),
							  InvalidSnapshot);
}

void
shard_moving_check_server(Oid serverid)
{
	const char *name = GetForeignServer(serverid)->servername;
	JobSearch	search = {.server = name};
	int64		id = find_running(&search);
	LOCKTAG		tag = shard_own_lock(SHARD_LOCK_JOB_TURN, ForeignServerRelationId, serverid);

	if (id != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("server \"%s\" cannot be dropped while job " INT64_FORMAT " works on it", name, id),
				 errhint("Wait for it (SELECT shardfdw.wait_job(" INT64_FORMAT ")) or cancel it (SELECT shardfdw.cancel_job(" INT64_FORMAT ")).", id, id)));
	/* jobs with several nodes do not list them; no such job can begin on this server before the transaction ends */
	if (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("server \"%s\" cannot be dropped while a job works on it", name),
				 errhint("The view shardfdw.jobs lists the jobs.")));
}
