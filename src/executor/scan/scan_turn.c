/*
 * scan_turn.c
 *	  Divides the live shards of a scan into those that are read now and those that are read later.
 *
 *	   rounds	of a key join, which reads some of the shards first
 *	   turns	of a scan in the order of the partitions of a table with two levels: the first turn
 *			has as many as are likely to have all needed rows, each further one twice as many
 */
#include "postgres.h"

#include "executor/scan/scan.h"
#include "executor/scan/scan_turn.h"
#include "utils/memutils.h"

/*
 * The first round of a key join reads one of this many shards of a node, which finds most keys that
 * have several rows.
 */
#define FIRST_PART	4

const Bitmapset *
shard_scan_first_shards(ForeignScanState *node)
{
	ShardScanState *state = node->fdw_state;
	const ShardMap *map = state->maps[0];
	MemoryContext oldcxt;
	int		   *nshards;		/* per node: number of planned shards, then of those left to choose */
	int			shardno = -1;

	if (state->first_shards != NULL)
		return state->first_shards;
	oldcxt = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);
	nshards = palloc0(sizeof(int) * Max(map->nnodes, 1));
	while ((shardno = bms_next_member(state->planned, shardno)) >= 0)
		nshards[map->shards[shardno].nodeno]++;
	for (int i = 0; i < map->nnodes; i++)
		nshards[i] = (nshards[i] + FIRST_PART - 1) / FIRST_PART;
	shardno = -1;
	while ((shardno = bms_next_member(state->planned, shardno)) >= 0)
	{
		if (nshards[map->shards[shardno].nodeno]-- > 0)
			state->first_shards = bms_add_member(state->first_shards, shardno);
	}
	if (bms_equal(state->first_shards, state->planned))
		state->first_shards = NULL;
	pfree(nshards);
	MemoryContextSwitchTo(oldcxt);
	return state->first_shards;
}

/* Moves the shards of the next nparts partitions from state->later to state->turn. */
static void
take_parts(ShardScanState *state, int nparts)
{
	const ShardMap *map = state->maps[0];

	state->turn = NULL;
	state->turn_parts = nparts;
	for (int i = 0; i < nparts && !bms_is_empty(state->later); i++)
	{
		int			shardno = state->plan->parts_descending ? bms_prev_member(state->later, -1) :
			bms_next_member(state->later, -1);
		const ShardPart *part = &map->parts[shard_map_part_of(map, shardno)];
		Bitmapset  *all = bms_add_range(NULL, part->first, part->first + part->nshards - 1);

		state->turn = bms_join(state->turn, bms_intersect(state->later, all));
		state->later = bms_del_members(state->later, all);
	}
}

void
shard_scan_turn_first(ShardScanState *state, bool in_turns)
{
	state->turn = state->live;
	state->later = NULL;
	if (in_turns)
	{
		state->later = bms_copy(state->live);
		take_parts(state, state->plan->first_parts);
	}
}

void
shard_scan_turn_next(ShardScanState *state)
{
	take_parts(state, state->turn_parts * 2);
}
