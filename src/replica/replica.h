/*
 * replica.h
 *	  Sends a transaction's changes of shards to the replicas of these shards.
 */
#ifndef SHARDFDW_REPLICA_H
#define SHARDFDW_REPLICA_H

#include "postgres.h"

#include "remote/copy/copy_stream.h"

/*
 * Applies to the replicas of all shards what this transaction has written to the shards so far, in this transaction.
 * Call it before the transaction commits, and before the definition of such a table changes.
 *
 * Returns whether the transaction has changed shards with replicas, by notes or in other ways, even if all their
 * replicas are stale.  Then the transaction must commit in two phases.  Errors: those of nodes; 55000 if a replica
 * differs from its shard; 40001 if it may differ only because of snapshots.
 */
extern bool shard_replica_apply(void);

/* Call it if code changes shards with replicas without notes.  Then this transaction must commit in two phases. */
extern void shard_replica_note_sent(void);

/*
 * Sends the rows of a load or INSERT to the replicas of the shard, too, after the primary has stored them.  Then
 * triggers do not note these rows.  Call it before the first row.  The rows must mean the same on every server,
 * whatever its clock. Not for guarded sets.
 */
extern void shard_replica_mirror(ShardCopyTarget *target, Oid shard);

/*
 * Returns a hint for messages about a node that cannot be connected to; NULL if the node has nothing to do with
 * replicas.
 */
extern const char *shard_replica_hint(const char *node);

/* Commands around changes that are applied to all placements, so that triggers do not note them. */
#define SHARD_REPLICA_APPLY_ON "SET LOCAL shardfdw_replica.applied = 'on'"
#define SHARD_REPLICA_APPLY_OFF "SET LOCAL shardfdw_replica.applied = 'off'"

#endif
