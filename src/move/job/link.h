/*
 * link.h
 *	  Connections of a move to its nodes, which outlive transactions.
 */
#ifndef SHARDFDW_LINK_H
#define SHARDFDW_LINK_H

#include "postgres.h"

#include "remote/wire/connection.h"

/*
 * For a transaction that is about to lock a table on the node.  Autovacuum is cancelled for a lock that has waited
 * for deadlock_timeout.  The default is longer than writers should wait.  Only superusers may set it.
 */
#define SHARD_LINK_GIVE_WAY_SQL \
	"DO $$BEGIN PERFORM pg_catalog.set_config('deadlock_timeout', '20ms', true); EXCEPTION WHEN insufficient_privilege THEN NULL; END$$"

/* Called repeatedly while a link is waited for, see shard_link_set_idle(). */
typedef void (*ShardLinkIdle) (void *arg);

/*
 * Opens a connection to a node.  Its settings print and read values as text without loss. replicates: for the
 * replication protocol.  Call it in a transaction.
 */
extern ShardConn *shard_link_open(Oid serverid, Oid userid, bool replicates);

/* The same for a connection string. name: the name in messages. */
extern ShardConn *shard_link_open_string(const char *conninfo, const char *name, Oid userid, bool replicates);

/* Closes *link, if it is open. */
extern void shard_link_close(ShardConn **link);

/* Sets a function to call at least every second while links are waited for, or NULL. */
extern void shard_link_set_idle(ShardLinkIdle idle, void *arg);

/* Starts a statement.  The next call for link must be shard_link_result(). */
extern void shard_link_send(ShardConn *link, const char *sql);

/*
 * Waits for the last result of the statement that was sent: rows, or the end of a command.  The caller clears it.
 * For COPY, returns the result that reports its start. label: for messages, or NULL.  Errors: errors of the node.
 */
extern PGresult *shard_link_result(ShardConn *link, const char *label);

/* Runs a statement without a result.  The second function returns the single value of a query, palloc'd. */
extern void shard_link_exec(ShardConn *link, const char *sql);
extern char *shard_link_value(ShardConn *link, const char *sql);

/*
 * Reads the next message of a COPY from the node.  The caller frees it with PQfreemem().  Returns its length, 0 if
 * none has arrived, or below 0 at the end, also after the connection was lost.  Then shard_link_result() reports the
 * reason.
 */
extern int	shard_link_copy_data(ShardConn *link, char **message);

/* Waits until one of the links has data to read or accepts data to send, at most a second.  Skips NULLs. */
extern void shard_link_wait(ShardConn *const *links, int nlinks);

#endif
