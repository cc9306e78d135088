/*
 * system_column.h
 *	  Refuses statements in which a ctid alone says which row of a sharded table is meant.
 */
#ifndef SHARDFDW_SYSTEM_COLUMN_H
#define SHARDFDW_SYSTEM_COLUMN_H

#include "postgres.h"

#include "nodes/pathnodes.h"

/*
 * To be called when a statement (NULL: one without sharded tables) begins to be planned, and when that is over, with
 * the result of the first call.
 */
extern List *shard_system_column_enter(Query *query);
extern void shard_system_column_leave(List *outer);

/* Checks the statement.  Errors: ERRCODE_FEATURE_NOT_SUPPORTED. */
extern void shard_system_column_check(Query *query);

/* Checks the scan of a shard, entry rtindex, that reads columns, numbered as pull_varattnos() does it.  Errors: the same. */
extern void shard_system_column_check_scan(PlannerInfo *root, Index rtindex, Bitmapset *columns);

#endif
