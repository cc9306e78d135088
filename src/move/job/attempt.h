/*
 * attempt.h
 *	  Attempts to lock tables that others use: the time limit of each attempt, and the pause after it.
 */
#ifndef SHARDFDW_ATTEMPT_H
#define SHARDFDW_ATTEMPT_H

#include "postgres.h"

#include "move/job/job.h"

typedef struct ShardAttempts
{
	int			timeout_ms;		/* for all locks of one attempt */
	int			pause_ms;		/* after the attempt */
	TimestampTz deadline;		/* of the current attempt */
} ShardAttempts;

/* Sets the time of the first attempt. */
extern void shard_attempts_init(ShardAttempts *attempts);

/* The remaining time of the attempt, at least one millisecond. */
extern int	shard_attempts_left_ms(const ShardAttempts *attempts);

/* Sets lock_timeout to the remaining time for the next lock of the current transaction. */
extern void shard_attempts_limit(const ShardAttempts *attempts);

/* Waits after an attempt that has failed.  The next attempt has more time. */
extern void shard_attempts_pause(ShardAttempts *attempts);

/*
 * Calls step in a transaction of the job, which stays open.  Repeats that until all locks of step are granted in time.
 * before_each: called before each attempt, outside any transaction; may be NULL. waits_for: for the journal.
 */
extern void shard_attempts_insist(ShardJob *job, const char *waits_for, void (*before_each) (void *before_arg), void *before_arg,
								  void (*step) (const ShardAttempts *attempts, void *arg), void *arg);

/* The same for one attempt, without a pause.  Returns false if a lock was not granted in time. */
extern bool shard_attempts_try(ShardJob *job, ShardAttempts *attempts,
							   void (*step) (const ShardAttempts *attempts, void *arg), void *arg);

/*
 * Limits the time that the job waits for a server, while other sessions wait for locks of the job. server: for
 * messages; NULL ends the limit, as the end of an attempt does.  Errors: query_canceled;
 * shard_attempts_name_awaited() makes it an error that names the server, and ends the limit.
 */
extern void shard_attempts_await(ShardJob *job, const char *server);
extern void shard_attempts_name_awaited(ShardJob *job, ErrorData *error);

#endif
