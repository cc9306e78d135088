/*
 * group_parts.h
 *	  What groupings of all kinds share, and groupings with aggregates that need
 *	  distinct or sorted rows.
 */
#ifndef SHARDFDW_GROUP_PARTS_H
#define SHARDFDW_GROUP_PARTS_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/* ---- group_target.c ---- */

/* The info of a grouping over input's rows; its query returns group_exprs, then aggs. */
extern ShardRelInfo *shard_group_make_info(const ShardRelInfo *input, ShardRelKind kind,
										   List *group_exprs, List *aggs);

/*
 * A target with group_exprs as columns, each with the sort/group reference that target
 * has for it; if it has several for one expression, the column is repeated for each.
 */
extern PathTarget *shard_group_make_target(PlannerInfo *root, PathTarget *target,
										   List *group_exprs);

/* ---- distinct_agg_path.c ---- */

/* Does the aggregate give the same result when rows are repeated (min(), max(), bool_and(), ...)? */
extern bool shard_distinct_agg_ignores_duplicates(const Aggref *agg);

/*
 * A grouping that has aggregates with DISTINCT, over distinct rows: part of
 * shard_group_add_paths(), whose lists these are.
 */
extern bool shard_distinct_agg_add_paths(PlannerInfo *root, RelOptInfo *input_rel,
										 RelOptInfo *output_rel, List *having,
										 List *group_exprs, List *aggs, double ngroups);

/* ---- sorted_agg_path.c ---- */

/*
 * A grouping that has aggregates with ORDER BY (or DISTINCT), over rows in that
 * order: part of shard_group_add_paths(), whose list aggs is.
 */
extern bool shard_sorted_agg_add_paths(PlannerInfo *root, RelOptInfo *input_rel,
									   RelOptInfo *output_rel, List *having, List *aggs,
									   double ngroups);

#endif
