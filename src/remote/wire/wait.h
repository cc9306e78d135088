/*
 * wait.h
 *	  Every wait for a socket.
 *
 * Which wait handles which interrupt.  Core's own waits call ProcessInterrupts(), which raises.  If
 * no error may be raised, a wait is called with noerror.  It handles by itself what needs no error.
 * For the rest (an "urge") its caller calls shard_wait_is_urged(), and then ends soon. "Later"
 * means: when errors may be raised again.
 *
 *									raising			noerror
 *	   cancel, statement_timeout		ERROR			urge
 *	   terminate						FATAL			urge, FATAL later
 *	   transaction_timeout (17)		FATAL			urge, FATAL later
 *	   client gone					FATAL			checked; urge, FATAL later
 *	   postmaster gone				exits			urge, FATAL later
 *	   conflict with recovery, 15		ERROR, FATAL	urge
 *	   the same from 16 on			ERROR, FATAL	later: core does not expose it
 *	   ProcSignalBarrier				handled			handled
 *	   pg_log_backend_memory_contexts handled			handled
 *	   messages of parallel workers	handled			later: there are no workers then
 *	   search for deadlocks			see shard_wait_stalled		shard_wait_find_deadlock()
 *
 * No wait here handles reload of the configuration, catch-up of invalidations and NOTIFY.  Core's
 * waits do not, either: a backend handles them when it waits for the next command of its client
 * (invalidations also whenever it takes a lock).
 *
 * The noerror waits, and how long they may take:
 *
 *	   autocommit.c		the answer to a statement that commits by itself: no limit
 *	   broadcast.c		HURRY, IGNORE: the ends of transactions, see there and txn_end.c
 *	   fence.c			a cluster snapshot that waits for commits: bounded
 *	   connection_end.c	cancel, and the rest of a stream in a transaction: see there
 *	   twophase.c		the second connection to a node: bounded
 *
 * "No limit" means as long as locks on the node last.  An urge shortens each of these waits.
 */
#ifndef SHARDFDW_WAIT_H
#define SHARDFDW_WAIT_H

#include "postgres.h"

#include "wait_event.h"

/*
 * A socket and the events to wait for; revents is the result.  An item with fd < 0, or with events
 * that contain no socket event (0, WL_TIMEOUT), is skipped.  A socket may occur only once in the
 * items of a wait.
 */
typedef struct ShardWaitItem
{
	int			fd;
	int			events;			/* WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE */
	int			revents;
} ShardWaitItem;

/*
 * A set of sockets for repeated waits.  The kernel's object is kept while the waits use the same
 * sockets.  Memory: cxt, whose reset closes it.
 */
typedef struct ShardWaitSet ShardWaitSet;
extern ShardWaitSet *shard_wait_set_create(MemoryContext cxt);

/*
 * For a set whose waits have a separate limit.  Such waits never call shard_wait_stalled(), which would take more time.
 */
extern void shard_wait_set_skip_stalls(ShardWaitSet *set);

/*
 * Waits until at least one item is ready or timeout_ms (-1: none) has passed.  Handles interrupts
 * as listed above. noerror: never raises, allocates nothing, needs no file handle and no set
 * (NULL).  Returns the number of ready items. 0: the timeout has passed, the latch was set, or a
 * signal arrived.
 */
extern int	shard_wait_set_wait(ShardWaitSet *set, ShardWaitItem *items, int nitems,
								long timeout_ms, bool noerror);

/* The same for one socket, without a set.  Returns its revents, or 0. */
extern int	shard_wait_socket(int fd, int events, long timeout_ms, bool noerror);

/*
 * Sets the wait event of the session's next wait.  The default is SHARD_WAIT_NODE, or a pause if
 * there is no socket.
 */
extern void shard_wait_announce(ShardWaitEvent event);

/* Waits for ms milliseconds without a socket. noerror: returns early if it is urged, see below. */
extern void shard_wait_pause(long ms, bool noerror);

/*
 * Like AcquireExternalFD().  If no file handle is left, closes those of kept sets.
 */
extern bool shard_wait_acquire_handle(void);

/* Is a file handle available for an optional use, with some left for core? */
extern bool shard_wait_spares_handle(void);

/* Allocates room for noerror waits on nsockets. */
extern void shard_wait_reserve(int nsockets);

/*
 * Should the running operation end soon, because of the user, the administrator, a lost client or
 * the end of the server?  Callers of noerror waits check this before each wait.
 */
extern bool shard_wait_is_urged(void);

/*
 * Called when a wait that handles interrupts has seen nothing for deadlock_timeout, and again after
 * twice that time, and so on: the session may be part of a deadlock.  May use connections that are
 * outside any transaction, and may raise.
 */
typedef void (*shard_wait_stalled_type) (void);
extern shard_wait_stalled_type shard_wait_stalled;

/* Maximum time between two calls, in ms. */
#define SHARD_WAIT_MAX_STALL_MS 60000

/*
 * Calls it now, for noerror waits.  If it finds a deadlock, returns the error in the current memory
 * context; else NULL.  Does not change whether interrupts are held.
 */
extern ErrorData *shard_wait_find_deadlock(void);

/*
 * Sets the function that is called at least every second by waits that handle interrupts.  NULL: none.
 * idle must not wait.
 */
extern void shard_wait_set_idle(void (*idle) (void *arg), void *arg);

/*
 * Returns the name of the node that a socket is connected to, for messages; NULL: unknown.  Valid
 * until the connection is closed.
 */
typedef const char *(*shard_wait_node_of_socket_type) (int fd);
extern shard_wait_node_of_socket_type shard_wait_node_of_socket;

/*
 * Set if a cancel, a timeout or a termination has ended a wait.  Then the following abort must not
 * wait long for nodes.  The end of that abort, or of the transaction, clears it.
 */
extern bool shard_wait_interrupted;

/*
 * Called if a socket or pipe that will be waited for was opened, or may have been replaced.  Sets
 * that were built before are built again, since the socket may have the number of one that was
 * closed.  Closing a socket cannot be announced reliably: libpq closes the socket of a connection
 * that it finds lost.
 */
extern void shard_wait_sockets_changed(void);

#endif
