/*
 * import_stream.c
 *	  Follows the changes of the source of an import.
 *
 *	 slot --> change --> batch of changes by key --> a transaction over all nodes
 *
 * A batch ends between two transactions of the source, so the table shows states that the source had.  A transaction
 * that is too large for memory is an exception.
 *
 * The stream is followed up to a position of the source's WAL.  Transactions are sent in commit order.  So when the
 * stream reaches the position, all transactions committed before it have arrived.  (Moves use messages in the WAL
 * instead, which only version 14 and later send.)
 */
#include "postgres.h"

#include "fault.h"
#include "miscadmin.h"
#include "move/import/import_stream.h"
#include "move/import/import_target.h"
#include "move/job/change.h"
#include "move/job/link.h"
#include "move/job/table.h"
#include "remote/wire/error.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"

#define BATCH_CHANGES 5000		/* the batch then ends with the source's transaction */
#define BATCH_BYTES (64 * 1024 * 1024)	/* the batch then ends immediately */

struct ShardImportStream
{
	const ShardImportFollower *follower;
	ShardSlot  *slot;
	ShardConn  *source;
	ShardImportTarget target;
	MemoryContext cxt;
	MemoryContext change_cxt;	/* for one change */
	bool		in_transaction; /* of the source */
	XLogRecPtr	committed;		/* last commit of the source that was read */
};

static void
keep_alive(void *arg)
{
	shard_slot_tell(((ShardImportStream *) arg)->slot, false);
}

ShardImportStream *
shard_import_stream_begin(MemoryContext cxt, const ShardImportFollower *follower, ShardSlot *slot, ShardConn *source)
{
	ShardImportStream *stream = MemoryContextAllocZero(cxt, sizeof(ShardImportStream));

	stream->follower = follower;
	stream->slot = slot;
	stream->source = source;
	stream->cxt = cxt;
	shard_import_target_init(&stream->target, cxt, follower->table);
	stream->change_cxt = AllocSetContextCreate(cxt, "shardfdw change", ALLOCSET_DEFAULT_SIZES);
	shard_link_set_idle(keep_alive, stream);
	return stream;
}

/* Writes the changes of the batch to the table. */
static void
write_batch(ShardImportStream *stream)
{
	const ShardImportFollower *follower = stream->follower;

	if (shard_import_batch_count(stream->target.batch) > 0)
	{
		shard_move_begin(follower->job->userid);
		shard_move_limit_locks(follower->lock_ms);
		shard_import_batches_write(list_make1(stream->target.batch));
		if (!shard_move_commit_confirmed())
			ereport(ERROR,
					(errcode(ERRCODE_SYSTEM_ERROR),
					 errmsg("a node did not confirm a commit of job " INT64_FORMAT, follower->job->id),
					 errhint("Start again when the node answers.")));
		follower->job->progress.nchanges += shard_import_batch_count(stream->target.batch);
		shard_import_batch_reset(stream->target.batch);
		SHARD_FAULT_POINT("import_followed");
	}
	stream->slot->done = Max(stream->slot->done, stream->committed);
	shard_slot_tell(stream->slot, false);
}

/* ---------- rows ---------- */

static bool
is_truncated(const ShardImportStream *stream, const ShardChange *change)
{
	for (int i = 0; i < change->nrelids; i++)
	{
		if (change->relids[i] == stream->follower->table->source_oid)
			return true;
	}
	return false;
}

static void
take_row(ShardImportStream *stream, ShardChange *change)
{
	if (change->relid != stream->follower->table->source_oid)
		return;
	shard_import_target_row(&stream->target, stream->slot->link, change);
	if (shard_import_batch_bytes(stream->target.batch) > BATCH_BYTES)
		write_batch(stream);
}

/* ---------- the stream ---------- */

