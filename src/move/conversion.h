/*
 * conversion.h
 *	  Converts a plain table to a sharded one, or back, while other sessions read and write it.
 */
#ifndef SHARDFDW_CONVERSION_H
#define SHARDFDW_CONVERSION_H

#include "postgres.h"

#include "move/job/job.h"

extern const ShardJobKind shard_conversion_kind;

#endif
