/*
 * cost.h
 *	  What remote queries cost in core's units.
 */
#ifndef SHARDFDW_COST_H
#define SHARDFDW_COST_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/* What it costs the nodes to read all rows of a scan's live shards and check its conditions. */
extern Cost shard_cost_whole_scan(PlannerInfo *root, const RelOptInfo *baserel, const ShardRelInfo *info);

/* Sets info->remote_cost of a scan from its conditions and live shards. */
extern void shard_cost_scan(PlannerInfo *root, RelOptInfo *baserel, ShardRelInfo *info);

/*
 * Sets info->remote_cost of a grouping over input; input_rows of all shards go
 * into ngroups groups (of all remote queries together).
 */
extern void shard_cost_group(PlannerInfo *root, PathTarget *target, const ShardRelInfo *input,
							 double input_rows, int ngroupcols, ShardRelInfo *info);

/*
 * Sets info->remote_cost of a join from its sides'.  equijoin: it need not
 * compare each pair of rows.
 */
extern void shard_cost_join(PlannerInfo *root, ShardRelInfo *info,
							const ShardRelInfo *outer, const RelOptInfo *outerrel,
							const ShardRelInfo *inner, const RelOptInfo *innerrel, bool equijoin);

/* Costs of a path that runs the queries and receives info->rows rows; local: clauses that the coordinator checks. */
extern void shard_cost_path(PlannerInfo *root, const ShardRelInfo *info, PathTarget *target,
							List *local, Cost *startup, Cost *total);

/* What it costs the nodes to find nrows rows of a table by an index. */
extern Cost shard_cost_fetch(const ShardRelInfo *info, double nrows);

/* What it costs to filter info's rows by nkeys keys; each goes to every shard, or, when routed, to its own. */
extern Cost shard_cost_keys(const ShardRelInfo *info, double nkeys, bool routed);

/* What it costs the nodes to compute target, which is what info's queries return. */
extern Cost shard_cost_eval(const ShardRelInfo *info, const PathTarget *target);

/* What it costs the nodes to put the rows of their shards together: info->read_rows. */
extern Cost shard_cost_append(const ShardRelInfo *info);

/* The part of a scan's cost that receiving nrows rows makes. */
extern Cost shard_cost_receive(double nrows);

#endif
