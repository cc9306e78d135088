/*
 * pool.c
 *	  The connections of this backend, per node and user.
 *
 * A pool exists as long as the backend.  Its key contains the user, so that SET ROLE and views of
 * other owners never get a connection made with another user's mapping.  A connection leaves the
 * pool
 *
 *	- if it is dead or broken: immediately outside a remote transaction, otherwise at the end of the
 *	  transaction, which must detect the loss;
 *	- if options of its server or mapping have changed: as soon as it is idle;
 *	- if its server does not want connections to be kept: at the end of the transaction;
 *	- if other backends wait for one, see quota.c.
 *
 * An idle connection is checked before it is handed out (the node may have been restarted), which
 * costs one poll().
 *
 * A statement that needs a new connection waits for it.  If a new connection would only make it
 * faster, and connections are scarce, it does not even request one.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "fault.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "hash_table.h"
#include "remote/wire/broadcast.h"
#include "remote/pool/pool.h"
#include "remote/pool/snapshot.h"
#include "remote/wire/quota.h"
#include "remote/wire/wait.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "version.h"

#define FULL_MS 10000			/* how long a node that refused a connection is treated as full */

static HTAB *pools = NULL;
static dlist_head all_pools = DLIST_STATIC_INIT(all_pools);	/* the same pools, as a list */
static int	nconnections = 0;	/* in all pools */

/* Holder of connections from shard_pool_acquire_free. */
static const ShardConnHolder free_holder = {NULL, NULL, NULL};

/*
 * A worker of a parallel query must not read from nodes: it does not see what its leader has
 * written there, and cannot use the leader's snapshots.  The planner never creates such a plan, but
 * a function may be declared parallel safe by mistake.
 */
static void
refuse_worker(void)
{
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot connect to nodes from a parallel worker"),
				 errhint("Declare functions that use tables of nodes as PARALLEL RESTRICTED, or PARALLEL UNSAFE if they write.")));
}

ShardPool *
shard_pool_get_standby(Oid serverid, Oid userid, uint32 standby)
{
	uint32		key[3] = {serverid, userid, standby};
	ShardPool  *pool;
	bool		found;

	refuse_worker();
	if (!pools)
		pools = shard_hash_table_create("shardfdw pools", 16, sizeof(key), sizeof(ShardPool), TopMemoryContext);
	StaticAssertStmt(offsetof(ShardPool, key_standby) == 2 * sizeof(Oid), "key is two OIDs and the standby's number");
	shard_quota_begin_use();
	/* finding an entry needs no memory, which the end of a transaction must not allocate */
	pool = hash_search(pools, key, HASH_FIND, &found);
	if (!found)
		pool = hash_search(pools, key, HASH_ENTER, NULL);
	if (!found)
	{
		dlist_push_tail(&all_pools, &pool->link);
		dlist_init(&pool->conns);
		dlist_init(&pool->queue);
		pool->nconns = 0;
		pool->full_until = 0;
		pool->writer = NULL;
		pool->asked_at = pool->retry_at = 0;
		pool->first_standby = MyProcPid;	/* distributes sessions over the standbys */
		pool->placed = 0;
		pool->proved_at = 0;
		pool->look_again = false;
	}
	return pool;
}

ShardPool *
shard_pool_get(Oid serverid, Oid userid)
{
	return shard_pool_get_standby(serverid, userid, 0);
}

ShardPool *
shard_pool_of(const ShardConn *conn)
{
	return shard_pool_get_standby(conn->serverid, conn->userid, conn->standby);
}

/*
 * An address may point to several servers, and a server that has crashed restarts at an earlier
 * position.  The start time of the postmaster distinguishes servers.  After a crash without a new
 * postmaster, earlier connections are dead, and later ones show the position at which it restarted.
 */
bool
shard_pool_is_proved(const ShardPool *pool, const ShardConn *conn)
{
	return pool->proved_at != 0 && pool->server.system_identifier == conn->server.system_identifier &&
		strcmp(NameStr(pool->server.started), NameStr(conn->server.started)) == 0 &&
		(conn->replayed_at <= pool->proved_at || conn->replayed >= pool->replayed);
}

