/*
 * group_parts.h
 *	  Functions that all groupings share, and groupings with aggregates that need distinct or sorted rows.
 */
#ifndef SHARDFDW_GROUP_PARTS_H
#define SHARDFDW_GROUP_PARTS_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/* ---- group_target.c ---- */

/* The info of a grouping over input's rows.  Its query returns group_exprs, then aggs. */
extern ShardRelInfo *shard_group_make_info(const ShardRelInfo *input, ShardRelKind kind,
										   List *group_exprs, List *aggs);

/*
 * A target with the columns group_exprs, each with its sort/group reference in target.  If target has several
 * references for one expression, the column is repeated for each.
 */
extern PathTarget *shard_group_make_target(PlannerInfo *root, PathTarget *target,
										   List *group_exprs);

/* ---- distinct_agg_path.c ---- */

/* Does the aggregate ignore duplicate rows (min(), max(), bool_and(), ...)? */
extern bool shard_distinct_agg_ignores_duplicates(const Aggref *agg);

/*
 * Adds paths for a grouping that has aggregates with DISTINCT, over distinct rows.  Called by
 * shard_group_add_paths(), whose lists these are.
 */
extern bool shard_distinct_agg_add_paths(PlannerInfo *root, RelOptInfo *input_rel,
										 RelOptInfo *output_rel, List *having,
										 List *group_exprs, List *aggs, double ngroups);

/* ---- sorted_agg_path.c ---- */

/*
 * Adds a path for a grouping that has aggregates with ORDER BY or DISTINCT, over rows in that order.  Called by
 * shard_group_add_paths(), whose list aggs is.
 */
extern bool shard_sorted_agg_add_paths(PlannerInfo *root, RelOptInfo *input_rel,
									   RelOptInfo *output_rel, List *having, List *aggs,
									   double ngroups);

#endif
