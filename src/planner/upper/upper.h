/*
 * upper.h
 *	  The stages above joins that upper_dispatch.c offers to the nodes.
 */
#ifndef SHARDFDW_UPPER_H
#define SHARDFDW_UPPER_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/*
 * The stages; each adds the paths that are possible to output_rel.  input_rel's
 * fdw_private is the ShardRelInfo of what is below: a scan, a join or an earlier stage.
 * Nodes check all of its conditions except local_having, which the coordinator checks
 * above the scan.
 */
extern void shard_group_add_paths(PlannerInfo *root, RelOptInfo *input_rel,
								  RelOptInfo *output_rel, GroupPathExtraData *extra);
extern void shard_group_add_share_paths(PlannerInfo *root, RelOptInfo *input_rel,
										RelOptInfo *output_rel, GroupPathExtraData *extra);
extern void shard_window_add_paths(PlannerInfo *root, RelOptInfo *input_rel,
								   RelOptInfo *output_rel);
extern void shard_distinct_add_paths(PlannerInfo *root, RelOptInfo *input_rel,
									 RelOptInfo *output_rel);
extern void shard_order_add_paths(PlannerInfo *root, RelOptInfo *input_rel,
								  RelOptInfo *output_rel);
extern void shard_limit_add_paths(PlannerInfo *root, RelOptInfo *input_rel,
								  RelOptInfo *output_rel, FinalPathExtraData *extra);
extern void shard_project_add_paths(PlannerInfo *root, RelOptInfo *input_rel,
									RelOptInfo *output_rel);

#endif
