/*
 * sort_path.h
 *	  Orders that core asks for by path keys, and scans of foreign tables by
 *	  themselves that return rows so.
 */
#ifndef SHARDFDW_SORT_PATH_H
#define SHARDFDW_SORT_PATH_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/* Adds to rel's paths the one in the order that the query asks for, where the node can give it. */
extern void shard_sort_add_path(PlannerInfo *root, RelOptInfo *rel, const ShardRelInfo *info);

/*
 * ORDER BY of rel's rows, which info describes, in the order of pathkeys: of ShardSort;
 * NIL when nodes do not surely give it.  rel: a scan or join.
 */
extern List *shard_sort_clauses(PlannerInfo *root, const RelOptInfo *rel, const ShardRelInfo *info,
								List *pathkeys);

#endif
