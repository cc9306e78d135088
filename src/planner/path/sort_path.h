/*
 * sort_path.h
 *	  Sort orders that core requests by path keys, and sorted scans of single foreign tables.
 */
#ifndef SHARDFDW_SORT_PATH_H
#define SHARDFDW_SORT_PATH_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "planner/path/relinfo.h"

/* Adds the path in the order that the query requests, if the node can sort so. */
extern void shard_sort_add_path(PlannerInfo *root, RelOptInfo *rel, const ShardRelInfo *info);

/*
 * ORDER BY clauses (ShardSort) for the order of pathkeys over the rows of rel. rel is a scan or join that info
 * describes.  NIL if nodes might sort differently.
 */
extern List *shard_sort_clauses(PlannerInfo *root, const RelOptInfo *rel, const ShardRelInfo *info,
								List *pathkeys);

#endif
