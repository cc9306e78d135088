/*
 * flush_commit.h
 *	  Makes commits wait for the disk before other servers learn of their effects.
 *
 * With synchronous_commit = off PostgreSQL reports a commit before its record is on disk.  A crash then undoes the commit.
 * It does not undo what other servers were told because of the commit.  So code that tells other servers uses one of these
 * functions.
 */
#ifndef SHARDFDW_FLUSH_COMMIT_H
#define SHARDFDW_FLUSH_COMMIT_H

#include "postgres.h"

/*
 * Until the end of the transaction: its commit waits for the disk, and for synchronous standbys,
 * whatever synchronous_commit is.  Other sessions see the transaction's changes only after that.
 */
extern void shard_flush_commit_force(void);

/* Called before the transaction commits or is prepared, and when it has ended. */
extern void shard_flush_commit_before_end(void);
extern void shard_flush_commit_end_transaction(void);

/* The same for all transactions of this process, a background worker of the extension. */
extern void shard_flush_commit_always(void);

/*
 * Waits until all WAL that this server has written so far is on disk, and on its synchronous
 * standbys as synchronous_commit requires.  To be called before a node commits without the
 * coordinator: then no local commit record follows that would flush the WAL.  Otherwise a crash
 * could lose local changes on which the node's transaction depends, such as values of a sequence
 * and earlier commits of any session.
 */
extern void shard_flush_commit_all(void);

#endif
