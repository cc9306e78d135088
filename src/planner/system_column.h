/*
 * system_column.h
 *	  Refuses uses of system columns that would give other results than on a plain table.
 */
#ifndef SHARDFDW_SYSTEM_COLUMN_H
#define SHARDFDW_SYSTEM_COLUMN_H

#include "postgres.h"

#include "nodes/pathnodes.h"

/* OIDs of the sharded tables of which a statement names ... */
typedef struct ShardSystemColumns
{
	List	   *ctids;			/* ctid; only tables with several shards */
	List	   *versions;		/* xmin, xmax, cmin or cmax */
} ShardSystemColumns;

/*
 * Call enter before a statement is planned (NULL: a statement without sharded tables), and leave afterwards with the
 * result of enter.
 */
extern ShardSystemColumns shard_system_column_enter(Query *query);
extern void shard_system_column_leave(ShardSystemColumns outer);

/*
 * Check the uses of ctid, and of xmin, xmax, cmin and cmax, in the statement. one_shard: the statement runs on one
 * shard.  Errors: ERRCODE_FEATURE_NOT_SUPPORTED.
 */
extern void shard_system_column_check_ctids(Query *query, bool one_shard);
extern void shard_system_column_check_versions(Query *query);

/* Checks the scan of a shard, entry rtindex, that reads columns, numbered as by pull_varattnos().  Errors: the same. */
extern void shard_system_column_check_scan(PlannerInfo *root, Index rtindex, Bitmapset *columns);

#endif
