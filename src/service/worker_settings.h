/*
 * worker_settings.h
 *	  Settings of background workers.
 */
#ifndef SHARDFDW_WORKER_SETTINGS_H
#define SHARDFDW_WORKER_SETTINGS_H

/*
 * In a background worker of the extension, sets everything that the defaults of a database or role
 * must not determine: the meaning of SQL text, including search_path, and how transactions begin.
 * Functions of users that run there get this search_path, too.  Called when the database is open,
 * before the first transaction.
 */
extern void shard_worker_settings_apply(void);

#endif
