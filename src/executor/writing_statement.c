/*
 * writing_statement.c
 *	  While a statement that writes, or locks rows, is run, all that its functions and triggers read
 *	  is read from primaries.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/execdesc.h"
#include "executor/executor.h"
#include "executor/scan/statement_view.h"
#include "executor/writing_statement.h"
#include "remote/run/read_role.h"

static ExecutorStart_hook_type prev_start_hook = NULL;
static ExecutorRun_hook_type prev_run_hook = NULL;
static ExecutorFinish_hook_type prev_finish_hook = NULL;

/* What the executor starts with. */
typedef struct ShardStartCall
{
	QueryDesc  *desc;
	int			eflags;
} ShardStartCall;

static void
start_next(void *arg)
{
	ShardStartCall *call = arg;

	if (prev_start_hook)
		prev_start_hook(call->desc, call->eflags);
	else
		standard_ExecutorStart(call->desc, call->eflags);
}

/* Functions are called to choose partitions. */
static void
start_statement(QueryDesc *desc, int eflags)
{
	ShardStartCall call = {desc, eflags};

	if (shard_statement_only_reads(desc->plannedstmt))
		start_next(&call);
	else
		shard_read_role_run_writing(start_next, &call);
}

/* What the executor was asked for. */
typedef struct ShardRunCall
{
	QueryDesc  *desc;
	ScanDirection direction;
	uint64		count;
	bool		once;
} ShardRunCall;

static void
run_next(void *arg)
{
	ShardRunCall *call = arg;

	shard_call_executor_run(prev_run_hook ? prev_run_hook : standard_ExecutorRun,
							call->desc, call->direction, call->count, call->once);
}

static void
run_statement(QueryDesc *desc, ScanDirection direction, uint64 count, bool once)
{
	ShardRunCall call = {desc, direction, count, once};

	if (shard_statement_only_reads(desc->plannedstmt))
		run_next(&call);
	else
		shard_read_role_run_writing(run_next, &call);
}

SHARD_EXECUTOR_RUN_ENTRY(run_entry, run_statement)

static void
finish_next(void *arg)
{
	QueryDesc  *desc = arg;

	if (prev_finish_hook)
		prev_finish_hook(desc);
	else
		standard_ExecutorFinish(desc);
}

/* AFTER triggers. */
static void
finish_statement(QueryDesc *desc)
{
	if (shard_statement_only_reads(desc->plannedstmt))
		finish_next(desc);
	else
		shard_read_role_run_writing(finish_next, desc);
}

void
shard_writing_statement_init(void)
{
	prev_start_hook = ExecutorStart_hook;
	ExecutorStart_hook = start_statement;
	prev_run_hook = ExecutorRun_hook;
	ExecutorRun_hook = run_entry;
	prev_finish_hook = ExecutorFinish_hook;
	ExecutorFinish_hook = finish_statement;
}
