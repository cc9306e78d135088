/*
 * absorb.h
 *	  Sub-selects in FROM that nodes compute completely, as sides of remote joins.
 */
#ifndef SHARDFDW_ABSORB_H
#define SHARDFDW_ABSORB_H

#include "postgres.h"

#include "deparse/remote_query.h"
#include "nodes/pathnodes.h"

/* For set_rel_pathlist_hook: makes rel a relation of the cluster if nodes compute the whole sub-select. */
extern void shard_absorb_subselect(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);

/* Called when a plan reads from: marks the sub-selects in it as never planned. */
extern void shard_absorb_release(PlannerInfo *root, const ShardFrom *from);

#endif