static void
take_change(ShardImportStream *stream, ShardChange *change)
{
	switch (change->kind)
	{
		case SHARD_CHANGE_BEGIN:
			stream->in_transaction = true;
			break;
		case SHARD_CHANGE_COMMIT:
			stream->in_transaction = false;
			stream->committed = change->lsn;
			if (shard_import_batch_count(stream->target.batch) >= BATCH_CHANGES)
				write_batch(stream);
			break;
		case SHARD_CHANGE_RELATION:
			if (change->relid == stream->follower->table->source_oid && !shard_import_target_relation(&stream->target, stream->cxt, change))
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("the columns of table %s on the source have changed while it was imported", stream->follower->table->source),
						 errhint("Start the import again.")));
			break;
		case SHARD_CHANGE_INSERT:
		case SHARD_CHANGE_UPDATE:
		case SHARD_CHANGE_DELETE:
			take_row(stream, change);
			break;
		case SHARD_CHANGE_TRUNCATE:
			if (is_truncated(stream, change))
				shard_import_batch_truncate(stream->target.batch);
			break;
		case SHARD_CHANGE_MESSAGE:
		case SHARD_CHANGE_OTHER:
			break;
	}
}

/*
 * Reads one message, if one has arrived.  Returns false if none has.  Transactions that commit at position hold or
 * later are not applied yet.  *reached: the first of them has arrived, and all earlier changes are in the table.
 */
static bool
take_message(ShardImportStream *stream, XLogRecPtr hold, bool *reached)
{
	MemoryContext oldcxt;
	const char *data;
	int			len;
	ShardChange change;

	if (!shard_slot_next(stream->slot, &data, &len))
		return false;
	oldcxt = MemoryContextSwitchTo(stream->change_cxt);
	if (!shard_change_read(data, len, &change))
		shard_error_protocol(stream->slot->link, NULL, "an invalid change message");
	if (change.kind == SHARD_CHANGE_BEGIN && change.lsn >= hold)
	{
		/* before its changes are added to the batch */
		write_batch(stream);
		*reached = true;
	}
	take_change(stream, &change);
	MemoryContextSwitchTo(oldcxt);
	MemoryContextReset(stream->change_cxt);
	CHECK_FOR_INTERRUPTS();
	return true;
}

static void
note_progress(ShardImportStream *stream)
{
	stream->follower->job->progress.lag_bytes = stream->slot->written - Min(stream->slot->written, stream->slot->done);
	shard_job_note_progress(stream->follower->job);
}

/* Waits for the source, at most a second. */
static void
wait_for_source(ShardImportStream *stream)
{
	/* nothing is pending: the source need not send again what it has processed */
	if (!stream->in_transaction && shard_import_batch_count(stream->target.batch) == 0)
		stream->slot->done = Max(stream->slot->done, stream->slot->received);
	note_progress(stream);
	shard_slot_tell(stream->slot, false);
	shard_link_wait(&stream->slot->link, 1);
}

/* A position after all commits of the source. */
static XLogRecPtr
position_now(ShardImportStream *stream)
{
	/* in a transaction that commits, so that the WAL is written beyond the position */
	char	   *lsn = shard_link_value(stream->source, "SELECT pg_catalog.pg_logical_emit_message(true, 'shardfdw', '')");

	return DatumGetLSN(DirectFunctionCall1(pg_lsn_in, CStringGetDatum(lsn)));
}

bool
shard_import_stream_to_now(ShardImportStream *stream, int timeout_ms)
{
	TimestampTz began = GetCurrentTimestamp();
	XLogRecPtr	lsn = position_now(stream);
	bool		reached = false;

	while (stream->in_transaction || stream->slot->received < lsn)
	{
		if (!take_message(stream, PG_UINT64_MAX, &reached))
			wait_for_source(stream);
		if (timeout_ms >= 0 && TimestampDifferenceExceeds(began, GetCurrentTimestamp(), timeout_ms))
			return false;
	}
	write_batch(stream);
	note_progress(stream);
	return true;
}

void
shard_import_stream_to(ShardImportStream *stream, XLogRecPtr lsn)
{
	bool		reached = false;

	/* then a transaction after lsn arrives, or it is known that no earlier one is pending */
	(void) position_now(stream);
	while (!reached && (stream->in_transaction || stream->slot->received < lsn))
	{
		if (!take_message(stream, lsn, &reached))
			wait_for_source(stream);
	}
	if (!reached)
		write_batch(stream);
}

void
shard_import_stream_wait(ShardImportStream *stream)
{
	bool		reached;

	while (take_message(stream, PG_UINT64_MAX, &reached))
		;
	if (!stream->in_transaction)
		write_batch(stream);
	wait_for_source(stream);
}
