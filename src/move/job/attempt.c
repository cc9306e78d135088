/*
 * attempt.c
 *	  Attempts to lock tables that others use: the time limit of each attempt, and the pause after it.
 *
 * Other sessions wait behind an attempt.  So the first attempt is short, and succeeds if transactions are short.  A
 * lock on a whole table needs a moment without transactions on the table.  For that, an attempt must last longer than
 * each of these transactions.  So the time of an attempt is doubled, up to a limit, and the pauses are longer than
 * the attempts.
 *
 * The limit applies to all locks of an attempt together, and is less than deadlock_timeout.  So an attempt that holds
 * some locks and waits for another ends before a client that waits for it checks for a deadlock.
 */
#include "postgres.h"

#include "move/job/attempt.h"
#include "move/job/table.h"
#include "remote/wire/wait.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#define MIN_TIMEOUT_MS 100
#define MAX_TIMEOUT_MS 800
#define MIN_PAUSE_MS 200
#define MAX_PAUSE_MS 5000
#define AWAIT_S 10				/* as long as a server may take to accept a connection */

void
shard_attempts_init(ShardAttempts *attempts)
{
	attempts->timeout_ms = MIN_TIMEOUT_MS;
	attempts->pause_ms = MIN_PAUSE_MS;
}

int
shard_attempts_left_ms(const ShardAttempts *attempts)
{
	return Max(1, (int) TimestampDifferenceMilliseconds(GetCurrentTimestamp(), attempts->deadline));
}

void
shard_attempts_limit(const ShardAttempts *attempts)
{
	shard_move_limit_locks(shard_attempts_left_ms(attempts));
}

void
shard_attempts_pause(ShardAttempts *attempts)
{
	shard_wait_pause(attempts->pause_ms, false);
	attempts->pause_ms = Min(attempts->pause_ms * 2, MAX_PAUSE_MS);
	/* deadlock_timeout can be set to less on this server */
	attempts->timeout_ms = Min(attempts->timeout_ms * 2, Max(MIN_TIMEOUT_MS, Min(MAX_TIMEOUT_MS, DeadlockTimeout * 4 / 5)));
}

typedef struct Attempt
{
	ShardAttempts *attempts;
	void		(*step) (const ShardAttempts *attempts, void *arg);
	void	   *arg;
} Attempt;

static void
run_step(void *arg)
{
	const Attempt *attempt = arg;

	attempt->attempts->deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), attempt->attempts->timeout_ms);
	attempt->step(attempt->attempts, attempt->arg);
}

bool
shard_attempts_try(ShardJob *job, ShardAttempts *attempts, void (*step) (const ShardAttempts *attempts, void *arg), void *arg)
{
	Attempt		attempt = {attempts, step, arg};

	return shard_move_try_step(job->userid, shard_move_is_lock_timeout, run_step, &attempt);
}

void
shard_attempts_insist(ShardJob *job, const char *waits_for, void (*before_each) (void *before_arg), void *before_arg,
					  void (*step) (const ShardAttempts *attempts, void *arg), void *arg)
{
	ShardAttempts attempts;

	shard_attempts_init(&attempts);
	for (;;)
	{
		if (before_each)
			before_each(before_arg);
		if (shard_attempts_try(job, &attempts, step, arg))
			break;
		shard_attempts_await(job, NULL);
		shard_job_set_waiting(job, waits_for);
		shard_attempts_pause(&attempts);
	}
}

void
shard_attempts_await(ShardJob *job, const char *server)
{
	job->awaited = server ? MemoryContextStrdup(job->cxt, server) : NULL;
	if (server == NULL)
	{
		disable_timeout(STATEMENT_TIMEOUT, false);
		return;
	}
	job->awaited_until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), AWAIT_S * 1000);
	enable_timeout_at(STATEMENT_TIMEOUT, job->awaited_until);
}

void
shard_attempts_name_awaited(ShardJob *job, ErrorData *error)
{
	const char *server = job->awaited;

	shard_attempts_await(job, NULL);
	if (server == NULL || error->sqlerrcode != ERRCODE_QUERY_CANCELED || GetCurrentTimestamp() < job->awaited_until)
		return;
	error->sqlerrcode = ERRCODE_SYSTEM_ERROR;
	error->message = psprintf("%s has not answered within %d s, while other sessions waited for locks of the job", server, AWAIT_S);
	error->hint = "Start it again when the server answers.";
}
