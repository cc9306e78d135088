/*
 * scan_share.c
 *	  Distributes the connections and cores of nodes over the statements of a shard scan.
 *
 *	 shards of a node --> statements --> in parallel, as connections allow --> workers, costs
 *
 * Assumptions: the server option `cores` is right; servers with the same host are on the same machine.
 */
#include "postgres.h"

#include "executor/scan/scan_share.h"
#include "guc.h"

/*
 * Streams do not all end at the same time, and part of their time is not CPU time.  In
 * measurements, larger factors gave no better plans.
 */
#define MAX_CPU_FACTOR	4

int
shard_share_statements(const ShardScanNode *scan_node)
{
	return (scan_node->nlive + scan_node->per_statement - 1) / scan_node->per_statement;
}

int
shard_share_per_statement(const ShardScanState *state, int nlive)
{
	if (state->plan->shard_template != NIL)
		return nlive;
	/* SQL has no row locks for a UNION */
	if (state->plan->locks_rows)
		return 1;
	if (state->plan->sort_columns != NIL)
		return (nlive + state->max_streams - 1) / state->max_streams;
	return 1;
}

/*
 * Parallelism comes from shards first.  Workers only use the cores that remain idle.
 */
int
shard_share_workers(const ShardScanState *state, int nodeno, const ShardScanNode *scan_node)
{
	const ShardNode *map_node = &state->maps[0]->nodes[nodeno];
	int			in_flight = Min(shard_share_statements(scan_node), shard_guc_max_connections_per_node);

	/* servers of one machine, each of which reads all of its shards in one statement */
	if (scan_node->per_statement > 1 && map_node->nhosted > 1 && map_node->cores > 0)
		return Min(Max(map_node->cores / (map_node->nhosted * in_flight) - 1, 0), 8);
	if (in_flight <= 1)
		return -1;
	if (map_node->cores <= 0)
		return 0;
	return Min(Max(map_node->cores / in_flight - 1, 0), 8);
}

/*
 * How many streams share a core.  Computation takes that many times longer, but reading pages does
 * not: they come from memory, or from disks that serve several streams at a time.  The planner of a
 * node does not know of the other streams.  With the factor it prefers a few index look-ups to
 * reading a whole shard. 0: use the node's own settings.
 */
int
shard_share_cpu_factor(const ShardScanState *state, int nodeno, const ShardScanNode *scan_node)
{
	const ShardNode *map_node = &state->maps[0]->nodes[nodeno];
	int			in_flight = Min(shard_share_statements(scan_node), shard_guc_max_connections_per_node);
	int			factor;

	if (!shard_guc_enable_cpu_factor || map_node->cores <= 0)
		return 0;
	factor = in_flight * map_node->nhosted / map_node->cores;
	return factor > 1 ? Min(factor, MAX_CPU_FACTOR) : 0;
}

/* Describes a node before any of its statements is opened. */
static ShardScanNode
describe_node(const ShardScanState *state, int nodeno)
{
	const ShardMap *map = state->maps[0];
	ShardScanNode scan_node = {0};
	int			shardno = -1;

	while ((shardno = bms_next_member(state->live, shardno)) >= 0)
		scan_node.nlive += map->shards[shardno].nodeno == nodeno;
	scan_node.per_statement = Max(shard_share_per_statement(state, scan_node.nlive), 1);
	return scan_node;
}

int
shard_share_node_workers(const ShardScanState *state, int nodeno)
{
	ShardScanNode scan_node = describe_node(state, nodeno);

	return shard_share_workers(state, nodeno, &scan_node);
}

int
shard_share_node_cpu_factor(const ShardScanState *state, int nodeno)
{
	ShardScanNode scan_node = describe_node(state, nodeno);

	return shard_share_cpu_factor(state, nodeno, &scan_node);
}
