/*
 * own_lock.h
 *	  The list of the extension's advisory locks.
 *
 * The kind is the last field of the lock's tag, objsubid in pg_locks.  PostgreSQL's own advisory
 * locks have kinds 1 and 2, so no SQL function can take a lock of another kind.  Each purpose has
 * its own kind here.
 */
#ifndef SHARDFDW_OWN_LOCK_H
#define SHARDFDW_OWN_LOCK_H

#include "postgres.h"

#include "miscadmin.h"
#include "storage/lock.h"

typedef enum ShardLockKind
{
	/* remote/xact/fence.c; the key is 0 */
	SHARD_LOCK_FENCE_GATE = 3,	/* share: passes the snapshot barrier; exclusive: has closed it */
	SHARD_LOCK_FENCE_HOLD = 4,	/* share: holds the barrier; exclusive: no other session holds it */
	SHARD_LOCK_FENCE_TURN = 5,	/* exclusive: takes a cluster snapshot */
	/* reference/reference_turn.c; the key is the table */
	SHARD_LOCK_REFERENCE_TURN = 6,	/* exclusive: changes the table on all nodes */
	/* catalog/node_list.c; the key is 0 */
	SHARD_LOCK_MEMBERS = 7,		/* share: uses the list of coordinators; exclusive: changes it */
	/* ddl/schema_lock.c */
	SHARD_LOCK_NEW_OBJECTS = 8, /* exclusive: creates objects on nodes */
	/* identity.c; the key is 0 */
	SHARD_LOCK_IDENTITY = 9,	/* exclusive: changes the identity, or purges the log of commits */
	/* remote/xact/twophase.c; the key is a transaction */
	SHARD_LOCK_CONFIRMED = 10,	/* row exclusive: all nodes have confirmed the commit */
	/* replica/replica_place.c; the key is 0 */
	SHARD_LOCK_REPLICAS_TURN = 11,	/* share: shards a table with replicas; exclusive: locks all such tables, one after the other */
	/* catalog/shard_map.c; the key is the table */
	SHARD_LOCK_KEY_CHANGE = 12, /* row exclusive: writes to several shards; share: an UPDATE of the shard key moves rows */
	/* node_position.c; the key is 0 */
	SHARD_LOCK_REFERENCE_DROP = 13, /* exclusive: has dropped a reference table, and commits */
	/* catalog/node_list.c; the key is 0 */
	SHARD_LOCK_NODE_LIST = 14,	/* exclusive: adds a node, or creates a reference table on all nodes */
	/* catalog/moving.c; the key is a job, unless another is named */
	SHARD_LOCK_JOB = 16,		/* exclusive: runs the job */
	SHARD_LOCK_JOB_TURN = 17,	/* exclusive: works on a node, or numbers shards of a table; the key is a catalog and its object */
	SHARD_LOCK_JOB_WAIT = 18,	/* share: waits for a job; the key is 0 */
	SHARD_LOCK_CUT_OVER = 19,	/* share: waits for the job to cut over, and has locked the source's table */
	SHARD_LOCK_CUT_OVER_FREE = 20,	/* share: the same without a lock of the table */
	SHARD_LOCK_JOB_LEFT = 21,	/* exclusive: removes remainders of a job that is not in the journal; the key is a role and the job */
	/* service/recovery_worker.c; the key is 0, or a process */
	SHARD_LOCK_RECOVERY = 22,	/* exclusive: a recovery worker removes what jobs have left */
	/* move/worker.c; for all databases */
	SHARD_LOCK_JOB_WORKER = 23, /* exclusive: uses a background worker; the key is a role, or 0 for all ordinary roles, and a number */
	SHARD_LOCK_JOB_STEP = 24	/* exclusive: a job of a series uses the second worker of the series; the key is the process of the series */
} ShardLockKind;

/* Returns the tag of a lock in a database. */
static inline LOCKTAG
shard_own_lock_in(Oid database, ShardLockKind kind, uint32 key1, uint32 key2)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, database, key1, key2, kind);
	return tag;
}

/* The same in this database. */
static inline LOCKTAG
shard_own_lock(ShardLockKind kind, uint32 key1, uint32 key2)
{
	return shard_own_lock_in(MyDatabaseId, kind, key1, key2);
}

/* Does another process hold a lock in a mode that conflicts with mode? */
static inline bool
shard_own_lock_is_held(const LOCKTAG *tag, LOCKMODE mode)
{
	if (LockAcquire(tag, mode, true, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	LockRelease(tag, mode, true);
	return false;
}

#endif
