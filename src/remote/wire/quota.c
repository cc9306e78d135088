/*
 * quota.c
 *	  Limits the number of connections that all backends together have to a node.
 *
 * Shared memory contains, per node, how many connections are open, and per backend, how many of
 * them it has and what it waits for.  A connection is counted from before it is opened until after
 * it was closed.
 *
 *	 take: room for this need? --yes--> counted
 *	  |no, EXTRA: false
 *	  +--> queue --> granted when another backend gives one back --> counted
 *
 * Room.  Any backend may take the first seven eighths of a node's limit.  Backends that already
 * hold connections or locks may take the rest, except the last one.  Only one backend at a time,
 * the privileged one, may take the last one.  So there is always a backend that can get all that it
 * needs, end its transaction and let others go on.  Thus sessions that hold connections to one node
 * and wait for another cannot block each other indefinitely.  Connections that only make a
 * statement faster (EXTRA) come from three quarters of the limit, shared evenly by the backends.
 *
 * Order.  The backend with the most urgent need is served first; among equals, the one that came
 * first.
 *
 * Idle connections.  Each backend keeps them from transaction to transaction.  While another
 * backend waits, the end of a transaction closes all but one.  If the remaining one is older than a
 * time slice, it is closed, too.  A backend that waits for its client does not end a transaction.
 * So the first backends of the queue wake it by the interrupt with which core makes idle backends
 * process invalidations.  Processing that runs an empty transaction.
 *
 * When a backend ends, its connections are given back.  After a crash the postmaster initializes
 * shared memory again.
 */
#include "postgres.h"

#include <limits.h>

#include "compat.h"
#include "guc.h"
#include "miscadmin.h"
#include "remote/wire/quota.h"
#include "shared_memory.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "wait_event.h"

#define MAX_NODES 128			/* addresses in use at a time; connections to further addresses are not counted */
#define UNKNOWN_LIMIT 20		/* while the node's own limit is unknown */
#define LEARN_INTERVAL_MS 60000 /* how often a node is asked for its limit */
#define LEARN_RETRY_MS 1000		/* the same while the limit is unknown, since the backend that asked may have failed */
#define SLICE_MS 200			/* how long a busy backend keeps a connection that others wait for, at least ... */
#define LONG_SLICE_MS 2000		/* ... and at most, until it has run ... */
#define SLICE_XACTS 50			/* ... this many transactions, since opening a connection costs as much as some of them */
#define IDLE_MS 200				/* a backend that is idle for so long is asked for its connections */
#define LOOK_MS 50				/* how often the first backends of a queue search for idle ones */
#define NLOOKING 4				/* number of first backends */
#define DOZE_MS 1000			/* how often the others check whether they are among the first */

typedef enum QuotaRank
{
	RANK_FRESH,
	RANK_HOLDER,
	RANK_PRIVILEGED
} QuotaRank;

typedef struct QuotaNode
{
	char		address[SHARD_QUOTA_ADDRESS];	/* empty: not used yet */
	uint64		last_use;		/* value of nuses when a connection was last requested */
	int			nallowed;		/* the node's answer; 0: unknown */
	TimestampTz learned_at;
	int			nopen;
	int			nbackends;		/* backends that have connections to this node */
	int			nwaiting;
} QuotaNode;

typedef struct QuotaBackend
{
	int			pid;			/* 0: free */
	Latch	   *latch;
	bool		in_use;
	bool		asked;			/* another backend has asked for its idle connections */
	TimestampTz idle_since;
	int			waits_for;		/* node, or SHARD_QUOTA_NONE */
	bool		granted;
	QuotaRank	rank;
	uint64		ticket;
	uint16		nopen[MAX_NODES];
} QuotaBackend;

typedef struct QuotaShared
{
	LWLock	   *lock;
	uint64		next_ticket;
	uint64		nuses;
	int			privileged_pid; /* 0: none */
	int			nbackends;		/* length of backends */
	QuotaNode	nodes[MAX_NODES];
	QuotaBackend backends[FLEXIBLE_ARRAY_MEMBER];
} QuotaShared;

