/*
 * foreign_path.h
 *	  Makes paths that read from nodes: ForeignPaths.
 *
 * Such a path belongs to the leader of a parallel query.  Only this backend has the
 * connections, and with them what the transaction has written on nodes and its
 * snapshot of each.  So no path of ours is parallel safe; a relation that has one
 * is none to be read in parts by workers (RelOptInfo.consider_parallel) either.
 */
#ifndef SHARDFDW_FOREIGN_PATH_H
#define SHARDFDW_FOREIGN_PATH_H

#include "postgres.h"

#include "nodes/pathnodes.h"

/* Of a table; lateral: relations that it needs columns of. */
extern Path *shard_foreign_path_scan(PlannerInfo *root, RelOptInfo *rel, Cost startup, Cost total,
									 List *pathkeys, Relids lateral);

/* Of a join. */
extern Path *shard_foreign_path_join(PlannerInfo *root, RelOptInfo *rel, Cost startup, Cost total);

/* Of an upper stage. */
extern Path *shard_foreign_path_upper(PlannerInfo *root, RelOptInfo *rel, PathTarget *target,
									  double rows, Cost startup, Cost total, List *pathkeys);

#endif
