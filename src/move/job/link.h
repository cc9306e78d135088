/*
 * link.h
 *	  Connections of a move to its nodes, which outlive transactions.
 */
#ifndef SHARDFDW_LINK_H
#define SHARDFDW_LINK_H

#include "postgres.h"

#include "remote/wire/broadcast.h"

/*
 * For a transaction that is about to lock a table on the node.  A lock request cancels autovacuum when it has waited
 * for deadlock_timeout.  The default is longer than writers should wait.  Only superusers may set it.
 */
#define SHARD_LINK_GIVE_WAY_SQL \
	"DO $$BEGIN PERFORM pg_catalog.set_config('deadlock_timeout', '20ms', true); EXCEPTION WHEN insufficient_privilege THEN NULL; END$$"

/*
 * Opens a connection to a node.  Its settings print and read values as text without loss. replicates: for the
 * replication protocol.  Call it in a transaction.
 */
extern ShardConn *shard_link_open(Oid serverid, Oid userid, bool replicates);

/* The same for a connection string. name: the name in messages. */
extern ShardConn *shard_link_open_string(const char *conninfo, const char *name, Oid userid, bool replicates);

/* Closes *link, if it is open. */
extern void shard_link_close(ShardConn **link);

/*
 * Runs a query, and returns the item with the result; see shard_broadcast_create(). label: for messages, or NULL.
 * nfields: number of columns that the result must have; 0: not checked.  Errors: errors of the node; another number.
 */
extern ShardBroadcast *shard_link_query(ShardConn *link, const char *label, const char *sql, int nfields);

/* The same for a query that was sent before. */
extern ShardBroadcast *shard_link_answer(ShardConn *link, const char *label, int nfields);

/* The same without a result. */
extern void shard_link_exec(ShardConn *link, const char *sql);

/* The same for the single value of a query, palloc'd. */
extern char *shard_link_value(ShardConn *link, const char *sql);

/*
 * Has a table on the node another file than in the snapshot of this link's transaction?  TRUNCATE and ALTER TABLE may
 * write a new file, in which older snapshots see no rows.  The answer is final for tables that the transaction has
 * locked. oids: of the tables on the node, separated by commas.
 */
extern bool shard_link_is_rewritten(ShardConn *link, const char *oids);

/*
 * Sends a command that starts a COPY, and waits for its start.  The second function waits for the end of a COPY whose
 * data have ended, and returns the number of rows.
 */
extern void shard_link_copy(ShardConn *link, const char *label, const char *sql);
extern int64 shard_link_end_copy(ShardConn *link, const char *label);

/*
 * Reads the next message of a COPY from the node.  The caller frees it with PQfreemem().  Returns its length, 0 if
 * none has arrived, or below 0 at the end, also after the connection was lost.  Then shard_link_end_copy() reports the
 * reason.
 */
extern int	shard_link_copy_data(ShardConn *link, char **message);

/* Waits until one of the links has data to read or accepts data to send, at most a second.  Skips NULLs. */
extern void shard_link_wait(ShardConn *const *links, int nlinks);

#endif
