/*
 * fence.h
 *	  The snapshot barrier: locks that keep commits apart from snapshots over all nodes (cluster
 *	  snapshots).  See fence.c.
 */
#ifndef SHARDFDW_FENCE_H
#define SHARDFDW_FENCE_H

#include "postgres.h"

/*
 * How long commits may wait for one cluster snapshot, in ms: DRAIN until running commits have
 * ended, then HOLD until the nodes have taken their snapshots.  A commit on one node may wait for
 * two cluster snapshots, so it waits for one second at most.
 */
#define SHARD_FENCE_DRAIN_MS 250
#define SHARD_FENCE_HOLD_MS 250

/*
 * Called before the first of several nodes gets its COMMIT.  No session takes a cluster snapshot
 * until shard_fence_let_go() or the end of the local transaction.  The caller must let go after it
 * has waited for nodes for SHARD_FENCE_HOLD_MS.  May wait for one cluster snapshot.  Can be
 * interrupted.
 */
extern void shard_fence_hold(void);

/* Releases the barrier if this session holds it.  Allocates nothing, never raises. */
extern void shard_fence_let_go(void);

/*
 * Called before the COMMIT on one node is sent.  Waits for a cluster snapshot that is being taken,
 * so that the snapshot does not contain this commit.  Holds nothing afterwards.  Can be
 * interrupted.
 */
extern void shard_fence_pass(void);

/*
 * Called when the node has committed, before the client is told.  Thus a cluster snapshot without
 * this commit contains nothing that the client sends afterwards.  Never raises.  Cannot be
 * interrupted.
 */
extern void shard_fence_pass_noerror(void);

/*
 * take: waits until other sessions have taken their cluster snapshots.  Further sessions wait until
 * shard_fence_give_turn() or the end of the transaction.  Commits are not affected.  Can be
 * interrupted.
 */
extern void shard_fence_take_turn(void);
extern void shard_fence_give_turn(void);

/*
 * Called before a cluster snapshot.  Takes the turn, unless this session has it already.
 *
 * True: no session passes or holds the barrier until shard_fence_open().  False: a commit took too
 * long, or the user has cancelled.  The caller must call shard_fence_open() in both cases.  Can be
 * interrupted until the barrier is closed.
 */
extern bool shard_fence_close(void);

/* closed: the result of shard_fence_close(). */
extern void shard_fence_open(bool closed);

/*
 * For a cluster snapshot of another coordinator.  Like shard_fence_close(), but the end of the
 * transaction opens the barrier.  If the result is false, the barrier is open.
 */
extern bool shard_fence_close_until_end(void);

#endif
