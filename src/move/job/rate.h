/*
 * rate.h
 *	  Keeps what a job copies within shardfdw.max_move_rate.
 */
#ifndef SHARDFDW_RATE_H
#define SHARDFDW_RATE_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* What has been copied since when; begins as zeros. */
typedef struct ShardRate
{
	int			kb;				/* a second; 0: no limit */
	TimestampTz since;
	int64		nbytes;
} ShardRate;

/*
 * Takes note of nbytes more, and waits while more has been copied than shardfdw.max_move_rate allows, as it is set now.
 * The source waits, too, since nobody reads from it.  idle: called now and then meanwhile.
 */
extern void shard_rate_keep(ShardRate *rate, int64 nbytes, void (*idle) (void *arg), void *arg);

#endif
