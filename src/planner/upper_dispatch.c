/*
 * upper_dispatch.c
 *	  Offers the upper stages (above joins) to the nodes.
 *
 *	  scan, join -> grouping -> windows -> DISTINCT -> ORDER BY -> LIMIT
 *		   `-> expressions of the result
 *
 * Each stage copies the query below it (ShardRemoteQuery) and adds its clause, or its outputs (expressions).
 * Aggregates with ORDER BY or DISTINCT are part of grouping (group_path.c).  If a stage is not pushed down, its
 * relation has no ShardRelInfo.  Then core computes this stage and the stages above it.  If nodes compute a stage
 * partially (states of aggregates, DISTINCT shard by shard), core finishes it above the scan, so later stages are not
 * pushed down either.
 */
#include "postgres.h"

#include "planner/path/fdw_planner.h"
#include "planner/path/refusal.h"
#include "planner/upper/upper.h"
#include "planner/upper/upper_tools.h"

static const char *const stage_names[] = {
	[UPPERREL_SETOP] = "set operation",
	[UPPERREL_PARTIAL_GROUP_AGG] = "grouping",
	[UPPERREL_GROUP_AGG] = "grouping",
	[UPPERREL_WINDOW] = "window",
	[UPPERREL_PARTIAL_DISTINCT] = "DISTINCT",
	[UPPERREL_DISTINCT] = "DISTINCT",
	[UPPERREL_ORDERED] = "sort",
	[UPPERREL_FINAL] = "LIMIT"
};

/*
 * The reason why no stage can be pushed down on top of input, or NULL.  If nodes cannot check a condition without
 * columns, core checks it in a plan node above the scan, which a pushed-down stage would remove.  Set-returning
 * functions multiply rows between the stages.  Rows are locked by the scan, which must be the scan of a single table
 * then.
 */
static const char *
blocker(PlannerInfo *root, RelOptInfo *input_rel, const ShardRelInfo *input)
{
	if (input->reference)
		return "it reads reference tables only";
	if (input->local_conds != NIL)
		return "a condition must be checked on the coordinator";
	if (input->gated || root->parse->hasTargetSRFs)
		return "rows are tested or multiplied on the coordinator before";
	if (root->rowMarks != NIL)
		return "rows are locked";
	return NULL;
}

void
shardGetForeignUpperPaths(PlannerInfo *root, UpperRelationKind stage,
						  RelOptInfo *input_rel, RelOptInfo *output_rel, void *extra)
{
	const ShardRelInfo *input = input_rel->fdw_private;
	const char *reason;

	if (input == NULL || output_rel->fdw_private != NULL || IS_DUMMY_REL(input_rel))
		return;
	reason = blocker(root, input_rel, input);
	shard_refusal_stage_begin(input_rel);
	if (reason != NULL)
	{
		if (stage != UPPERREL_FINAL || ((FinalPathExtraData *) extra)->limit_needed)
			(void) shard_upper_refuse(stage_names[stage], reason);
		shard_refusal_stage_end(root);
		return;
	}

	switch (stage)
	{
		case UPPERREL_GROUP_AGG:
			shard_group_add_paths(root, input_rel, output_rel, extra);
			break;
		case UPPERREL_PARTIAL_GROUP_AGG:
			shard_group_add_share_paths(root, input_rel, output_rel, extra);
			break;
		case UPPERREL_WINDOW:
			shard_window_add_paths(root, input_rel, output_rel);
			break;
		case UPPERREL_DISTINCT:
			shard_distinct_add_paths(root, input_rel, output_rel);
			break;
		case UPPERREL_ORDERED:
			shard_order_add_paths(root, input_rel, output_rel);
			break;
		case UPPERREL_FINAL:
			if (((FinalPathExtraData *) extra)->limit_needed)
				shard_limit_add_paths(root, input_rel, output_rel, extra);
			else
				shard_project_add_paths(root, input_rel, output_rel);
			break;
		default:
			break;
	}
	shard_refusal_stage_end(root);
}
