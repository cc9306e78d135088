/*
 * progress.h
 *	  What pg_stat_progress_copy shows of a load, kept over calls of core that
 *	  begin or end a command's progress.
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
 * To be used around BeginCopyFrom() of another COPY, and around subtransactions
 * that may be rolled back (their end ends the progress, too).
 */
extern void shard_progress_save(ShardProgress *progress);
extern void shard_progress_restore(const ShardProgress *progress);

#endif
