/*
 * cost.h
 *	  Costs of remote queries, in the cost units of core.
 */
#ifndef SHARDFDW_COST_H
#define SHARDFDW_COST_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/* Cost on the nodes of reading all rows of a scan's live shards and checking the scan's conditions. */
extern Cost shard_cost_whole_scan(PlannerInfo *root, const RelOptInfo *baserel, const ShardRelInfo *info);

/* Sets info->remote_cost of a scan from its conditions and live shards. */
extern void shard_cost_scan(PlannerInfo *root, RelOptInfo *baserel, ShardRelInfo *info);

/*
 * Sets info->remote_cost of a grouping over input. input_rows is the number of input rows of all shards. ngroups is
 * the number of groups, summed over all remote queries.
 */
extern void shard_cost_group(PathTarget *target, const ShardRelInfo *input,
							 double input_rows, int ngroupcols, ShardRelInfo *info);

/* Sets info->remote_cost of a join from the costs of its sides. equijoin: nodes need not compare each pair of rows. */
extern void shard_cost_join(ShardRelInfo *info,
							const ShardRelInfo *outer, const RelOptInfo *outerrel,
							const ShardRelInfo *inner, const RelOptInfo *innerrel, bool equijoin);

/* Costs of a path that runs the queries and receives info->rows rows. local: clauses that the coordinator checks. */
extern void shard_cost_path(PlannerInfo *root, const ShardRelInfo *info, PathTarget *target,
							List *local, Cost *startup, Cost *total);

/* Cost on the nodes of finding nrows rows of a table by an index. */
extern Cost shard_cost_fetch(const ShardRelInfo *info, double nrows);

/* Cost of filtering info's rows by nkeys keys. routed: each key goes to one shard only, otherwise to every shard. */
extern Cost shard_cost_keys(const ShardRelInfo *info, double nkeys, bool routed);

/* Cost on the nodes of computing target, the output of info's queries. */
extern Cost shard_cost_eval(const ShardRelInfo *info, const PathTarget *target);

/* Cost on the nodes of an Append over the rows of their shards (info->read_rows). */
extern Cost shard_cost_append(const ShardRelInfo *info);

/* Cost of receiving nrows rows. */
extern Cost shard_cost_receive(double nrows);

#endif
