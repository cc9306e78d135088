/*
 * upper.h
 *	  The upper stages (above joins) that upper_dispatch.c offers to the nodes.
 */
#ifndef SHARDFDW_UPPER_H
#define SHARDFDW_UPPER_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/*
 * Each function adds the possible paths of one stage to output_rel. input_rel's fdw_private is the ShardRelInfo of
 * the input: a scan, a join or an earlier stage.  Nodes check all conditions of the input except local_having, which
 * the coordinator checks above the scan.
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
