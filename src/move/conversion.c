/*
 * conversion.c
 *	  Converts a plain table to a sharded one, or back, while other sessions read and write it.
 *
 *	 successor, empty --> triggers that record changed keys --> copy --> recorded keys again -->
 *	   lock --> the last keys --> switch --> unlock
 *
 * The triggers exist before the snapshot of the copy is taken.  From then on, each row of the successor equals the
 * row of the table, or its key is recorded.  To follow the table, a transaction takes recorded keys and copies the
 * rows with these keys to the successor.  The transaction uses one snapshot per server.  Earlier changes of a key and
 * their order do not matter.  When the table is locked and no key is recorded, both have the same rows.
 *
 * The lock is held during the transaction of the last keys and the transaction of the switch.  So a session that gets
 * the table afterwards sees all earlier commits on the nodes, and no half-finished two-phase commit.
 *
 * The steps are SQL functions of the extension (49_shard_online.sql, 49_unshard_online.sql).  This file contains
 * their order, their transactions and the retries.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/node_list.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_inherits.h"
#include "catalog/qualified.h"
#include "catch.h"
#include "compat.h"
#include "fault.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "move/job/attempt.h"
#include "move/job/table.h"
#include "move/job/turn.h"
#include "own_schema.h"
#include "own_sql.h"
#include "remote/wire/wait.h"
#include "service/background_worker.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#define GIVE_WAY_MS "20"
#define FOLLOW_TRIES 50
#define FOLLOW_PAUSE_MS 20
#define NEAR_KEYS 200			/* the successor is near if at most this many keys were left; less than one batch */

PG_FUNCTION_INFO_V1(shardfdw_start_conversion);

typedef struct ShardConversion
{
	ShardJob	job;			/* plan: jsonb for the SQL functions */
	bool		back;			/* a sharded table becomes plain */
	const char *validation;		/* commands to run after the switch, or NULL */
	List	   *locks;			/* OIDs of the tables that the switch locks: referenced tables, the table itself, its shards */
	bool		begun;			/* objects of the job may exist */
	bool		switched;		/* the successor has replaced the table */
} ShardConversion;

static const char *
kind_of(const ShardConversion *conversion)
{
	return conversion->back ? "unsharding" : "conversion";
}

/* The query that calls the function of a step.  Memory: current context. */
static char *
query_of(const ShardConversion *conversion, const char *step)
{
	return psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".%s_%s(%u, %s)", step, kind_of(conversion), conversion->job.relid,
					quote_literal_cstr(conversion->job.plan));
}

static int64
number_of(const char *text)
{
	return text ? strtoi64(text, NULL, 10) : 0;
}

/* Runs a step that returns a number, in the current transaction. */
static int64
call(const ShardConversion *conversion, const char *step)
{
	return number_of(shard_own_sql_value(query_of(conversion, step), InvalidSnapshot));
}

/* A step that locks tables. */
typedef struct LockStep
{
	const ShardConversion *conversion;
	const char *name;
	List	   *locks;			/* OIDs of tables that are locked first */
} LockStep;

typedef struct FollowAttempt
{
	const ShardConversion *conversion;
	int64		nkeys;
} FollowAttempt;

static void
call_with_timeout(const ShardAttempts *attempts, void *arg)
{
	const LockStep *step = arg;

	/* a running autovacuum is cancelled after this time */
	(void) set_config_option("deadlock_timeout", GIVE_WAY_MS, PGC_SUSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
	foreach_oid(relid, step->locks)
	{
		shard_attempts_limit(attempts);
		LockRelationOid(relid, AccessExclusiveLock);
	}
	shard_attempts_limit(attempts);
	(void) call(step->conversion, step->name);
}

/*
 * Runs a step in a transaction, which stays open.  Repeats it until its locks are granted. locks: list of tables to
 * lock first. before: called before each attempt, may be NULL.
 */
static void
insist(ShardConversion *conversion, const char *name, List *locks, const char *waits_for, void (*before) (void *conversion))
{
	LockStep	step = {conversion, name, locks};

	shard_attempts_insist(&conversion->job, waits_for, before, conversion, call_with_timeout, &step);
}

/*
 * Waits for the turns of the table and of all nodes.  All jobs take turns in the same order, which prevents
 * deadlocks.
 */
static void
take_turns(const ShardConversion *conversion)
{
	List	   *nodes;
	MemoryContext oldcxt;

	shard_turn_take(&conversion->job, RelationRelationId, conversion->job.relid);
	shard_move_begin(conversion->job.userid);
	oldcxt = MemoryContextSwitchTo(conversion->job.cxt);
	nodes = shard_own_sql_oids(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".conversion_servers(%s)", quote_literal_cstr(conversion->job.plan)), InvalidSnapshot);
	MemoryContextSwitchTo(oldcxt);
	shard_move_commit();
	foreach_oid(serverid, nodes)
		shard_turn_take(&conversion->job, ForeignServerRelationId, serverid);
}

static void
describe(ShardJob *job, const ShardJobArgs *args, ShardJobRow *row)
{
	ShardConversion *conversion = (ShardConversion *) job;

	conversion->back = get_rel_relkind(job->relid) == RELKIND_PARTITIONED_TABLE;
	row->kind = conversion->back ? "unshard" : "shard";
}

