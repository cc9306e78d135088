/*
 * link.h
 *	  A move's own connections to its nodes, which last over the ends of transactions.
 */
#ifndef SHARDFDW_LINK_H
#define SHARDFDW_LINK_H

#include "postgres.h"

#include "remote/wire/connection.h"

/*
 * For a transaction that is about to lock a table there: autovacuum gives way to a lock when that has been waited for for
 * deadlock_timeout, which is longer than writers should have to wait behind it.  Superusers alone may set it.
 */
#define SHARD_LINK_GIVE_WAY_SQL \
	"DO $$BEGIN PERFORM pg_catalog.set_config('deadlock_timeout', '20ms', true); EXCEPTION WHEN insufficient_privilege THEN NULL; END$$"

/* Called now and then while a link is waited for, see shard_link_set_idle(). */
typedef void (*ShardLinkIdle) (void *arg);

/*
 * A connection to a node, in settings in which values read and write as text give what
 * was written.  replicates: for the replication protocol.  To be called in a transaction.
 */
extern ShardConn *shard_link_open(Oid serverid, Oid userid, bool replicates);

/* The same to what a connection string leads to; name: what messages call it. */
extern ShardConn *shard_link_open_string(const char *conninfo, const char *name, Oid userid, bool replicates);

/* Closes *link, if it is open. */
extern void shard_link_close(ShardConn **link);

/* What is to be done at least every second while links are waited for; NULL: nothing. */
extern void shard_link_set_idle(ShardLinkIdle idle, void *arg);

/* Starts a statement; the next call for link has to be shard_link_result(). */
extern void shard_link_send(ShardConn *link, const char *sql);

/*
 * Waits for the last result of what was sent: rows, or the end of a command.  The caller
 * clears it.  COPY: the result that says that it has begun.  label: for messages, or NULL.
 * Errors: the node's.
 */
extern PGresult *shard_link_result(ShardConn *link, const char *label);

/* Both, for what returns nothing; for what returns one value: that, palloc'd. */
extern void shard_link_exec(ShardConn *link, const char *sql);
extern char *shard_link_value(ShardConn *link, const char *sql);

/*
 * The next message of a COPY from the node, to be freed by PQfreemem(): its length, 0 when none is there yet, below 0 at
 * the end, of which shard_link_result() says why: of a lost connection, too.
 */
extern int	shard_link_copy_data(ShardConn *link, char **message);

/* Waits until one of the links, NULLs skipped, has something to be read, or takes what is to be sent, at most a second. */
extern void shard_link_wait(ShardConn *const *links, int nlinks);

#endif
