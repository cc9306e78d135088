/*
 * import_stream.c
 *	  Follows the changes of the source of an import.
 *
 *	 slot --> change --> batch of changes by key --> a transaction over all nodes
 *
 * A batch ends between two transactions of the source, unless a transaction is too large for memory.
 */
#include "postgres.h"

#include "fault.h"
#include "move/import/import_stream.h"
#include "move/job/table.h"

#define BATCH_CHANGES 5000		/* the batch then ends with the source's transaction */
#define BATCH_BYTES (64 * 1024 * 1024)	/* the batch then ends immediately */

/* Writes the changes of the batch to the table. */
static void
write_batch(void *arg)
{
	ShardImportStream *stream = arg;

	if (shard_import_batch_count(stream->target.batch) == 0)
		return;
	shard_move_begin(stream->job->userid);
	shard_move_limit_locks(stream->lock_ms);
	shard_import_batches_write(list_make1(stream->target.batch));
	shard_move_commit_on_nodes(stream->job);
	stream->job->progress.nchanges += shard_import_batch_count(stream->target.batch);
	shard_import_batch_reset(stream->target.batch);
	SHARD_FAULT_POINT("import_followed");
}

static bool
is_truncated(const ShardImportStream *stream, const ShardChange *change)
{
	for (int i = 0; i < change->nrelids; i++)
	{
		if (change->relids[i] == stream->target.table->source_oid)
			return true;
	}
	return false;
}

static void
take_row(ShardImportStream *stream, ShardChange *change)
{
	if (change->relid != stream->target.table->source_oid)
		return;
	shard_import_target_row(&stream->target, stream->follow.slot->link, change);
	if (shard_import_batch_bytes(stream->target.batch) > BATCH_BYTES)
		write_batch(stream);
}

static void
take_change(void *arg, ShardChange *change)
{
	ShardImportStream *stream = arg;

	switch (change->kind)
	{
		case SHARD_CHANGE_RELATION:
			if (change->relid == stream->target.table->source_oid && !shard_import_target_relation(&stream->target, change))
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("the columns of table %s on the source have changed while it was imported", stream->target.table->source),
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
		default:
			break;
	}
}

static bool
is_due(void *arg)
{
	return shard_import_batch_count(((ShardImportStream *) arg)->target.batch) >= BATCH_CHANGES;
}

static bool
is_pending(void *arg)
{
	return shard_import_batch_count(((ShardImportStream *) arg)->target.batch) > 0;
}

static const ShardFollowTarget follow_target = {take_change, is_due, write_batch, is_pending, NULL};

void
shard_import_stream_begin(ShardImportStream *stream, ShardJob *job, const ShardImportTable *table, ShardSlot *slot, ShardConn *source)
{
	stream->job = job;
	stream->follow = (ShardFollow) {.slot = slot, .target = &follow_target, .arg = stream, .source = source, .job = job};
	shard_import_target_init(&stream->target, job->cxt, table);
	shard_follow_begin(&stream->follow, job->cxt);
}
