/*
 * source_cte.h
 *	  INSERT ... ON CONFLICT and MERGE in WITH, over rows that the coordinator computes.
 */
#ifndef SHARDFDW_SOURCE_CTE_H
#define SHARDFDW_SOURCE_CTE_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/* A statement is going to be planned. Result: for shard_source_cte_leave(), which has to be called in any case. */
extern List *shard_source_cte_enter(void);

/* Puts SELECTs in the place of such statements of query. */
extern void shard_source_cte_replace(Query *query);

/* Core has made the plan: the statements take their places in it. */
extern void shard_source_cte_finish(PlannedStmt *stmt);

extern void shard_source_cte_leave(List *outer);

extern void shard_source_cte_init(void);	/* registers a hook */

#endif
