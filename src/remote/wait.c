/*
 * wait.c
 *	  Every wait for a socket: one WaitEventSet loop with latch and interrupts.
 *
 * The kernel's object (epoll, kqueue) is costly to build, so a set keeps it
 * while no other sockets are asked for, and only modifies events:
 *
 *	 items --> all sockets in it, none opened since? --yes--> modify events --> wait
 *						 |no
 *						 +--> build anew ---------------------------------------> wait
 *
 * Sockets that are not asked for any more stay in it (streams end one by one,
 * and then their sockets are silent) until one of them wakes us.
 *
 * Event 0 of a set is the latch, event 1 the postmaster's death, then sockets.
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "remote/wait.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define FIRST_SOCKET 2			/* position of the first socket in a set */
#define MAX_OCCURRED 64			/* ready events fetched by one call */
#define MAX_STALL_MS 60000		/* longest time between two calls of shard_wait_stalled */

struct ShardWaitSet
{
	WaitEventSet *set;			/* NULL: to be built */
	uint64		generation;		/* of sockets, when it was built */
	int			nsockets;		/* in the kernel's object */
	int			maxsockets;
	int		   *fds;			/* nsockets of them */
	int		   *events;			/* as last told to the kernel */
	int		   *itemnos;		/* which item of the current wait; -1: not waited for now */
	MemoryContext cxt;
	MemoryContextCallback callback;
};

/* Counts sockets that were opened or exchanged (shard_wait_sockets_changed). */
static uint64 socket_generation = 1;

/*
 * For waits on one socket: the same ones are mostly waited for again, by
 * statements that go to one node each.  The position says where a socket's set
 * is likely to be.
 */
#define NSINGLE_SETS 16
static ShardWaitSet *single_sets[NSINGLE_SETS];

bool		shard_wait_interrupted = false;
shard_wait_stalled_type shard_wait_stalled = NULL;
static long silent_ms = 0;		/* since a socket was ready */
static long stall_ms = 0;		/* after so much silence it is a stall; 0: deadlock_timeout */
static bool in_stalled = false; /* waits for what the callback has asked are no stalls */

void
shard_wait_sockets_changed(void)
{
	socket_generation++;
}

static void
free_kernel_set(void *arg)
{
	ShardWaitSet *set = arg;

	if (set->set)
		FreeWaitEventSet(set->set);
	set->set = NULL;
}

ShardWaitSet *
shard_wait_set_create(MemoryContext cxt)
{
	ShardWaitSet *set = MemoryContextAllocZero(cxt, sizeof(ShardWaitSet));

	set->cxt = cxt;
	set->callback.func = free_kernel_set;
	set->callback.arg = set;
	MemoryContextRegisterResetCallback(cxt, &set->callback);
	return set;
}

/*
 * True when item's socket is to be watched.  libpq keeps the socket of a failed
 * attempt, and the kernel would go on to tell its end (EPOLLHUP), unasked.
 */
static bool
is_watched(const ShardWaitItem *item)
{
	return item->fd >= 0 && (item->events & WL_SOCKET_MASK) != 0;
}

/*
 * True when the kernel's object has all sockets of items, in their order; then
 * itemnos says which is which.
 */
static bool
match_items(ShardWaitSet *set, const ShardWaitItem *items, int nitems)
{
	int			n = 0;

	if (!set->set || set->generation != socket_generation)
		return false;
	for (int i = 0; i < nitems; i++)
	{
		if (!is_watched(&items[i]))
			continue;
		while (n < set->nsockets && set->fds[n] != items[i].fd)
			set->itemnos[n++] = -1;
		if (n == set->nsockets)
			return false;
		set->itemnos[n++] = i;
	}
	while (n < set->nsockets)
		set->itemnos[n++] = -1;
	return true;
}

