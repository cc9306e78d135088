/*
 * deadlock.h
 *	  Finds and ends deadlocks over several nodes.
 */
#ifndef SHARDFDW_DEADLOCK_H
#define SHARDFDW_DEADLOCK_H

extern void shard_deadlock_init(void);

/*
 * Ends deadlocks over several coordinators in which clients of this coordinator wait for locks of
 * this server, by cancelling those that must give up first.  Called in a transaction of a
 * superuser.  Takes half a second if there may be such a deadlock.
 */
extern void shard_deadlock_end_local(void);

#endif
