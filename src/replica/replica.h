/*
 * replica.h
 *	  What a transaction has changed in shards that have replicas, on its way to these.
 */
#ifndef SHARDFDW_REPLICA_H
#define SHARDFDW_REPLICA_H

#include "postgres.h"

#include "remote/copy/copy_stream.h"

/*
 * Brings the replicas of all shards in line with what this transaction has written to these so far, in this transaction.
 * To be called before it commits, and before the definition of such a table changes.  Returns whether such shards were changed,
 * by this or otherwise, also where all their replicas are stale: then the transaction must commit in two phases.
 * Errors: nodes'; 55000 where a replica differs; 40001 where that may be a matter of snapshots.
 */
extern bool shard_replica_apply(void);

/* To be called by who changes shards with replicas otherwise than by notes: this transaction must commit in two phases. */
extern void shard_replica_note_sent(void);

/*
 * Has what a load or INSERT sends to a shard's target go to the replicas as well, after the primary has stored it; triggers do not note
 * it then.  Before the first row.  Only for rows that mean the same on every server, whatever its clock; not for guarded sets.
 */
extern void shard_replica_mirror(ShardCopyTarget *target, Oid shard);

/* Hint for messages about a node that cannot be connected to; NULL where that does not concern replicas. */
extern const char *shard_replica_hint(const char *node);

/*
 * Commands that open and close what is not noted, since it is done to all placements alike.
 */
#define SHARD_REPLICA_APPLY_ON "SET LOCAL shardfdw_replica.applied = 'on'"
#define SHARD_REPLICA_APPLY_OFF "SET LOCAL shardfdw_replica.applied = 'off'"

#endif
