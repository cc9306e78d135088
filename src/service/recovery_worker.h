/*
 * recovery_worker.h
 *	  Background workers that recover interrupted commits.
 */
#ifndef SHARDFDW_RECOVERY_WORKER_H
#define SHARDFDW_RECOVERY_WORKER_H

/*
 * Registers the launcher with the postmaster.  Does nothing if the library is not loaded by
 * shared_preload_libraries.
 */
extern void shard_recovery_worker_init(void);

#endif
