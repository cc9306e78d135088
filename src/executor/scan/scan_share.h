/*
 * scan_share.h
 *	  Distributes the connections and cores of nodes over the statements of a shard scan.
 */
#ifndef SHARDFDW_SCAN_SHARE_H
#define SHARDFDW_SCAN_SHARE_H

#include "postgres.h"

#include "executor/scan/scan.h"

/*
 * Number of shards that one statement of a node reads, unless something else requires all nlive
 * shards of the node in one statement.
 */
extern int	shard_share_per_statement(const ShardScanState *state, int nlive);

/* Number of statements that read a node's live shards. */
extern int	shard_share_statements(const ShardScanNode *scan_node);

/* Number of parallel workers that one statement of node nodeno may use; -1: the node's own setting. */
extern int	shard_share_workers(const ShardScanState *state, int nodeno, const ShardScanNode *scan_node);

/* Number of statements that share a core of node nodeno, for ShardStreamSpec.cpu_factor. */
extern int	shard_share_cpu_factor(const ShardScanState *state, int nodeno, const ShardScanNode *scan_node);

/* The same, before any statement of the node is opened. */
extern int	shard_share_node_workers(const ShardScanState *state, int nodeno);
extern int	shard_share_node_cpu_factor(const ShardScanState *state, int nodeno);

#endif							/* SHARDFDW_SCAN_SHARE_H */
