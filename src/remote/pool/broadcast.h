/*
 * broadcast.h
 *	  One short command on each of many connections: sent to all, then
 *	  collected from all.
 */
#ifndef SHARDFDW_BROADCAST_H
#define SHARDFDW_BROADCAST_H

#include "postgres.h"

#include "remote/wire/connection.h"

typedef struct ShardBroadcast
{
	ShardConn  *conn;			/* connected, no query under way */
	const char *sql;			/* NULL: nothing to send */
	bool		has_rows;		/* it returns some; else a node that sends any is lost */

	/* out */
	bool		sent;
	bool		done;			/* the node has answered completely */
	PGresult   *result;			/* the first failure, else the last result; NULL: no answer */
	PGresult   *first;			/* the first rows, when the command has several statements that return some; or NULL */
} ShardBroadcast;

/* What a cancel request of the user, or the end of the session, does to the wait. */
typedef enum ShardBroadcastInterrupt
{
	SHARD_BROADCAST_RAISE,		/* raises; the commands go on */
	SHARD_BROADCAST_HURRY,		/* shortens the wait to a second or two */
	SHARD_BROADCAST_IGNORE		/* nothing */
} ShardBroadcastInterrupt;

/*
 * Makes room for HURRY and IGNORE with n connections.  The pool calls it before it opens one,
 * so that there is room for all that it has.
 */
extern void shard_broadcast_reserve(int n);

/* That room, zeroed, for those who cannot allocate.  One user at a time: the end of a transaction. */
extern ShardBroadcast *shard_broadcast_room(void);

/* Sends one command, and logs it; false when libpq refuses, then conn is broken.  Never raises. */
extern bool shard_broadcast_send(ShardConn *conn, const char *sql);

/*
 * Starts the commands.  Never raises; what could not be sent has sent = false
 * and its connection is broken.
 */
extern void shard_broadcast_start(ShardBroadcast *items, int nitems);

/*
 * Waits until all have answered, at most timeout_ms (-1: no limit); true when they
 * have, or never will.  The commands go on otherwise, for a further wait or
 * shard_broadcast_finish().  Raises only on interrupts, see above.  Memory: HURRY and
 * IGNORE need none, for at most as many items as there are connections.
 */
extern bool shard_broadcast_wait(ShardBroadcast *items, int nitems, long timeout_ms,
								 ShardBroadcastInterrupt interrupt);

/*
 * The last wait, at most timeout_ms (-1: no limit).  One that
 * has not answered by then, or whose connection was lost, has done = false;
 * its connection is broken.  Raises only on interrupts, see above.
 * Memory: results belong to the caller, see shard_broadcast_clear.
 */
extern void shard_broadcast_finish(ShardBroadcast *items, int nitems, long timeout_ms,
								   ShardBroadcastInterrupt interrupt);

extern void shard_broadcast_clear(ShardBroadcast *items, int nitems);

/* True when the command succeeded; tag, when given, must be its command tag. */
extern bool shard_broadcast_ok(const ShardBroadcast *item, const char *tag);

/* SQLSTATE of its failure; 0 when it has none (no answer, or no failure). */
extern int	shard_broadcast_sqlstate(const ShardBroadcast *item);

#endif
