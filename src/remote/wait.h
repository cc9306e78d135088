/*
 * wait.h
 *	  Every wait for a socket: one WaitEventSet loop with latch and interrupts.
 */
#ifndef SHARDFDW_WAIT_H
#define SHARDFDW_WAIT_H

#include "postgres.h"

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

/*
 * Waits until at least one item is ready or timeout_ms (-1: none) has passed;
 * answers interrupts (CHECK_FOR_INTERRUPTS raises) unless noerror.
 * Returns the number of ready items, 0 after timeout or after the latch was set.
 */
extern int	shard_wait_set_wait(ShardWaitSet *set, ShardWaitItem *items, int nitems,
								long timeout_ms, bool noerror);

/* The same for one socket, without a set.  Returns its revents, or 0. */
extern int	shard_wait_socket(int fd, int events, long timeout_ms, bool noerror);

/*
 * Called when a wait that answers interrupts has seen nothing for
 * deadlock_timeout, and again after twice that time and so on: the transaction may wait for
 * itself. May use connections that are outside any transaction, and may raise.
 */
typedef void (*shard_wait_stalled_type) (void);
extern shard_wait_stalled_type shard_wait_stalled;

/*
 * Set when a wait was ended by a cancel, a timeout or a termination: the user is
 * in a hurry, and the abort that follows should not wait long for nodes.  The end
 * of that abort, or of the transaction, takes it back.
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
