/*
 * foreign_path.c
 *	  Makes paths that read from nodes.
 */
#include "postgres.h"

#include "compat.h"
#include "planner/path/foreign_path.h"
#include "planner/path/refusal.h"

/* Marks path as not parallel safe: core takes over the parallel safety of the relation. */
static Path *
keep_in_leader(ForeignPath *path)
{
	Assert(!path->path.parent->consider_parallel);
	path->path.parallel_safe = false;
	return &path->path;
}

Path *
shard_foreign_path_scan(PlannerInfo *root, RelOptInfo *rel, Cost startup, Cost total,
						List *pathkeys, Relids lateral)
{
	return keep_in_leader(shard_create_foreignscan_path(root, rel, NULL, rel->rows, startup, total,
														pathkeys, lateral, NIL));
}

Path *
shard_foreign_path_join(PlannerInfo *root, RelOptInfo *rel, Cost startup, Cost total)
{
	return keep_in_leader(shard_create_foreign_join_path(root, rel, NULL, rel->rows, startup, total,
														 NIL, NULL, NIL));
}

Path *
shard_foreign_path_upper(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, double rows,
						 Cost startup, Cost total, List *pathkeys)
{
	shard_refusal_stage_offered(root, rel);
	return keep_in_leader(shard_create_foreign_upper_path(root, rel, target, rows, startup, total,
														  pathkeys, NIL));
}
