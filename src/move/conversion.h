/*
 * conversion.h
 *	  Converts a plain table to a sharded one, or back, while other sessions read and write it.
 */
#ifndef SHARDFDW_CONVERSION_H
#define SHARDFDW_CONVERSION_H

#include "postgres.h"

#include "move/job/job.h"

typedef struct ShardConversion ShardConversion;

/* Memory: current context. */
extern ShardConversion *shard_conversion_make(const ShardJobArgs *args);

extern void shard_conversion_run(ShardConversion *conversion, const ShardJobArgs *args);

/* Ends a job that has failed with error.  The table is unchanged unless it was already switched. */
extern void shard_conversion_end_failed(ShardConversion *conversion, ErrorData *error);

#endif
