/*
 * series.h
 *	  A job that runs other jobs one after the other.
 */
#ifndef SHARDFDW_SERIES_H
#define SHARDFDW_SERIES_H

#include "postgres.h"

#include "move/job/job.h"

extern const ShardJobKind shard_series_kind;

#endif
