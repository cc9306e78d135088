/*
 * remote_estimate.h
 *	  Sizes and costs as a node's own planner estimates them.
 */
#ifndef SHARDFDW_REMOTE_ESTIMATE_H
#define SHARDFDW_REMOTE_ESTIMATE_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/*
 * For scans and joins of foreign tables by themselves: whether their option
 * use_remote_estimate asks for it.  Sets info->remote_estimate.
 */
extern void shard_estimate_choose(ShardRelInfo *info);

/*
 * If info->remote_estimate is set, asks the node; sets rows, width and
 * remote_cost of info, and rel's rows and width.  Errors: those of the node.
 */
extern void shard_estimate_ask(PlannerInfo *root, RelOptInfo *rel, ShardRelInfo *info);

#endif