/* Closes conn in any state. */
static void
destroy(ShardConn *conn)
{
	ShardPool  *pool = shard_pool_of(conn);

	dlist_delete(&conn->link);
	pool->nconns--;
	nconnections--;
	if (pool->writer == conn)
		pool->writer = NULL;
	shard_connection_close(conn);
}

void
shard_pool_discard(ShardConn *conn)
{
	conn->state = SHARD_CONN_BROKEN;
	if (conn->holder)
		shard_connection_release(conn);
	if (!shard_connection_in_xact(conn))
		destroy(conn);
}

/* Does this transaction write with conn? */
static bool
is_writer(const ShardConn *conn, const ShardPool *pool)
{
	return conn == pool->writer || conn->is_extra;
}

/* Is conn unused, by holders and by remote transactions? */
static bool
is_idle(const ShardConn *conn, const ShardPool *pool)
{
	return !conn->holder && !shard_connection_in_xact(conn) && !is_writer(conn, pool);
}

void
shard_pool_drop_idle(ShardPool *pool)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pool->conns)
	{
		ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

		if (is_idle(conn, pool) && conn->state != SHARD_CONN_CONNECTING)
			destroy(conn);
	}
}

/*
 * Closes idle connections of pool that can no longer be used.  If a connection is still being
 * opened for a statement that has ended, it is kept for its next user.
 */
static void
sweep(ShardPool *pool)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pool->conns)
	{
		ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

		/*
		 * A writer that has not written yet is kept, since a command, which is not a holder, may be
		 * opening it.  An extra writer is kept, too: if it were missing, the transaction would
		 * count it as lost.
		 */
		if (!is_idle(conn, pool))
			continue;
		if (conn->invalidated || conn->state == SHARD_CONN_BROKEN)
			destroy(conn);
		else
			shard_connection_pause(conn);
	}
}

/* Closes idle connections for which other backends wait. */
static void
give_idle(void)
{
	dlist_iter	pool_iter;

	dlist_foreach(pool_iter, &all_pools)
	{
		ShardPool  *pool = dlist_container(ShardPool, link, pool_iter.cur);
		int			nkept = 0;
		dlist_mutable_iter iter;

		dlist_foreach_modify(iter, &pool->conns)
		{
			ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

			if (is_idle(conn, pool) && nkept >= shard_quota_idle_allowed(conn->quota_node))
				destroy(conn);
			else
				nkept++;
		}
	}
}

/* Ensures that a file handle is available for one more connection, if closing an idle one can achieve that. */
static void
make_file_handle(void)
{
	dlist_iter	pool_iter;

	if (shard_wait_spares_handle())
		return;
	dlist_foreach(pool_iter, &all_pools)
	{
		ShardPool  *pool = dlist_container(ShardPool, link, pool_iter.cur);

		shard_pool_foreach(conn, pool)
		{
			if (is_idle(conn, pool))
			{
				destroy(conn);
				return;
			}
		}
	}
}

static void
note_connection(ShardConn *conn, void *arg)
{
	if (conn->state != SHARD_CONN_BROKEN)
		*(bool *) arg = true;
}

/*
 * How urgently this backend needs a connection without which it cannot continue.  It counts as a
 * holder even if its connections are idle: a backend that has connections to one node gets those to
 * other nodes first.  Otherwise each of two nodes could serve backends that wait for the other
 * node.
 */
static ShardQuotaNeed
how_needed(void)
{
	bool		holds = TransactionIdIsValid(GetTopTransactionIdIfAny());

	shard_pool_each(note_connection, &holds);
	return holds ? SHARD_QUOTA_HOLDER : SHARD_QUOTA_FRESH;
}

