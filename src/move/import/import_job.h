/*
 * import_job.h
 *	  Fills a sharded table with the rows of a table on another server, while that table is written to.
 */
#ifndef SHARDFDW_IMPORT_JOB_H
#define SHARDFDW_IMPORT_JOB_H

#include "postgres.h"

#include "move/job/job.h"

typedef struct ShardTableImport ShardTableImport;

/* Memory: current context. */
extern ShardTableImport *shard_import_make(const ShardJobArgs *args);

extern void shard_import_run(ShardTableImport *import, const ShardJobArgs *args);

/* Ends a job that has failed with error.  Empties the table, unless it has replaced the source's table. */
extern void shard_import_end_failed(ShardTableImport *import, ErrorData *error);

#endif
