/*
 * read_role_private.h
 *	  Shared by read_role*.c, while a server of a node is chosen: read_role_ask.c sends a query to a
 *	  server, read_role_primary.c asks the primary, read_role_standby.c finds a standby that has
 *	  what is needed, read_role.c chooses between them.
 */
#ifndef SHARDFDW_READ_ROLE_PRIVATE_H
#define SHARDFDW_READ_ROLE_PRIVATE_H

#include "postgres.h"

#include "remote/pool/pool.h"
#include "remote/wire/position.h"

#define SHARD_READ_ANSWER_MS 5000	/* time limit for a server's answer */

/* What is known about a node's primary in this statement. */
typedef enum ShardReadPrimary
{
	SHARD_READ_NOT_ASKED,
	SHARD_READ_ANSWERS,
	SHARD_READ_SKIPPED,			/* not tried because of ShardPool.retry_at */
	SHARD_READ_LOST				/* could not be connected to, or has not answered */
} ShardReadPrimary;

typedef struct ShardReadNode
{
	Oid			serverid;
	Oid			userid;
	int			nstandbys;		/* number of standbys that it lists */
	ShardPool  *primary;
	ShardPosition *position;
	ShardReadPrimary primary_state;
	char	   *primary_reason; /* SKIPPED, LOST: the reason */
	int64		system_identifier;	/* of the primary; 0: unknown */
	bool		is_hearsay;		/* the system identifier comes from another session, not from a connection */
	uint32		only_standby;	/* the standby that the statement already reads as another user; 0: none */
	TimestampTz deadline;		/* until when to wait for its standbys, all together; 0: no wait yet */
} ShardReadNode;

/* What a standby must have. */
typedef struct ShardReadNeed
{
	ShardWalPlace committed;	/* commits of this session */
	TimestampTz as_of;			/* for shardfdw.max_standby_lag; DT_NOBEGIN: no limit */
	TimestampTz placed;			/* when this session last saw shards being placed; 0: irrelevant */
	bool		placed_surely;	/* refuse a standby that may lack these shards: rows of this session may have moved with them */
} ShardReadNeed;

/* ---------- read_role_ask.c ---------- */

/*
 * Connects to the server of pool, or takes an existing connection, and sends sql, which returns one
 * row with ncolumns (NULL: sends nothing).  False: the server is not available, and *reason says
 * why. *answer: the current memory context frees it. *conn: the connection that was used, which is released
 * again.  Other errors are raised.
 */
extern bool shard_read_ask(ShardPool *pool, const char *sql, int ncolumns, PGresult **answer, ShardConn **conn, char **reason);

/*
 * Runs the query sql over a connection outside any transaction, if one is immediately available.
 * Its result and failure are ignored.
 */
extern void shard_read_try(ShardPool *pool, const char *sql);

/* If there is no connection to the server of pool, begins to open one.  A failure is not reported. */
extern void shard_read_warm(ShardPool *pool);

/* Has pool a connection that works, as far as this session can see? */
extern bool shard_read_has_connection(ShardPool *pool);

/* ---------- read_role_primary.c ---------- */

/* If there is a connection to the primary, records which server it is. */
extern void shard_read_note_identifier(ShardReadNode *node);

/* Asks the primary for its WAL position, and records it.  False if there is no valid answer. */
extern bool shard_read_ask_position(ShardReadNode *node);

static inline bool
shard_read_primary_is_lost(const ShardReadNode *node)
{
	return node->primary_state >= SHARD_READ_SKIPPED;
}

/*
 * Makes the primary flush its WAL, if a connection is immediately available.  A primary flushes the
 * rest of a page, and sends it to standbys, only up to 15 seconds after transactions that have not
 * ended wrote it.  The position may lie there.
 */
extern void shard_read_flush(ShardReadNode *node);

/* Uses the answers that other sessions have got from the primary since servers were last changed. */
extern void shard_read_take_known_end(ShardReadNode *node, TimestampTz servers_changed_at);

/* Can the primary be read?  If so, asks it for its position from time to time. */
extern bool shard_read_primary_answers(ShardReadNode *node);

/* Finds the position that a standby needs to show this session's commits.  False if it cannot be found. */
extern bool shard_read_find_own_position(ShardReadNode *node);

/* ---------- read_role_standby.c ---------- */

/* The pool of the standby to try first. */
extern ShardPool *shard_read_first_standby(const ShardReadNode *node);

/*
 * Finds a standby of the node that may be read, and returns its number, 1-based. 0: there is none;
 * reasons gets a line for each.
 */
extern uint32 shard_read_choose_standby(ShardReadNode *node, const ShardReadNeed *need, StringInfo reasons);

#endif
