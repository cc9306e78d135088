/*
 * fence.c
 *	  The snapshot barrier: locks that keep commits apart from snapshots over all nodes (cluster
 *	  snapshots).
 *
 *	 two-phase commit:	 pass, hold --> local commit, COMMIT PREPARED --> let go
 *	 commit on one node: pass --> COMMIT, or the statement, without holding --> pass
 *	 commands that commit by themselves, on any nodes: the same as a commit on one node
 *	 cluster snapshot:	 close, wait until no session passes or holds --> snapshots --> open
 *
 * A commit on one node may wait for a row lock, a deferred constraint or a node that hangs.  So it
 * does not hold the barrier.  It need not: on one node a cluster snapshot sees all of the commit or
 * nothing.  Before it is sent, the commit passes the barrier.  So every later cluster snapshot
 * contains all that its client had seen by then.  Before the client is told, the commit passes the
 * barrier again.  So a cluster snapshot without this commit contains nothing that the client sends
 * afterwards.  If two such commits run during a cluster snapshot, the snapshot may show them in
 * either order.
 *
 * All waits are bounded:
 *
 *	- A session that holds the barrier, or keeps it closed, waits for a row, a node or a client for
 *	  SHARD_FENCE_HOLD_MS at most.  Then a commit lets go, and a cluster snapshot opens the barrier.
 *	  Exception: a two-phase commit also holds the barrier while PostgreSQL itself waits in the
 *	  local commit, for the lock of NOTIFY's queue or for a synchronous standby of the coordinator.
 *	  Then cluster snapshots fail, and commits go on.
 *	- A cluster snapshot keeps the barrier closed for SHARD_FENCE_DRAIN_MS while it waits for
 *	  sessions that hold it, and for SHARD_FENCE_HOLD_MS while it waits for nodes.  Then it opens
 *	  the barrier.  Only the session with the turn lock takes a cluster snapshot.  So a commit waits
 *	  for one cluster snapshot at most, not for a queue of them.
 *
 * If there are several coordinators, each has its own barrier, and a cluster snapshot closes all of
 * them (peer_fence.c).
 *
 * The barrier consists of three locks in the coordinator's lock table (gate, hold and turn), so the
 * library need not be preloaded.  If no session takes cluster snapshots, a commit spends about a
 * microsecond on the barrier.
 */
#include "postgres.h"

#include "catch.h"
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

/* Which of the locks this session's commit holds. */
static bool has_gate = false;
static bool has_hold = false;

/* GUC nesting level while this session keeps the barrier closed. */
static int	closing_nestlevel = 0;

/*
 * Waits for a cluster snapshot that is being taken.  Ignores the user's lock_timeout: the wait is
 * short, and if the node has committed already, no error may be raised.
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
	/* fails if the lock table is full; then a cluster snapshot may show a later commit without this one */
	(void) shard_catch_noerror(shard_fence_pass);
	RESUME_INTERRUPTS();
}

void
shard_fence_hold(void)
{
	/* the resource owner that shard_fence_let_go() uses */
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
 * Closes the barrier, see shard_fence_close().  If it raises, it holds none of the locks.
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
		/* the client gets the error before the transaction's locks are released, so release the turn here */
		if (has_turn)
			shard_fence_give_turn();
		PG_RE_THROW();
	}
	PG_END_TRY();
	deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), SHARD_FENCE_DRAIN_MS);

	/* polls, since only an error ends a wait for a lock */
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
	/*
	 * no messages: a client that does not read them must not keep the barrier closed; an error
	 * resets the setting, too
	 */
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
