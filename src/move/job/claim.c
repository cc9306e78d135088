/*
 * claim.c
 *	  Locks of those who remove what a job has left: the job's own, and those of tables that clients use.
 *
 * Whoever holds the lock of a job (catalog/moving.h) may remove the objects of that job: the job's process, or, when that
 * has ended, one other session at a time.
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

	/* every role can note any number on a table of its own */
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

/* The transaction that has locked a table here. */
static TransactionId locked_by = InvalidTransactionId;

/*
 * lock_to_clear(relation regclass) -> void
 *
 * A session that holds such a lock and waits for another one can be part of a deadlock, of which PostgreSQL may choose the
 * client's session as the victim.  So only the first lock of a transaction is waited for.
 */
Datum
shardfdw_lock_to_clear(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);

	/* others must not queue behind a lock that is refused then */
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
	/* it may have been dropped before the lock was given */
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!shard_class_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)), get_rel_name(relid));
	locked_by = GetTopTransactionId();
	PG_RETURN_VOID();
}
