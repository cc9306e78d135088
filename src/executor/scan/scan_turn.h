/*
 * scan_turn.h
 *	  Divides the live shards of a scan into those that are read now and those that are read later.
 */
#ifndef SHARDFDW_SCAN_TURN_H
#define SHARDFDW_SCAN_TURN_H

#include "postgres.h"

#include "executor/scan/scan.h"

/*
 * Sets state->turn to the shards that a run begins with, and state->later to the others. in_turns: divides them as the
 * plan says; otherwise all shards are read now.  Memory: current context, that of the run.
 */
extern void shard_scan_turn_first(ShardScanState *state, bool in_turns);

/* Moves the shards of the next turn from state->later, which is not empty, to state->turn. */
extern void shard_scan_turn_next(ShardScanState *state);

#endif
