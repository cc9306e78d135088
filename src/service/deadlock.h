/*
 * deadlock.h
 *	  Deadlocks over several nodes.
 */
#ifndef SHARDFDW_DEADLOCK_H
#define SHARDFDW_DEADLOCK_H

extern void shard_deadlock_init(void);

/*
 * Ends deadlocks over several coordinators in which clients of this one wait for locks of this server: cancels those who give up first.
 * To be called in a transaction of a superuser.  Takes half a second where there may be one.
 */
extern void shard_deadlock_end_local(void);

#endif