/* Makes the successor, and starts recording changes of the table. */
static void
prepare(ShardConversion *conversion)
{
	shard_job_enter_stage(&conversion->job, "preparing");
	conversion->begun = true;
	shard_move_begin(conversion->job.userid);
	(void) shard_move_value(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".begin_%s(%u, %s, " INT64_FORMAT ")", kind_of(conversion), conversion->job.relid,
									 quote_literal_cstr(conversion->job.plan), conversion->job.id));
	shard_move_commit_on_nodes(&conversion->job);
	SHARD_FAULT_POINT("convert_begun");
	insist(conversion, "note", NIL, "transactions that have written to the table", NULL);
	shard_move_commit_on_nodes(&conversion->job);
	SHARD_FAULT_POINT("convert_noted");
}

static void
copy(ShardConversion *conversion)
{
	shard_job_enter_stage(&conversion->job, "copying");
	shard_move_begin(conversion->job.userid);
	conversion->job.progress.nrows = call(conversion, "copy");
	shard_move_commit_on_nodes(&conversion->job);
	shard_job_set_progress(&conversion->job);
	SHARD_FAULT_POINT("convert_copied");
	if (conversion->back)
		return;
	/* separate from the copy, which a failed attempt to lock would roll back */
	insist(conversion, "refer", NIL, "transactions that write to referenced tables", NULL);
	shard_move_commit_on_nodes(&conversion->job);
}

static void
follow_once(void *arg)
{
	FollowAttempt *attempt = arg;

	/* before the first snapshot: recorded keys and rows must be read with the same one */
	XactIsoLevel = XACT_REPEATABLE_READ;
	attempt->nkeys = number_of(shard_move_value(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".follow_changes(%u)", attempt->conversion->job.relid)));
}

/*
 * Temporary errors.  A lock was not granted in time.  Or a row references a row of a reference table whose commit has
 * not reached every server.  Or the deletion of that row cascades to rows that are changed here.
 */
static bool
is_transient(int code)
{
	return shard_move_is_lock_timeout(code) || code == ERRCODE_FOREIGN_KEY_VIOLATION || code == ERRCODE_T_R_SERIALIZATION_FAILURE;
}

/*
 * Processes some recorded keys; *nkeys: how many.  Returns false after a temporary error.  With raise, only a lock
 * timeout or deadlock counts as temporary.
 */
static bool
try_follow(ShardConversion *conversion, bool raise, int64 *nkeys)
{
	FollowAttempt attempt = {conversion, 0};

	if (!shard_move_try_step(conversion->job.userid, raise ? shard_move_is_lock_timeout : is_transient, follow_once, &attempt))
		return false;
	shard_move_commit_on_nodes(&conversion->job);
	conversion->job.progress.nchanges += attempt.nkeys;
	*nkeys = attempt.nkeys;
	SHARD_FAULT_POINT("convert_followed");
	return true;
}

/* Follows the table until the successor is near. */
static void
catch_up(void *arg)
{
	ShardConversion *conversion = arg;
	int64		nkeys;

	do
	{
		for (int ntries = 1; !try_follow(conversion, ntries >= FOLLOW_TRIES, &nkeys); ntries++)
			shard_wait_pause(FOLLOW_PAUSE_MS, false);
		shard_job_set_progress(&conversion->job);
	} while (nkeys > NEAR_KEYS);
}

/*
 * Locks out other sessions from the tables, which the current transaction has locked, until unlock() or until a
 * transaction is aborted.
 */
static void
lock_for_session(ShardConversion *conversion)
{
	foreach_oid(relid, conversion->locks)
	{
		LockRelId	lock = {.relId = relid, .dbId = MyDatabaseId};

		LockRelationIdForSession(&lock, AccessExclusiveLock);
	}
}

/*
 * The same, for the current transaction only.  Its commit releases the locks before it removes the files of the old
 * table.  Removing large files takes long.
 */
static void
lock_for_transaction(ShardConversion *conversion)
{
	foreach_oid(relid, conversion->locks)
	{
		LockRelId	lock = {.relId = relid, .dbId = MyDatabaseId};

		LockRelationOid(relid, AccessExclusiveLock);
		UnlockRelationIdForSession(&lock, AccessExclusiveLock);
	}
}

/* Call it outside transactions, when the process holds no other locks on tables.  Turns of jobs are advisory locks. */
static void
unlock(void)
{
	LockReleaseAll(DEFAULT_LOCKMETHOD, true);
}

/* When the last transaction released its locks, before it removed files. */
static TimestampTz released_at;

static void
note_release(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	if (phase == RESOURCE_RELEASE_AFTER_LOCKS && is_top_level)
		released_at = GetCurrentTimestamp();
}

/*
 * Replaces the table by the successor.  Returns false if a lock on another object was not granted in time.  Then the
 * table is unlocked too.
 */