/* Begins to open a connection that was taken from node's quota. */
static ShardConn *
start_counted(const ShardPool *pool, int node)
{
	ShardConn  *volatile conn = NULL;

	PG_TRY();
	{
		conn = shard_connection_start(pool->key_serverid, pool->key_userid, pool->key_standby, node);
	}
	PG_CATCH();
	{
		shard_quota_give(node);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return conn;
}

/*
 * Begins to open a connection.  EXTRA, SPARE: NULL if none is available.  Otherwise may wait for
 * one, for timeout_ms; 0: without a limit.
 */
static ShardConn *
open_needed(ShardPool *pool, ShardQuotaNeed need, int timeout_ms)
{
	ShardConn  *conn;
	char	   *address;
	int			node = SHARD_QUOTA_NONE;

	if (need == SHARD_QUOTA_EXTRA && pool->full_until != 0 && GetCurrentTimestamp() < pool->full_until)
		return NULL;
	if (need == SHARD_QUOTA_EXTRA && !shard_wait_spares_handle())
		return NULL;
	make_file_handle();
	shard_broadcast_reserve(nconnections + 1);
	address = shard_connection_address(pool->key_serverid, pool->key_standby);
	if (address && !shard_quota_take(address, GetForeignServer(pool->key_serverid)->servername,
									 need, timeout_ms, give_idle, &node))
		return NULL;
	conn = start_counted(pool, node);
	dlist_push_tail(&pool->conns, &conn->link);
	pool->nconns++;
	nconnections++;
	return conn;
}

/* extra: the statement would only be faster with it; then NULL if none is available. */
static ShardConn *
open_connection(ShardPool *pool, bool extra)
{
	return open_needed(pool, extra ? SHARD_QUOTA_EXTRA : how_needed(), shard_guc_connection_wait_timeout_ms);
}

/*
 * How suitable a free connection is for a reader of snapshot: 0 not at all, 1 if there is no other,
 * 2 will soon be ready, 3 ready, 4 already in the read transaction of snapshot.  A connection that
 * has exported the snapshot of another statement is not taken, since that statement still needs it.
 */
static int
reader_rank(const ShardPool *pool, const ShardConn *conn, const struct ShardSnapshot *snapshot)
{
	if (conn->holder || conn->state == SHARD_CONN_BROKEN || is_writer(conn, pool))
		return 0;
	if (pool->proved_at != 0 && conn->state == SHARD_CONN_READY && !shard_connection_in_xact(conn) &&
		!shard_pool_is_proved(pool, conn))
		return 0;
	if (shard_connection_in_xact(conn))
	{
		if (shard_connection_is_aborted(conn))
			return 0;
		if (conn->xact.snapshot && conn->xact.snapshot == snapshot)
			return 4;
		return shard_snapshot_is_exporter(conn) ? 0 : 1;
	}
	if (conn->state == SHARD_CONN_CONNECTING || conn->end_pending)
		return 2;
	return 3;
}

/* Returns the best free connection for a reader, with a rank of at least min, after checking that it is alive. */
static ShardConn *
find_free(ShardPool *pool, const struct ShardSnapshot *snapshot, int min)
{
	for (;;)
	{
		ShardConn  *best = NULL;
		int			best_rank = min - 1;

		shard_pool_foreach(conn, pool)
		{
			int			rank = reader_rank(pool, conn, snapshot);

			if (rank > best_rank)
			{
				best = conn;
				best_rank = rank;
			}
		}
		if (!best || best->state == SHARD_CONN_CONNECTING || shard_connection_usable(best))
			return best;
		shard_pool_discard(best);	/* broken now, so it is not found again */
	}
}

/*
 * Number of connections of pool that count for the limit.  Those that only wait for the end of the
 * transaction do not.
 */
static int
count_live(const ShardPool *pool)
{
	int			n = 0;

	shard_pool_foreach(conn, pool)
	{
		if (conn->state != SHARD_CONN_BROKEN && !shard_connection_is_aborted(conn))
			n++;
	}
	return n;
}

/*
 * Maximum number of connections of pool.  A pooler has a limited number of sessions on the node.
 * If this backend had several transactions there, each would wait for a session while it kept
 * another one.
 */
static int
cap_of(const ShardPool *pool)
{
	shard_pool_foreach(conn, pool)
		if (conn->stateless)
			return 1;
	return shard_guc_max_connections_per_node;
}

/* Is there a connection without a holder that is kept for the snapshot that it has exported? */
static bool
has_idle_exporter(const ShardPool *pool)
{
	shard_pool_foreach(conn, pool)
	{
		if (!conn->holder && !is_writer(conn, pool) &&
			conn->state == SHARD_CONN_READY && !shard_connection_is_aborted(conn) && shard_snapshot_is_exporter(conn))
			return true;
	}
	return false;
}

/* Is there a connection that its holder will release, sooner or later or by a yield? */
static bool
will_be_free(const ShardPool *pool)
{
	shard_pool_foreach(conn, pool)
	{
		if (conn->holder && conn->holder != &free_holder && conn->state != SHARD_CONN_BROKEN &&
			!is_writer(conn, pool) && !shard_connection_is_aborted(conn))
			return true;
	}
	return false;
}

bool
shard_pool_can_do_without(ShardConn *conn, struct ShardSnapshot *snapshot)
{
	ShardPool  *pool = shard_pool_of(conn);

	shard_pool_foreach(other, pool)
	{
		if (other == conn || other->state != SHARD_CONN_READY || is_writer(other, pool))
			continue;
		/* its holder will release it, or has already */
		if (other->holder ? other->holder != &free_holder : reader_rank(pool, other, snapshot) > 1)
		{
			pool->full_until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), FULL_MS);
			return true;
		}
	}
	return false;
}

