/*
 * wait.c
 *	  Every wait for a socket.
 *
 * A wait that may raise uses a WaitEventSet with latch and interrupts, see below.  A wait that must
 * not raise (noerror) is a poll() that handles interrupts itself: a WaitEventSet needs memory and a
 * file handle, and raises an error without them.  If connections have taken all file handles, a
 * wait that may raise uses poll(), too.
 *
 *	 handle what needs no --> signals blocked --> anything new? --no--> ppoll, which unblocks them
 *	 error										+--yes--> poll without sleeping
 *
 * The kernel's object (epoll, kqueue) is costly to build.  So a set keeps it as long as it contains
 * all sockets of the wait, and only modifies events:
 *
 *	 items --> all sockets in it, none opened since? --yes--> modify events --> wait
 *				|no
 *				+--> build again --------------------------------------> wait
 *
 * Sockets that are no longer waited for stay in the object until one of them wakes the session.
 * (Streams end one by one, and then their sockets are silent.)
 *
 * Event 0 of a set is the latch, event 1 the postmaster's death, then sockets follow.
 */
#include "postgres.h"

#include <poll.h>
#include <signal.h>

#include "catch.h"
#include "compat.h"
#include "libpq/libpq.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "port/pg_bitutils.h"
#include "postmaster/postmaster.h"
#include "remote/wire/wait.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define FIRST_SOCKET 2			/* position of the first socket in a set */
#define MAX_OCCURRED 64			/* maximum number of ready events per call */
#define FEW_SOCKETS 64			/* number of sockets for which a noerror wait always has room */
#define POLL_MS 1000			/* longest poll() in place of a WaitEventSet, since poll() does not watch core's latch */
#define RESERVED_HANDLES 4		/* left to core, whose asynchronous Append fails without one; nested ones included */
#define IDLE_MS 1000			/* longest wait before the idle function is called */
#define LOOK_AGAIN_MS 10		/* longest sleep while an interrupt is unanswered, or if there is no room for all sockets */
#ifndef HAVE_PPOLL
#define TICK_MS 100				/* a signal may arrive just before poll() */
#endif

struct ShardWaitSet
{
	WaitEventSet *set;			/* NULL: must be built */
	uint64		generation;		/* socket_generation when it was built */
	int			nsockets;		/* in the kernel's object */
	int			maxsockets;
	int		   *fds;			/* nsockets of them */
	int		   *events;			/* as last passed to the kernel */
	int		   *itemnos;		/* number of the item in the current wait; -1: not waited for */
	bool		skips_stalls;	/* see shard_wait_set_skip_stalls() */
	MemoryContext cxt;
	MemoryContextCallback callback;
};

/* Number of times that a socket was opened or replaced (shard_wait_sockets_changed). */
static uint64 socket_generation = 1;

/*
 * For waits on one socket.  Statements that go to one node each usually wait for the same sockets
 * again.  The position in the array is derived from the socket's number.
 */
#define NSINGLE_SETS 16
static ShardWaitSet *single_sets[NSINGLE_SETS];

bool		shard_wait_interrupted = false;
shard_wait_node_of_socket_type shard_wait_node_of_socket = NULL;
shard_wait_stalled_type shard_wait_stalled = NULL;
static long silent_ms = 0;		/* time without a ready socket */
static long stall_ms = 0;		/* a silence of this length is a stall; 0: deadlock_timeout */
static bool in_stalled = false; /* shard_wait_stalled() is running, whose waits do not count as stalls */

/* For noerror waits: room for the postmaster's pipe and the sockets. */
static struct pollfd few_fds[1 + FEW_SOCKETS];
static struct pollfd *poll_fds = few_fds;
static int	max_fds = lengthof(few_fds);
static ShardWaitEvent announced = SHARD_WAIT_NODE;	/* purpose of the next wait */
static ShardWaitEvent waited_for = SHARD_WAIT_NODE; /* purpose of the present wait */
static bool postmaster_gone = false;
static void (*idle_function) (void *arg) = NULL;
static void *idle_arg = NULL;
static bool urge_told = false;	/* the last call of shard_wait_is_urged() returned true */

void
shard_wait_sockets_changed(void)
{
	socket_generation++;
}

void
shard_wait_set_idle(void (*idle) (void *arg), void *arg)
{
	idle_function = idle;
	idle_arg = arg;
}

void
shard_wait_announce(ShardWaitEvent event)
{
	announced = event;
}

