/*
 * pool.c
 *	  The connections of this backend, per node and user.
 *
 * A pool lives as long as the backend.  Its key holds the user, so that SET
 * ROLE and views of other owners never get a connection of somebody else's
 * mapping.  Connections leave it
 *	- when they are found dead or broken: at once outside a remote transaction,
 *	  else at the end of the transaction, which must see the loss;
 *	- when options of their server or mapping changed: as soon as they are idle;
 *	- when their server does not want them kept, at the end of the transaction;
 *	- when other backends wait for one, see quota.c.
 *
 * A connection that was idle is looked at before it is handed out (a node may
 * have been restarted), which costs one poll().
 *
 * A new connection that a statement needs is waited for.  One that would only make
 * it faster is not even asked for where connections are scarce.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "fault.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "hash_table.h"
#include "remote/pool/broadcast.h"
#include "remote/pool/pool.h"
#include "remote/pool/snapshot.h"
#include "remote/wire/quota.h"
#include "remote/wire/wait.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "version.h"

#define FULL_MS 10000			/* how long a node that refused a connection is taken to be full */

static HTAB *pools = NULL;
static dlist_head all_pools = DLIST_STATIC_INIT(all_pools);	/* the same, to go through */
static int	nconnections = 0;	/* in all of them */

/* Holder of connections from shard_pool_acquire_free. */
static const ShardConnHolder free_holder = {NULL, NULL, NULL};

/*
 * A worker of a parallel query must not read from nodes: it does not see what its
 * leader has written there, nor use the leader's snapshots.  The planner never lets
 * it, but a function may be declared parallel safe by mistake.
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
	/* finding an entry needs no memory: the end of a transaction must not ask for any */
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
		pool->first_standby = MyProcPid;	/* sessions spread over the standbys */
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
 * An address may lead to several servers, and one that crashes begins again further back.
 * The start of the postmaster tells servers apart; and when one has crashed without that,
 * connections from before are dead, and later ones show where it began.
 */
bool
shard_pool_is_proved(const ShardPool *pool, const ShardConn *conn)
{
	return pool->proved_at != 0 && pool->server.system_identifier == conn->server.system_identifier &&
		strcmp(NameStr(pool->server.started), NameStr(conn->server.started)) == 0 &&
		(conn->replayed_at <= pool->proved_at || conn->replayed >= pool->replayed);
}

/* Closes conn whatever its state. */
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

/* Is conn one of those that this transaction writes with? */
static bool
is_writer(const ShardConn *conn, const ShardPool *pool)
{
	return conn == pool->writer || conn->is_extra;
}

/* True when nobody, and no remote transaction, uses conn. */
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
 * Closes idle connections of pool that nobody can use any more.  One that is still
 * being opened for a statement that has ended is kept for its next user.
 */
static void
sweep(ShardPool *pool)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pool->conns)
	{
		ShardConn  *conn = dlist_container(ShardConn, link, iter.cur);

		/*
		 * A writer that has not written yet is kept: a command, which is not a
		 * holder, may be opening it.  So is an extra writer: when it is missing, the
		 * transaction counts it as lost.
		 */
		if (!is_idle(conn, pool))
			continue;
		if (conn->invalidated || conn->state == SHARD_CONN_BROKEN)
			destroy(conn);
		else
			shard_connection_pause(conn);
	}
}

/* Closes idle connections that other backends wait for. */
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

/* Makes sure that there is a file handle for one more connection, as far as closing an idle one can. */
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
 * How urgently this backend needs a connection without which it cannot go on.  It
 * counts as a holder even if its connections are idle: whoever has some to one node
 * gets those to other nodes first.  Otherwise each of two nodes could serve backends
 * that wait for the other node.
 */
static ShardQuotaNeed
how_needed(void)
{
	bool		holds = TransactionIdIsValid(GetTopTransactionIdIfAny());

	shard_pool_each(note_connection, &holds);
	return holds ? SHARD_QUOTA_HOLDER : SHARD_QUOTA_FRESH;
}

/* Begins to open a connection that has been taken from the quota of node. */
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
 * Begins to open a connection.  EXTRA, SPARE: NULL when there should be none;
 * otherwise it may have to be waited for.
 */
static ShardConn *
open_needed(ShardPool *pool, ShardQuotaNeed need)
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
									 need, give_idle, &node))
		return NULL;
	conn = start_counted(pool, node);
	dlist_push_tail(&pool->conns, &conn->link);
	pool->nconns++;
	nconnections++;
	return conn;
}

/* extra: the statement would only be faster with it; then NULL when there should be none. */
static ShardConn *
open_connection(ShardPool *pool, bool extra)
{
	return open_needed(pool, extra ? SHARD_QUOTA_EXTRA : how_needed());
}

/*
 * How well a free connection serves a reader of snapshot: 0 not at all, 1 when
 * nothing else can be had, 2 will soon be ready, 3 ready, 4 in the read
 * transaction of snapshot already.  One that has exported the snapshot of
 * another statement is not taken: that statement still needs it.
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

/* The best free connection for a reader with a rank of at least min, checked to be alive. */
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

/* Connections of pool that count for the cap: not those that only wait for the end of the transaction. */
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
 * How many connections pool may have.  A pooler on the way to the node has a
 * bounded number of sessions, and each of several transactions of ours would
 * wait for one while it keeps another from being free.
 */
static int
cap_of(const ShardPool *pool)
{
	shard_pool_foreach(conn, pool)
		if (conn->stateless)
			return 1;
	return shard_guc_max_connections_per_node;
}

/* Is there a connection that nobody holds, kept for the snapshot that it has exported? */
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

/* Is there a connection that its holder will give up, by and by or when it is asked to? */
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
		/* somebody will give it up, or has already */
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
		conn = open_connection(pool, false);	/* above the cap */
	return conn;
}

/* usable() takes note of the end of a COMMIT whose answer is here. */
static bool
is_ready(ShardConn *conn)
{
	return shard_connection_usable(conn) && !conn->end_pending;
}

/* It will be ready when the COMMIT under way has ended. */
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

/* An idle connection of pool that fits; NULL: none. */
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

ShardConn *
shard_pool_start_free(ShardPool *pool)
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
		conn = open_connection(pool, false);
	shard_connection_hold(conn, &free_holder);
	return conn;
}

ShardConn *
shard_pool_start_spare(ShardPool *pool)
{
	ShardConn  *conn;

	sweep(pool);
	conn = find_idle(pool, is_ready);
	if (!conn)
		conn = open_needed(pool, SHARD_QUOTA_SPARE);
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

	/* after an error it is still held: the end of the transaction finds it and releases it */
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

/* Calls fn, which may close its connection, for each. */
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

		/* the list of standbys may be another one, and the primary somewhere else */
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

/* What the end of a transaction leaves of a connection. */
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
