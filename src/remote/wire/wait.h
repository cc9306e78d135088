/*
 * wait.h
 *	  Every wait for a socket.
 *
 * Which wait answers which interrupt.  Core's own waits call ProcessInterrupts(),
 * which raises.  Where no error may be raised, a wait is called with noerror: it
 * answers by itself what needs no error.  For the rest (an "urge") its caller asks
 * shard_wait_is_urged(), and then ends soon.  "Behind the moment": when errors may
 * be raised again.
 *
 *								 raising		noerror
 * cancel, statement_timeout	 ERROR			urge
 * terminate					 FATAL			urge, FATAL behind the moment
 * transaction_timeout (17)		 FATAL			urge, FATAL behind the moment
 * client gone					 FATAL			looked for, urge, FATAL behind it
 * postmaster gone				 exits			urge, FATAL behind the moment
 * conflict with recovery, 15	 ERROR, FATAL	urge
 * the same from 16 on			 ERROR, FATAL	behind the moment: core keeps it to itself
 * ProcSignalBarrier			 answered		answered
 * pg_log_backend_memory_contexts answered		answered
 * messages of parallel workers	 answered		behind the moment: none are under way
 * search for deadlocks			 see shard_wait_stalled	 shard_wait_find_deadlock()
 *
 * Reload of the configuration, catch-up of invalidations and NOTIFY are not answered
 * by any wait here.  Core's waits do not either: a backend answers them when it waits
 * for its client's next command (invalidations also whenever it takes a lock).
 *
 * The waits with noerror, and how long they may take:
 *
 *	 autocommit.c		 the answer to a statement that commits by itself: no limit
 *	 broadcast.c		 HURRY, IGNORE: the ends of transactions, see there and txn_end.c
 *	 fence.c			 a cut that waits for commits: bounded
 *	 connection_end.c	 cancel, and the rest of a stream in a transaction: see there
 *	 twophase.c			 the second connection to a node: bounded
 *
 * "No limit" is that of the node's locks; an urge makes each of them short.
 */
#ifndef SHARDFDW_WAIT_H
#define SHARDFDW_WAIT_H

#include "postgres.h"

#include "wait_event.h"

/*
 * A socket and what to wait for; revents is the answer.  fd < 0 and events
 * without any of a socket (0, WL_TIMEOUT) are skipped.  A socket stands at most
 * once among the items of a wait.
 */
typedef struct ShardWaitItem
{
	int			fd;
	int			events;			/* WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE */
	int			revents;
} ShardWaitItem;

/*
 * A set of sockets that is waited for again and again: the kernel's object is
 * kept while the same sockets are asked for.  Memory: in cxt, closed by its reset.
 */
typedef struct ShardWaitSet ShardWaitSet;
extern ShardWaitSet *shard_wait_set_create(MemoryContext cxt);

/* To be called for a set whose waits have a bound of their own: they never call shard_wait_stalled, which would add to it. */
extern void shard_wait_set_skip_stalls(ShardWaitSet *set);

/*
 * Waits until at least one item is ready or timeout_ms (-1: none) has passed;
 * answers interrupts as above.  noerror: never raises, allocates nothing, needs no
 * file handle and no set (NULL).
 * Returns the number of ready items, 0 after timeout, after the latch was set or
 * a signal came.
 */
extern int	shard_wait_set_wait(ShardWaitSet *set, ShardWaitItem *items, int nitems,
								long timeout_ms, bool noerror);

/* The same for one socket, without a set.  Returns its revents, or 0. */
extern int	shard_wait_socket(int fd, int events, long timeout_ms, bool noerror);

/*
 * Says what the session's next wait is for, as others see it.  Without that it is for
 * nodes (SHARD_WAIT_NODE), or a pause where there is no socket.
 */
extern void shard_wait_announce(ShardWaitEvent event);

/* Waits for ms milliseconds, for no socket.  noerror: returns when it is urged, see below. */
extern void shard_wait_pause(long ms, bool noerror);

/*
 * As AcquireExternalFD(); when there is no file handle left, those of kept sets
 * are closed for it.
 */
extern bool shard_wait_acquire_handle(void);

/* Is there a file handle for what could go without, and some left for core? */
extern bool shard_wait_spares_handle(void);

/* Makes room for waits without errors for nsockets. */
extern void shard_wait_reserve(int nsockets);

/*
 * Should whatever runs end soon, because of the user, the administrator, a lost
 * client or the end of the server?  Callers that wait with noerror ask before each
 * wait.
 */
extern bool shard_wait_is_urged(void);

/*
 * Calls run where no error may be raised: false when run has raised one, which is
 * dropped.  What run leaves behind must be released by the end of the transaction.
 */
extern bool shard_wait_run_noerror(void (*run) (void));

/*
 * Called when a wait that answers interrupts has seen nothing for
 * deadlock_timeout, and again after twice that time and so on: the transaction may wait for
 * itself. May use connections that are outside any transaction, and may raise.
 */
typedef void (*shard_wait_stalled_type) (void);
extern shard_wait_stalled_type shard_wait_stalled;

/* Longest time between two calls, in ms. */
#define SHARD_WAIT_MAX_STALL_MS 60000

/*
 * Calls it now, for who waits without errors.  Returns the error when it has found a deadlock, in the current
 * memory context; else NULL.  Interrupts are held as before.
 */
extern ErrorData *shard_wait_find_deadlock(void);

/*
 * The name of the node to which a socket leads, for messages; NULL: none that is known.  Valid until the connection is
 * closed.
 */
typedef const char *(*shard_wait_node_of_socket_type) (int fd);
extern shard_wait_node_of_socket_type shard_wait_node_of_socket;

/*
 * Set when a wait was ended by a cancel, a timeout or a termination: the abort that
 * follows must not wait long for nodes.  The end of that abort, or of the
 * transaction, clears it.
 */
extern bool shard_wait_interrupted;

/*
 * To be called when a socket or pipe that will be waited for was opened, or may
 * have been exchanged: sets built before are built anew, since it may have got
 * the number of one that was closed.  Closing alone cannot be relied on to be
 * told: libpq closes the socket of a connection that it finds lost.
 */
extern void shard_wait_sockets_changed(void);

#endif
