/*
 * scan_share.c
 *	  How the statements of a shard scan share the connections and cores of nodes.
 *
 *	 shards of a node --> statements --> in parallel, as connections allow --> workers, costs
 *	 nodes of a machine --> all in parallel; if they group, only as many as it has cores
 *
 * A statement that makes many groups needs the caches of a core.  Two of them on one core evict
 * each other's groups at each switch, and take longer than one after the other.  So if a machine
 * has no more cores than nodes, one statement groups the shards of a node one after the other, and
 * no more nodes work at the same time than there are cores.
 *
 * Assumptions: the server option `cores` is right; servers with the same host are on the same
 * machine.
 */
#include "postgres.h"

#include "executor/scan/scan_share.h"
#include "guc.h"
#include "tcop/pquery.h"

/*
 * Streams do not all end at the same time, and part of their time is not CPU time.  In
 * measurements, larger factors gave no better plans.
 */
#define MAX_CPU_FACTOR	4

/* Fewer groups fit into a core's caches in any case. */
#define MANY_GROUPS		1000

/* While the last nodes work, cores are idle.  If taking turns takes longer by this factor, no turns are taken. */
#define MAX_IDLE		1.25

int
shard_share_statements(const ShardScanNode *scan_node)
{
	return (scan_node->nlive + scan_node->per_statement - 1) / scan_node->per_statement;
}

/*
 * Does one statement read the shards of node nodeno, each of which makes many groups, one after the
 * other?  A statement keeps all its groups until it ends.  So the node must not have more shards
 * than streams: then it keeps no more groups than with one statement per shard.
 */
static bool
groups_in_sequence(const ShardScanState *state, int nodeno)
{
	const ShardNode *map_node = &state->maps[0]->nodes[nodeno];

	return state->plan->grouped && state->plan->rows_per_shard >= MANY_GROUPS &&
		state->split == NULL && map_node->nshards <= state->max_streams &&
		map_node->nhosted > 1 && map_node->cores > 0 && map_node->cores <= map_node->nhosted;
}

int
shard_share_per_statement(const ShardScanState *state, int nodeno, int nlive)
{
	if (state->plan->shard_template != NIL)
		return nlive;
	/* SQL has no row locks for a UNION */
	if (state->plan->locks_rows)
		return 1;
	if (state->plan->sort_columns != NIL)
		return (nlive + state->max_streams - 1) / state->max_streams;
	return groups_in_sequence(state, nodeno) ? nlive : 1;
}

/*
 * Merging needs rows of all nodes at the same time.  A statement that writes, or calls a function
 * that may write, must not see its own writes in later turns.  The same is true for a cursor, whose
 * transaction may write between fetches.
 */
bool
shard_share_takes_turns(const ShardScanState *state, bool writes)
{
	double		groups = state->plan->rows_per_shard;

	if (state->plan->shard_template != NIL)
		groups *= (double) bms_num_members(state->live) / state->maps[0]->nnodes;
	return state->plan->grouped && groups >= MANY_GROUPS &&
		state->plan->sort_columns == NIL && !writes && !state->plan->at_once &&
		(ActivePortal == NULL || ActivePortal->name[0] == '\0');
}

/* How many nodes of nodeno's machine work at the same time.  All of them, unless each has one statement. */
static int
nodes_at_once(const ShardScanState *state, int nodeno)
{
	const ShardNode *map_node = &state->maps[0]->nodes[nodeno];
	int			nnodes = Max(map_node->nhosted, 1);
	int			nturns;

	if (!state->takes_turns || map_node->cores <= 0 || nnodes <= map_node->cores ||
		(state->plan->shard_template == NIL && !groups_in_sequence(state, nodeno)))
		return nnodes;
	nturns = (nnodes + map_node->cores - 1) / map_node->cores;
	return nturns * map_node->cores > nnodes * MAX_IDLE ? nnodes : map_node->cores;
}

bool
shard_share_is_busy(const ShardScanState *state, int nodeno)
{
	const ShardNode *map_nodes = state->maps[0]->nodes;
	int			limit = nodes_at_once(state, nodeno);
	int			nbusy = 0;

	if (limit >= map_nodes[nodeno].nhosted)
		return false;
	for (int i = 0; i < state->nsources; i++)
		nbusy += map_nodes[state->sources[i].nodeno].hostno == map_nodes[nodeno].hostno;
	return nbusy >= limit;
}

int
shard_share_next(ShardScanState *state, int nodeno)
{
	const ShardMap *map = state->maps[0];

	for (int i = 0; i < map->nnodes; i++)
	{
		if (!state->nodes[i].waits || map->nodes[i].hostno != map->nodes[nodeno].hostno)
			continue;
		state->nodes[i].waits = false;
		state->nwaiting--;
		return i;
	}
	return nodeno;
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
	factor = in_flight * nodes_at_once(state, nodeno) / map_node->cores;
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
	scan_node.per_statement = Max(shard_share_per_statement(state, nodeno, scan_node.nlive), 1);
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
