/*
 * sort_path.h
 *	  Scans of foreign tables by themselves that return rows in order.
 */
#ifndef SHARDFDW_SORT_PATH_H
#define SHARDFDW_SORT_PATH_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/relinfo.h"

/* Adds to rel's paths the one in the order that the query asks for, where the node can give it. */
extern void shard_sort_add_path(PlannerInfo *root, RelOptInfo *rel, const ShardRelInfo *info);

/* ORDER BY of a path in the order of pathkeys: of ShardSort; NIL when the node does not surely give it. */
extern List *shard_sort_clauses(PlannerInfo *root, RelOptInfo *rel, const ShardRelInfo *info,
								List *pathkeys);

#endif
