/*
 * attempt.h
 *	  Attempts to lock tables that others use: how long each waits, and the pause after it.
 */
#ifndef SHARDFDW_ATTEMPT_H
#define SHARDFDW_ATTEMPT_H

#include "postgres.h"

#include "datatype/timestamp.h"

typedef struct ShardAttempts
{
	int			timeout_ms;		/* of all locks of one attempt */
	int			pause_ms;		/* after it */
	TimestampTz deadline;		/* of the present attempt */
} ShardAttempts;

/* Begins with short attempts. */
extern void shard_attempts_init(ShardAttempts *attempts);

/* Begins an attempt.  What is left of its time, at least a millisecond. */
extern void shard_attempts_start(ShardAttempts *attempts);
extern int	shard_attempts_left_ms(const ShardAttempts *attempts);

/* Gives what is left to the next lock that the current transaction takes (lock_timeout). */
extern void shard_attempts_limit(const ShardAttempts *attempts);

/* Waits after an attempt that has failed.  The next one has more time. */
extern void shard_attempts_pause(ShardAttempts *attempts);

#endif
