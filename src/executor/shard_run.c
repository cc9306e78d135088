/*
 * shard_run.c
 *	  Runs one statement on each of several shards in parallel, and reads what they return.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/instrument.h"
#include "executor/shard_run.h"
#include "miscadmin.h"
#include "utils/memutils.h"

void
shard_run_set_outputs(ShardRun *run, const ShardOutput *outputs, int noutputs, TupleDesc desc)
{
	run->decoder = shard_decode_create(desc, outputs, noutputs);
	run->row_cxt = AllocSetContextCreate(CurrentMemoryContext, "shard returned row", ALLOCSET_SMALL_SIZES);
	run->spec.ncolumns = shard_decode_nremote(run->decoder);
	run->spec.portable_text = shard_decode_has_styled_text(run->decoder);
}

/* ---------- commands ---------- */

ShardCommand
shard_run_command(const ShardRun *run, int i)
{
	const ShardRunTarget *target = &run->targets[i];

	return (ShardCommand)
	{
		.serverid = target->serverid, .userid = run->spec.userid, .sql = target->sql, .label = target->label,
			.keeps_rows = run->spec.keeps_rows, .nparams = target->nparams, .params = target->params,
			.for_values = run->spec.for_values, .inlines = run->inlines
	};
}

void
shard_run_checks(ShardRun *run)
{
	ShardCommand *commands = palloc(sizeof(ShardCommand) * Max(run->ntargets, 1));
	int			n = 0;

	for (int i = 0; i < run->ntargets; i++)
	{
		ShardRunTarget *target = &run->targets[i];

		if (target->check != NULL)
			commands[n++] = (ShardCommand) {.serverid = target->serverid, .userid = run->spec.userid, .sql = target->check,
				.label = target->label, .keeps_rows = true};
		target->check = NULL;
	}
	if (n == 0)
		return;
	shard_command_run(commands, n, SHARD_COMMAND_WRITE, false);
	shard_command_free(commands, n);
	pfree(commands);
}

int64
shard_run_commands(ShardRun *run)
{
	ShardCommand *commands = palloc(sizeof(ShardCommand) * Max(run->ntargets, 1));
	int64		nchanged = 0;

	shard_run_checks(run);
	for (int i = 0; i < run->ntargets; i++)
		commands[i] = shard_run_command(run, i);
	shard_command_run(commands, run->ntargets, SHARD_COMMAND_WRITE, false);
	for (int i = 0; i < run->ntargets; i++)
	{
		run->targets[i].nchanged = strtoi64(PQcmdTuples(commands[i].result), NULL, 10);
		nchanged += run->targets[i].nchanged;
	}
	shard_command_free(commands, run->ntargets);
	pfree(commands);
	return nchanged;
}

void
shard_run_count(PlanState *node, bool set_processed, int64 nchanged)
{
	if (set_processed)
		node->state->es_processed += nchanged;
	if (node->instrument)
		node->instrument->tuplecount += nchanged;
}

/* ---------- rows ---------- */

void
shard_run_open(ShardRun *run, ShardSnapshot *snapshot)
{
	run->streams = MemoryContextAllocZero(run->cxt, sizeof(ShardStream *) * Max(run->ntargets, 1));
	run->wait_set = NULL;
	run->nopen = 0;
	run->current = 0;
	for (int i = 0; i < run->ntargets; i++)
	{
		const ShardRunTarget *target = &run->targets[i];
		ShardStreamSpec spec = run->spec;

		spec.serverid = target->serverid;
		spec.label = target->label;
		spec.sql = target->sql;
		spec.check = target->check;
		spec.may_be_gone = target->may_be_gone;
		spec.nparams = target->nparams;
		spec.params = target->params;
		spec.workers = -1;
		run->streams[i] = shard_stream_open(run->cxt, snapshot, &spec);
		run->nopen++;
	}
}

static void
close_stream(ShardRun *run, int i)
{
	ShardStream *stream = run->streams[i];

	run->nrows += shard_stream_rows(stream);
	run->nbytes += shard_stream_bytes(stream);
	run->conns = list_append_unique_ptr(run->conns, unconstify(void *, shard_stream_conn_id(stream)));
	shard_stream_close(stream);
	run->streams[i] = NULL;
	run->nopen--;
}

bool
shard_run_next(ShardRun *run, ShardRow *row)
{
	int			nidle = 0;		/* number of consecutive targets without a row */

	while (run->nopen > 0)
	{
		int			i = run->current;
		ShardStreamStatus status = run->streams[i] == NULL ? SHARD_STREAM_WAIT : shard_stream_next(run->streams[i], row);

		if (status == SHARD_STREAM_ROW)
			return true;
		nidle++;
		if (status == SHARD_STREAM_DONE)
		{
			close_stream(run, i);
			nidle = 0;
		}
		run->current = (i + 1) % run->ntargets;
		if (nidle < run->ntargets)
			continue;
		if (run->wait_set == NULL && run->ntargets > 1)
			run->wait_set = shard_wait_set_create(run->cxt);
		shard_stream_wait(run->streams, run->ntargets, run->wait_set);
		nidle = 0;
	}
	return false;
}

bool
shard_run_next_slot(ShardRun *run, TupleTableSlot *slot)
{
	ShardRow	row;

	ExecClearTuple(slot);
	if (!shard_run_next(run, &row))
		return false;
	MemoryContextReset(run->row_cxt);
	shard_decode_row(run->decoder, &row, slot, run->row_cxt);
	if (shard_decode_has_header(run->decoder))
		shard_decode_add_header(run->decoder, slot, run->row_cxt);
	return true;
}

void
shard_run_finish(ShardRun *run)
{
	ShardRow	row;

	while (shard_run_next(run, &row))
		CHECK_FOR_INTERRUPTS();
}

void
shard_run_close(ShardRun *run)
{
	for (int i = 0; run->nopen > 0; i++)
	{
		if (run->streams[i] != NULL)
			close_stream(run, i);
	}
}
