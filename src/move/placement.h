/*
 * placement.h
 *	  Changes the servers of shards in the catalogs of this and the other coordinators.
 */
#ifndef SHARDFDW_PLACEMENT_H
#define SHARDFDW_PLACEMENT_H

#include "postgres.h"

#include "move/job/move.h"

/*
 * Opens the transactions on the other coordinators that the other functions use, before other sessions wait for locks.
 * A coordinator that does not answer would keep them waiting.
 */
extern void shard_placement_open_peers(const ShardMove *move);

/*
 * Locks the shards on the other coordinators, in this transaction.  If they are replaced, locks their tables too.
 * Coordinators are locked in the order of their names.  So there are two calls, before and after this coordinator
 * takes its locks.  Readers on other coordinators wait too, so that they see writes made here after the switch.
 * Errors: lock_not_available after timeout_ms; object_not_in_prerequisite_state if a shard is elsewhere there.
 */
extern void shard_placement_lock_peers(ShardMove *move, int timeout_ms, bool before);

/* Sets the server of the shards, which are locked, to the target in the catalogs of all coordinators. */
extern void shard_placement_switch(ShardMove *move);

/*
 * Waits until all transactions of the other coordinators have ended that began before the switch was known there.
 * Waits for a coordinator that does not answer until it is removed.
 */
extern void shard_placement_wait_for_peers(const ShardMove *move);

#endif
