/*
 * remote_estimate.h
 *	  Sizes and costs as estimated by a node's planner.
 */
#ifndef SHARDFDW_REMOTE_ESTIMATE_H
#define SHARDFDW_REMOTE_ESTIMATE_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/* For scans of single foreign tables: sets info->remote_estimate from the option use_remote_estimate. */
extern void shard_estimate_choose(ShardRelInfo *info);

/*
 * If info->remote_estimate is set, asks the node, and sets rows, width and remote_cost of info, and rows and width of
 * rel.  Errors: those of the node.
 */
extern void shard_estimate_ask(PlannerInfo *root, RelOptInfo *rel, ShardRelInfo *info);

#endif
