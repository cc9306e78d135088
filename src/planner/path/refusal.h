/*
 * refusal.h
 *	  Records why nodes do not compute more of a statement, for DEBUG1 and EXPLAIN.
 */
#ifndef SHARDFDW_REFUSAL_H
#define SHARDFDW_REFUSAL_H

#include "postgres.h"

#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

/* The refusals of one statement.  Statements may be planned within each other. */
typedef struct ShardRefusals
{
	List	   *joins;			/* these four lists: see refusal.c */
	List	   *stages;
	List	   *tables;
	List	   *scans;
	const char *statement;		/* why the statement does not run unchanged on the shards; NULL: the router has not looked at it */
	RelOptInfo *input;			/* input of the stage that is being planned; NULL: no stage is */
	const char *stage;			/* why nodes do not compute that stage; NULL: no reason so far */
	bool		offered;		/* nodes can compute that stage */
} ShardRefusals;

extern ShardRefusals shard_refusal_enter(void);
extern void shard_refusal_leave(ShardRefusals outer);

/* Each function notes a reason, which is a constant string, and returns false. */
extern bool shard_refusal_of_statement(const char *reason);

extern bool shard_refusal_of_join(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel, const char *reason);
extern bool shard_refusal_of_stage(const char *stage, const char *reason);

/* Notes why the statement, which is not tried on several shards, does not run unchanged on one. */
extern void shard_refusal_of_router(const char *reason);

/* Core scans each shard of the sharded table by itself. reason: a constant string. */
extern void shard_refusal_of_table(Oid relid, const char *reason);

/* Nodes can compute the join.  Earlier refusals of the join are dropped: nodes compute it if that costs less. */
extern void shard_refusal_join_offered(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel);

/*
 * A stage above input is planned between begin and end.  The first reason counts.  If nodes can compute no part of the
 * stage (nothing is offered), the reason is shown at a scan of input.  If nodes can compute a smaller part than was
 * refused, the reason is shown at the scan of rel.
 */
extern void shard_refusal_stage_begin(RelOptInfo *input);
extern void shard_refusal_stage_offered(PlannerInfo *root, RelOptInfo *rel);
extern void shard_refusal_stage_end(PlannerInfo *root);

/* A scan of rel is in the plan. */
extern void shard_refusal_add_scan(PlannerInfo *root, RelOptInfo *rel, ForeignScan *scan);

/* Writes the reason of the statement into a scan that makes the rows of input, which go to the statement. */
extern void shard_refusal_explain_input(Plan *input);

/* Writes the reasons into the scans of the finished plan. */
extern void shard_refusal_explain(PlannedStmt *stmt);

#endif
