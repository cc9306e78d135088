/*
 * node_query.h
 *	  Whether a remote query reads all shards of a node or one of them.
 */
#ifndef SHARDFDW_NODE_QUERY_H
#define SHARDFDW_NODE_QUERY_H

#include "postgres.h"

#include "planner/path/relinfo.h"

/*
 * Sets info->unsure_cost of a scan of one table: so much more than info->remote_cost its
 * remote queries cost when no node has an index of which the coordinator does not know.
 */
extern void shard_node_query_set_unsure(PlannerInfo *root, const RelOptInfo *rel, ShardRelInfo *info);

/*
 * Does one query per node cost less than one per shard?  receive_saved: what it costs
 * to receive the rows that it saves.  *slower: how much longer the remote queries take
 * then, as a factor of info->remote_cost; *append: what putting the shards together
 * adds to it.
 */
extern bool shard_node_query_pays(const ShardRelInfo *info, Cost receive_saved,
								  double *slower, Cost *append);

/* The same where as many rows are received. */
extern bool shard_node_query_is_cheaper(const ShardRelInfo *info);

/*
 * Should nodes keep the plan of the remote query?  They do where it is asked once of each
 * node, and likely to be small: parsing and planning it would be most of what it costs them.
 */
extern bool shard_node_query_is_kept(const ShardRelInfo *info, bool per_node);

/*
 * Is it surely small, even where no index serves its conditions, and for any constants (early_stop.h)?
 * Then the constants that these compare with become parameters, so that statements which differ in
 * them share a plan.
 * Others are planned for their constants, and kept for those that have the same.
 */
extern bool shard_node_query_has_params(const ShardRelInfo *info, bool per_node);

#endif
