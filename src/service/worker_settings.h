/*
 * worker_settings.h
 *	  Settings of background workers.
 */
#ifndef SHARDFDW_WORKER_SETTINGS_H
#define SHARDFDW_WORKER_SETTINGS_H

/*
 * Sets what a database's or role's defaults must not decide in a background worker of ours: it
 * writes, and looks at what others have committed meanwhile.  To be called when the database is open.
 */
extern void shard_worker_settings_apply(void);

#endif
