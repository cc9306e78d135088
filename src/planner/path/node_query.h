/*
 * node_query.h
 *	  Decides whether a remote query reads all shards of a node or a single shard.
 */
#ifndef SHARDFDW_NODE_QUERY_H
#define SHARDFDW_NODE_QUERY_H

#include "postgres.h"

#include "planner/path/relinfo.h"

/*
 * Sets info->unsure_cost of a scan of one table.  This is the amount that is added to info->remote_cost if nodes have
 * only the indexes that the coordinator knows.
 */
extern void shard_node_query_set_unsure(PlannerInfo *root, const RelOptInfo *rel, ShardRelInfo *info);

/*
 * Does one query per node cost less than one per shard?
 *
 * receive_saved: receiving cost of the rows that a query per node saves.  *slower: factor on info->remote_cost by
 * which the remote queries take longer.  *append: the additional cost of the Append over the shards.
 */
extern bool shard_node_query_pays(const ShardRelInfo *info, Cost receive_saved,
								  double *slower, Cost *append);

/* The same if the number of received rows does not change. */
extern bool shard_node_query_is_cheaper(const ShardRelInfo *info);

/*
 * Should nodes keep the plan of the remote query?  Yes, if each node gets one query, and the query is likely to be
 * small.  Then parsing and planning would be most of its cost on the node.
 */
extern bool shard_node_query_is_kept(const ShardRelInfo *info, bool per_node);

/*
 * Is the query surely small, even if no index supports its conditions, and for any constants (early_stop.h)?  Then
 * the constants that it compares with become parameters, so that statements with other constants share a plan.  Other
 * queries are planned for their constants.  Their plans are kept for statements with the same constants.
 */
extern bool shard_node_query_has_params(const ShardRelInfo *info, bool per_node);

#endif
