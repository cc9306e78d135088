/*
 * identity.h
 *	  The identity of this coordinator, which a copy of its data directory notices that
 *	  it must not use.
 */
#ifndef SHARDFDW_IDENTITY_H
#define SHARDFDW_IDENTITY_H

#include "postgres.h"

#include "access/transam.h"
#include "utils/timestamp.h"

#define SHARD_IDENTITY_LEN 16	/* hex digits */

/* What this server may do about the prepared transactions of an identity. */
typedef enum ShardIdentityRelation
{
	SHARD_IDENTITY_OTHER,		/* nothing: it is another coordinator's, or not taken over */
	SHARD_IDENTITY_OWN,			/* this server decided about all of them */
	SHARD_IDENTITY_PREDECESSOR, /* taken over; maybe not all of its commits have been received */
	SHARD_IDENTITY_PREDECESSOR_COMPLETE /* taken over with all of its commits */
} ShardIdentityRelation;

/* How far back the log of commits goes. */
typedef struct ShardLogReach
{
	TimestampTz forgotten_until;	/* rows logged up to then may have been deleted */
	FullTransactionId settled_below;	/* rows of transactions before it need no look */
} ShardLogReach;

/*
 * This coordinator's identity, for identifiers of prepared transactions.  Made
 * from the data directory's fingerprint where none is stored.  Cheap: read once
 * per session, until it changes.
 * Errors: the extension is not in this database.
 */
extern const char *shard_identity_get(void);

/*
 * False when the identity was made by another server, of whose files this one's
 * are a copy.  Then this server changes nothing on nodes: its original may be at work.
 */
extern bool shard_identity_is_confirmed(void);

/* Raises that this server is not confirmed, unless it is. */
extern void shard_identity_require(void);

/* Raises when the current transaction has changed what the table of identities says: it may roll that back. */
extern void shard_identity_require_committed(void);

/* What is wrong, and what to do, when it is not confirmed. Memory: current context. */
extern char *shard_identity_problem(void);
extern const char *shard_identity_hint(void);

/* What this server is to the identity of another, or the same, server's database. */
extern ShardIdentityRelation shard_identity_relation(uint64 system_identifier, Oid database, const char *identity);

/* Is it the identity of a server with another system identifier whose data this one has taken over (pg_upgrade)? */
extern bool shard_identity_came_along(uint64 system_identifier, Oid database, const char *identity);

/* The same as shard_identity_relation() for an identity that is noted on a node under this server's name. */
extern ShardIdentityRelation shard_identity_noted_relation(const char *identity);

/*
 * Stores the identity, if none is there and nobody else is about to, in the
 * current transaction.
 */
extern void shard_identity_store(void);
extern bool shard_identity_is_stored(void);

/* A relation has changed, InvalidOid: any; maybe the one where identities are. */
extern void shard_identity_invalidate(Oid relid);

/*
 * How far the log goes back, as committed by now; write_reach replaces it in
 * the current transaction, by whoever holds the lock of shard_identity_lock().
 */
extern ShardLogReach shard_identity_read_reach(void);
extern void shard_identity_write_reach(const ShardLogReach *reach);

/* Takes the lock for changing the identity or purging the log, until the end of the transaction. */
extern bool shard_identity_lock(bool wait);

/* Command that notes identity on a node.  Memory: current context. */
extern char *shard_identity_note_command(const char *identity);

#endif
