/*
 * conversion.h
 *	  Shards a plain table that others read and write meanwhile, or makes a sharded one plain.
 */
#ifndef SHARDFDW_CONVERSION_H
#define SHARDFDW_CONVERSION_H

#include "postgres.h"

#include "move/job/job.h"

typedef struct ShardConversion ShardConversion;

/* Memory: current context. */
extern ShardConversion *shard_conversion_make(const ShardJobArgs *args);

extern void shard_conversion_run(ShardConversion *conversion, const ShardJobArgs *args);

/* Ends a job that has failed with error: the table is what it was, unless it has been switched already. */
extern void shard_conversion_end_failed(ShardConversion *conversion, ErrorData *error);

#endif
