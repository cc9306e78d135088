/*
 * connection_private.h
 *	  Internals of connection*.c.
 */
#ifndef SHARDFDW_CONNECTION_PRIVATE_H
#define SHARDFDW_CONNECTION_PRIVATE_H

#include "remote/wire/connection.h"

extern MemoryContext shard_connection_cxt;	/* of all connections; NULL before the first */

/* Milliseconds until deadline, at least 0; -1 if there is no deadline (0). */
extern long shard_connection_remaining_ms(TimestampTz deadline);

/*
 * Waits for conn's socket (also until it is writable, if something is not sent yet) and reads.
 * False if deadline (0: none) has passed.
 */
extern bool shard_connection_wait_input(ShardConn *conn, TimestampTz deadline, bool noerror);

/* True if PQgetResult() will not block. */
extern bool shard_connection_result_is_here(ShardConn *conn);

extern void shard_connection_report_traffic(ShardConn *conn);

extern void shard_connection_keep_notice(void *arg, const PGresult *res);
extern void shard_connection_drop_notices(ShardConn *conn);

/* Is conn's socket ready for events now? */
extern bool shard_connection_socket_is_ready(ShardConn *conn, int events);

/* Memory: current context. */
extern char **shard_connection_make_settings(void);
extern void shard_connection_free_settings(ShardConn *conn);

/* A statement with parameters that was run on a connection. */
typedef struct ShardPrepared ShardPrepared;

/*
 * find_due: counts one more use of sql, and returns the entry if it must be prepared now, else
 * NULL. name_anew: gives the entry a new name, and returns it in name.
 */
extern ShardPrepared *shard_connection_find_due(ShardConn *conn, const char *sql);
extern void shard_connection_name_anew(ShardPrepared *entry, char *name, size_t size);

/* Is sql prepared on conn?  If so, returns its name. */
extern bool shard_connection_find_prepared(ShardConn *conn, const char *sql, char *name, size_t size);
extern void shard_connection_free_prepared(ShardConn *conn);

/*
 * Raises an error if the node may lack committed transactions: it is another server, on another
 * timeline, or its WAL position is lower than before.  Unknown values are not compared.  After the
 * error conn is broken.
 */
extern void shard_connection_check_position(ShardConn *conn);

#endif