static QuotaShared *shared = NULL;
static QuotaBackend *me = NULL;
static TimestampTz slice_began[MAX_NODES];	/* when the last connection was opened */
static uint64 slice_xact[MAX_NODES];	/* value of nxacts at that time */
static uint64 nxacts = 0;		/* transactions that used nodes */
static bool slot_refused = false;	/* shared memory has no entry for this backend */

/* ---------- limits; the caller holds the lock ---------- */

/* Number of connections to node that all backends together may have; INT_MAX: no limit. */
static int
limit_of(const QuotaNode *node)
{
	if (shard_guc_max_shared_connections < 0)
		return INT_MAX;
	if (shard_guc_max_shared_connections > 0)
		return shard_guc_max_shared_connections;
	if (node->nallowed == 0)
		return UNKNOWN_LIMIT;
	/* other clients use the node, too, and a closed connection takes a moment to end */
	return Max(1, node->nallowed - Max(1, node->nallowed / 10));
}

static bool
has_room(const QuotaNode *node, QuotaRank rank)
{
	int			limit = limit_of(node);

	if (limit == INT_MAX)
		return true;
	if (rank == RANK_FRESH)
		limit -= 1 + limit / 8;
	else if (rank == RANK_HOLDER)
		limit -= 1;
	return node->nopen < Max(1, limit);
}

/* May the backend, which has nown connections, have one more that it does not need? */
static bool
has_room_for_extra(const QuotaNode *node, int nown)
{
	int			limit = limit_of(node);
	int			share;

	if (limit == INT_MAX)
		return true;
	limit = limit / 4 * 3;
	share = limit / Max(1, node->nbackends);
	return node->nwaiting == 0 && node->nopen < limit && nown < share;
}

static void
count_open(QuotaBackend *backend, int nodeno)
{
	if (backend->nopen[nodeno]++ == 0)
		shared->nodes[nodeno].nbackends++;
	shared->nodes[nodeno].nopen++;
}

static void
count_closed(QuotaBackend *backend, int nodeno)
{
	if (--backend->nopen[nodeno] == 0)
		shared->nodes[nodeno].nbackends--;
	shared->nodes[nodeno].nopen--;
}

/* Returns the next backend in node's queue, if there is room for it; NULL: none. */
static QuotaBackend *
next_waiting(int nodeno)
{
	QuotaBackend *best = NULL;

	for (int i = 0; i < shared->nbackends; i++)
	{
		QuotaBackend *backend = &shared->backends[i];

		if (backend->pid == 0 || backend->waits_for != nodeno || backend->granted)
			continue;
		if (best == NULL || backend->rank > best->rank ||
			(backend->rank == best->rank && backend->ticket < best->ticket))
			best = backend;
	}
	return best && has_room(&shared->nodes[nodeno], best->rank) ? best : NULL;
}

/* Grants free connections of node to the backends that wait for one. */
static void
grant(int nodeno)
{
	QuotaBackend *backend;

	while (shared->nodes[nodeno].nwaiting > 0 && (backend = next_waiting(nodeno)) != NULL)
	{
		backend->granted = true;
		shared->nodes[nodeno].nwaiting--;
		count_open(backend, nodeno);
		SetLatch(backend->latch);
	}
}

static void
give_up_privilege(void)
{
	if (shared->privileged_pid == me->pid)
		shared->privileged_pid = 0;
}

/* ---------- backends ---------- */

/* At the exit of this backend: gives its connections to others. */
static void
leave(int code, Datum arg)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (me->waits_for != SHARD_QUOTA_NONE && !me->granted)
		shared->nodes[me->waits_for].nwaiting--;
	give_up_privilege();
	me->waits_for = SHARD_QUOTA_NONE;
	me->pid = 0;
	for (int i = 0; i < MAX_NODES; i++)
	{
		bool		gave = me->nopen[i] > 0;

		while (me->nopen[i] > 0)
			count_closed(me, i);
		if (gave)
			grant(i);
	}
	LWLockRelease(shared->lock);
	me = NULL;
	slot_refused = true;		/* connections opened later in this exit are not counted */
}