/* A wait begins. */
static void
take_announced(const ShardWaitItem *items, int nitems)
{
	waited_for = announced;
	if (announced == SHARD_WAIT_NODE && nitems == 1 && items[0].fd < 0)
		waited_for = SHARD_WAIT_PAUSE;
	announced = SHARD_WAIT_NODE;
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

void
shard_wait_set_skip_stalls(ShardWaitSet *set)
{
	set->skips_stalls = true;
}

/*
 * Is item's socket to be watched? libpq keeps the socket of a failed attempt, and the kernel
 * reports its end (EPOLLHUP) even if no event was requested.
 */
static bool
is_watched(const ShardWaitItem *item)
{
	return item->fd >= 0 && (item->events & WL_SOCKET_MASK) != 0;
}

/*
 * True if the kernel's object has all sockets of items, in their order.  Then sets itemnos.
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

bool
shard_wait_acquire_handle(void)
{
	if (AcquireExternalFD())
		return true;
	for (int i = 0; i < NSINGLE_SETS; i++)
		if (single_sets[i])
			free_kernel_set(single_sets[i]);
	return AcquireExternalFD();
}

bool
shard_wait_spares_handle(void)
{
	int			n = 0;

	while (n <= RESERVED_HANDLES && shard_wait_acquire_handle())
		n++;
	for (int i = 0; i < n; i++)
		ReleaseExternalFD();
	return n > RESERVED_HANDLES;
}

/* Builds the kernel's object for items.  False if no file handle is available. */
static bool
build_set(ShardWaitSet *set, const ShardWaitItem *items, int nitems)
{
	int			n = 0;

	free_kernel_set(set);
	set->nsockets = 0;
	if (!shard_wait_spares_handle())
		return false;
	if (nitems > set->maxsockets)
	{
		set->maxsockets = 0;	/* in case an allocation fails */
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

	set->generation = 0;		/* not valid if something below raises */
	set->set = shard_create_wait_event_set(FIRST_SOCKET + n);
	AddWaitEventToSet(set->set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set->set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < n; i++)
		AddWaitEventToSet(set->set, set->events[i], set->fds[i], NULL, NULL);
	set->nsockets = n;
	set->generation = socket_generation;
	return true;
}

/* Makes the kernel's object wait for items.  False if there is none. */
static bool
prepare_set(ShardWaitSet *set, const ShardWaitItem *items, int nitems)
{
	if (!match_items(set, items, nitems))
		return build_set(set, items, nitems);
	for (int n = 0; n < set->nsockets; n++)
	{
		int			events;

		if (set->itemnos[n] < 0)
			continue;
		events = items[set->itemnos[n]].events;
		if (events == set->events[n])
			continue;
		set->events[n] = 0;		/* unknown if this raises */
		ModifyWaitEvent(set->set, FIRST_SOCKET + n, events, NULL);
		set->events[n] = events;
	}
	return true;
}

/* ---------- interrupts ---------- */

/* Is there an interrupt that can be handled without an error, and that is_urge() does not cover? */
static bool
has_questions(void)
{
	return ProcSignalBarrierPending || LogMemoryContextPending || CheckClientConnectionPending;
}

/* What core does every client_connection_check_interval. */
static void
check_client(void)
{
	CheckClientConnectionPending = false;
	if (client_connection_check_interval <= 0)
		return;
	if (pq_check_connection())
		enable_timeout_after(CLIENT_CONNECTION_CHECK_TIMEOUT, client_connection_check_interval);
	else
		ClientConnectionLost = InterruptPending = true;
}

/* Handles interrupts of other processes, in the order of core's ProcessInterrupts() (15 to 19). */
static void
process_questions(void)
{
	if (CheckClientConnectionPending)
		check_client();
	if (ProcSignalBarrierPending)
		ProcessProcSignalBarrier();
	if (LogMemoryContextPending)
		ProcessLogMemoryContextInterrupt();
}

/*
 * Handling fails only for lack of memory, or in a state that cannot occur.  Then the error is
 * dropped, and a barrier stays unanswered until the next wait.
 */
static void
answer_questions(void)
{
	if (has_questions() && CritSectionCount == 0)
		(void) shard_catch_noerror(process_questions);
}

static bool
is_urge(void)
{
	return QueryCancelPending || ProcDiePending || ClientConnectionLost || shard_transaction_timed_out();
}

bool
shard_wait_is_urged(void)
{
	urge_told = is_urge();
	return urge_told;
}

/* The items of a wait. */
typedef struct WaitedFor
{
	const ShardWaitItem *items;
	int			nitems;
} WaitedFor;

/* Error context callback: names the nodes that the session was waiting for. */
static void
name_nodes(void *arg)
{
	const WaitedFor *waited = arg;
	List	   *nodes = NIL;		/* of String */
	StringInfoData names;

	for (int i = 0; i < waited->nitems && shard_wait_node_of_socket != NULL; i++)
	{
		const char *node = is_watched(&waited->items[i]) ? shard_wait_node_of_socket(waited->items[i].fd) : NULL;

		if (node != NULL)
			nodes = list_append_unique(nodes, makeString(unconstify(char *, node)));
	}
	if (nodes == NIL)
		return;
	initStringInfo(&names);
	foreach_ptr(String, name, nodes)
		appendStringInfo(&names, "%s\"%s\"", names.len > 0 ? ", " : "", strVal(name));
	if (list_length(nodes) == 1)
		errcontext("waiting for node %s", names.data);
	else
		errcontext("waiting for nodes %s", names.data);
}

/* CHECK_FOR_INTERRUPTS(), after recording that it may raise. */
static void
check_interrupts(void)
{
	if (is_urge())
		shard_wait_interrupted = true;
	CHECK_FOR_INTERRUPTS();
}

static void
call_stalled(void *arg)
{
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

/*
 * Nothing has arrived for waited_ms.  If the silence is long enough, calls shard_wait_stalled().
 */
static void
note_silence(long waited_ms)
{
	silent_ms += waited_ms;
	if (silent_ms < stall_ms)
		return;
	silent_ms = 0;
	stall_ms = Min(stall_ms * 2, SHARD_WAIT_MAX_STALL_MS);
	call_stalled(NULL);
}

ErrorData *
shard_wait_find_deadlock(void)
{
	ErrorData  *error = shard_catch_error(call_stalled, NULL);

	/* if the search itself fails, the session continues to wait */
	return error && error->sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED ? error : NULL;
}

/* ---------- waits that must not raise ---------- */

void
shard_wait_reserve(int nsockets)
{
	struct pollfd *fds;
	int			n;

	if (nsockets < max_fds)
		return;
	n = pg_nextpower2_32(nsockets + 1);
	fds = MemoryContextAlloc(TopMemoryContext, n * sizeof(struct pollfd));
	if (poll_fds != few_fds)
		pfree(poll_fds);
	poll_fds = fds;
	max_fds = n;
}

/*
 * Sleeps until one of the first nfds of poll_fds is ready, a signal arrives or timeout_ms has
 * passed.  Signals are blocked during the check for interrupts, so that the sleep does not miss a
 * signal that arrives just after the check.
 */
static void
sleep_with_signals(int nfds, long timeout_ms)
{
	sigset_t	saved;
	int			nready;

	sigprocmask(SIG_SETMASK, &BlockSig, &saved);
	if (is_urge() && !urge_told)
	{
		urge_told = true;
		timeout_ms = 0;
	}
	else if (has_questions() && (timeout_ms < 0 || timeout_ms > LOOK_AGAIN_MS))
		timeout_ms = LOOK_AGAIN_MS;
	pgstat_report_wait_start(shard_wait_event_noerror(waited_for));
#ifdef HAVE_PPOLL
	{
		struct timespec ts = {timeout_ms / 1000, (timeout_ms % 1000) * 1000000L};

		nready = ppoll(poll_fds, nfds, timeout_ms < 0 ? NULL : &ts, &saved);
		sigprocmask(SIG_SETMASK, &saved, NULL);
	}
#else
	sigprocmask(SIG_SETMASK, &saved, NULL);
	nready = poll(poll_fds, nfds, timeout_ms < 0 ? TICK_MS : (int) Min(timeout_ms, TICK_MS));
#endif
	pgstat_report_wait_end();

	/* a failed poll() does not set revents */
	for (int i = 0; i < nfds && nready <= 0; i++)
		poll_fds[i].revents = 0;
}

/*
 * Without the postmaster, the wait may never end.  Requests the end of the session, as core does
 * while it waits for a synchronous standby.  The session ends later, when errors may be raised.
 */
static void
note_postmaster_death(void)
{
	if (PostmasterIsAlive())
		return;
	postmaster_gone = true;
	ProcDiePending = InterruptPending = true;
}

static int
wait_noerror(ShardWaitItem *items, int nitems, long timeout_ms)
{
	int			nfds = 1;
	int			nready = 0;

	answer_questions();
	poll_fds[0].fd = postmaster_gone ? -1 : postmaster_alive_fds[POSTMASTER_FD_WATCH];
	poll_fds[0].events = POLLIN;
	for (int i = 0; i < nitems; i++)
	{
		items[i].revents = 0;
		if (!is_watched(&items[i]))
			continue;
		if (nfds == max_fds)
		{
			/* no room was reserved: report the rest as ready from time to time, and libpq finds out */
			items[i].revents = items[i].events & WL_SOCKET_MASK;
			nready++;
			continue;
		}
		poll_fds[nfds].fd = items[i].fd;
		poll_fds[nfds++].events = ((items[i].events & WL_SOCKET_READABLE) ? POLLIN : 0) |
			((items[i].events & WL_SOCKET_WRITEABLE) ? POLLOUT : 0);
	}
	if (nready > 0 && (timeout_ms < 0 || timeout_ms > LOOK_AGAIN_MS))
		timeout_ms = LOOK_AGAIN_MS;
	sleep_with_signals(nfds, timeout_ms);

	if (poll_fds[0].revents != 0)
		note_postmaster_death();
	for (int i = 0, n = 1; i < nitems && n < nfds; i++)
	{
		int			revents;

		if (!is_watched(&items[i]))
			continue;
		revents = poll_fds[n++].revents;
		if (revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL))
			items[i].revents |= items[i].events & WL_SOCKET_READABLE;
		if (revents & (POLLOUT | POLLHUP | POLLERR | POLLNVAL))
			items[i].revents |= items[i].events & WL_SOCKET_WRITEABLE;
		if (items[i].revents != 0)
			nready++;
	}
	answer_questions();
	return nready;
}

/* ---------- waits ---------- */

/* A wait that may raise, without a WaitEventSet. *silent: nothing has arrived. */
static int
wait_by_poll(ShardWaitItem *items, int nitems, long timeout_ms, bool *silent)
{
	int			nready;

	shard_wait_reserve(nitems);
	nready = wait_noerror(items, nitems, timeout_ms);
	*silent = nready == 0;
	ResetLatch(MyLatch);
	check_interrupts();
	return nready;
}

/* The same with the prepared set. */
static int
wait_by_set(ShardWaitSet *set, ShardWaitItem *items, long timeout_ms, bool *silent)
{
	WaitEvent	occurred[MAX_OCCURRED];
	int			noccurred = WaitEventSetWait(set->set, timeout_ms, occurred, lengthof(occurred), shard_wait_event(waited_for));
	int			nready = 0;

	*silent = noccurred == 0;
	for (int i = 0; i < noccurred; i++)
	{
		if (occurred[i].events & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
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
				set->generation = 0;	/* this socket would wake the session again and again: build the set without it */
		}
	}
	return nready;
}

int
shard_wait_set_wait(ShardWaitSet *set, ShardWaitItem *items, int nitems,
					long timeout_ms, bool noerror)
{
	bool		watched = shard_wait_stalled != NULL && !in_stalled && !(set && set->skips_stalls);
	WaitedFor	waited = {items, nitems};
	ErrorContextCallback callback = {.callback = name_nodes, .arg = &waited, .previous = error_context_stack};
	bool		has_set;
	bool		silent;
	int			nready;

	take_announced(items, nitems);
	if (noerror)
		return wait_noerror(items, nitems, timeout_ms);
	error_context_stack = &callback;
	check_interrupts();
	for (int i = 0; i < nitems; i++)
		items[i].revents = 0;
	has_set = prepare_set(set, items, nitems);
	if (!has_set && (timeout_ms < 0 || timeout_ms > POLL_MS))
		timeout_ms = POLL_MS;
	if (idle_function != NULL && (timeout_ms < 0 || timeout_ms > IDLE_MS))
		timeout_ms = IDLE_MS;
	if (watched)
	{
		if (stall_ms == 0)
			stall_ms = DeadlockTimeout;
		if (timeout_ms < 0 || timeout_ms > stall_ms - silent_ms)
			timeout_ms = stall_ms - silent_ms;
	}
	nready = has_set ? wait_by_set(set, items, timeout_ms, &silent) : wait_by_poll(items, nitems, timeout_ms, &silent);
	if (watched && silent)
		note_silence(timeout_ms);
	if (watched && nready > 0)
		silent_ms = stall_ms = 0;
	error_context_stack = callback.previous;
	if (idle_function != NULL)
		idle_function(idle_arg);
	return nready;
}

int
shard_wait_socket(int fd, int events, long timeout_ms, bool noerror)
{
	ShardWaitItem item = {fd, events, 0};
	ShardWaitSet **set;

	if (noerror)
		return shard_wait_set_wait(NULL, &item, 1, timeout_ms, true) > 0 ? item.revents : 0;
	set = &single_sets[fd < 0 ? 0 : fd % NSINGLE_SETS];
	if (!*set)
		*set = shard_wait_set_create(TopMemoryContext);
	if (shard_wait_set_wait(*set, &item, 1, timeout_ms, false) == 0)
		return 0;
	return item.revents;
}

void
shard_wait_pause(long ms, bool noerror)
{
	TimestampTz end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms);
	long		left_ms;

	while ((left_ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), end)) > 0)
	{
		if (noerror && shard_wait_is_urged())
			return;
		(void) shard_wait_socket(-1, 0, left_ms, noerror);
	}
}
