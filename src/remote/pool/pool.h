/*
 * pool.h
 *	  The connections of this backend, per node and user: at most
 *	  shardfdw.max_connections_per_node each.  Those to each standby of a node are a
 *	  pool of their own.
 *
 * Who gets which connection:
 *	- After this transaction has written to a node (or taken row locks there),
 *	  every statement on that node uses the one connection that wrote.
 *	- Otherwise a reader gets a free connection, a new one below the cap, or
 *	  queues; a reader that must not wait takes one by yield.
 *	- Extra writers (remote/xact/txn.h) count for the cap.  Nobody else gets them,
 *	  held or not, until the local transaction ends.
 */
#ifndef SHARDFDW_POOL_H
#define SHARDFDW_POOL_H

#include "postgres.h"

#include "remote/wire/connection.h"

typedef struct ShardPool		/* one server of a node (its primary or a standby) and user */
{
	Oid			key_serverid;	/* hash key, with ... */
	Oid			key_userid;
	uint32		key_standby;	/* number of the node's standby, 1-based; 0: the primary */
	dlist_node	link;			/* in the list of all */
	dlist_head	conns;			/* of ShardConn */
	int			nconns;
	TimestampTz full_until;		/* the node has refused one more connection; 0: never */
	ShardConn  *writer;			/* the one that wrote in this transaction, or NULL */
	dlist_head	queue;			/* streams that wait for a connection, FIFO */

	/* Of a primary: what remote/run/read_role*.c remember of its node from statement to statement. */
	TimestampTz asked_at;		/* when it was last asked how far its WAL is; 0: never */
	TimestampTz retry_at;		/* when the primary, which could not be read, may be tried again; 0: now */
	uint32		first_standby;	/* which one is tried first; counted from 0, modulo their number */
	TimestampTz placed;			/* a standby was waited for to have the shards that were placed until then; 0: none */

	/*
	 * Of a standby: what was found out about it at proved_at (0: nothing).  Valid only for connections of which
	 * shard_pool_is_proved() is true.
	 */
	TimestampTz proved_at;
	XLogRecPtr	replayed;		/* it has all that is before that in the WAL ... */
	TimeLineID	timeline;		/* ... of this timeline, at least */
	TimestampTz as_of;			/* it has all that was committed on the node before, ... */
	TimestampTz surely_as_of;	/* ... and all before that, whatever its clock says */
	ShardConnServer server;		/* which server it was */
	bool		look_again;		/* servers or mappings were changed: the next statement looks at it anew */
} ShardPool;

/* The connection after conn, NULL: the first one; NULL: there is none. */
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

/* The one that conn is in. */
extern ShardPool *shard_pool_of(const ShardConn *conn);

/* True if conn, which is connected, leads to the server that was looked at, and that server has not gone back since. */
extern bool shard_pool_is_proved(const ShardPool *pool, const ShardConn *conn);

/*
 * For shard_txn_acquire_reader(), in a transaction that has not written to the node:
 * a free or new connection for reading, or NULL when all are held (the caller
 * queues).  It may be connecting still, or have end_pending.  Blocks only when
 * there is none at all, and other backends have all that the node allows.
 * Free ones are preferred in this order: in a read transaction of snapshot,
 * outside any transaction, a new one, in a read transaction of another snapshot.
 */
extern ShardConn *shard_pool_acquire_reader(ShardPool *pool, struct ShardSnapshot *snapshot);

/*
 * A connected connection outside any transaction, for the caller alone until
 * shard_connection_release() (DDL helpers, recovery).  On return it has a holder that
 * does not yield; after an error the end of the transaction releases it.  May open
 * one above the session's cap.  Waits for connecting; answers interrupts.
 */
extern ShardConn *shard_pool_acquire_free(ShardPool *pool);

/* The same without waiting: the connection may still be connecting. */
extern ShardConn *shard_pool_start_free(ShardPool *pool);

/* The same; NULL when other backends have all that the node allows.  Never blocks. */
extern ShardConn *shard_pool_start_spare(ShardPool *pool);

/*
 * Makes a free connection an extra writer: one outside any transaction and without a
 * holder, perhaps still connecting.  NULL when there is none and the cap is
 * reached.  Never blocks.
 */
extern ShardConn *shard_pool_start_extra(ShardPool *pool);

/* How many extra writers of pool can still commit what they wrote. */
extern int	shard_pool_count_extra(const ShardPool *pool);

/*
 * For a conn whose opening the node has refused, because it has too many
 * connections: true when the reader of snapshot can have another connection, or
 * wait for one, instead of conn.
 */
extern bool shard_pool_can_do_without(ShardConn *conn, struct ShardSnapshot *snapshot);

/*
 * Closes the idle connections to a server; InvalidOid: to all.  Those that this
 * transaction uses stay, with a WARNING.  Returns how many were closed.
 */
extern int	shard_pool_disconnect(Oid serverid);

/* Calls fn for every pool / connection of this backend. */
typedef void (*ShardConnVisitor) (ShardConn *conn, void *arg);
extern void shard_pool_each(ShardConnVisitor fn, void *arg);

/*
 * Begins to open a connection when the pool has none that could serve soon:
 * for those who need connections of many nodes, before they wait for the first.
 */
extern void shard_pool_warm(ShardPool *pool);

/*
 * Closes it and takes it out of its pool; a holder is told.  A connection that
 * is in a remote transaction is only marked broken, so that the end of the
 * transaction sees the loss; the pool closes it afterwards.
 */
extern void shard_pool_discard(ShardConn *conn);

/* Closes the connections that nobody uses, since one of the node's has been lost. */
extern void shard_pool_drop_idle(ShardPool *pool);

/* A row of FOREIGNSERVEROID or USERMAPPINGOID has changed; hashvalue 0: any of them. */
extern void shard_pool_invalidate(int cacheid, uint32 hashvalue);

/* The transaction has ended: closes connections that are broken or not wanted any more. */
extern void shard_pool_end_transaction(void);

#endif
