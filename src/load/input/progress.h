/*
 * progress.h
 *	  Preserves the pg_stat_progress_copy entry of a load across calls of core that start or end the progress of a
 *	  command.
 */
#ifndef SHARDFDW_PROGRESS_H
#define SHARDFDW_PROGRESS_H

#include "postgres.h"

#include "utils/backend_progress.h"

typedef struct ShardProgress
{
	ProgressCommandType command;
	Oid			target;
	int64		params[PGSTAT_NUM_PROGRESS_PARAM];
} ShardProgress;

/*
 * Call these around BeginCopyFrom() of another COPY, and around subtransactions that may be rolled back (a rollback
 * ends the progress, too).
 */
extern void shard_progress_save(ShardProgress *progress);
extern void shard_progress_restore(const ShardProgress *progress);

#endif
