/*
 * fence.c
 *	  The lock that keeps commits and snapshots over all nodes (cuts) apart.
 *
 *	 two-phase commit:	 pass, hold --> local commit, COMMIT PREPARED --> let go
 *	 commit on one node: pass --> COMMIT, or the statement, holding nothing --> pass
 *	 commands that commit by themselves, on whatever nodes: the same
 *	 cut:				 close: nobody passes, nobody holds --> snapshots --> open
 *
 * A commit on one node does not hold the fence, since it may wait for a row lock, a
 * deferred constraint or a hung node.  It need not: a cut sees all of it or nothing,
 * as it is on one node.  It passes the fence before it is sent, so all that its
 * client had seen by then is in each cut that starts later.  It passes again before
 * its client is told, so a cut without this commit has nothing that the client sends
 * afterwards.  Two such commits that are under way during a cut may be shown in
 * either order.
 *
 * Who waits for whom, and for how long:
 *
 * - Nobody waits for a row, a node or a client for more than SHARD_FENCE_HOLD_MS while holding
 *	 the fence or keeping it closed: a commit then lets go, a cut opens it.  (A
 *	 two-phase commit also holds it during what PostgreSQL itself does at commit, like
 *	 waiting for the lock of NOTIFY's queue or for a synchronous standby of the coordinator.
 *	 Then cuts fail, and commits go on.)
 * - A cut keeps the fence closed for SHARD_FENCE_DRAIN_MS while it waits for those
 *	 who hold it, and for SHARD_FENCE_HOLD_MS while it waits for nodes; then it opens it.
 *	 Cuts take turns, so that a commit waits for one cut at the
 *	 most, not for a queue of them.
 *
 * Where there are several coordinators, each has a fence of its own, and a cut closes all of them (peer_fence.c).
 *
 * The fence is three locks of the coordinator's lock table, so nothing has to be preloaded; a commit pays
 * about a microsecond when nobody takes cuts.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "own_lock.h"
#include "remote/wire/wait.h"
#include "remote/xact/fence.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#define DRAIN_POLL_MS 1

/* Which of the locks this commit has, for those who give them back. */
static bool has_gate = false;
static bool has_hold = false;

/* Of the settings while this session closes the fence. */
static int	closing_nestlevel = 0;

/*
 * Waits for a cut.  The user's lock_timeout is not applied: the wait is short, and when the node has committed
 * already no error may be raised.
 */
static void
pass_gate(ResourceOwner owner, bool hold)
{
	LOCKTAG		gate = shard_own_lock(SHARD_LOCK_FENCE_GATE, 0, 0);
	LOCKTAG		held = shard_own_lock(SHARD_LOCK_FENCE_HOLD, 0, 0);
	ResourceOwner save_owner = CurrentResourceOwner;
	int			save_timeout = LockTimeout;

	CurrentResourceOwner = owner;
	LockTimeout = 0;
	PG_TRY();
	{
		(void) LockAcquire(&gate, ShareLock, false, false);
		has_gate = true;
		if (hold)
		{
			(void) LockAcquire(&held, ShareLock, false, false);
			has_hold = true;
		}
	}
	PG_CATCH();
	{
		LockTimeout = save_timeout;
		if (has_gate)
			(void) LockRelease(&gate, ShareLock, false);
		has_gate = false;
		CurrentResourceOwner = save_owner;
		PG_RE_THROW();
	}
	PG_END_TRY();
	LockTimeout = save_timeout;
	(void) LockRelease(&gate, ShareLock, false);
	has_gate = false;
	CurrentResourceOwner = save_owner;
}

void
shard_fence_pass(void)
{
	pass_gate(CurrentResourceOwner, false);
}

void
shard_fence_pass_noerror(void)
{
	HOLD_INTERRUPTS();
	/* fails when the lock table is full: then a cut may show a later commit without this one */
	(void) shard_wait_run_noerror(shard_fence_pass);
	RESUME_INTERRUPTS();
}

void
shard_fence_hold(void)
{
	/* with the resource owner that shard_fence_let_go() uses */
	pass_gate(TopTransactionResourceOwner, true);
}

void
shard_fence_let_go(void)
{
	LOCKTAG		hold = shard_own_lock(SHARD_LOCK_FENCE_HOLD, 0, 0);
	ResourceOwner owner = CurrentResourceOwner;

	if (!has_hold)
		return;
	has_hold = false;
	CurrentResourceOwner = TopTransactionResourceOwner;
	(void) LockRelease(&hold, ShareLock, false);
	CurrentResourceOwner = owner;
}

void
shard_fence_take_turn(void)
{
	LOCKTAG		turn = shard_own_lock(SHARD_LOCK_FENCE_TURN, 0, 0);

	(void) LockAcquire(&turn, ExclusiveLock, false, false);
}

void
shard_fence_give_turn(void)
{
	LOCKTAG		turn = shard_own_lock(SHARD_LOCK_FENCE_TURN, 0, 0);

	(void) LockRelease(&turn, ExclusiveLock, false);
}

/*
 * Closes it, as shard_fence_close() says.  When an error is raised, nothing is left of it.
 */
static bool
take_locks(void)
{
	LOCKTAG		gate = shard_own_lock(SHARD_LOCK_FENCE_GATE, 0, 0);
	LOCKTAG		hold = shard_own_lock(SHARD_LOCK_FENCE_HOLD, 0, 0);
	TimestampTz deadline;
	volatile bool has_turn = false;

	PG_TRY();
	{
		shard_fence_take_turn();
		has_turn = true;
		(void) LockAcquire(&gate, ExclusiveLock, false, false);
	}
	PG_CATCH();
	{
		/* an error goes to the client before the transaction's locks are released */
		if (has_turn)
			shard_fence_give_turn();
		PG_RE_THROW();
	}
	PG_END_TRY();
	deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), SHARD_FENCE_DRAIN_MS);

	/* tried again and again: waiting for a lock cannot be ended without an error */
	while (LockAcquire(&hold, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
	{
		if (shard_wait_is_urged() || GetCurrentTimestamp() >= deadline)
			return false;
		shard_wait_pause(DRAIN_POLL_MS, true);
	}
	return true;
}

static void
give_locks(bool closed)
{
	LOCKTAG		gate = shard_own_lock(SHARD_LOCK_FENCE_GATE, 0, 0);
	LOCKTAG		hold = shard_own_lock(SHARD_LOCK_FENCE_HOLD, 0, 0);

	if (closed)
		(void) LockRelease(&hold, ExclusiveLock, false);
	(void) LockRelease(&gate, ExclusiveLock, false);
	shard_fence_give_turn();
}

bool
shard_fence_close(void)
{
	/* a client that does not read must not keep the fence closed; an error takes the setting back, too */
	closing_nestlevel = NewGUCNestLevel();
	(void) set_config_option("client_min_messages", "error", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return take_locks();
}

void
shard_fence_open(bool closed)
{
	give_locks(closed);
	AtEOXact_GUC(true, closing_nestlevel);
}

bool
shard_fence_close_until_end(void)
{
	if (take_locks())
		return true;
	give_locks(false);
	return false;
}
