/*
 * flush_commit.h
 *	  Commits that must be on disk before anything that depends on them is told to others.
 *
 * With synchronous_commit = off PostgreSQL reports a commit before its record is on disk.  A crash then undoes the commit, but not
 * what other servers were told because of it.  Who tells them uses one of these functions.
 */
#ifndef SHARDFDW_FLUSH_COMMIT_H
#define SHARDFDW_FLUSH_COMMIT_H

#include "postgres.h"

/*
 * Until the end of the transaction: its commit waits for the disk, and for synchronous standbys, whatever synchronous_commit says.
 * No other session sees the transaction's changes before that.
 */
extern void shard_flush_commit_force(void);

/* The same for all transactions of this process, which is a background worker of the extension. */
extern void shard_flush_commit_always(void);

/*
 * Waits until the last local commit of this session is on disk.  To be called before a node commits by itself: otherwise a crash
 * could lose an earlier transaction of the session, and keep a later one.
 */
extern void shard_flush_commit_last(void);

#endif
