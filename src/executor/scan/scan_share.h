/*
 * scan_share.h
 *	  How the statements of a shard scan share the connections and cores of nodes.
 */
#ifndef SHARDFDW_SCAN_SHARE_H
#define SHARDFDW_SCAN_SHARE_H

#include "postgres.h"

#include "executor/scan/scan.h"

/* Shards that one statement reads when nothing else asks for all nlive of node nodeno to be read together. */
extern int	shard_share_per_statement(const ShardScanState *state, int nodeno, int nlive);

/* How many statements read a node's live shards. */
extern int	shard_share_statements(const ShardScanNode *scan_node);

/*
 * Whether nodes of one machine may have to wait for each other in this scan,
 * which is that of a statement that writes or not.
 */
extern bool shard_share_takes_turns(const ShardScanState *state, bool writes);

/* Has the machine of node nodeno as many nodes at work as its cores allow?  For scans that take turns. */
extern bool shard_share_is_busy(const ShardScanState *state, int nodeno);

/* The node that opens its next statement when one of node nodeno has ended: one that has waited, or itself. */
extern int	shard_share_next(ShardScanState *state, int nodeno);

/* Parallel workers that one statement of node nodeno may use; -1: the node's own setting. */
extern int	shard_share_workers(const ShardScanState *state, int nodeno, const ShardScanNode *scan_node);

/* How many statements share a core of node nodeno: ShardStreamSpec's cpu_factor. */
extern int	shard_share_cpu_factor(const ShardScanState *state, int nodeno, const ShardScanNode *scan_node);

/* The same before any statement of the node was opened. */
extern int	shard_share_node_workers(const ShardScanState *state, int nodeno);
extern int	shard_share_node_cpu_factor(const ShardScanState *state, int nodeno);

#endif							/* SHARDFDW_SCAN_SHARE_H */
