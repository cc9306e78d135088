/*
 * wait.h
 *	  Every wait for a socket: one WaitEventSet loop with latch and interrupts.
 */
#ifndef SHARDFDW_WAIT_H
#define SHARDFDW_WAIT_H

#include "postgres.h"

/*
 * A socket and what to wait for; revents is the answer.  fd < 0 and events == 0
 * are skipped.  A socket stands at most once among the items of a wait.
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
 * To be called when a socket was closed or may have been exchanged: sets built
 * before are built anew, since the kernel may give its number to another socket.
 */
extern void shard_wait_sockets_changed(void);

#endif
