/*
 * peer_fence.c
 *	  The fences of all coordinators of the same nodes.
 *
 *	 the turn of the first one by name --> all fences at once
 *
 * Whoever closes fences has the first one's turn (fence.c), so no two of them wait for each other.  Commits wait for the slowest
 * of the coordinators, not for one after the other.  Another coordinator keeps
 * its fence closed until a transaction ends, or the connection, or until nothing has come for PEER_IDLE_MS: should this
 * coordinator be lost, the commits of the others go on.
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

/* The transaction has a number, so that its end flushes what is written behind the fence.  Waiting for a turn ends as a commit that takes too long does. */
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

	fence->items = palloc0(Max(list_length(peers), 1) * sizeof(ShardBroadcast));
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

/* Raises what went wrong with one of them. */
static void
report(ShardBroadcast *item)
{
	PGresult   *res = item->result;

	item->result = NULL;
	shard_error_report(ERROR, res, item->conn, NULL, NULL);
}

/*
 * Waits for an answer of each.  False: not in time, its connection was lost, or it has waited for a lock in vain.  Raises what else
 * went wrong with one.
 */
static bool
collect(ShardBroadcast *items, int nitems)
{
	/* not RAISE: that would search for deadlocks, while commits wait */
	bool		in_time = shard_broadcast_wait(items, nitems, 2 * SHARD_FENCE_HOLD_MS, SHARD_BROADCAST_HURRY);

	for (int i = 0; i < nitems && in_time; i++)
	{
		if (shard_broadcast_ok(&items[i], NULL))
			continue;
		/* one whose connection was lost meanwhile is connected to again */
		if (items[i].done && shard_broadcast_sqlstate(&items[i]) != ERRCODE_LOCK_NOT_AVAILABLE)
			report(&items[i]);
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

		/* one that has not answered ends with its connection */
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
	shard_broadcast_clear(fence->items, fence->nitems);
	for (int i = 0; i < fence->nitems; i++)
		shard_connection_release(fence->items[i].conn);
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
		/* it has opened its fence since nothing came for so long */
		if (shard_broadcast_sqlstate(&fence->items[i]) == ERRCODE_IDLE_IN_TRANSACTION_SESSION_TIMEOUT)
			return false;
		if (!shard_broadcast_ok(&fence->items[i], NULL))
			report(&fence->items[i]);
		if (PQntuples(fence->items[i].result) != 1 || PQgetisnull(fence->items[i].result, 0, 0))
			shard_error_protocol(fence->items[i].conn, NULL, "one row was expected");
	}
	return true;
}