/* Assigns an entry in shared memory to this backend.  False if there is none. */
static bool
enter(void)
{
	if (me)
		return true;
	if (!shared || slot_refused)
		return false;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->nbackends && !me; i++)
		if (shared->backends[i].pid == 0)
			me = &shared->backends[i];
	if (me)
	{
		memset(me, 0, sizeof(QuotaBackend));
		me->pid = MyProcPid;
		me->latch = MyLatch;
		me->in_use = true;
		me->waits_for = SHARD_QUOTA_NONE;
	}
	LWLockRelease(shared->lock);
	if (!me)
	{
		slot_refused = true;
		return false;
	}
	before_shmem_exit(leave, (Datum) 0);
	return true;
}

/*
 * Returns the number of the node at address; SHARD_QUOTA_NONE: no entry is free.  A new address
 * takes the least recently used entry that has no connections and no waiting backends.  The old
 * node's limit is then forgotten.  The caller holds the lock.
 */
static int
find_node(const char *address)
{
	int			found = SHARD_QUOTA_NONE;
	QuotaNode  *node;

	for (int i = 0; i < MAX_NODES; i++)
	{
		node = &shared->nodes[i];
		if (strcmp(node->address, address) == 0)
		{
			found = i;
			break;
		}
		if (node->nopen == 0 && node->nwaiting == 0 &&
			(found == SHARD_QUOTA_NONE || node->last_use < shared->nodes[found].last_use))
			found = i;
	}
	if (found == SHARD_QUOTA_NONE)
		return SHARD_QUOTA_NONE;
	node = &shared->nodes[found];
	if (strcmp(node->address, address) != 0)
	{
		memset(node, 0, sizeof(QuotaNode));
		strlcpy(node->address, address, SHARD_QUOTA_ADDRESS);
	}
	node->last_use = ++shared->nuses;
	return found;
}

void
shard_quota_begin_use(void)
{
	if (me)
		me->in_use = true;
}

void
shard_quota_end_use(void)
{
	if (!me)
		return;
	if (shared->privileged_pid == me->pid)
	{
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		give_up_privilege();
		LWLockRelease(shared->lock);
	}
	if (me->in_use)
	{
		nxacts++;
		me->idle_since = GetCurrentTimestamp();
		me->in_use = false;
	}
	me->asked = false;
}

/* Others wait for node.  Has this backend had its connection long enough? */
static bool
slice_is_over(int node)
{
	TimestampTz now = GetCurrentTimestamp();

	return TimestampDifferenceExceeds(slice_began[node], now,
									  nxacts - slice_xact[node] < SLICE_XACTS ? LONG_SLICE_MS : SLICE_MS);
}

/* Reads without the lock.  A change that was made just now is seen the next time. */
int
shard_quota_idle_allowed(int node)
{
	if (!me || node == SHARD_QUOTA_NONE || shared->nodes[node].nwaiting == 0)
		return INT_MAX;
	return me->asked || slice_is_over(node) ? 0 : 1;
}

/* ---------- waiting ---------- */

/*
 * For the first backends of a queue: asks backends that have been idle for a while to give back
 * their connections to the node, at most as many as there are waiting backends.  Returns the time
 * until the next search, in ms.
 */
