/*
 * key_split.h
 *	  Sends to each shard only the keys that the shard can have.
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
	int			paramno;		/* number of the scan's parameter (1-based) with the array of keys */
} ShardKeySplit;

/* Finds a parameter that can be split in the queries of plan; NULL: none.  Memory: current context. */
extern ShardKeySplit *shard_key_split_create(const ShardScanPlan *plan);

/*
 * Returns the text of the parameter for each shard of map, by shardno.  It is NULL for shards that
 * have none of the keys, which are also removed from *live.  Returns NULL if splitting does not
 * pay.  Memory: current context.
 */
extern const char *const *shard_key_split_run(const ShardKeySplit *split, const ShardMap *map,
											  ShardParams *params, ExprContext *econtext,
											  Bitmapset **live);

#endif
