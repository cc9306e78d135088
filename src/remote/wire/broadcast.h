/*
 * broadcast.h
 *	  One short command on each of many connections: sent to all, then collected from all.
 */
#ifndef SHARDFDW_BROADCAST_H
#define SHARDFDW_BROADCAST_H

#include "postgres.h"

#include "remote/wire/connection.h"

typedef struct ShardBroadcast
{
	ShardConn  *conn;			/* connected, without a running query */
	const char *sql;			/* NULL: nothing to send */
	bool		has_rows;		/* it returns rows; otherwise a connection on which rows arrive is broken */

	/* result fields */
	bool		sent;
	bool		done;			/* the node has answered completely */
	PGresult   *result;			/* the first failure, else the last result; NULL: no answer */
	PGresult   *first;			/* if several statements of the command return rows: the first rows; or NULL */
} ShardBroadcast;

/* How a cancel request of the user, or the end of the session, affects the wait. */
typedef enum ShardBroadcastInterrupt
{
	SHARD_BROADCAST_RAISE,		/* raises; the commands continue */
	SHARD_BROADCAST_HURRY,		/* shortens the wait to a second or two */
	SHARD_BROADCAST_IGNORE		/* no effect */
} ShardBroadcastInterrupt;

/*
 * Makes room for HURRY and IGNORE with n connections.  The pool calls it before it opens a
 * connection, so there is room for all of them.
 */
extern void shard_broadcast_reserve(int n);

/*
 * Returns that room, zeroed, for callers that cannot allocate.  Used by one caller at a time: the
 * end of a transaction.
 */
extern ShardBroadcast *shard_broadcast_room(void);

/* Sends one command, and logs it.  False if libpq refuses it; then conn is broken.  Never raises. */
extern bool shard_broadcast_send(ShardConn *conn, const char *sql);

/*
 * Starts the commands.  Never raises.  If a command could not be sent, sent is false and its
 * connection is broken.
 */
extern void shard_broadcast_start(ShardBroadcast *items, int nitems);

/*
 * Waits until all have answered, for at most timeout_ms (-1: no limit).  True if all have answered
 * or have failed.  Otherwise the commands continue, for another wait or shard_broadcast_finish().
 * Raises only on interrupts, see above.  Memory: HURRY and IGNORE need none, for at most as many
 * items as there are connections.
 */
extern bool shard_broadcast_wait(ShardBroadcast *items, int nitems, long timeout_ms,
								 ShardBroadcastInterrupt interrupt);

/*
 * The last wait, for at most timeout_ms (-1: no limit).  If one has not answered by then, or its
 * connection was lost, done is false and its connection is broken.  Raises only on interrupts, see
 * above.  Memory: results belong to the caller, see shard_broadcast_clear.
 */
extern void shard_broadcast_finish(ShardBroadcast *items, int nitems, long timeout_ms,
								   ShardBroadcastInterrupt interrupt);

extern void shard_broadcast_clear(ShardBroadcast *items, int nitems);

/* Has the command succeeded? tag, if not NULL, must be its command tag. */
extern bool shard_broadcast_ok(const ShardBroadcast *item, const char *tag);

/* SQLSTATE of its failure; 0: no answer, or no failure. */
extern int	shard_broadcast_sqlstate(const ShardBroadcast *item);

#endif
