/*
 * connection_private.h
 *	  What the parts of connection*.c share.
 */
#ifndef SHARDFDW_CONNECTION_PRIVATE_H
#define SHARDFDW_CONNECTION_PRIVATE_H

#include "remote/wire/connection.h"

extern MemoryContext shard_connection_cxt;	/* of all connections; NULL before the first */

/* Milliseconds until deadline, at least 0; -1 when there is none (0). */
extern long shard_connection_remaining_ms(TimestampTz deadline);

/*
 * Waits for conn's socket (to be writable too, if something is not sent yet)
 * and reads.  False when deadline (0: none) has passed.
 */
extern bool shard_connection_wait_input(ShardConn *conn, TimestampTz deadline, bool noerror);

/* True when PQgetResult will not wait. */
extern bool shard_connection_result_is_here(ShardConn *conn);

/* Next result into *res; false when deadline has passed. */
extern bool shard_connection_next_result(ShardConn *conn, TimestampTz deadline, bool noerror,
										 PGresult **res);

extern void shard_connection_report_traffic(ShardConn *conn);

extern void shard_connection_keep_notice(void *arg, const PGresult *res);
extern void shard_connection_drop_notices(ShardConn *conn);

/* True when conn's socket is ready for events right now. */
extern bool shard_connection_socket_is_ready(ShardConn *conn, int events);

/* In the current context. */
extern char **shard_connection_make_settings(void);
extern void shard_connection_free_settings(ShardConn *conn);

/* A statement with parameters that came up on a connection. */
typedef struct ShardPrepared ShardPrepared;

/*
 * find_due counts one more use of sql, and returns the entry if it is to be prepared
 * now, else NULL.  name_anew gives the entry a new name, and returns it in name.
 */
extern ShardPrepared *shard_connection_find_due(ShardConn *conn, const char *sql);
extern void shard_connection_name_anew(ShardPrepared *entry, char *name, size_t size);

/* True when sql is prepared on conn; its name then. */
extern bool shard_connection_find_prepared(ShardConn *conn, const char *sql, char *name, size_t size);
extern void shard_connection_free_prepared(ShardConn *conn);

/*
 * Raises an error when the node may lack what transactions have committed there: it is another server, on another timeline, or not as
 * far as it was.  What is not known is not compared.  conn is broken then.
 */
extern void shard_connection_check_position(ShardConn *conn);

#endif
