/*
 * lost_locks.h
 *	  Cursors whose row locks were undone with a savepoint.
 */
#ifndef SHARDFDW_LOST_LOCKS_H
#define SHARDFDW_LOST_LOCKS_H

/* Installs the hook.  To be called once, at load. */
extern void shard_lost_locks_init(void);

#endif