ShardConn *
shard_pool_acquire_reader(ShardPool *pool, struct ShardSnapshot *snapshot)
{
	ShardConn  *conn;

	shard_version_check();
	sweep(pool);
	conn = find_free(pool, snapshot, 2);
	if (!conn && count_live(pool) < cap_of(pool))
		conn = open_connection(pool, will_be_free(pool));
	if (!conn)
		conn = find_free(pool, snapshot, 1);
	if (!conn && has_idle_exporter(pool))
		conn = open_connection(pool, false);	/* above the limit */
	return conn;
}

/* shard_connection_usable() processes the end of a COMMIT that has been answered. */
static bool
is_ready(ShardConn *conn)
{
	return shard_connection_usable(conn) && !conn->end_pending;
}

/* It will be ready when the running COMMIT has ended. */
static bool
is_ending(ShardConn *conn)
{
	return !conn->invalidated && conn->state == SHARD_CONN_READY && conn->end_pending;
}

static bool
is_opening(ShardConn *conn)
{
	return conn->state == SHARD_CONN_CONNECTING;
}

/* Returns an idle connection of pool that fits; NULL: none. */
static ShardConn *
find_idle(ShardPool *pool, bool (*fits) (ShardConn *conn))
{
	shard_pool_foreach(conn, pool)
	{
		if (is_idle(conn, pool) && fits(conn))
			return conn;
	}
	return NULL;
}

/* See open_needed(). */
static ShardConn *
start_free(ShardPool *pool, ShardQuotaNeed need, int timeout_ms)
{
	ShardConn  *conn;

	shard_version_check();
	sweep(pool);
	conn = find_idle(pool, is_ready);
	if (!conn)
		conn = find_idle(pool, is_ending);
	if (!conn)
		conn = find_idle(pool, is_opening);
	if (!conn)
		conn = open_needed(pool, need, timeout_ms);
	if (conn)
		shard_connection_hold(conn, &free_holder);
	return conn;
}

ShardConn *
shard_pool_start_free(ShardPool *pool)
{
	return start_free(pool, how_needed(), shard_guc_connection_wait_timeout_ms);
}

ShardConn *
shard_pool_start_within(ShardPool *pool, int timeout_ms)
{
	if (timeout_ms == 0)
		return start_free(pool, SHARD_QUOTA_EXTRA, 0);
	if (shard_guc_connection_wait_timeout_ms > 0)
		timeout_ms = Min(timeout_ms, shard_guc_connection_wait_timeout_ms);
	return start_free(pool, how_needed(), timeout_ms);
}

ShardConn *
shard_pool_start_spare(ShardPool *pool)
{
	ShardConn  *conn;

	sweep(pool);
	conn = find_idle(pool, is_ready);
	if (!conn)
		conn = open_needed(pool, SHARD_QUOTA_SPARE, 0);
	if (!conn)
		conn = find_idle(pool, is_opening);
	if (conn)
		shard_connection_hold(conn, &free_holder);
	return conn;
}