/* Builds the kernel's object for items. */
static void
build_set(ShardWaitSet *set, const ShardWaitItem *items, int nitems)
{
	int			n = 0;

	free_kernel_set(set);
	set->nsockets = 0;
	if (nitems > set->maxsockets)
	{
		set->maxsockets = 0;	/* in case that an allocation fails */
		set->fds = MemoryContextAlloc(set->cxt, nitems * sizeof(int));
		set->events = MemoryContextAlloc(set->cxt, nitems * sizeof(int));
		set->itemnos = MemoryContextAlloc(set->cxt, nitems * sizeof(int));
		set->maxsockets = nitems;
	}
	for (int i = 0; i < nitems; i++)
	{
		if (!is_watched(&items[i]))
			continue;
		set->fds[n] = items[i].fd;
		set->events[n] = items[i].events;
		set->itemnos[n++] = i;
	}

	set->generation = 0;		/* not complete if something below raises */
	set->set = shard_create_wait_event_set(FIRST_SOCKET + n);
	AddWaitEventToSet(set->set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set->set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < n; i++)
		AddWaitEventToSet(set->set, set->events[i], set->fds[i], NULL, NULL);
	set->nsockets = n;
	set->generation = socket_generation;
}

/* Makes the kernel's object wait for what items say. */
static void
prepare_set(ShardWaitSet *set, const ShardWaitItem *items, int nitems)
{
	if (!match_items(set, items, nitems))
	{
		build_set(set, items, nitems);
		return;
	}
	for (int n = 0; n < set->nsockets; n++)
	{
		int			events;

		if (set->itemnos[n] < 0)
			continue;
		events = items[set->itemnos[n]].events;
		if (events == set->events[n])
			continue;
		set->events[n] = 0;		/* not known if this raises */
		ModifyWaitEvent(set->set, FIRST_SOCKET + n, events, NULL);
		set->events[n] = events;
	}
}

/* CHECK_FOR_INTERRUPTS, noting that it may have raised. */
static void
check_interrupts(void)
{
	if (QueryCancelPending || ProcDiePending)
		shard_wait_interrupted = true;
	CHECK_FOR_INTERRUPTS();
}

/*
 * Nothing has come for waited_ms.  Counts that, and calls shard_wait_stalled when
 * it has been long enough.
 */
static void
note_silence(long waited_ms)
{
	silent_ms += waited_ms;
	if (silent_ms < stall_ms)
		return;
	silent_ms = 0;
	stall_ms = Min(stall_ms * 2, MAX_STALL_MS);
	in_stalled = true;
	PG_TRY();
	{
		shard_wait_stalled();
	}
	PG_FINALLY();
	{
		in_stalled = false;
	}
	PG_END_TRY();
}

int
shard_wait_set_wait(ShardWaitSet *set, ShardWaitItem *items, int nitems,
					long timeout_ms, bool noerror)
{
	bool		watched = !noerror && shard_wait_stalled != NULL && !in_stalled;
	WaitEvent	occurred[MAX_OCCURRED];
	int			noccurred;
	int			nready = 0;

	if (!noerror)
		check_interrupts();
	for (int i = 0; i < nitems; i++)
		items[i].revents = 0;
	prepare_set(set, items, nitems);
	if (watched)
	{
		if (stall_ms == 0)
			stall_ms = DeadlockTimeout;
		if (timeout_ms < 0 || timeout_ms > stall_ms - silent_ms)
			timeout_ms = stall_ms - silent_ms;
	}
	noccurred = WaitEventSetWait(set->set, timeout_ms, occurred, lengthof(occurred),
								 PG_WAIT_EXTENSION);
	if (watched && noccurred == 0)
		note_silence(timeout_ms);
	for (int i = 0; i < noccurred; i++)
	{
		if (occurred[i].events & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
			if (!noerror)
				check_interrupts();
		}
		else if (occurred[i].pos >= FIRST_SOCKET)
		{
			int			itemno = set->itemnos[occurred[i].pos - FIRST_SOCKET];

			if (itemno >= 0)
			{
				items[itemno].revents = occurred[i].events;
				nready++;
			}
			else
				set->generation = 0;	/* it would wake us again and again: without it */
		}
	}
	if (watched && nready > 0)
		silent_ms = stall_ms = 0;
	return nready;
}

int
shard_wait_socket(int fd, int events, long timeout_ms, bool noerror)
{
	ShardWaitItem item = {fd, events, 0};
	ShardWaitSet **set;

	set = &single_sets[fd < 0 ? 0 : fd % NSINGLE_SETS];
	if (!*set)
		*set = shard_wait_set_create(TopMemoryContext);
	if (shard_wait_set_wait(*set, &item, 1, timeout_ms, noerror) == 0)
		return 0;
	return item.revents;
}
