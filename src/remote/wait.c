/*
 * wait.c
 *	  Every wait for a socket: one WaitEventSet loop with latch and interrupts.
 *
 * The kernel's object (epoll, kqueue) is costly to build, so a set keeps it
 * while the same sockets are asked for, and only modifies events:
 *
 *	 items --> same sockets as before, none closed since? --yes--> modify events --> wait
 *						 |no
 *						 +--> build anew --------------------------------------------> wait
 *
 * Event 0 of a set is the latch, event 1 the postmaster's death, then sockets.
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "remote/wait.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define FIRST_SOCKET 2			/* position of the first socket in a set */
#define MAX_OCCURRED 64			/* ready events fetched by one call */

struct ShardWaitSet
{
	WaitEventSet *set;			/* NULL: to be built */
	uint64		generation;		/* of sockets, when it was built */
	int			nsockets;
	int			maxsockets;
	int		   *fds;			/* nsockets of them, in order of items */
	int		   *events;			/* as last told to the kernel */
	int		   *itemnos;		/* which item of the current wait */
	MemoryContext cxt;
	MemoryContextCallback callback;
};

/* Counts sockets that were closed or exchanged. */
static uint64 socket_generation = 1;

/* For waits on one socket: the same one is mostly waited for again. */
static ShardWaitSet *single_set = NULL;

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
 * Copies the sockets to wait for into set; true when they are those that the
 * kernel's object was built for.
 */
static bool
take_items(ShardWaitSet *set, ShardWaitItem *items, int nitems)
{
	bool		same = set->set != NULL && set->generation == socket_generation;
	int			n = 0;

	if (nitems > set->maxsockets)
	{
		set->maxsockets = 0;	/* in case that an allocation fails */
		set->fds = MemoryContextAlloc(set->cxt, nitems * sizeof(int));
		set->events = MemoryContextAlloc(set->cxt, nitems * sizeof(int));
		set->itemnos = MemoryContextAlloc(set->cxt, nitems * sizeof(int));
		set->maxsockets = nitems;
		same = false;
	}
	for (int i = 0; i < nitems; i++)
	{
		items[i].revents = 0;
		if (items[i].fd < 0 || items[i].events == 0)
			continue;
		if (same && (n >= set->nsockets || set->fds[n] != items[i].fd))
			same = false;
		set->fds[n] = items[i].fd;
		set->itemnos[n] = i;
		n++;
	}
	if (n != set->nsockets)
		same = false;
	set->nsockets = n;
	return same;
}

/* Makes the kernel's object wait for what items say. */
static void
prepare_set(ShardWaitSet *set, ShardWaitItem *items, int nitems)
{
	if (take_items(set, items, nitems))
	{
		for (int n = 0; n < set->nsockets; n++)
		{
			int			events = items[set->itemnos[n]].events;

			if (events == set->events[n])
				continue;
			set->events[n] = 0; /* not known if this raises */
			ModifyWaitEvent(set->set, FIRST_SOCKET + n, events, NULL);
			set->events[n] = events;
		}
		return;
	}

	free_kernel_set(set);
	set->set = shard_create_wait_event_set(FIRST_SOCKET + set->nsockets);
	set->generation = 0;		/* not complete if something below raises */
	AddWaitEventToSet(set->set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set->set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int n = 0; n < set->nsockets; n++)
	{
		set->events[n] = items[set->itemnos[n]].events;
		AddWaitEventToSet(set->set, set->events[n], set->fds[n], NULL, NULL);
	}
	set->generation = socket_generation;
}

int
shard_wait_set_wait(ShardWaitSet *set, ShardWaitItem *items, int nitems,
					long timeout_ms, bool noerror)
{
	WaitEvent	occurred[MAX_OCCURRED];
	int			noccurred;
	int			nready = 0;

	if (!noerror)
		CHECK_FOR_INTERRUPTS();
	prepare_set(set, items, nitems);
	noccurred = WaitEventSetWait(set->set, timeout_ms, occurred, lengthof(occurred),
								 PG_WAIT_EXTENSION);
	for (int i = 0; i < noccurred; i++)
	{
		if (occurred[i].events & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
			if (!noerror)
				CHECK_FOR_INTERRUPTS();
		}
		else if (occurred[i].pos >= FIRST_SOCKET)
		{
			items[set->itemnos[occurred[i].pos - FIRST_SOCKET]].revents = occurred[i].events;
			nready++;
		}
	}
	return nready;
}

int
shard_wait_socket(int fd, int events, long timeout_ms, bool noerror)
{
	ShardWaitItem item = {fd, events, 0};

	if (!single_set)
		single_set = shard_wait_set_create(TopMemoryContext);
	if (shard_wait_set_wait(single_set, &item, 1, timeout_ms, noerror) == 0)
		return 0;
	return item.revents;
}
