/*
 * foreign_path.h
 *	  Makes paths that read from nodes: ForeignPaths.
 *
 * Only the leader of a parallel query can run such a path.  The connections to the nodes, with the uncommitted
 * changes and the snapshots of the transaction, belong to the leader.  So these paths are never parallel safe.
 * Workers must not scan a part of such a relation either, so its consider_parallel is false.
 */
#ifndef SHARDFDW_FOREIGN_PATH_H
#define SHARDFDW_FOREIGN_PATH_H

#include "postgres.h"

#include "nodes/pathnodes.h"

/* Path of a table. lateral: relations whose columns the path needs. */
extern Path *shard_foreign_path_scan(PlannerInfo *root, RelOptInfo *rel, Cost startup, Cost total,
									 List *pathkeys, Relids lateral);

/* Path of a join. */
extern Path *shard_foreign_path_join(PlannerInfo *root, RelOptInfo *rel, Cost startup, Cost total);

/* Path of an upper stage. */
extern Path *shard_foreign_path_upper(PlannerInfo *root, RelOptInfo *rel, PathTarget *target,
									  double rows, Cost startup, Cost total, List *pathkeys);

#endif
