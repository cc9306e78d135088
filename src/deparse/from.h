/*
 * from.h
 *	  Makes FROM, WHERE and EXISTS of a level from the planner's tree of FROM items.
 */
#ifndef SHARDFDW_FROM_H
#define SHARDFDW_FROM_H

#include "postgres.h"

#include "deparse/level.h"
#include "deparse/remote_query.h"

/* Fills FROM and WHERE of level, which must be empty, from the tree `from`. */
extern void shard_from_build(ShardSelect *select, ShardLevel *level, const ShardFrom *from);

#endif
