/*
 * peer_fence.h
 *	  The fences of all coordinators of the same nodes, see fence.h.
 */
#ifndef SHARDFDW_PEER_FENCE_H
#define SHARDFDW_PEER_FENCE_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "remote/pool/broadcast.h"
#include "utils/timestamp.h"

/* Another coordinator, and whose user mapping closes its fence. */
typedef struct ShardFencePeer
{
	Oid			serverid;
	Oid			userid;
} ShardFencePeer;

/* Returns the other coordinators by name: List of ShardFencePeer.  *first_is_peer: one of them comes before this one. */
typedef List *(*ShardFencePeers) (bool *first_is_peer);

extern void shard_peer_fence_init(ShardFencePeers peers);

typedef struct ShardPeerFence
{
	ShardBroadcast *items;		/* a connection to each of the others, which may be used while the fences are closed */
	int			nitems;
	bool		first_is_peer;
	bool		has_turn;		/* this coordinator is the first one, and has its turn */
	TimestampTz began;			/* when commits had to wait, since closing began */
	bool		tried_here;
	bool		closed_here;
} ShardPeerFence;

/* Connects.  Errors: a coordinator that cannot be reached.  Memory: current context. */
extern void shard_peer_fence_connect(ShardPeerFence *fence);

/*
 * Closes this coordinator's fence and those of the others.  False: a commit took too long, or one of the others to answer, or the
 * user has cancelled.  Either way, and after an error, shard_peer_fence_open() has to be called.
 * Errors: those of shard_fence_close(); one of another coordinator.
 */
extern bool shard_peer_fence_close(ShardPeerFence *fence);

/* Opens what is closed.  The others have been told so when it returns.  Never raises. */
extern void shard_peer_fence_open(ShardPeerFence *fence);

/*
 * Waits until the others have opened theirs, and gives the connections back.  False: one of them had opened its fence before it
 * was told to, as it does when this server stands still; then what was asked meanwhile is not of one moment.
 */
extern bool shard_peer_fence_end(ShardPeerFence *fence);

/*
 * Asks all of the others while their fences are closed, for one row.  False: one has not answered within
 * SHARD_FENCE_HOLD_MS, or has not waited for the question.  Answers are in items until the fences are opened.  Errors: one of another coordinator.
 */
extern bool shard_peer_fence_ask(ShardPeerFence *fence, const char *sql);

#endif
