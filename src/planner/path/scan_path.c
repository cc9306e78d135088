/*
 * scan_path.c
 *	  Paths of scans: of a whole sharded table, and of a single shard.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "compat.h"
#include "optimizer/pathnode.h"
#include "planner/path/cost.h"
#include "planner/path/fdw_planner.h"
#include "planner/path/foreign_path.h"
#include "planner/path/relinfo.h"
#include "planner/path/remote_estimate.h"
#include "planner/path/sort_path.h"

void
shardGetForeignRelSize(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	ShardRelInfo *info = shard_relinfo_create(root, baserel, foreigntableid);

	shard_estimate_choose(info);
	shard_estimate_ask(root, baserel, info);
}

void
shardGetForeignPaths(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid)
{
	ShardRelInfo *info = baserel->fdw_private;
	Cost		startup;
	Cost		total;
	Path	   *path;

	shard_cost_path(root, info, baserel->reltarget, info->local_conds, &startup, &total);
	path = shard_foreign_path_scan(root, baserel, startup, total, NIL, baserel->lateral_relids);

	/* a query that reads the sample several times must get the same rows each time, so the sample is materialized */
	if (info->sample != NULL && (root->query_level > 1 || bms_membership(root->all_baserels) != BMS_SINGLETON))
		path = (Path *) shard_create_material_path(baserel, path);
	add_path(baserel, path);
	if (info->sample == NULL)
		shard_sort_add_path(root, baserel, info);
}

/*
 * An async Append waits for one socket per subplan.  A scan of many shards has its own concurrency, so it is not
 * async capable.
 */
bool
shardIsForeignPathAsyncCapable(ForeignPath *path)
{
	ShardRelInfo *info = path->path.parent->fdw_private;

	return !info->sharded && shard_option_table_bool(info->relid, "async_capable", true);
}
