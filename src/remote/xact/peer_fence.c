/*
 * peer_fence.c
 *	  The fences of all coordinators of the same nodes.
 *
 *	 the fence of the first one by name --> all others at once
 *
 * Whoever closes fences has the first one's turn (fence.c), so no two of them wait for each other.  Another coordinator keeps
 * its fence closed until a transaction ends, or the connection, or until nothing has come for PEER_IDLE_MS: should this
 * coordinator be lost, the commits of the others go on.
 */
#include "postgres.h"

#include "own_schema.h"
#include "remote/pool/pool.h"
#include "remote/wire/error.h"
#include "remote/wire/wait.h"
#include "remote/xact/fence.h"
#include "remote/xact/peer_fence.h"

#define PEER_IDLE_MS "2000"
#define ASK_TIMEOUT_MS 5000

/* The transaction has a number, so that its end flushes what is written behind the fence.  Waiting for a turn ends as a commit that takes too long does. */
#define CLOSE_SQL \
	"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = local; SET LOCAL client_min_messages = error;" \
	" SET LOCAL idle_in_transaction_session_timeout = " PEER_IDLE_MS "; SET LOCAL lock_timeout = 250; SELECT " SHARD_INTERNAL_SCHEMA ".close_fence()"

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
	ListCell   *lc;

	fence->items = palloc0(Max(list_length(peers), 1) * sizeof(ShardBroadcast));
	fence->nitems = 0;
	fence->tried_here = fence->closed_here = false;
	foreach(lc, peers)
	{
		const ShardFencePeer *peer = lfirst(lc);

		fence->items[fence->nitems++].conn = shard_pool_start_free(shard_pool_get(peer->serverid, peer->userid));
	}
	for (int i = 0; i < fence->nitems; i++)
		shard_connection_finish(fence->items[i].conn);
}

static void
start(ShardBroadcast *items, int nitems, const char *sql)
{
	shard_broadcast_clear(items, nitems);
	for (int i = 0; i < nitems; i++)
	{
		items[i].sql = sql;
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

/* Have all of them closed their fences?  Raises what went wrong with one, but for a lock that was waited for in vain. */
static bool
have_closed(ShardBroadcast *items, int nitems)
{
	bool		closed = true;

	for (int i = 0; i < nitems; i++)
	{
		PGresult   *res = items[i].result;

		if (shard_broadcast_ok(&items[i], NULL) && PQntuples(res) == 1 && PQnfields(res) == 1)
			closed = closed && strcmp(PQgetvalue(res, 0, 0), "t") == 0;
		else if (shard_broadcast_sqlstate(&items[i]) == ERRCODE_LOCK_NOT_AVAILABLE || !items[i].done)
			closed = false;
		else
			report(&items[i]);
	}
	return closed;
}

static bool
close_peers(ShardBroadcast *items, int nitems)
{
	if (nitems == 0)
		return true;
	start(items, nitems, CLOSE_SQL);
	/* not RAISE: that would search for deadlocks, while commits wait */
	return shard_broadcast_wait(items, nitems, 2 * SHARD_FENCE_HOLD_MS, SHARD_BROADCAST_HURRY) && have_closed(items, nitems);
}

static bool
close_here(ShardPeerFence *fence)
{
	fence->closed_here = shard_fence_close();
	fence->tried_here = true;
	return fence->closed_here;
}

bool
shard_peer_fence_close(ShardPeerFence *fence)
{
	int			nfirst = fence->first_is_peer ? 1 : 0;

	if (nfirst == 0)
		return close_here(fence) && close_peers(fence->items, fence->nitems);
	return close_peers(fence->items, nfirst) && close_peers(fence->items + nfirst, fence->nitems - nfirst) && close_here(fence);
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
	fence->tried_here = fence->closed_here = false;
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
	start(fence->items, fence->nitems, sql);
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
