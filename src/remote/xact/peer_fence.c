/*
 * peer_fence.c
 *	  The snapshot barriers of all coordinators that share the same nodes.
 *
 *	 turn lock of the first coordinator by name --> close all barriers in parallel
 *
 * A session that closes barriers first takes the turn lock of the first coordinator (fence.c).  So
 * no two sessions wait for each other, and commits wait only for the slowest coordinator, not for
 * one after the other.
 *
 * Another coordinator keeps its barrier closed until the transaction or the connection ends, or
 * until no message has arrived for PEER_IDLE_MS.  So if this coordinator is lost, commits on the
 * others go on.
 */
#include "postgres.h"

#include "compat.h"
#include "own_schema.h"
#include "remote/pool/pool.h"
#include "remote/wire/error.h"
#include "remote/xact/fence.h"
#include "remote/xact/peer_fence.h"

#define PEER_IDLE_MS "2000"
#define ASK_TIMEOUT_MS 5000

/* The lock_timeout makes a wait for the turn lock end like a wait for a slow commit. */
#define BEGIN_SQL \
	"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = local; SET LOCAL client_min_messages = error;" \
	" SET LOCAL idle_in_transaction_session_timeout = " PEER_IDLE_MS "; SET LOCAL lock_timeout = 250"
#define TURN_SQL BEGIN_SQL "; SELECT " SHARD_INTERNAL_SCHEMA ".take_fence_turn()"
#define CLOSE_SQL "SELECT " SHARD_INTERNAL_SCHEMA ".close_fence()"

static ShardFencePeers fence_peers = NULL;

void
shard_peer_fence_init(ShardFencePeers peers)
{
	fence_peers = peers;
}

void
shard_peer_fence_connect(ShardPeerFence *fence)
{
	List	   *peers = fence_peers(&fence->first_is_peer);

	fence->items = shard_broadcast_create(list_length(peers));
	fence->nitems = 0;
	fence->tried_here = fence->closed_here = fence->has_turn = false;
	foreach_ptr(const ShardFencePeer, peer, peers)
		fence->items[fence->nitems++].conn = shard_pool_start_free(shard_pool_get(peer->serverid, peer->userid));
	for (int i = 0; i < fence->nitems; i++)
		shard_connection_finish(fence->items[i].conn);
}

static void
start(ShardBroadcast *items, int nitems, const char *first_sql, const char *sql)
{
	shard_broadcast_clear(items, nitems);
	for (int i = 0; i < nitems; i++)
	{
		items[i].sql = i == 0 ? first_sql : sql;
		items[i].has_rows = true;
	}
	shard_broadcast_start(items, nitems);
}

/*
 * Waits for one answer of each.  False: an answer did not arrive in time, its connection was lost,
 * or its lock_timeout expired.  Raises all other errors.
 */
static bool
collect(ShardBroadcast *items, int nitems)
{
	/* not RAISE: it would search for deadlocks while commits wait */
	bool		in_time = shard_broadcast_wait(items, nitems, 2 * SHARD_FENCE_HOLD_MS, SHARD_BROADCAST_HURRY);

	for (int i = 0; i < nitems && in_time; i++)
	{
		if (shard_broadcast_ok(&items[i], NULL))
			continue;
		/* if the connection was lost, the caller tries again over a new one */
		if (items[i].done && shard_broadcast_sqlstate(&items[i]) != ERRCODE_LOCK_NOT_AVAILABLE)
			(void) shard_broadcast_check(&items[i], NULL, NULL);
		in_time = false;
	}
	return in_time;
}

/* Has each of them closed its fence? */
static bool
have_closed(const ShardBroadcast *items, int nitems)
{
	for (int i = 0; i < nitems; i++)
		if (PQntuples(items[i].result) != 1 || PQnfields(items[i].result) != 1 || strcmp(PQgetvalue(items[i].result, 0, 0), "t") != 0)
			return false;
	return true;
}

bool
shard_peer_fence_close(ShardPeerFence *fence)
{
	if (!fence->first_is_peer)
	{
		shard_fence_take_turn();
		fence->has_turn = true;
	}
	start(fence->items, fence->nitems, fence->first_is_peer ? TURN_SQL : BEGIN_SQL, BEGIN_SQL);
	if (!collect(fence->items, fence->nitems))
		return false;
	fence->began = GetCurrentTimestamp();
	start(fence->items, fence->nitems, CLOSE_SQL, CLOSE_SQL);
	fence->closed_here = shard_fence_close();
	fence->tried_here = true;
	return collect(fence->items, fence->nitems) && have_closed(fence->items, fence->nitems) && fence->closed_here;
}

void
shard_peer_fence_open(ShardPeerFence *fence)
{
	for (int i = 0; i < fence->nitems; i++)
	{
		ShardBroadcast *item = &fence->items[i];
		PGTransactionStatusType status = PQtransactionStatus(item->conn->pg);

		/* an unfinished command is ended by closing its connection */
		if (status == PQTRANS_ACTIVE)
			item->conn->state = SHARD_CONN_BROKEN;
		shard_broadcast_clear(item, 1);
		item->sql = status == PQTRANS_INTRANS || status == PQTRANS_INERROR ? "COMMIT" : NULL;
		item->has_rows = false;
		item->sent = item->done = false;
	}
	shard_broadcast_start(fence->items, fence->nitems);
	if (fence->tried_here)
		shard_fence_open(fence->closed_here);
	if (fence->has_turn)
		shard_fence_give_turn();
	fence->tried_here = fence->closed_here = fence->has_turn = false;
}

bool
shard_peer_fence_end(ShardPeerFence *fence)
{
	bool		kept = true;

	shard_broadcast_finish(fence->items, fence->nitems, ASK_TIMEOUT_MS, SHARD_BROADCAST_HURRY);
	for (int i = 0; i < fence->nitems; i++)
		kept = kept && fence->items[i].sql != NULL && shard_broadcast_ok(&fence->items[i], NULL);
	for (int i = 0; i < fence->nitems; i++)
		shard_connection_release(fence->items[i].conn);
	shard_broadcast_free(fence->items);
	fence->nitems = 0;
	return kept;
}

bool
shard_peer_fence_ask(ShardPeerFence *fence, const char *sql)
{
	start(fence->items, fence->nitems, sql, sql);
	if (!shard_broadcast_wait(fence->items, fence->nitems, SHARD_FENCE_HOLD_MS, SHARD_BROADCAST_HURRY))
		return false;
	for (int i = 0; i < fence->nitems; i++)
	{
		/* it has opened its barrier, since no message arrived for PEER_IDLE_MS */
		if (shard_broadcast_sqlstate(&fence->items[i]) == ERRCODE_IDLE_IN_TRANSACTION_SESSION_TIMEOUT)
			return false;
		(void) shard_broadcast_check(&fence->items[i], NULL, NULL);
		if (PQntuples(fence->items[i].result) != 1 || PQgetisnull(fence->items[i].result, 0, 0))
			shard_error_protocol(fence->items[i].conn, NULL, "one row was expected");
	}
	return true;
}
