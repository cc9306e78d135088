/*
 * recovery_worker.h
 *	  Recovery of interrupted commits by background workers.
 */
#ifndef SHARDFDW_RECOVERY_WORKER_H
#define SHARDFDW_RECOVERY_WORKER_H

/*
 * Registers the launcher with the postmaster. Does nothing in a library that is
 * loaded later than shared_preload_libraries.
 */
extern void shard_recovery_worker_init(void);

#endif
