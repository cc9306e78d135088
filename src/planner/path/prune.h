/*
 * prune.h
 *	  Prunes the shards of a scan during planning.
 */
#ifndef SHARDFDW_PRUNE_H
#define SHARDFDW_PRUNE_H

#include "postgres.h"

#include "deparse/select.h"
#include "planner/path/relinfo.h"

/*
 * Sets live, nlive, nexpected and prune_conds of info from the restriction clauses of the relation.  For a two-level
 * table, the partitions that are read are locked and added to the query's range table, and info->map may change.
 */
extern void shard_prune_relation(PlannerInfo *root, RelOptInfo *baserel, ShardRelInfo *info);

/*
 * For a shard that core plans as a child of its parent: the conditions for run-time pruning, over columns of *parent.
 * NIL if there are none, or if the shard's columns have other numbers than the parent's.  Call it when select is
 * complete, because the parameters of the conditions follow those of select.
 */
extern List *shard_prune_child_quals(PlannerInfo *root, Index rtindex, const ShardRelInfo *info, ShardSelect *select, Oid *parent);

#endif
