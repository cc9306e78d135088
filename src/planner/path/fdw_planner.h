/*
 * fdw_planner.h
 *	  Entry points of the planner side: FDW callbacks and hooks.
 */
#ifndef SHARDFDW_FDW_PLANNER_H
#define SHARDFDW_FDW_PLANNER_H

#include "postgres.h"

#include "foreign/fdwapi.h"
#include "nodes/pathnodes.h"

/* hooks.c: planner_hook, get_relation_info_hook (19: build_simple_rel_hook), get_relation_stats_hook */
extern void shard_hooks_init(void);

extern void shardGetForeignRelSize(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);
extern void shardGetForeignPaths(PlannerInfo *root, RelOptInfo *baserel, Oid foreigntableid);
extern ForeignScan *shardGetForeignPlan(PlannerInfo *root, RelOptInfo *rel, Oid foreigntableid,
										ForeignPath *best_path, List *tlist, List *scan_clauses,
										Plan *outer_plan);
extern void shardGetForeignJoinPaths(PlannerInfo *root, RelOptInfo *joinrel,
									 RelOptInfo *outerrel, RelOptInfo *innerrel,
									 JoinType jointype, JoinPathExtraData *extra);
extern void shardGetForeignUpperPaths(PlannerInfo *root, UpperRelationKind stage,
									  RelOptInfo *input_rel, RelOptInfo *output_rel, void *extra);
extern bool shardIsForeignPathAsyncCapable(ForeignPath *path);
extern RowMarkType shardGetForeignRowMarkType(RangeTblEntry *rte, LockClauseStrength strength);

/* modify_plan.c */
extern void shardAddForeignUpdateTargets(PlannerInfo *root, Index rtindex,
										 RangeTblEntry *target_rte, Relation target_relation);
extern List *shardPlanForeignModify(PlannerInfo *root, ModifyTable *plan,
									Index resultRelation, int subplan_index);
extern bool shardPlanDirectModify(PlannerInfo *root, ModifyTable *plan,
								  Index resultRelation, int subplan_index);

#endif
