/*
 * attempt.h
 *	  Attempts to lock tables that others use: the time limit of each attempt, and the pause after it.
 */
#ifndef SHARDFDW_ATTEMPT_H
#define SHARDFDW_ATTEMPT_H

#include "postgres.h"

#include "datatype/timestamp.h"

typedef struct ShardAttempts
{
	int			timeout_ms;		/* for all locks of one attempt */
	int			pause_ms;		/* after the attempt */
	TimestampTz deadline;		/* of the current attempt */
} ShardAttempts;

/* Sets the time of the first attempt. */
extern void shard_attempts_init(ShardAttempts *attempts);

/* Begins an attempt.  The second function returns its remaining time, at least one millisecond. */
extern void shard_attempts_start(ShardAttempts *attempts);
extern int	shard_attempts_left_ms(const ShardAttempts *attempts);

/* Sets lock_timeout to the remaining time for the next lock of the current transaction. */
extern void shard_attempts_limit(const ShardAttempts *attempts);

/* Waits after an attempt that has failed.  The next attempt has more time. */
extern void shard_attempts_pause(ShardAttempts *attempts);

#endif
