/*
 * late_lock.h
 *	  Rows that are locked one by one, above the scans that have read them.
 */
#ifndef SHARDFDW_LATE_LOCK_H
#define SHARDFDW_LATE_LOCK_H

#include "postgres.h"

#include "nodes/pathnodes.h"

/*
 * Begins a statement: finds the tables of which LIMIT takes rows that nobody has locked.  Returns
 * those of the statement around it, for leave.  Memory: current context.
 */
extern List *shard_late_lock_enter(Query *query);
extern void shard_late_lock_leave(List *outer);

/* Are rows of a relation locked late? */
extern bool shard_late_lock_marks(PlannerInfo *root, Index rtindex);

#endif
