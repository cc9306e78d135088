/*
 * executor_hook.c
 *	  The hooks of the executor, and the order in which the library acts at each of them.
 *
 * A statement that writes or locks rows reads from primaries only.  Its functions and triggers do the same.  Functions
 * choose partitions when a statement starts, and AFTER triggers run when it finishes.  So this holds for all three
 * parts.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/execdesc.h"
#include "executor/executor.h"
#include "executor/modify/cte_order.h"
#include "executor/modify/row_limit.h"
#include "executor/scan/nested_write.h"
#include "executor/scan/statement_view.h"
#include "hook/copied_table.h"
#include "hook/hook.h"
#include "reference/reference_pending.h"
#include "reference/reference_turn.h"
#include "remote/run/read_role.h"
#include "remote/xact/txn_level.h"
#include "tcop/utility.h"

static ExecutorCheckPerms_hook_type prev_check_hook = NULL;
static ExecutorStart_hook_type prev_start_hook = NULL;
static ExecutorRun_hook_type prev_run_hook = NULL;
static ExecutorFinish_hook_type prev_finish_hook = NULL;

/* The arguments of ExecutorStart or ExecutorRun. */
typedef struct ExecutorCall
{
	QueryDesc  *desc;
	int			eflags;			/* of ExecutorStart */
	ScanDirection direction;	/* the following ones of ExecutorRun */
	uint64		count;
	bool		once;
} ExecutorCall;

static void
run_part(void (*part) (void *arg), ExecutorCall *call)
{
	if (CommandIsReadOnly(call->desc->plannedstmt))
		part(call);
	else
		shard_read_role_run_writing(part, call);
}

/* Core calls this hook in ExecutorStart(), and for statements without an executor: COPY, foreign keys. */
static bool
check_permissions(List *range_table, List *permissions, bool raise)
{
	/*
	 * without raise, core only asks whether it may validate a foreign key by a query, which will have another snapshot
	 */
	if (raise)
		shard_copied_table_check(permissions);
	shard_reference_pending_note(permissions);
	shard_nested_write_note(permissions);
	return prev_check_hook ? shard_call_check_perms(prev_check_hook, range_table, permissions, raise) : true;
}

SHARD_CHECK_PERMS_ENTRY(check_permissions_entry, check_permissions)

static void
start_next(void *arg)
{
	ExecutorCall *call = arg;

	if (prev_start_hook)
		prev_start_hook(call->desc, call->eflags);
	else
		standard_ExecutorStart(call->desc, call->eflags);
}

static void
start_statement(QueryDesc *desc, int eflags)
{
	ExecutorCall call = {.desc = desc, .eflags = eflags};
	int			npending = shard_reference_pending_count();

	shard_reference_turn_start(desc, eflags);
	run_part(start_next, &call);
	shard_reference_pending_start(desc, eflags, npending);
}

static void
run_next(void *arg)
{
	ExecutorCall *call = arg;

	shard_call_executor_run(prev_run_hook ? prev_run_hook : standard_ExecutorRun,
							call->desc, call->direction, call->count, call->once);
}

static void
run_changes_first(void *arg)
{
	ExecutorCall *call = arg;

	shard_cte_order_run(call->desc, call->direction, run_next, call);
	shard_row_limit_check(call->desc, call->count);
}

/* Also called for each FETCH of a cursor. */
static void
run_statement(QueryDesc *desc, ScanDirection direction, uint64 count, bool once)
{
	ExecutorCall call = {.desc = desc, .direction = direction, .count = count, .once = once};
	DestReceiver *dest = desc->dest;

	shard_reference_pending_check(desc);
	shard_txn_level_check_locks(desc->estate->es_query_cxt);
	desc->dest = shard_statement_view_receiver(desc);
	run_part(run_changes_first, &call);
	desc->dest = dest;
}

SHARD_EXECUTOR_RUN_ENTRY(run_entry, run_statement)

static void
finish_next(void *arg)
{
	ExecutorCall *call = arg;

	if (prev_finish_hook)
		prev_finish_hook(call->desc);
	else
		standard_ExecutorFinish(call->desc);
}

static void
finish_statement(QueryDesc *desc)
{
	ExecutorCall call = {.desc = desc};

	shard_reference_pending_finish(desc);
	shard_nested_write_finish(desc->estate);
	run_part(finish_next, &call);
}

void
shard_executor_hook_init(void)
{
	prev_check_hook = ExecutorCheckPerms_hook;
	ExecutorCheckPerms_hook = check_permissions_entry;
	prev_start_hook = ExecutorStart_hook;
	ExecutorStart_hook = start_statement;
	prev_run_hook = ExecutorRun_hook;
	ExecutorRun_hook = run_entry;
	prev_finish_hook = ExecutorFinish_hook;
	ExecutorFinish_hook = finish_statement;
}
