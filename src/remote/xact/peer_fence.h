/*
 * peer_fence.h
 *	  The snapshot barriers (fence.h) of all coordinators that share the same nodes.
 */
#ifndef SHARDFDW_PEER_FENCE_H
#define SHARDFDW_PEER_FENCE_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "remote/wire/broadcast.h"
#include "utils/timestamp.h"

/* Another coordinator, and the user whose mapping is used to close its barrier. */
typedef struct ShardFencePeer
{
	Oid			serverid;
	Oid			userid;
} ShardFencePeer;

/*
 * Returns the other coordinators, ordered by name: List of ShardFencePeer. *first_is_peer: the
 * first of all coordinators is one of them, not this one.
 */
typedef List *(*ShardFencePeers) (bool *first_is_peer);

extern void shard_peer_fence_init(ShardFencePeers peers);

typedef struct ShardPeerFence
{
	ShardBroadcast *items;		/* a connection to each other coordinator, usable while the barriers are closed */
	int			nitems;
	bool		first_is_peer;
	bool		has_turn;		/* this coordinator is the first one, and this session holds its turn lock */
	TimestampTz began;			/* since when commits may have to wait */
	bool		tried_here;
	bool		closed_here;
} ShardPeerFence;

/* Connects to the other coordinators.  Errors: one of them cannot be reached.  Memory: current context. */
extern void shard_peer_fence_connect(ShardPeerFence *fence);

/*
 * Closes the barriers of this coordinator and of all others.  False: a commit or another
 * coordinator took too long, or the user has cancelled.  In all cases, also after an error, the
 * caller must call shard_peer_fence_open().  Errors: those of shard_fence_close(), and those of
 * another coordinator.
 */
extern bool shard_peer_fence_close(ShardPeerFence *fence);

/*
 * Opens the barriers that are closed.  On return the command has been sent to the other
 * coordinators.  Never raises.
 */
extern void shard_peer_fence_open(ShardPeerFence *fence);

/*
 * Waits until the other coordinators have opened their barriers, and releases the connections.  False: another
 * coordinator opened its barrier before this session sent the command, because this server had stalled.  Then the
 * answers of the nodes do not belong to one moment.
 */
extern bool shard_peer_fence_end(ShardPeerFence *fence);

/*
 * Runs sql, which returns one row, on all other coordinators while their barriers are closed.
 * False: one of them did not answer within SHARD_FENCE_HOLD_MS, or had opened its barrier before.
 * The answers stay in items until the barriers are opened.  Errors: those of another coordinator.
 */
extern bool shard_peer_fence_ask(ShardPeerFence *fence, const char *sql);

#endif
