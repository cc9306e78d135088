/*
 * prune.h
 *	  Which shards a scan reads, as far as planning can tell.
 */
#ifndef SHARDFDW_PRUNE_H
#define SHARDFDW_PRUNE_H

#include "postgres.h"

#include "deparse/select.h"
#include "planner/path/relinfo.h"

/*
 * Sets live, nlive and prune_conds of info from the relation's restriction clauses.  Of a table of two levels,
 * the partitions that are read are locked and enter the query's range table, and info->map may become another one.
 */
extern void shard_prune_relation(PlannerInfo *root, RelOptInfo *baserel, ShardRelInfo *info);

/*
 * For a shard that is planned by itself, as a member of its parent: the conditions by which it can be left out once
 * their parameters are known, over columns of *parent.  NIL: none, or the shard's columns have other numbers.  To be
 * called when select is complete, as its parameters follow.
 */
extern List *shard_prune_child_quals(PlannerInfo *root, Index rtindex, const ShardRelInfo *info, ShardSelect *select, Oid *parent);

#endif
