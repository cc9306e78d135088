/*
 * placement.h
 *	  Where the catalogs say that shards are, here and on the other coordinators.
 */
#ifndef SHARDFDW_PLACEMENT_H
#define SHARDFDW_PLACEMENT_H

#include "postgres.h"

#include "move/job/move.h"

/*
 * Locks the shards on the other coordinators, in this transaction; those that are replaced with the tables that they
 * belong to.  Coordinators take locks in the order of their names, so there are two calls: before this one has locked its
 * own, and after that.  Readers there wait, too: they are to see what writers here do after the switch.  Errors:
 * lock_not_available after timeout_ms, object_not_in_prerequisite_state when a shard is elsewhere there.
 */
extern void shard_placement_lock_peers(const ShardMove *move, int timeout_ms, bool before);

/* Has the catalogs of all coordinators say that the shards, which are locked, are on the target. */
extern void shard_placement_switch(const ShardMove *move);

/*
 * Waits until no transaction of the other coordinators is left that had begun before they knew of the switch.  One that
 * does not answer is waited for, until it is removed.
 */
extern void shard_placement_wait_for_peers(const ShardMove *move);

#endif
