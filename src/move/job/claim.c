/*
 * claim.c
 *	  Locks for the removal of leftovers of jobs: the lock of the job, and locks of tables that clients use.
 *
 * A session that holds the lock of a job (catalog/moving.h) may remove the objects of that job.  This is the job's
 * process or, after the process has ended, one other session at a time.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/moving.h"
#include "compat.h"
#include "fault.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "move/job/job.h"
#include "remote/wire/wait.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define POLL_MS 50

PG_FUNCTION_INFO_V1(shardfdw_claim_job);
PG_FUNCTION_INFO_V1(shardfdw_holds_job);
PG_FUNCTION_INFO_V1(shardfdw_lock_to_clear);

/* claim_job(id bigint, timeout_ms integer) -> boolean */
Datum
shardfdw_claim_job(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), PG_GETARG_INT32(1));

	bool		is_in_journal;

	/* any role can make a table with any job number */
	if (!shard_job_may_clear(id, &is_in_journal))
		PG_RETURN_BOOL(false);
	while (!shard_moving_claim_leftovers(id, is_in_journal))
	{
		if (GetCurrentTimestamp() >= deadline)
			PG_RETURN_BOOL(false);
		shard_wait_pause(POLL_MS, false);
	}
	SHARD_FAULT_POINT("leftover_claimed");
	PG_RETURN_BOOL(true);
}

/* holds_job(id bigint) -> boolean */
Datum
shardfdw_holds_job(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(shard_moving_is_claimed_here(PG_GETARG_INT64(0)));
}

/* The transaction that has locked a table in this session. */
static TransactionId locked_by = InvalidTransactionId;

/*
 * lock_to_clear(relation regclass) -> void
 *
 * A session that holds such a lock and waits for another one can be part of a deadlock.  PostgreSQL may then cancel
 * the client's statement.  So a transaction waits only for its first lock.
 */
Datum
shardfdw_lock_to_clear(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);

	/* other sessions must not queue behind a lock that will be refused */
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) && !shard_class_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));
	if (TransactionIdIsValid(locked_by) && locked_by == GetTopTransactionIdIfAny())
	{
		if (!ConditionalLockRelationOid(relid, AccessExclusiveLock))
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("table \"%s\" is in use", get_rel_name(relid))));
	}
	else
		LockRelationOid(relid, AccessExclusiveLock);
	/* it may have been dropped during the wait for the lock */
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!shard_class_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));
	locked_by = GetTopTransactionId();
	PG_RETURN_VOID();
}
