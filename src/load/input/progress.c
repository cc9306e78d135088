/*
 * progress.c
 *	  Saves and restores the pg_stat_progress_copy entry of a load.
 *
 * Only this backend writes its entry, so it can read the entry without the precautions that other backends need.
 */
#include "postgres.h"

#include "load/input/progress.h"
#include "utils/backend_status.h"

void
shard_progress_save(ShardProgress *progress)
{
	progress->command = PROGRESS_COMMAND_INVALID;
	if (MyBEEntry == NULL)
		return;
	progress->command = MyBEEntry->st_progress_command;
	progress->target = MyBEEntry->st_progress_command_target;
	memcpy(progress->params, MyBEEntry->st_progress_param, sizeof(progress->params));
}

void
shard_progress_restore(const ShardProgress *progress)
{
	if (progress->command == PROGRESS_COMMAND_INVALID)
	{
		pgstat_progress_end_command();
		return;
	}
	pgstat_progress_start_command(progress->command, progress->target);
	for (int i = 0; i < PGSTAT_NUM_PROGRESS_PARAM; i++)
	{
		if (progress->params[i] != 0)
			pgstat_progress_update_param(i, progress->params[i]);
	}
}