static long
ask_idle(int nodeno)
{
	TimestampTz now = GetCurrentTimestamp();
	int			pids[16];
	int			npids = 0;
	int			nbefore = 0;	/* in the queue before this backend */

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->nbackends && nbefore < NLOOKING; i++)
	{
		const QuotaBackend *backend = &shared->backends[i];

		if (backend->pid != 0 && backend->waits_for == nodeno && backend->ticket < me->ticket)
			nbefore++;
	}
	for (int i = 0; i < shared->nbackends && nbefore < NLOOKING && npids < lengthof(pids) &&
		 npids < shared->nodes[nodeno].nwaiting; i++)
	{
		QuotaBackend *backend = &shared->backends[i];

		if (backend->pid == 0 || backend->in_use || backend->nopen[nodeno] == 0 ||
			!TimestampDifferenceExceeds(backend->idle_since, now, IDLE_MS))
			continue;
		backend->asked = true;
		pids[npids++] = backend->pid;
	}
	LWLockRelease(shared->lock);
	for (int i = 0; i < npids; i++)
		shard_wake_idle_backend(pids[i]);
	return nbefore < NLOOKING ? LOOK_MS : DOZE_MS;
}

/* Joins the queue of node. */
static void
queue_up(int nodeno, QuotaRank rank)
{
	me->waits_for = nodeno;
	me->granted = false;
	me->rank = rank;
	me->ticket = shared->next_ticket++;
	shared->nodes[nodeno].nwaiting++;
	grant(nodeno);
}

/* After an error during the wait. */
static void
leave_queue(void)
{
	int			nodeno = me->waits_for;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (me->granted)
		count_closed(me, nodeno);
	else
		shared->nodes[nodeno].nwaiting--;
	me->waits_for = SHARD_QUOTA_NONE;
	grant(nodeno);
	LWLockRelease(shared->lock);
}

/* Was this backend granted its connection? */
static bool
was_granted(int nodeno)
{
	bool		granted;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (!me->granted && me->rank == RANK_HOLDER && shared->privileged_pid == 0)
	{
		shared->privileged_pid = me->pid;
		me->rank = RANK_PRIVILEGED;
		grant(nodeno);
	}
	granted = me->granted;
	if (granted)
		me->waits_for = SHARD_QUOTA_NONE;
	LWLockRelease(shared->lock);
	return granted;
}

static void
raise_timeout(int nodeno, const char *name, int timeout_ms)
{
	ereport(ERROR,
			(errcode(ERRCODE_TOO_MANY_CONNECTIONS),
			 errmsg("no connection to node \"%s\" became free within %d ms", name, timeout_ms),
			 errdetail("%d connections to it are open, of %d that all sessions may have.",
					   shared->nodes[nodeno].nopen, limit_of(&shared->nodes[nodeno])),
			 errhint("Raise max_connections of the node and shardfdw.max_shared_connections_per_node, or shardfdw.connection_wait_timeout.")));
}

