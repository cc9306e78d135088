/*
 * rate.h
 *	  Limits the copying of a job to shardfdw.max_move_rate.
 */
#ifndef SHARDFDW_RATE_H
#define SHARDFDW_RATE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "move/job/job.h"

/* The amount copied since a time.  Initialize with zeros. */
typedef struct ShardRate
{
	int			kb;				/* per second; 0: no limit */
	TimestampTz since;
	int64		nbytes;
} ShardRate;

/*
 * Adds nbytes, and waits while more has been copied than the current setting of shardfdw.max_move_rate allows.  The
 * source waits too, since its data is not read.  Records the progress of job while waiting.
 */
extern void shard_rate_keep(ShardRate *rate, int64 nbytes, ShardJob *job);

#endif