ShardConn *
shard_pool_acquire_free(ShardPool *pool)
{
	ShardConn  *conn = shard_pool_start_free(pool);

	/* after an error it still has its holder; the end of the transaction finds and releases it */
	shard_connection_finish(conn);
	return conn;
}

ShardConn *
shard_pool_start_extra(ShardPool *pool)
{
	ShardConn  *conn;

	sweep(pool);
	conn = find_idle(pool, is_ready);
	if (!conn)
		conn = find_idle(pool, is_opening);
	if (!conn && count_live(pool) < cap_of(pool))
		conn = open_connection(pool, true);
	if (conn)
		conn->is_extra = true;
	return conn;
}

int
shard_pool_count_extra(const ShardPool *pool)
{
	int			n = 0;

	shard_pool_foreach(conn, pool)
	{
		if (conn->is_extra && shard_connection_is_alive(conn))
			n++;
	}
	return n;
}

void
shard_pool_warm(ShardPool *pool)
{
	if (pool->writer)
		return;
	sweep(pool);
	if (!find_free(pool, NULL, 2) && count_live(pool) < cap_of(pool))
		(void) open_connection(pool, true);
}

/* Calls fn for each connection. fn may close its connection. */
void
shard_pool_each(ShardConnVisitor fn, void *arg)
{
	dlist_iter	pool_iter;

	dlist_foreach(pool_iter, &all_pools)
	{
		ShardPool  *pool = dlist_container(ShardPool, link, pool_iter.cur);
		dlist_mutable_iter iter;

		dlist_foreach_modify(iter, &pool->conns)
			fn(dlist_container(ShardConn, link, iter.cur), arg);
	}
}

void
shard_pool_invalidate(int cacheid, uint32 hashvalue)
{
	dlist_iter	pool_iter;

	dlist_foreach(pool_iter, &all_pools)
	{
		ShardPool  *pool = dlist_container(ShardPool, link, pool_iter.cur);

		/* the list of standbys may have changed, and the address of the primary */
		pool->look_again = true;
		pool->retry_at = 0;
		shard_pool_foreach(conn, pool)
		{
			if (hashvalue == 0 ||
				(cacheid == FOREIGNSERVEROID && conn->server_hash == hashvalue) ||
				(cacheid == USERMAPPINGOID && conn->mapping_hash == hashvalue))
				conn->invalidated = true;
		}
	}
}

/* Decides at the end of a transaction whether to keep a connection. */
static void
tidy(ShardConn *conn, void *arg)
{
	if (conn->holder == &free_holder && conn->state == SHARD_CONN_CONNECTING)
		shard_connection_release(conn);
	if (conn->holder == &free_holder)
		shard_pool_discard(conn);
	else if (conn->state == SHARD_CONN_BROKEN ||
			 ((conn->invalidated || !conn->keep) && !conn->holder && !shard_connection_in_xact(conn)))
		destroy(conn);
}

int
shard_pool_disconnect(Oid serverid)
{
	dlist_iter	pool_iter;
	int			nclosed = 0;

	dlist_foreach(pool_iter, &all_pools)
	{
		ShardPool  *pool = dlist_container(ShardPool, link, pool_iter.cur);
		dlist_mutable_iter iter;
		int			nbusy = 0;

		if (OidIsValid(serverid) && pool->key_serverid != serverid)
			continue;
		dlist_foreach_modify(iter, &pool->conns)
		{
			ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

			if (is_idle(conn, pool))
			{
				destroy(conn);
				nclosed++;
			}
			else if (nbusy++ == 0)
				ereport(WARNING,
						(errcode(ERRCODE_OBJECT_IN_USE),
						 errmsg("connection to node \"%s\" is not closed, because this transaction uses it", conn->node)));
		}
	}
	return nclosed;
}

void
shard_pool_end_transaction(void)
{
	shard_pool_each(tidy, NULL);
	give_idle();
	shard_quota_end_use();
	SHARD_FAULT_END();
}
