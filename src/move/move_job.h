/*
 * move_job.h
 *	  The kind of job that moves, splits or merges shards.
 */
#ifndef SHARDFDW_MOVE_JOB_H
#define SHARDFDW_MOVE_JOB_H

#include "postgres.h"

#include "move/job/job.h"

extern const ShardJobKind shard_move_kind;

#endif
