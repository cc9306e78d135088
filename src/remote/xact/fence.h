/*
 * fence.h
 *	  The lock that keeps commits and snapshots over all nodes (cuts) apart.
 */
#ifndef SHARDFDW_FENCE_H
#define SHARDFDW_FENCE_H

#include "postgres.h"

/*
 * How long commits may wait for one cut, in ms: for those under way to end, then for
 * nodes to take their snapshots.  A commit on one node may meet two cuts, so it waits for one
 * second at the most.
 */
#define SHARD_FENCE_DRAIN_MS 250
#define SHARD_FENCE_HOLD_MS 250

/*
 * Before the first of several nodes is told to commit: nobody takes a cut until
 * shard_fence_let_go(), or the end of the local transaction.  Whoever holds lets
 * go after SHARD_FENCE_HOLD_MS of waiting for nodes.  May wait as long as one
 * cut; answers interrupts.
 */
extern void shard_fence_hold(void);

/* If it holds it.  Allocates nothing, never raises. */
extern void shard_fence_let_go(void);

/*
 * Before a commit on one node is sent: waits for a cut that is being taken, so that
 * what is committed next is not in it.  Holds nothing afterwards; answers interrupts.
 */
extern void shard_fence_pass(void);

/*
 * The same when the node has committed, before the client is told: a cut without
 * this commit has nothing that the client sends afterwards.  Never raises; does not
 * answer interrupts.
 */
extern void shard_fence_pass_noerror(void);

/*
 * Waits for other cuts, and keeps further ones waiting, until shard_fence_give_turn() or the end of the transaction.  Commits go on.
 * Answers interrupts.
 */
extern void shard_fence_take_turn(void);
extern void shard_fence_give_turn(void);

/*
 * Before a cut.  True: nobody passes the fence and nobody holds it until
 * shard_fence_open().  False: a commit took too long, or the user has cancelled; the caller
 * has to open the fence all the same.  Takes the turn, or has it already; answers interrupts until it has
 * closed the fence.
 */
extern bool shard_fence_close(void);

/* closed: what shard_fence_close() has returned. */
extern void shard_fence_open(bool closed);

/*
 * For a cut of another coordinator: as shard_fence_close(), but the end of the transaction opens the fence, and
 * when it returns false it is open.
 */
extern bool shard_fence_close_until_end(void);

#endif
