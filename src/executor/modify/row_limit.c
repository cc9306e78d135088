/*
 * row_limit.c
 *	  Checks statements that change more rows than their caller reads.
 *
 * SPI_execute() with a count stops an UPDATE, DELETE or INSERT ... RETURNING after that many rows, so that no further
 * rows are changed.  PL/pgSQL reads two rows for INTO, and raises an error (P0003) if there is a second one.  But a
 * node that runs the statement has changed all of its rows by then.  So a further row is an error with the same
 * SQLSTATE.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/modify/row_limit.h"
#include "executor/scan/fdw_executor.h"
#include "foreign/fdwapi.h"
#include "nodes/extensible.h"
#include "plan/plan_private.h"

/* Do nodes change all rows when the first row is requested? */
static bool
runs_on_nodes(const PlanState *planstate)
{
	if (IsA(planstate, CustomScanState))
	{
		const char *name = ((const CustomScanState *) planstate)->methods->CustomName;

		return strcmp(name, SHARD_STATEMENT_NAME) == 0 || strcmp(name, SHARD_SOURCE_NAME) == 0 ||
			strcmp(name, SHARD_QUEUE_NAME) == 0;
	}
	if (IsA(planstate, ModifyTableState))
	{
		const ModifyTableState *mtstate = (const ModifyTableState *) planstate;

		for (int i = 0; i < mtstate->mt_nrels; i++)
		{
			const ResultRelInfo *rinfo = &mtstate->resultRelInfo[i];

			if (rinfo->ri_usesFdwDirectModify && rinfo->ri_FdwRoutine->IterateDirectModify == shardIterateDirectModify)
				return true;
		}
	}
	return false;
}

void
shard_row_limit_check(QueryDesc *desc, uint64 count)
{
	MemoryContext oldcxt;
	TupleTableSlot *further;

	if (count == 0 || !desc->plannedstmt->hasReturning || desc->estate->es_processed < count || !runs_on_nodes(desc->planstate))
		return;
	oldcxt = MemoryContextSwitchTo(desc->estate->es_query_cxt);
	further = ExecProcNode(desc->planstate);
	MemoryContextSwitchTo(oldcxt);
	if (!TupIsNull(further))
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_ROWS),
				 errmsg("statement has changed more rows than its caller takes"),
				 errdetail("The caller takes %llu rows, and the nodes have changed all rows of the statement.",
						   (unsigned long long) count),
				 errhint("Make sure the statement changes no more rows, by conditions or LIMIT.")));
}
