/*
 * refusal.c
 *	  Records why nodes do not compute more of a statement, for DEBUG1 and EXPLAIN.
 *
 *	   planning		joins, stages and the statement are refused, with a reason; scans are made
 *	   afterwards	plan node above a scan --> its reason --> private data of the scan
 *
 * A reason must be true for the plan that was chosen.  So this file looks for the join directly above a scan, by the
 * relations of both sides, or for the first stage above the scan's relation.  If nodes could have computed the join or
 * stage, and the coordinator computes it because that costs less, there is no reason.
 *
 * If core scans each shard of a sharded table by itself, nodes compute nothing above these scans.  The first of them
 * gets the reason, if there is a join, grouping or the like above them.
 *
 * All data is in memory that lives until the statement is planned.  The search for the order of joins uses separate
 * memory.
 */
#include "postgres.h"

#include "catalog/option.h"
#include "catalog/shard_map.h"
#include "compat.h"
#include "parser/parsetree.h"
#include "plan/plan_private.h"
#include "plan/plan_walk.h"
#include "planner/path/refusal.h"
#include "utils/memutils.h"

/* A join that the planner has considered.  The sides may be in either order. */
typedef struct RefusedJoin
{
	PlannerInfo *root;
	Relids		relids;
	Relids		outer;
	Relids		inner;
	const char *reason;			/* NULL: nodes can compute it */
} RefusedJoin;

typedef struct RefusedStage
{
	RelOptInfo *input;
	const char *reason;
} RefusedStage;

/* A table whose shards core scans one by one. */
typedef struct RefusedTable
{
	Oid			relid;
	const char *reason;
} RefusedTable;

typedef struct PlannedScan
{
	PlannerInfo *root;
	RelOptInfo *rel;
	ForeignScan *scan;
} PlannedScan;

static ShardRefusals refusals;

ShardRefusals
shard_refusal_enter(void)
{
	ShardRefusals outer = refusals;

	memset(&refusals, 0, sizeof(refusals));
	return outer;
}

void
shard_refusal_leave(ShardRefusals outer)
{
	refusals = outer;
}

bool
shard_refusal_of_statement(const char *reason)
{
	ereport(DEBUG1,
			(errmsg_internal("statement does not run on all shards in parallel: %s", reason)));
	refusals.statement = reason;
	return false;
}

void
shard_refusal_of_router(const char *reason)
{
	refusals.statement = reason;
}

void
shard_refusal_of_table(Oid relid, const char *reason)
{
	RefusedTable *table = palloc(sizeof(RefusedTable));

	table->relid = relid;
	table->reason = reason;
	refusals.tables = lappend(refusals.tables, table);
}

static void
add_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel, const char *reason)
{
	MemoryContext oldcxt;
	RefusedJoin *join;

	/* joins of partitions are not recorded: there may be thousands of partitions */
	if (IS_OTHER_REL(joinrel))
		return;
	oldcxt = MemoryContextSwitchTo(root->planner_cxt);
	join = palloc(sizeof(RefusedJoin));
	join->root = root;
	join->relids = bms_copy(joinrel->relids);
	join->outer = bms_copy(outerrel->relids);
	join->inner = bms_copy(innerrel->relids);
	join->reason = reason;
	refusals.joins = lappend(refusals.joins, join);
	MemoryContextSwitchTo(oldcxt);
}

bool
shard_refusal_of_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel, const char *reason)
{
	ereport(DEBUG1, (errmsg_internal("join is not pushed down: %s", reason)));
	add_join(root, joinrel, outerrel, innerrel, reason);
	return false;
}

void
shard_refusal_join_offered(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel)
{
	add_join(root, joinrel, outerrel, innerrel, NULL);
}

void
shard_refusal_stage_begin(RelOptInfo *input)
{
	refusals.input = input;
	refusals.stage = NULL;
	refusals.offered = false;
}

bool
shard_refusal_of_stage(const char *stage, const char *reason)
{
	ereport(DEBUG1,
			(errmsg_internal("%s is not pushed down: %s", stage, reason)));
	if (refusals.input != NULL && refusals.stage == NULL)
		refusals.stage = psprintf("%s: %s", stage, reason);
	return false;
}

