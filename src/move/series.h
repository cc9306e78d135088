/*
 * series.h
 *	  A job that runs other jobs one after the other.
 */
#ifndef SHARDFDW_SERIES_H
#define SHARDFDW_SERIES_H

#include "postgres.h"

#include "move/job/job.h"

typedef struct ShardSeries ShardSeries;

/* Memory: current context. */
extern ShardSeries *shard_series_make(const ShardJobArgs *args);

/* Runs all steps. */
extern void shard_series_run(ShardSeries *series, const ShardJobArgs *args);

/* Ends a series that has failed with error.  Steps that have been committed stay. */
extern void shard_series_end_failed(const ShardSeries *series, ErrorData *error);

#endif
