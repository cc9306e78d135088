/*
 * fdw.c
 *	  The handler of the foreign data wrapper, which returns its callback functions, and its validator.
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "catalog/node_list.h"
#include "catalog/option.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "commands/defrem.h"
#include "compat.h"
#include "executor/scan/fdw_executor.h"
#include "fmgr.h"
#include "own_right.h"
#include "planner/path/fdw_planner.h"
#include "sqlfunc/import.h"

PG_FUNCTION_INFO_V1(shardfdw_handler);
PG_FUNCTION_INFO_V1(shardfdw_validator);

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

/*
 * A foreign table with these options represents tables of other servers, too.  So CREATE FOREIGN TABLE needs USAGE on
 * these servers, as on its own server.
 */
static void
check_replicas(List *options)
{
	foreach_node(DefElem, elem, options)
	{
		if (strcmp(elem->defname, "replica_nodes") != 0 && strcmp(elem->defname, "stale_replica_nodes") != 0)
			continue;
		shard_node_check_replicas(shard_option_list(defGetString(elem)));
	}
}

/*
 * Validator of the wrapper: (options text[], catalog oid) -> void.
 *
 * The owner of a server sees the rows and statements that users send there, and decides what the
 * coordinator reads as an answer.  So CREATE and ALTER SERVER need the right to call add_node(), in
 * addition to USAGE on the wrapper.
 *
 * Errors: see shard_option_validate(); insufficient_privilege.
 */
Datum
shardfdw_validator(PG_FUNCTION_ARGS)
{
	List	   *options = untransformRelOptions(PG_GETARG_DATUM(0));

	shard_option_validate(options, PG_GETARG_OID(1));
	if (PG_GETARG_OID(1) == ForeignServerRelationId)
		shard_own_right_check("add_node");
	else if (PG_GETARG_OID(1) == ForeignTableRelationId)
		check_replicas(options);
	PG_RETURN_VOID();
}
