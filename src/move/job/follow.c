/*
 * follow.c
 *	  Follows the changes that a slot sends, up to a position of the source.
 *
 *	 slot --> change --> take() of the target --after a transaction of the source--> write() of the target
 *
 * A target commits between two transactions of the source, so it shows states that the source had.
 *
 * The source sends transactions in the order of their commits.  So when the stream reaches a position outside any
 * transaction, all transactions that committed before the position have arrived.  To get the current position, a
 * message is written into the WAL of the source.  Its commit also ensures that the stream reaches the position soon.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "move/job/follow.h"
#include "move/job/link.h"
#include "remote/wire/error.h"
#include "remote/wire/wait.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define NEAR_MS 200				/* the target is near if it catches up within this time */

static void
keep_alive(void *arg)
{
	shard_slot_tell(((ShardFollow *) arg)->slot, false);
}

void
shard_follow_begin(ShardFollow *follow, MemoryContext cxt)
{
	follow->change_cxt = AllocSetContextCreate(cxt, "shardfdw change", ALLOCSET_DEFAULT_SIZES);
	shard_wait_set_idle(keep_alive, follow);
}

static void
write_changes(ShardFollow *follow)
{
	follow->target->write(follow->arg);
	follow->slot->done = Max(follow->slot->done, follow->committed);
	shard_slot_tell(follow->slot, false);
}

/* Reads one message, if one has arrived.  Returns false if none has. */
static bool
take_message(ShardFollow *follow)
{
	MemoryContext oldcxt;
	const char *data;
	int			len;
	ShardChange change;

	if (!shard_slot_next(follow->slot, &data, &len))
		return false;
	oldcxt = MemoryContextSwitchTo(follow->change_cxt);
	if (!shard_change_read(data, len, &change))
		shard_error_protocol(follow->slot->link, NULL, "an invalid change message");
	if (change.kind == SHARD_CHANGE_BEGIN)
	{
		follow->in_transaction = true;
		follow->final = change.lsn;
	}
	follow->target->take(follow->arg, &change);
	if (change.kind == SHARD_CHANGE_COMMIT)
	{
		follow->in_transaction = false;
		follow->committed = change.end;
		if (follow->target->is_due(follow->arg))
			write_changes(follow);
	}
	MemoryContextSwitchTo(oldcxt);
	MemoryContextReset(follow->change_cxt);
	CHECK_FOR_INTERRUPTS();
	return true;
}

static void
note_progress(ShardFollow *follow)
{
	if (follow->job == NULL)
		return;
	follow->job->progress.lag_bytes = follow->slot->written - Min(follow->slot->written, follow->slot->done);
	shard_job_note_progress(follow->job);
}

/* Waits for the source or the target, at most a second. */
static void
wait_for_both(ShardFollow *follow, bool tell)
{
	ShardConn  *links[2] = {follow->slot->link, follow->link};

	/* nothing is pending: the source need not send again what it has processed */
	if (!follow->in_transaction && !follow->target->is_pending(follow->arg))
		follow->slot->done = Max(follow->slot->done, follow->slot->received);
	note_progress(follow);
	shard_slot_tell(follow->slot, tell && follow->slot->done != follow->told);
	if (tell)
		follow->told = follow->slot->done;
	shard_link_wait(links, 2);
	if (follow->link)
		follow->target->receive(follow->arg);
}

/* Returns a position after all present commits of the source. */
static XLogRecPtr
position_now(ShardFollow *follow)
{
	/* in a transaction that commits, so that the WAL is written beyond the position */
	return shard_slot_position(shard_link_value(follow->source, "SELECT pg_catalog.pg_logical_emit_message(true, 'shardfdw', '')"));
}

bool
shard_follow_to_now(ShardFollow *follow, int timeout_ms)
{
	TimestampTz began = GetCurrentTimestamp();
	XLogRecPtr	lsn = position_now(follow);

	while (follow->in_transaction || follow->slot->received < lsn)
	{
		if (!take_message(follow))
			wait_for_both(follow, false);
		if (timeout_ms >= 0 && TimestampDifferenceExceeds(began, GetCurrentTimestamp(), timeout_ms))
			return false;
	}
	write_changes(follow);
	note_progress(follow);
	return true;
}

void
shard_follow_catch_up(ShardFollow *follow)
{
	TimestampTz began;

	do
	{
		began = GetCurrentTimestamp();
		(void) shard_follow_to_now(follow, -1);
	} while (TimestampDifferenceExceeds(began, GetCurrentTimestamp(), NEAR_MS));
}

void
shard_follow_to(ShardFollow *follow, XLogRecPtr lsn)
{
	/* then the stream reaches a position after lsn soon */
	if (follow->source)
		(void) position_now(follow);
	/* no change of a transaction has been read when its begin is read */
	while (follow->in_transaction ? follow->final < lsn : follow->slot->received < lsn)
	{
		if (!take_message(follow))
			wait_for_both(follow, false);
	}
	write_changes(follow);
}

void
shard_follow_wait(ShardFollow *follow)
{
	while (take_message(follow))
		;
	if (!follow->in_transaction)
		write_changes(follow);
	wait_for_both(follow, true);
}
