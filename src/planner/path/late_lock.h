/*
 * late_lock.h
 *	  Rows that are locked one by one, above the scans that have read them.
 */
#ifndef SHARDFDW_LATE_LOCK_H
#define SHARDFDW_LATE_LOCK_H

#include "postgres.h"

#include "nodes/pathnodes.h"

/* Tables of a statement whose rows are locked; OidLists. */
typedef struct ShardLateLocks
{
	List	   *tables;			/* LIMIT takes rows of these that nobody has locked */
	List	   *others;			/* some level locks rows of these and waits; core does not tell which level asks */
} ShardLateLocks;

/* Begins a statement, NULL: one that locks no rows.  Returns what leave needs.  Memory: current context. */
extern ShardLateLocks shard_late_lock_enter(Query *query);
extern void shard_late_lock_leave(ShardLateLocks outer);

/* Are rows of a relation locked late? */
extern bool shard_late_lock_marks(PlannerInfo *root, Index rtindex);

#endif
