/*
 * read_role_private.h
 *	  A node whose servers are looked at, shared by read_role*.c: read_role_ask.c puts a question to
 *	  a server, read_role_primary.c asks the primary, read_role_standby.c finds a standby that has
 *	  what is needed, read_role.c chooses between them.
 */
#ifndef SHARDFDW_READ_ROLE_PRIVATE_H
#define SHARDFDW_READ_ROLE_PRIVATE_H

#include "postgres.h"

#include "remote/pool/pool.h"
#include "remote/wire/position.h"

#define SHARD_READ_ANSWER_MS 5000	/* for an answer that a server owes */

/* What this statement knows of a node's primary. */
typedef enum ShardReadPrimary
{
	SHARD_READ_NOT_ASKED,
	SHARD_READ_ANSWERS,
	SHARD_READ_SKIPPED,			/* not tried, because of ShardPool.retry_at */
	SHARD_READ_LOST				/* it could not be connected to, or has not answered */
} ShardReadPrimary;

typedef struct ShardReadNode
{
	Oid			serverid;
	Oid			userid;
	int			nstandbys;		/* that it lists */
	ShardPool  *primary;
	ShardPosition *position;
	ShardReadPrimary primary_state;
	char	   *primary_reason; /* SKIPPED, LOST: why */
	int64		system_identifier;	/* of the primary; 0: not known */
	bool		is_hearsay;		/* that comes from another session, not from a connection */
	uint32		only_standby;	/* the one that the statement reads already, as another user; 0: none */
	TimestampTz deadline;		/* until when its standbys are waited for, all together; 0: none has been */
} ShardReadNode;

/* What a standby must have to be read. */
typedef struct ShardReadNeed
{
	ShardWalPlace committed;	/* by this session */
	TimestampTz as_of;			/* for shardfdw.max_standby_lag; DT_NOBEGIN: any */
	TimestampTz placed;			/* when this session has last seen shards being placed; 0: that does not matter */
	bool		placed_surely;	/* a standby that may lack them is refused: this session's own rows may have moved with them */
} ShardReadNeed;

/* ---------- read_role_ask.c ---------- */

/*
 * Connects to the server of pool, or takes a connection to it, and asks it sql, which returns one
 * row of ncolumns; NULL: nothing.  false: the server is away, and *reason says why.  *answer: for
 * the caller to clear.  *conn: where it came from, free again.  Other errors are raised.
 */
extern bool shard_read_ask(ShardPool *pool, const char *sql, int ncolumns, PGresult **answer, ShardConn **conn, char **reason);

/* Runs sql, a query, over a connection outside of transactions, if that is to be had at once; what comes of it does not matter. */
extern void shard_read_try(ShardPool *pool, const char *sql);

/* Begins to connect to the server of pool, if it is not connected to.  That it is away is not reported. */
extern void shard_read_warm(ShardPool *pool);

/* Has pool a connection that works, as far as can be seen from here? */
extern bool shard_read_has_connection(ShardPool *pool);

/* ---------- read_role_primary.c ---------- */

/* Notes which server the primary is, if there is a connection to it. */
extern void shard_read_note_identifier(ShardReadNode *node);

/* Asks the primary how far its WAL is, and notes that.  False when it cannot say. */
extern bool shard_read_ask_position(ShardReadNode *node);

static inline bool
shard_read_primary_is_lost(const ShardReadNode *node)
{
	return node->primary_state >= SHARD_READ_SKIPPED;
}

/*
 * Has the primary flush its WAL, if it can be had at once: of transactions that have not ended it
 * flushes, and sends to standbys, the rest of a page after up to 15 seconds; a position may lie there.
 */
extern void shard_read_flush(ShardReadNode *node);

/* Takes over what other sessions have found out about the primary since servers were changed last. */
extern void shard_read_take_known_end(ShardReadNode *node, TimestampTz servers_changed_at);

/* Can the primary be read?  Where it can, it is asked for its position now and then. */
extern bool shard_read_primary_answers(ShardReadNode *node);

/* Finds out how far a standby must be to show what this session has committed; false when that cannot be known. */
extern bool shard_read_find_own_position(ShardReadNode *node);

/* ---------- read_role_standby.c ---------- */

/* The pool of the standby that is to be tried first. */
extern ShardPool *shard_read_first_standby(const ShardReadNode *node);

/* Finds a standby of the node that may be read, and returns its number, 1-based.  0: there is none; reasons gets a line for each. */
extern uint32 shard_read_choose_standby(ShardReadNode *node, const ShardReadNeed *need, StringInfo reasons);

#endif
