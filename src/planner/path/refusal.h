/*
 * refusal.h
 *	  Why nodes do not compute more of a statement, for DEBUG1 and EXPLAIN.
 */
#ifndef SHARDFDW_REFUSAL_H
#define SHARDFDW_REFUSAL_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

/* What has been refused in one statement.  Statements may be planned within each other. */
typedef struct ShardRefusals
{
	List	   *joins;			/* all three: see refusal.c */
	List	   *stages;
	List	   *scans;
	const char *statement;		/* why the statement does not run on the shards as a whole; NULL: it was not looked at */
	RelOptInfo *input;			/* of the stage that is being looked at; NULL: none is */
	const char *stage;			/* why nodes do not compute that one; NULL: no reason so far, or they can */
	bool		offered;		/* they can */
} ShardRefusals;

extern ShardRefusals shard_refusal_enter(void);
extern void shard_refusal_leave(ShardRefusals outer);

/* All reasons are constants.  They return false. */
extern bool shard_refusal_of_statement(const char *reason);
extern bool shard_refusal_of_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel, const char *reason);
extern bool shard_refusal_of_stage(const char *stage, const char *reason);

/* Nodes can compute the join.  What was refused of it before is forgotten: they are asked if that costs less. */
extern void shard_refusal_join_offered(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel);

/*
 * A stage above input is looked at between begin and end.  Of several reasons the first one counts, for a scan of input if nodes
 * can compute nothing of the stage (nothing is offered), and for that of rel if they can compute less than was refused.
 */
extern void shard_refusal_stage_begin(RelOptInfo *input);
extern void shard_refusal_stage_offered(PlannerInfo *root, RelOptInfo *rel);
extern void shard_refusal_stage_end(PlannerInfo *root);

/* A scan of rel is in the plan. */
extern void shard_refusal_add_scan(PlannerInfo *root, RelOptInfo *rel, ForeignScan *scan);

/* Writes the reasons into the scans of the finished plan. */
extern void shard_refusal_explain(PlannedStmt *stmt);

#endif
