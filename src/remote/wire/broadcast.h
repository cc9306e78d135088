/*
 * broadcast.h
 *	  Runs one short command on each of many connections: sends all commands, then collects all answers.
 */
#ifndef SHARDFDW_BROADCAST_H
#define SHARDFDW_BROADCAST_H

#include "postgres.h"

#include "remote/wire/connection.h"

typedef struct ShardBroadcast
{
	ShardConn  *conn;			/* connected, without a running query */
	const char *sql;			/* NULL: nothing to send, or the caller has sent it, and sets sent */
	bool		has_rows;		/* it returns rows; otherwise a connection on which rows arrive is broken */
	bool		starts_copy;	/* it starts a COPY, which the caller continues */

	/* result fields */
	bool		sent;
	bool		done;			/* the node has answered completely */
	PGresult   *result;			/* the first failure, else the last result; NULL: no answer */
	PGresult   *first;			/* if several statements of the command return rows: the first rows; or NULL */
	PGresult   *rows;			/* rows of a result that has not ended yet */
} ShardBroadcast;

/* How a cancel request of the user, or the end of the session, affects the wait. */
typedef enum ShardBroadcastInterrupt
{
	SHARD_BROADCAST_RAISE,		/* raises; the commands continue */
	SHARD_BROADCAST_STOP,		/* ends the wait */
	SHARD_BROADCAST_HURRY,		/* shortens the wait to a second or two */
	SHARD_BROADCAST_IGNORE		/* no effect */
} ShardBroadcastInterrupt;

/*
 * Allocates items, zeroed.  A reset of the current memory context frees them and their results, and
 * so does shard_broadcast_free().
 */
extern ShardBroadcast *shard_broadcast_create(int nitems);
extern void shard_broadcast_free(ShardBroadcast *items);

/*
 * Makes room for n connections, for all modes except RAISE.  The pool calls it before it opens a connection, so there
 * is always room for all connections.
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
 * Raises only on interrupts, see above.  Memory: only RAISE needs it, if there are at most as many
 * items as connections.  With RAISE, items come from shard_broadcast_create().
 */
extern bool shard_broadcast_wait(ShardBroadcast *items, int nitems, long timeout_ms,
								 ShardBroadcastInterrupt interrupt);

/*
 * The last wait, for at most timeout_ms (-1: no limit).  If one has not answered by then, or its
 * connection was lost, done is false and its connection is broken.  Raises only on interrupts, see
 * above.
 */
extern void shard_broadcast_finish(ShardBroadcast *items, int nitems, long timeout_ms,
								   ShardBroadcastInterrupt interrupt);

/*
 * Waits for COMMITs, or for commands that the nodes commit by themselves.  They may wait for locks.
 * If the session takes part in a deadlock, or at a cancel or the end of the session (HURRY: a moment
 * later, STOP: immediately), sends cancel requests to the nodes.  Their answers say whether they have
 * committed.  Returns the deadlock, or NULL.
 */
extern ErrorData *shard_broadcast_wait_for_commits(ShardBroadcast *items, int nitems,
												   ShardBroadcastInterrupt interrupt);

/* Clears the results of items that are not from shard_broadcast_create(), or that are used again. */
extern void shard_broadcast_clear(ShardBroadcast *items, int nitems);

/*
 * Raises the error of item: that of the node, or of a lost connection. label, sql: see
 * shard_error_report().  True: it has succeeded.  False: the node has not answered in time.
 */
extern bool shard_broadcast_check(ShardBroadcast *item, const char *label, const char *sql);

typedef enum ShardBroadcastAnswer
{
	SHARD_BROADCAST_COMMAND,
	SHARD_BROADCAST_ROWS,
	SHARD_BROADCAST_COPY
} ShardBroadcastAnswer;

/*
 * Waits for the answer to a command that the caller has sent on conn. label, sql: see
 * shard_error_report(). timeout_ms: see above.  Errors: the node's, no answer within timeout_ms.
 */
extern ShardBroadcast *shard_broadcast_await(ShardConn *conn, const char *label, const char *sql,
											 ShardBroadcastAnswer answer, int timeout_ms);

/* Sends sql and waits.  Drops rows that it returns.  Errors: the node's. */
extern void shard_broadcast_exec(ShardConn *conn, const char *sql);

/*
 * Ends what runs on conn, sends sql and reads its results, each within timeout_ms.  False if it failed
 * or timed out (then conn is broken).  Never raises.
 */
extern bool shard_broadcast_exec_noerror(ShardConn *conn, const char *sql, int timeout_ms);

/* Has the command succeeded? tag, if not NULL, must be its command tag. */
extern bool shard_broadcast_ok(const ShardBroadcast *item, const char *tag);

/* SQLSTATE of its failure; 0: no answer, or no failure. */
extern int	shard_broadcast_sqlstate(const ShardBroadcast *item);

#endif