static void
wait_for_turn(int nodeno, const char *name, int timeout_ms, void (*give_idle) (void))
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);

	PG_TRY();
	{
		while (!was_granted(nodeno))
		{
			long		wait_ms;

			/* other backends may wait for connections that this backend does not need */
			give_idle();
			wait_ms = ask_idle(nodeno);
			if (timeout_ms > 0)
			{
				long		left_ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);

				if (left_ms <= 0)
					raise_timeout(nodeno, name, timeout_ms);
				wait_ms = Min(wait_ms, left_ms);
			}
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, wait_ms,
							 shard_wait_event(SHARD_WAIT_SLOT));
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
	}
	PG_CATCH();
	{
		if (me->waits_for != SHARD_QUOTA_NONE)
			leave_queue();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

bool
shard_quota_take(const char *address, const char *name, ShardQuotaNeed need,
				 int timeout_ms, void (*give_idle) (void), int *nodeno)
{
	QuotaRank	rank = need == SHARD_QUOTA_HOLDER ? RANK_HOLDER : RANK_FRESH;
	bool		waits = need == SHARD_QUOTA_FRESH || need == SHARD_QUOTA_HOLDER;
	bool		taken;
	int			node;

	*nodeno = SHARD_QUOTA_NONE;
	if (!enter() || strlen(address) >= SHARD_QUOTA_ADDRESS)
		return true;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	node = find_node(address);
	if (node == SHARD_QUOTA_NONE)
	{
		LWLockRelease(shared->lock);
		return true;
	}
	if (rank == RANK_HOLDER && shared->privileged_pid == me->pid)
		rank = RANK_PRIVILEGED;
	if (need == SHARD_QUOTA_EXTRA)
		taken = has_room_for_extra(&shared->nodes[node], me->nopen[node]);
	else if (need == SHARD_QUOTA_SPARE)
		taken = has_room(&shared->nodes[node], RANK_PRIVILEGED);
	else
		taken = shared->nodes[node].nwaiting == 0 && has_room(&shared->nodes[node], rank);
	if (taken)
		count_open(me, node);
	else if (waits)
		queue_up(node, rank);
	LWLockRelease(shared->lock);

	if (!taken && !waits)
		return false;
	if (!taken)
		wait_for_turn(node, name, timeout_ms, give_idle);
	slice_began[node] = GetCurrentTimestamp();
	slice_xact[node] = nxacts;
	*nodeno = node;
	return true;
}

void
shard_quota_give(int node)
{
	if (node == SHARD_QUOTA_NONE || !me)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	Assert(me->nopen[node] > 0);
	count_closed(me, node);
	grant(node);
	LWLockRelease(shared->lock);
}

/* ---------- limits of nodes ---------- */

bool
shard_quota_is_curious(int node)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		curious;

	if (node == SHARD_QUOTA_NONE || !me || shard_guc_max_shared_connections != 0)
		return false;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	curious = shared->nodes[node].learned_at == 0 ||
		TimestampDifferenceExceeds(shared->nodes[node].learned_at, now,
								   shared->nodes[node].nallowed > 0 ? LEARN_INTERVAL_MS : LEARN_RETRY_MS);
	if (curious)
		shared->nodes[node].learned_at = now;	/* no other backend needs to ask now */
	LWLockRelease(shared->lock);
	return curious;
}

void
shard_quota_learn(int node, int nallowed)
{
	if (node == SHARD_QUOTA_NONE || !me || nallowed <= 0)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->nodes[node].nallowed = nallowed;
	grant(node);
	LWLockRelease(shared->lock);
}

/* ---------- views ---------- */

ShardQuotaUse *
shard_quota_list(int *n)
{
	ShardQuotaUse *uses;
	int			max;

	*n = 0;
	if (!shared)
		return NULL;
	LWLockAcquire(shared->lock, LW_SHARED);
	max = 0;
	for (int i = 0; i < MAX_NODES; i++)
		max += shared->nodes[i].nbackends + shared->nodes[i].nwaiting;
	uses = palloc_extended(Max(max, 1) * sizeof(ShardQuotaUse), MCXT_ALLOC_NO_OOM);
	for (int i = 0; uses && i < shared->nbackends; i++)
	{
		const QuotaBackend *backend = &shared->backends[i];

		for (int j = 0; backend->pid != 0 && j < MAX_NODES && *n < max; j++)
		{
			ShardQuotaUse *use = &uses[*n];
			int			limit = limit_of(&shared->nodes[j]);

			use->waiting = backend->waits_for == j && !backend->granted;
			if (backend->nopen[j] == 0 && !use->waiting)
				continue;
			strlcpy(use->address, shared->nodes[j].address, SHARD_QUOTA_ADDRESS);
			use->limit = limit == INT_MAX ? 0 : limit;
			use->pid = backend->pid;
			use->nopen = backend->nopen[j];
			use->in_use = backend->in_use;
			(*n)++;
		}
	}
	LWLockRelease(shared->lock);
	return uses;
}

/* ---------- shared memory ---------- */

static void
init_shared(LWLock *lock)
{
	shared->lock = lock;
	shared->next_ticket = 1;
	shared->nbackends = MaxBackends;
}

static const ShardSharedArea shared_area = {"shardfdw_quota", offsetof(QuotaShared, backends), sizeof(QuotaBackend), (void **) &shared, init_shared};

void
shard_quota_init(void)
{
	shard_shared_memory_request(&shared_area);
}
