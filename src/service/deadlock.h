/*
 * deadlock.h
 *	  Deadlocks over several nodes.
 */
#ifndef SHARDFDW_DEADLOCK_H
#define SHARDFDW_DEADLOCK_H

extern void shard_deadlock_init(void);

#endif
