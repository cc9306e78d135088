/*
 * rate.c
 *	  Limits the copying of a job to shardfdw.max_move_rate.
 */
#include "postgres.h"

#include "guc.h"
#include "miscadmin.h"
#include "move/job/rate.h"
#include "postmaster/interrupt.h"
#include "remote/wire/wait.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#define MIN_PAUSE_MS 10			/* shorter pauses are skipped */
#define PIECE_MS 1000			/* pauses are split into pieces, since the setting may change */

void
shard_rate_keep(ShardRate *rate, int64 nbytes, ShardJob *job)
{
	long		early_ms;

	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	if (rate->kb != shard_guc_max_move_rate_kb)
	{
		rate->kb = shard_guc_max_move_rate_kb;
		rate->since = GetCurrentTimestamp();
		rate->nbytes = 0;
	}
	if (rate->kb == 0)
		return;
	rate->nbytes += nbytes;
	early_ms = (long) (rate->nbytes * 1000 / ((int64) rate->kb * 1024)) - (long) ((GetCurrentTimestamp() - rate->since) / 1000);
	/* time lost earlier is not made up for */
	if (early_ms < -PIECE_MS)
	{
		rate->since = GetCurrentTimestamp();
		rate->nbytes = 0;
	}
	while (early_ms >= MIN_PAUSE_MS && !ConfigReloadPending)
	{
		shard_job_note_progress(job);
		shard_wait_pause(Min(early_ms, PIECE_MS), false);
		early_ms -= PIECE_MS;
	}
}
