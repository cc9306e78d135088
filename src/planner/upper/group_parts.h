/*
 * group_parts.h
 *	  What groupings of all kinds are made of, and those with aggregates that need
 *	  their rows distinct or sorted.
 */
#ifndef SHARDFDW_GROUP_PARTS_H
#define SHARDFDW_GROUP_PARTS_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/* ---- group_target.c ---- */

/* The info of a grouping over input's rows; what travels is group_exprs, then aggs. */
extern ShardRelInfo *shard_group_make_info(const ShardRelInfo *input, ShardRelKind kind,
										   List *group_exprs, List *aggs);

/*
 * group_exprs as columns of a target, with the sort/group references that target
 * has for them: once for each, when one is grouped by under several.
 */
extern PathTarget *shard_group_make_target(PlannerInfo *root, PathTarget *target,
										   List *group_exprs);

/* ---- distinct_agg_path.c ---- */

/* Is it min(), max(), bool_and() or of their kind, to which rows that are there twice are nothing? */
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
