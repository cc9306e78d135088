/*
 * follow.h
 *	  Follows the changes that a slot sends, up to a position of the source.
 */
#ifndef SHARDFDW_FOLLOW_H
#define SHARDFDW_FOLLOW_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "move/job/change.h"
#include "move/job/job.h"
#include "move/job/slot.h"

/* The functions of a target.  Each gets the argument of shard_follow_begin(). */
typedef struct ShardFollowTarget
{
	/* Adds a change.  Its memory is valid during the call.  The target decides what it does with begins and commits. */
	void		(*take) (void *arg, ShardChange *change);

	/* Called after a transaction of the source.  Are there so many changes that they must be committed? */
	bool		(*is_due) (void *arg);

	/* Commits all changes.  Called between two transactions of the source. */
	void		(*write) (void *arg);

	/* Are there changes that have not been committed? */
	bool		(*is_pending) (void *arg);

	/* Processes what has arrived from link.  NULL: there is no link. */
	void		(*receive) (void *arg);
} ShardFollowTarget;

typedef struct ShardFollow
{
	ShardSlot  *slot;
	bool		in_transaction; /* of the source: its commit has not been read */
	XLogRecPtr	final;			/* position of that commit, or of the last one */

	/* for follow.c only */
	const ShardFollowTarget *target;
	void	   *arg;
	ShardConn  *link;			/* to the target, or NULL */
	ShardConn  *source;			/* for positions, or NULL */
	ShardJob   *job;			/* its progress is recorded; or NULL */
	MemoryContext change_cxt;	/* for one change */
	XLogRecPtr	committed;		/* end of the last commit that was read */
	XLogRecPtr	told;			/* last position that shard_follow_wait() has reported to the source */
} ShardFollow;

/*
 * Begins to read the changes of slot, whose stream has been started.  follow: the caller has set slot and target, and
 * those of arg, link, source and job that exist.  Memory: cxt.
 */
extern void shard_follow_begin(ShardFollow *follow, MemoryContext cxt);

/*
 * Commits all changes that committed on the source before this call.  Returns false if that would take longer than
 * timeout_ms (-1: no limit).  The next call continues.  Needs follow->source.
 */
extern bool shard_follow_to_now(ShardFollow *follow, int timeout_ms);

/* Calls shard_follow_to_now() until it takes hardly any time. */
extern void shard_follow_catch_up(ShardFollow *follow);

/*
 * Commits the changes of all transactions that committed on the source before lsn.  Later ones are left to the next
 * call.
 */
extern void shard_follow_to(ShardFollow *follow, XLogRecPtr lsn);

/* Commits the changes that have arrived, and waits for others, at most a second. */
extern void shard_follow_wait(ShardFollow *follow);

#endif
