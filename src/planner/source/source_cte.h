/*
 * source_cte.h
 *	  INSERT ... ON CONFLICT and MERGE in WITH, over rows that the coordinator computes.
 */
#ifndef SHARDFDW_SOURCE_CTE_H
#define SHARDFDW_SOURCE_CTE_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/*
 * Begins the planning of a statement.  Result: for shard_source_cte_leave(), which has to be called even after an
 * error.
 */
extern List *shard_source_cte_enter(void);

/* Replaces these statements in the WITH queries of query by SELECTs. */
extern void shard_source_cte_replace(Query *query);

/* Called when core has made the plan: puts the statements into the plan. */
extern void shard_source_cte_finish(PlannedStmt *stmt);

extern void shard_source_cte_leave(List *outer);

extern void shard_source_cte_init(void);	/* registers a hook */

#endif
