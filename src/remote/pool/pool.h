/*
 * pool.h
 *	  The connections of this backend, per node and user: at most shardfdw.max_connections_per_node
 *	  each.  Each standby of a node has a separate pool.
 *
 * Which connection a statement gets:
 *
 *	- After this transaction has written to a node (or taken row locks there), every statement on
 *	  that node uses the connection that wrote.
 *	- Otherwise a reader gets a free connection, a new one below the limit, or queues.  A reader
 *	  that must not wait takes a connection by a yield.
 *	- Extra writers (remote/xact/txn.h) count for the limit.  No other statement gets them until the
 *	  local transaction ends.
 */
#ifndef SHARDFDW_POOL_H
#define SHARDFDW_POOL_H

#include "postgres.h"

#include "remote/wire/connection.h"

typedef struct ShardPool		/* for a user, and one server of a node: its primary or a standby */
{
	Oid			key_serverid;	/* hash key, together with ... */
	Oid			key_userid;
	uint32		key_standby;	/* number of the node's standby, 1-based; 0: the primary */
	dlist_node	link;			/* in the list of all pools */
	dlist_head	conns;			/* of ShardConn */
	int			nconns;
	TimestampTz full_until;		/* until when the node is treated as full; 0: it is not */
	ShardConn  *writer;			/* the connection that wrote in this transaction, or NULL */
	dlist_head	queue;			/* streams that wait for a connection, FIFO */

	/* For a primary: what remote/run/read_role*.c store about its node between statements. */
	TimestampTz asked_at;		/* when the primary was last asked for its WAL position; 0: never */
	TimestampTz retry_at;		/* when the primary, which could not be read, may be tried again; 0: now */
	uint32		first_standby;	/* the standby to try first; 0-based, modulo their number */
	TimestampTz placed;			/* the session has already waited for a standby to have the shards placed until then; 0: it has not */

	/*
	 * For a standby: what is known about it since proved_at (0: nothing).  Valid only for
	 * connections for which shard_pool_is_proved() is true.
	 */
	TimestampTz proved_at;
	XLogRecPtr	replayed;		/* it has replayed all WAL before this position ... */
	TimeLineID	timeline;		/* ... of at least this timeline */
	TimestampTz as_of;			/* it has everything that was committed on the node before this time, ... */
	TimestampTz surely_as_of;	/* ... and before this time independently of its clock */
	ShardConnServer server;		/* the server for which this is known */
	bool		look_again;		/* servers or mappings have changed, so the next statement must check it again */
} ShardPool;

/* The connection after conn (NULL: the first one); NULL: there is none. */
static inline ShardConn *
shard_pool_next(const ShardPool *pool, const ShardConn *conn)
{
	dlist_node *node = conn ? conn->link.next : pool->conns.head.next;

	return node == NULL || node == &pool->conns.head ? NULL : dlist_container(ShardConn, link, node);
}

/* All connections of a pool; none is removed during the loop. */
#define shard_pool_foreach(conn, pool) \
	for (ShardConn *conn = shard_pool_next(pool, NULL); conn != NULL; conn = shard_pool_next(pool, conn))

extern ShardPool *shard_pool_get(Oid serverid, Oid userid);
extern ShardPool *shard_pool_get_standby(Oid serverid, Oid userid, uint32 standby);

/* The pool of conn. */
extern ShardPool *shard_pool_of(const ShardConn *conn);

/*
 * Is conn, which is connected, a connection to the server that was checked, and has that server not
 * lost WAL since?
 */
extern bool shard_pool_is_proved(const ShardPool *pool, const ShardConn *conn);

/*
 * For shard_txn_acquire_reader(), in a transaction that has not written to the node.  Returns a
 * free or new connection for reading, or NULL if all have holders (then the caller queues).  The
 * connection may still be connecting, or have end_pending.  Blocks only if there is no connection
 * at all, and other backends have all connections that the node allows.
 *
 * Order of preference: in a read transaction of snapshot, outside any transaction, a new
 * connection, in a read transaction of another snapshot.
 */
extern ShardConn *shard_pool_acquire_reader(ShardPool *pool, struct ShardSnapshot *snapshot);

/*
 * Returns a connected connection outside any transaction, for the caller alone until
 * shard_connection_release() (DDL helpers, recovery).  It has a holder that does not yield.  After
 * an error, the end of the transaction releases it.  May open a connection above the session's
 * limit.  Waits for connecting; can be interrupted.
 */
extern ShardConn *shard_pool_acquire_free(ShardPool *pool);

/* The same without waiting, so the connection may still be connecting. */
extern ShardConn *shard_pool_start_free(ShardPool *pool);

/*
 * The same, but waits at most timeout_ms for permission to open a new connection.  With 0 it does not wait, and returns
 * NULL if this backend's share of the connections is used up.
 */
extern ShardConn *shard_pool_start_within(ShardPool *pool, int timeout_ms);

/* The same, but never waits.  Returns NULL if other backends have all connections that the node allows. */
extern ShardConn *shard_pool_start_spare(ShardPool *pool);

/*
 * Turns a free connection into an extra writer.  It is outside any transaction and has no holder,
 * but may still be connecting.  NULL if there is none and the limit is reached.  Never blocks.
 */
extern ShardConn *shard_pool_start_extra(ShardPool *pool);

/* Number of extra writers of pool that can still commit what they have written. */
extern int	shard_pool_count_extra(const ShardPool *pool);

/*
 * For a conn that the node has refused to open because it has too many connections.  True if the
 * reader of snapshot can have another connection, or wait for one, instead of conn.
 */
extern bool shard_pool_can_do_without(ShardConn *conn, struct ShardSnapshot *snapshot);

/*
 * Closes the idle connections to a server; InvalidOid: to all.  Connections that this transaction
 * uses stay open, with a WARNING.  Returns the number of closed connections.
 */
extern int	shard_pool_disconnect(Oid serverid);

/* Calls fn for every connection of this backend. */
typedef void (*ShardConnVisitor) (ShardConn *conn, void *arg);
extern void shard_pool_each(ShardConnVisitor fn, void *arg);

/*
 * If the pool has no connection that will be ready soon, begins to open one.  For callers that need
 * connections to many nodes, before they wait for the first one.
 */
extern void shard_pool_warm(ShardPool *pool);

/*
 * Closes conn, removes it from its pool, and informs its holder.  If it is in a remote transaction,
 * it is only marked as broken, so that the end of the transaction detects the loss.  The pool
 * closes it afterwards.
 */
extern void shard_pool_discard(ShardConn *conn);

/* Closes the idle connections of pool, since one of the node's was lost. */
extern void shard_pool_drop_idle(ShardPool *pool);

/* A row of FOREIGNSERVEROID or USERMAPPINGOID has changed; hashvalue 0: any of them. */
extern void shard_pool_invalidate(int cacheid, uint32 hashvalue);

/* The transaction has ended.  Closes connections that are broken or no longer wanted. */
extern void shard_pool_end_transaction(void);

#endif
