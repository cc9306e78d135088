/*
 * scan_turn.h
 *	  Which of its live shards a scan reads now, and which later.
 */
#ifndef SHARDFDW_SCAN_TURN_H
#define SHARDFDW_SCAN_TURN_H

#include "postgres.h"

#include "executor/scan/scan.h"

/*
 * Sets state->turn to the shards that a run begins with, and state->later to the others. in_turns:
 * as the plan says; else all of them together.  Memory: current context, that of the run.
 */
extern void shard_scan_turn_first(ShardScanState *state, bool in_turns);

/* Moves the shards of the next turn from state->later, which is not empty, to state->turn. */
extern void shard_scan_turn_next(ShardScanState *state);

#endif
