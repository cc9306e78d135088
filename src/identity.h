/*
 * identity.h
 *	  The identity of this coordinator.  A copy of its data directory detects that it must not use
 *	  it.
 */
#ifndef SHARDFDW_IDENTITY_H
#define SHARDFDW_IDENTITY_H

#include "postgres.h"

#include "access/transam.h"
#include "utils/timestamp.h"

#define SHARD_IDENTITY_LEN 16	/* hex digits */

/* What this server may do with the prepared transactions of an identity. */
typedef enum ShardIdentityRelation
{
	SHARD_IDENTITY_OTHER,		/* nothing: the identity belongs to another coordinator, or was not taken over */
	SHARD_IDENTITY_OWN,			/* this server decided about all of them */
	SHARD_IDENTITY_PREDECESSOR, /* taken over; perhaps not all of its commits have been received */
	SHARD_IDENTITY_PREDECESSOR_COMPLETE /* taken over with all of its commits */
} ShardIdentityRelation;

/* How far back the log of commits goes. */
typedef struct ShardLogReach
{
	TimestampTz forgotten_until;	/* rows logged up to then may have been deleted */
	FullTransactionId settled_below;	/* all transactions before it are confirmed */
} ShardLogReach;

/*
 * Returns this coordinator's identity, for identifiers of prepared transactions.  If none is
 * stored, it is computed from the data directory's fingerprint.  Cheap: read once per session,
 * until it changes.
 *
 * Errors: the extension is not in this database.
 */
extern const char *shard_identity_get(void);

/*
 * Returns the comment for row types of shards that get their names on nodes by this transaction: the identity and the
 * transaction's xid.  See shard_table_check().  Memory: current context.
 */
extern char *shard_identity_named_by(void);

/*
 * False if this server's files are a copy of those of another server, which made the identity.
 * Then this server changes nothing on nodes, since the original may be running.
 */
extern bool shard_identity_is_confirmed(void);

/*
 * The transaction is about to commit, or to be prepared.  If it has called promote_coordinator(), pre_commit informs the
 * nodes and the other coordinators of the new identity.  Not before: a rollback could not undo that.  pre_prepare raises
 * FEATURE_NOT_SUPPORTED.
 */
extern void shard_identity_pre_commit(void);
extern void shard_identity_pre_prepare(void);

/* Raises an error if this server is not confirmed. */
extern void shard_identity_require(void);

/* Raises an error if the current transaction has changed the table of identities: it may be rolled back. */
extern void shard_identity_require_committed(void);

/* If this server is not confirmed: what is wrong, and what to do.  Memory: current context. */
extern char *shard_identity_problem(void);
extern const char *shard_identity_hint(void);

/* Returns what this server may do with an identity, of this or another server's database. */
extern ShardIdentityRelation shard_identity_relation(uint64 system_identifier, Oid database, const char *identity);

/*
 * Is it the identity of a server with another system identifier whose data this server has taken
 * over (pg_upgrade)?
 */
extern bool shard_identity_came_along(uint64 system_identifier, Oid database, const char *identity);

/* The same as shard_identity_relation() for an identity that a node has recorded under this server's name. */
extern ShardIdentityRelation shard_identity_noted_relation(const char *identity);

/*
 * Stores the identity in the current transaction, if none is stored and no other session is storing
 * it.
 */
extern void shard_identity_store(void);
extern bool shard_identity_is_stored(void);

/* A relation has changed (InvalidOid: any), perhaps the table of identities. */
extern void shard_identity_invalidate(Oid relid);

/*
 * Returns how far back the log goes, as committed by now.  shard_identity_write_reach() replaces that in the current
 * transaction; its caller must hold the lock of shard_identity_lock().
 */
extern ShardLogReach shard_identity_read_reach(void);
extern void shard_identity_write_reach(const ShardLogReach *reach);

/* Takes the lock for changing the identity or purging the log, until the end of the transaction. */
extern bool shard_identity_lock(bool wait);

/* Returns the command that records identity on a node.  Memory: current context. */
extern char *shard_identity_note_command(const char *identity);

#endif
