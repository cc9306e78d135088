/*
 * foreign_path.h
 *	  Makes paths that read from nodes: ForeignPaths.
 *
 * Such a path belongs to the leader of a parallel query.  Only this backend has the
 * connections, and with them what the transaction has written on nodes and its
 * snapshot of each.  So no path of ours is parallel safe.  Workers must not read a
 * part of a relation that has such a path either: its consider_parallel is false.
 */
#ifndef SHARDFDW_FOREIGN_PATH_H
#define SHARDFDW_FOREIGN_PATH_H

#include "postgres.h"

#include "nodes/pathnodes.h"

/* Path of a table; lateral: relations whose columns it needs. */
extern Path *shard_foreign_path_scan(PlannerInfo *root, RelOptInfo *rel, Cost startup, Cost total,
									 List *pathkeys, Relids lateral);

/* Path of a join. */
extern Path *shard_foreign_path_join(PlannerInfo *root, RelOptInfo *rel, Cost startup, Cost total);

/* Path of an upper stage. */
extern Path *shard_foreign_path_upper(PlannerInfo *root, RelOptInfo *rel, PathTarget *target,
									  double rows, Cost startup, Cost total, List *pathkeys);

#endif
