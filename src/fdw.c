/*
 * fdw.c
 *	  The handler of the foreign data wrapper: returns its callback functions.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/scan/fdw_executor.h"
#include "fmgr.h"
#include "planner/path/fdw_planner.h"
#include "sqlfunc/import.h"

PG_FUNCTION_INFO_V1(shardfdw_handler);

Datum
shardfdw_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	routine->GetForeignRelSize = shardGetForeignRelSize;
	routine->GetForeignPaths = shardGetForeignPaths;
	routine->GetForeignPlan = shardGetForeignPlan;
	routine->GetForeignJoinPaths = shardGetForeignJoinPaths;
	routine->GetForeignUpperPaths = shardGetForeignUpperPaths;
	routine->IsForeignPathAsyncCapable = shardIsForeignPathAsyncCapable;

	routine->BeginForeignScan = shardBeginForeignScan;
	routine->IterateForeignScan = shardIterateForeignScan;
	routine->ReScanForeignScan = shardReScanForeignScan;
	routine->EndForeignScan = shardEndForeignScan;
	routine->RecheckForeignScan = shardRecheckForeignScan;
	routine->ForeignAsyncRequest = shardForeignAsyncRequest;
	routine->ForeignAsyncConfigureWait = shardForeignAsyncConfigureWait;
	routine->ForeignAsyncNotify = shardForeignAsyncNotify;

	routine->GetForeignRowMarkType = shardGetForeignRowMarkType;
	routine->RefetchForeignRow = shardRefetchForeignRow;

	routine->AddForeignUpdateTargets = shardAddForeignUpdateTargets;
	routine->PlanForeignModify = shardPlanForeignModify;
	routine->BeginForeignModify = shardBeginForeignModify;
	routine->ExecForeignInsert = shardExecForeignInsert;
	routine->ExecForeignBatchInsert = shardExecForeignBatchInsert;
	routine->GetForeignModifyBatchSize = shardGetForeignModifyBatchSize;
	routine->ExecForeignUpdate = shardExecForeignUpdate;
	routine->ExecForeignDelete = shardExecForeignDelete;
	routine->EndForeignModify = shardEndForeignModify;
	routine->BeginForeignInsert = shardBeginForeignInsert;
	routine->EndForeignInsert = shardEndForeignInsert;
	routine->IsForeignRelUpdatable = shardIsForeignRelUpdatable;
	routine->ExecForeignTruncate = shardExecForeignTruncate;

	routine->PlanDirectModify = shardPlanDirectModify;
	routine->BeginDirectModify = shardBeginDirectModify;
	routine->IterateDirectModify = shardIterateDirectModify;
	routine->EndDirectModify = shardEndDirectModify;

	routine->ExplainForeignScan = shardExplainForeignScan;
	routine->ExplainForeignModify = shardExplainForeignModify;
	routine->ExplainDirectModify = shardExplainDirectModify;

	routine->AnalyzeForeignTable = shardAnalyzeForeignTable;
	routine->ImportForeignSchema = shardImportForeignSchema;

	PG_RETURN_POINTER(routine);
}
