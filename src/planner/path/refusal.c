/*
 * refusal.c
 *	  Why nodes do not compute more of a statement, for DEBUG1 and EXPLAIN.
 *
 *	   planning		joins, stages and the statement are refused, with a reason; scans are made
 *	   afterwards	plan node above a scan --> its reason --> private data of the scan
 *
 * A reason has to be true for the plan that was chosen.  So what is looked for is the very join that stands above a scan,
 * by the relations of both sides, or the first stage above the scan's relation.  If nodes could have computed it, and it is
 * here since that costs less, there is no reason.
 *
 * Everything is in memory that lives until the statement is planned; the search for the order of joins uses separate memory.
 */
#include "postgres.h"

#include "compat.h"
#include "plan/plan_private.h"
#include "plan/plan_walk.h"
#include "planner/path/refusal.h"
#include "utils/memutils.h"

/* A join that was looked at; sides may be in either order. */
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

static void
add_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel, const char *reason)
{
	MemoryContext oldcxt;
	RefusedJoin *join;

	/* there may be thousands of partitions */
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

	/* one partition stands for the others */
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

/* The plan node that gives the rows of one side of a join. */
static Plan *
side_of(Plan *plan)
{
	while (plan != NULL && (IsA(plan, Sort) || IsA(plan, IncrementalSort) || IsA(plan, Material) || IsA(plan, Memoize) || IsA(plan, Hash)))
		plan = plan->lefttree;
	return plan;
}

/*
 * The relations of the other side of a join with scan, as the planner numbers them; NULL: it is more than a scan of the same
 * level.  Numbers in a finished plan are those of its level moved by an offset, which is that of scan.
 */
static Relids
relids_of(Plan *other, const PlannedScan *scan)
{
	const PlannedScan *planned = find_scan(other);
	int			offset = bms_next_member(scan->scan->fs_relids, -1) - bms_next_member(scan->rel->relids, -1);

	if (planned != NULL)
		return planned->root == scan->root ? planned->rel->relids : NULL;
	/* an upper stage is a sub-select, joined in the level above */
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

/* Why nodes do not compute the join of scan with other; NULL: they can, or it is not known. */
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

/* Is it a scan of ours?  Then the statement's reason is written into it. */
static bool
explain_statement(Plan *plan, void *context)
{
	PlannedScan *scan = find_scan(plan);

	if (scan != NULL)
		shard_plan_private_refused(scan->scan->fdw_private, psprintf("statement: %s", refusals.statement));
	return scan != NULL;
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
}