static void
add_stage(PlannerInfo *root, RelOptInfo *input)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(root->planner_cxt);
	RefusedStage *stage = palloc(sizeof(RefusedStage));

	stage->input = input;
	stage->reason = refusals.stage;
	refusals.stages = lappend(refusals.stages, stage);
	MemoryContextSwitchTo(oldcxt);
}

void
shard_refusal_stage_offered(PlannerInfo *root, RelOptInfo *rel)
{
	if (refusals.input != NULL && refusals.stage != NULL)
		add_stage(root, rel);
	refusals.offered = true;
}

void
shard_refusal_stage_end(PlannerInfo *root)
{
	if (refusals.stage != NULL && !refusals.offered)
		add_stage(root, refusals.input);
	refusals.input = NULL;
}

void
shard_refusal_add_scan(PlannerInfo *root, RelOptInfo *rel, ForeignScan *scan)
{
	MemoryContext oldcxt;
	PlannedScan *planned;

	/* the scan of one partition represents those of the others */
	if (IS_OTHER_REL(rel) && refusals.scans != NIL)
		return;
	oldcxt = MemoryContextSwitchTo(root->planner_cxt);
	planned = palloc(sizeof(PlannedScan));
	planned->root = root;
	planned->rel = rel;
	planned->scan = scan;
	refusals.scans = lappend(refusals.scans, planned);
	MemoryContextSwitchTo(oldcxt);
}

static PlannedScan *
find_scan(Plan *plan)
{
	foreach_ptr(PlannedScan, planned, refusals.scans)
	{
		if ((Plan *) planned->scan == plan)
			return planned;
	}
	return NULL;
}

/* Returns the plan node that makes the rows of one side of a join. */
static Plan *
side_of(Plan *plan)
{
	while (plan != NULL && (IsA(plan, Sort) || IsA(plan, IncrementalSort) || IsA(plan, Material) || IsA(plan, Memoize) || IsA(plan, Hash)))
		plan = plan->lefttree;
	return plan;
}

/*
 * Returns the relids, as during planning, of the other side of a join with scan.  NULL if that side is not a single
 * scan of the same level.  In a finished plan the range table indexes of a level are shifted by an offset, which scan
 * shows.
 */
static Relids
relids_of(Plan *other, const PlannedScan *scan)
{
	const PlannedScan *planned = find_scan(other);
	int			offset = bms_next_member(scan->scan->fs_relids, -1) - bms_next_member(scan->rel->relids, -1);

	if (planned != NULL)
		return planned->root == scan->root ? planned->rel->relids : NULL;
	/* the input of an upper stage has no relids, because it is joined as a sub-select in the level above */
	if (bms_is_empty(scan->rel->relids) ||
		!(IsA(other, SeqScan) || IsA(other, IndexScan) || IsA(other, IndexOnlyScan) || IsA(other, BitmapHeapScan) || IsA(other, SubqueryScan)))
		return NULL;
	return bms_make_singleton(Max((int) ((Scan *) other)->scanrelid - offset, 0));
}

static bool
is_offered(const RefusedJoin *offered)
{
	foreach_ptr(RefusedJoin, join, refusals.joins)
	{
		if (join->reason == NULL && join->root == offered->root && bms_equal(join->relids, offered->relids))
			return true;
	}
	return false;
}

/* Returns why nodes do not compute the join of scan with other; NULL: they can, or the reason is unknown. */
static const char *
join_reason(const PlannedScan *scan, Plan *other)
{
	Relids		own = scan->rel->relids;
	Relids		relids = relids_of(other, scan);

	foreach_ptr(RefusedJoin, join, refusals.joins)
	{
		if (join->root == scan->root &&
			((bms_equal(join->outer, own) && bms_equal(join->inner, relids)) ||
			 (bms_equal(join->inner, own) && bms_equal(join->outer, relids))))
			return is_offered(join) ? NULL : join->reason;
	}
	if (IsA(other, SubqueryScan) || (relids == NULL && find_scan(other) != NULL))
		return "one side is a sub-select";
	return find_scan(other) == NULL ? "the other side is computed on the coordinator" : NULL;
}