static bool
try_switch(ShardConversion *conversion)
{
	LockStep	step = {conversion, "switch", NIL};
	ShardAttempts attempts;

	shard_attempts_init(&attempts);
	if (!shard_attempts_try(&conversion->job, &attempts, call_with_timeout, &step))
		return false;
	lock_for_transaction(conversion);
	RegisterResourceReleaseCallback(note_release, NULL);
	shard_move_commit();
	UnregisterResourceReleaseCallback(note_release, NULL);
	return true;
}

/*
 * Finds what else the switch needs.  Its locks: clients write to a referenced table before the referencing table, so
 * it is locked in that order.  And the commands that validate foreign keys afterwards, without blocking other
 * sessions.
 */
static void
prepare_switch(ShardConversion *conversion)
{
	MemoryContext oldcxt;

	shard_move_begin(conversion->job.userid);
	oldcxt = MemoryContextSwitchTo(conversion->job.cxt);
	conversion->validation = shard_own_sql_value(query_of(conversion, "validation"), InvalidSnapshot);
	/* sessions that write to a shard by its name do not lock the table */
	conversion->locks = list_concat(shard_own_sql_oids(query_of(conversion, "referenced"), InvalidSnapshot), find_all_inheritors(conversion->job.relid, NoLock, NULL));
	MemoryContextSwitchTo(oldcxt);
	shard_move_commit();
}

static void
validate(ShardConversion *conversion)
{
	if (conversion->validation == NULL)
		return;
	shard_job_enter_stage(&conversion->job, "validating");
	shard_move_begin(conversion->job.userid);
	shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".run_here(%s)", quote_literal_cstr(conversion->validation)));
	shard_move_commit();
}

static void
lock_and_switch(ShardConversion *conversion)
{
	TimestampTz locked_at;
	ShardAttempts attempts;

	shard_job_enter_stage(&conversion->job, "switching");
	shard_attempts_init(&attempts);
	prepare_switch(conversion);
	for (;;)
	{
		const char *waits_for = "transactions that change referenced rows";
		int64		nkeys;

		insist(conversion, "lock", conversion->locks, "transactions that use the table, or referenced tables", catch_up);
		locked_at = GetCurrentTimestamp();
		lock_for_session(conversion);
		shard_move_commit();
		SHARD_FAULT_POINT("convert_locked");
		if (try_follow(conversion, false, &nkeys))
		{
			/* as much as other sessions can wait for */
			if (nkeys <= NEAR_KEYS && try_switch(conversion))
				break;
			waits_for = "transactions that use the job's tables";
		}
		else
			nkeys = 0;
		unlock();
		if (nkeys > NEAR_KEYS)
			continue;
		shard_job_set_waiting(&conversion->job, waits_for);
		shard_attempts_pause(&attempts);
	}
	conversion->switched = true;
	unlock();
	SHARD_FAULT_POINT("convert_switched");
	shard_job_set_pause(&conversion->job, released_at - locked_at);
	shard_job_set_progress(&conversion->job);
}

static void
run(ShardJob *job)
{
	ShardConversion *conversion = (ShardConversion *) job;

	shard_job_enter_stage(job, "waiting for its turn");
	take_turns(conversion);
	prepare(conversion);
	copy(conversion);
	shard_job_enter_stage(job, "catching up");
	catch_up(conversion);
	lock_and_switch(conversion);
	validate(conversion);
}

/* Calls a function that removes objects of the job, in a separate transaction. */
static void
call_on_leftovers(const ShardConversion *conversion, const char *function)
{
	shard_move_begin(conversion->job.userid);
	shard_move_call(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".%s(%u)", function, conversion->job.relid));
	shard_move_commit();
}

/* Removes what blocks the table.  This needs no node. */
static void
unnote(void *arg)
{
	call_on_leftovers(arg, "unnote_conversions");
}

static void
remove_objects(void *arg)
{
	call_on_leftovers(arg, "undo_conversions");
}

static void
undo(ShardJob *job, ErrorData *error)
{
	ShardConversion *conversion = (ShardConversion *) job;

	unlock();
	if (conversion->switched && error->hint == NULL)
		error->hint = "The table has been switched.  Foreign keys that are still NOT VALID are validated by ALTER TABLE ... VALIDATE CONSTRAINT.";
	if (!conversion->switched)
		shard_job_name_dropped(job, error);
	if (conversion->begun && !conversion->switched)
	{
		(void) shard_catch_transaction(unnote, conversion, NULL, true);
		(void) shard_catch_transaction(remove_objects, conversion, NULL, true);
	}
}

const ShardJobKind shard_conversion_kind = {sizeof(ShardConversion), describe, run, undo};

/* start_conversion(relation oid, plan text) -> bigint */
Datum
shardfdw_start_conversion(PG_FUNCTION_ARGS)
{
	ShardJobArgs args = {.type = SHARD_JOB_CONVERSION, .relid = PG_GETARG_OID(0), .online = true};
	char		relkind = get_rel_relkind(args.relid);

	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation %u is not a table", args.relid)));
	if (!shard_class_ownercheck(args.relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(args.relid));
	/* background workers are scarce, so only roles that may use a node can start one */
	shard_node_check_any_usage();
	PG_RETURN_INT64(shard_job_start(&args, TextDatumGetCString(PG_GETARG_DATUM(1))));
}
