/*
 * worker_settings.h
 *	  Settings of background workers.
 */
#ifndef SHARDFDW_WORKER_SETTINGS_H
#define SHARDFDW_WORKER_SETTINGS_H

/*
 * Sets what a database's or role's defaults must not decide in a background worker of ours: what SQL text means,
 * search_path included, and how transactions begin.  Functions of users that run there see this search_path as well.
 * To be called when the database is open, before the first transaction.
 */
extern void shard_worker_settings_apply(void);

#endif
