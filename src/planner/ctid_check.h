/*
 * ctid_check.h
 *	  Refuses statements in which a ctid alone says which row of a sharded table is meant.
 */
#ifndef SHARDFDW_CTID_CHECK_H
#define SHARDFDW_CTID_CHECK_H

#include "postgres.h"

#include "nodes/pathnodes.h"

/*
 * To be called when a statement (NULL: one without sharded tables) begins to be planned, and when that is over, with
 * the result of the first call.
 */
extern List *shard_ctid_enter(Query *query);
extern void shard_ctid_leave(List *outer);

/* Checks the statement.  Errors: ERRCODE_FEATURE_NOT_SUPPORTED. */
extern void shard_ctid_check(Query *query);

/* Checks the scan of a shard, entry rtindex, that reads columns, numbered as pull_varattnos() does it.  Errors: the same. */
extern void shard_ctid_check_scan(PlannerInfo *root, Index rtindex, Bitmapset *columns);

#endif
