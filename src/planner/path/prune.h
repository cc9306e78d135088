/*
 * prune.h
 *	  Which shards a scan reads, as far as planning can tell.
 */
#ifndef SHARDFDW_PRUNE_H
#define SHARDFDW_PRUNE_H

#include "postgres.h"

#include "planner/path/relinfo.h"

/*
 * Sets live, nlive and prune_conds of info from the relation's restriction clauses.  Of a table of two levels,
 * the partitions that are read are locked and enter the query's range table, and info->map may become another one.
 */
extern void shard_prune_relation(PlannerInfo *root, RelOptInfo *baserel, ShardRelInfo *info);

#endif
