/*
 * command_result.c
 *	  The memory and the failures of a run of commands.
 */
#include "postgres.h"

#include "remote/run/command_private.h"
#include "remote/wire/error.h"
#include "utils/memutils.h"

int
shard_command_next(ShardCommandRun *run, int laneno, int start)
{
	while (start < run->ncommands && run->laneno[start] != laneno)
		start++;
	return start;
}

/* ---------- memory ---------- */

static void
clear_result(PGresult **res)
{
	PQclear(*res);
	*res = NULL;
}

void
shard_command_set_result(ShardCommandRun *run, int i, PGresult *res)
{
	PQclear(run->results[i]);
	run->results[i] = res;
	run->commands[i].result = res;
}

static void
clear_in_reset(void *arg)
{
	ShardCommandRun *run = arg;

	for (int i = 0; i < run->nlanes; i++)
		clear_result(&run->lanes[i].rows);
	for (int i = 0; i < run->ncommands; i++)
	{
		clear_result(&run->results[i]);
		clear_result(&run->failures[i]);
	}
}

ShardCommandRun *
shard_command_alloc(int ncommands)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "shardfdw commands", ALLOCSET_SMALL_SIZES);
	ShardCommandRun *run = MemoryContextAllocZero(cxt, sizeof(ShardCommandRun));

	run->cxt = cxt;
	run->laneno = MemoryContextAlloc(cxt, ncommands * sizeof(int));
	run->results = MemoryContextAllocZero(cxt, ncommands * sizeof(PGresult *));
	run->failures = MemoryContextAllocZero(cxt, ncommands * sizeof(PGresult *));
	run->lanes = MemoryContextAllocZero(cxt, ncommands * sizeof(ShardCommandLane));
	run->ncommands = ncommands;
	run->callback.func = clear_in_reset;
	run->callback.arg = run;
	MemoryContextRegisterResetCallback(cxt, &run->callback);
	return run;
}

void
shard_command_free(ShardCommand *commands, int ncommands)
{
	if (ncommands <= 0)
		return;
	MemoryContextDelete(commands[0].memory);
	commands[0].memory = NULL;
	for (int i = 0; i < ncommands; i++)
		commands[i].result = NULL;
}

/* ---------- errors ---------- */

void
shard_command_raise_failure(ShardCommandRun *run, int i)
{
	PGresult   *res = run->failures[i];
	ShardCommandLane *lane = &run->lanes[run->laneno[i]];

	if (!res && lane->copied && lane->current == i)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("COPY from or to the client is not possible in a command for nodes"),
				 errdetail("Node \"%s\".", lane->conn->node)));

	run->failures[i] = NULL;
	if (run->commands[i].is_whole)
		shard_error_report_as_is(res, lane->conn, run->commands[i].label, run->commands[i].has_values ? NULL : run->commands[i].sql);
	/* the node's CONTEXT may show the command, too */
	if (run->commands[i].has_values)
		shard_error_report_context(res, lane->conn, run->commands[i].label, NULL);
	shard_error_report(ERROR, res, lane->conn, run->commands[i].label, run->commands[i].sql);
}

void
shard_command_fail_rest(ShardCommandRun *run, int laneno, ErrorData *error)
{
	ShardCommandLane *lane = &run->lanes[laneno];

	for (int i = shard_command_next(run, laneno, lane->current); i < run->ncommands;
		 i = shard_command_next(run, laneno, i + 1))
	{
		shard_command_set_result(run, i, NULL);
		clear_result(&run->failures[i]);
		run->commands[i].error = error;
	}
	lane->step = LANE_END;
}
