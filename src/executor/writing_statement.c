/*
 * writing_statement.c
 *	  Hooks of the executor: a statement that writes or locks rows reads primaries only, and so do
 *	  its functions and triggers.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/execdesc.h"
#include "executor/executor.h"
#include "executor/writing_statement.h"
#include "remote/run/read_role.h"
#include "tcop/utility.h"

static ExecutorStart_hook_type prev_start_hook = NULL;
static ExecutorRun_hook_type prev_run_hook = NULL;
static ExecutorFinish_hook_type prev_finish_hook = NULL;

/* Runs a part of a statement. */
static void
run_part(const QueryDesc *desc, void (*part) (void *arg), void *arg)
{
	if (CommandIsReadOnly(desc->plannedstmt))
		part(arg);
	else
		shard_read_role_run_writing(part, arg);
}

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

	run_part(desc, start_next, &call);
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

	run_part(desc, run_next, &call);
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
	run_part(desc, finish_next, desc);
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
