/*
 * key_split.h
 *	  Sends each shard only those of many keys that it can have.
 */
#ifndef SHARDFDW_KEY_SPLIT_H
#define SHARDFDW_KEY_SPLIT_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "executor/scan/param.h"
#include "nodes/bitmapset.h"
#include "plan/plan_private.h"

typedef struct ShardKeySplit
{
	int			paramno;		/* the scan's parameter (1-based) that is the array of keys */
} ShardKeySplit;

/* What can be split in the queries of plan; NULL when nothing can.  Memory: current context. */
extern ShardKeySplit *shard_key_split_create(const ShardScanPlan *plan);

/*
 * Text of the parameter for each shard of map, by shardno; NULL for shards that
 * have none of the keys, which are also removed from *live.  Returns NULL when
 * splitting is not worth it.  Memory: current context.
 */
extern const char *const *shard_key_split_run(const ShardKeySplit *split, const ShardMap *map,
											  ShardParams *params, ExprContext *econtext,
											  Bitmapset **live);

#endif
