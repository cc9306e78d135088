/*
 * late_lock.h
 *	  Finds the tables whose rows are locked one by one, above the scans that have read them.
 */
#ifndef SHARDFDW_LATE_LOCK_H
#define SHARDFDW_LATE_LOCK_H

#include "postgres.h"

#include "nodes/pathnodes.h"

/* Tables of a statement whose rows are locked; OidLists. */
typedef struct ShardLateLocks
{
	List	   *tables;			/* locked with SKIP LOCKED by a level with LIMIT */
	List	   *others;			/* locked by a query level that waits. Core does not say which level calls the callback */
	bool		unchecked;		/* LockRows leaves all rows as the scans have read them, except for those of tables */
} ShardLateLocks;

/*
 * Begins a statement.  NULL: a statement that locks no rows. in_parts: its rows may be fetched in parts, between which
 * the transaction changes rows.  Returns the value for shard_late_lock_leave().  Memory: current context.
 */
extern ShardLateLocks shard_late_lock_enter(Query *query, bool in_parts);
extern void shard_late_lock_leave(ShardLateLocks outer);

/* Are rows of this relation locked late? */
extern bool shard_late_lock_marks(PlannerInfo *root, Index rtindex);

/* Does LockRows check rows of this relation, by their ctids?  True for all that are locked late. */
extern bool shard_late_lock_checks(PlannerInfo *root, Index rtindex);

#endif
