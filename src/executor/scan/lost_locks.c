/*
 * lost_locks.c
 *	  Cursors whose row locks were undone with a savepoint.
 *
 * All rows of a node are locked when the first of them is fetched, and most of them
 * wait here, in a stream, a sort or a merge.  When that was within a savepoint,
 * ROLLBACK TO takes their locks away, and none of them may be handed out any more.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/execdesc.h"
#include "executor/executor.h"
#include "executor/scan/lost_locks.h"
#include "nodes/execnodes.h"
#include "remote/xact/txn_level.h"

static ExecutorRun_hook_type prev_run_hook = NULL;

static void
run_statement(QueryDesc *desc, ScanDirection direction, uint64 count, bool once)
{
	if (shard_txn_level_lost_locks(desc->estate->es_query_cxt))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_CURSOR_STATE),
				 errmsg("the cursor's rows are no longer locked"),
				 errdetail("They were locked on the nodes within a savepoint that has been rolled back."),
				 errhint("Fetch the cursor's first row before the savepoint, or declare it again.")));
	shard_call_executor_run(prev_run_hook ? prev_run_hook : standard_ExecutorRun,
							desc, direction, count, once);
}

SHARD_EXECUTOR_RUN_ENTRY(run_entry, run_statement)

void
shard_lost_locks_init(void)
{
	prev_run_hook = ExecutorRun_hook;
	ExecutorRun_hook = run_entry;
}