static void
explain_side(Plan *side, Plan *other)
{
	PlannedScan *scan = find_scan(side_of(side));
	const char *reason = scan ? join_reason(scan, side_of(other)) : NULL;

	if (reason != NULL)
		shard_plan_private_refused(scan->scan->fdw_private, psprintf("join: %s", reason));
}

/* If the plan node is a scan of ours, stores the statement's reason in it. */
static bool
explain_statement(Plan *plan, void *context)
{
	PlannedScan *scan = find_scan(plan);

	if (scan != NULL)
		shard_plan_private_refused(scan->scan->fdw_private, psprintf("statement: %s", refusals.statement));
	return scan != NULL;
}

/* Returns the first scan of ours that makes rows for side, below an Append, too; NULL: another plan node makes them. */
static ForeignScan *
first_scan(Plan *side)
{
	Plan	   *plan = side_of(side);

	if (plan != NULL && IsA(plan, Append) && ((Append *) plan)->appendplans != NIL)
		plan = side_of(linitial(((Append *) plan)->appendplans));
	else if (plan != NULL && IsA(plan, MergeAppend))
		plan = side_of(linitial(((MergeAppend *) plan)->mergeplans));
	if (plan == NULL || !IsA(plan, ForeignScan) || !shard_option_is_our_server(((ForeignScan *) plan)->fs_server))
		return NULL;
	return (ForeignScan *) plan;
}

/* If side scans a table shard by shard, stores the reason in the first of the scans. */
static void
explain_table(Plan *side, const PlannedStmt *stmt)
{
	ForeignScan *scan = first_scan(side);
	Oid			top;

	if (scan == NULL || scan->scan.scanrelid == 0)
		return;
	top = shard_map_top(rt_fetch(scan->scan.scanrelid, stmt->rtable)->relid);
	foreach_ptr(RefusedTable, table, refusals.tables)
	{
		if (shard_map_top(table->relid) == top)
		{
			shard_plan_private_refused(scan->fdw_private, psprintf("scan: %s", table->reason));
			return;
		}
	}
}

static bool
explain_tables(Plan *plan, void *stmt)
{
	switch (nodeTag(plan))
	{
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
		case T_Agg:
		case T_Group:
		case T_WindowAgg:
		case T_Unique:
		case T_SetOp:
			explain_table(plan->lefttree, stmt);
			explain_table(plan->righttree, stmt);
			break;
		case T_CustomScan:
			foreach_ptr(Plan, side, ((CustomScan *) plan)->custom_plans)
				explain_table(side, stmt);
			break;
		default:
			break;
	}
	return false;
}

void
shard_refusal_explain_input(Plan *input)
{
	const char *reason = refusals.statement;
	ForeignScan *scan = first_scan(input);

	if (scan != NULL && reason != NULL)
		shard_plan_private_refused(scan->fdw_private, psprintf("statement: %s", reason));
}

static bool
explain_node(Plan *plan, void *context)
{
	if (IsA(plan, NestLoop) || IsA(plan, MergeJoin) || IsA(plan, HashJoin))
	{
		explain_side(plan->lefttree, plan->righttree);
		explain_side(plan->righttree, plan->lefttree);
	}
	else if (IsA(plan, CustomScan) && list_length(((CustomScan *) plan)->custom_plans) == 2)
	{
		List	   *sides = ((CustomScan *) plan)->custom_plans;

		explain_side(linitial(sides), lsecond(sides));
		explain_side(lsecond(sides), linitial(sides));
	}
	else if (IsA(plan, ModifyTable) && refusals.statement != NULL)
		(void) shard_plan_walk(plan->lefttree, explain_statement, NULL);
	return false;
}

void
shard_refusal_explain(PlannedStmt *stmt)
{
	if (refusals.scans == NIL)
		return;
	foreach_ptr(PlannedScan, scan, refusals.scans)
	{
		foreach_ptr(RefusedStage, stage, refusals.stages)
		{
			if (stage->input == scan->rel)
				shard_plan_private_refused(scan->scan->fdw_private, stage->reason);
		}
	}
	(void) shard_plan_walk_statement(stmt, explain_node, NULL);
	if (refusals.tables != NIL)
		(void) shard_plan_walk_statement(stmt, explain_tables, stmt);
}
