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
 * Waits until all that this server has written to the WAL so far is on disk, and on its synchronous standbys as
 * synchronous_commit asks for.  To be called before a node commits by itself, since no commit record follows here that
 * would be flushed with all before it.  Otherwise a crash could lose what the node's transaction relies on, and keep
 * that transaction: values of a sequence, and earlier commits of any session.
 */
extern void shard_flush_commit_all(void);

#endif
