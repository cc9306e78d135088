/*
 * from.h
 *	  The planner's tree of FROM items as FROM, WHERE and EXISTS of a level.
 */
#ifndef SHARDFDW_FROM_H
#define SHARDFDW_FROM_H

#include "postgres.h"

#include "deparse/level.h"
#include "deparse/remote_query.h"

/* Makes from the FROM and WHERE of level, which has none yet. */
extern void shard_from_build(ShardSelect *select, ShardLevel *level, const ShardFrom *from);

#endif
