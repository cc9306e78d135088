/*
 * import_job.h
 *	  Fills a sharded table with the rows of a table on another server, while that table is written to.
 */
#ifndef SHARDFDW_IMPORT_JOB_H
#define SHARDFDW_IMPORT_JOB_H

#include "postgres.h"

#include "move/job/job.h"

extern const ShardJobKind shard_import_kind;

#endif
