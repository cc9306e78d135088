/*
 * shard_run.h
 *	  Runs one statement on each of several shards in parallel, and reads what they return.
 *
 *	   commands				without rows: all are run to their end, and return counts
 *	   open, next, ...		with rows, as they arrive from any shard
 */
#ifndef SHARDFDW_SHARD_RUN_H
#define SHARDFDW_SHARD_RUN_H

#include "postgres.h"

#include "nodes/execnodes.h"
#include "plan/plan_private.h"
#include "remote/run/command.h"
#include "remote/run/stream.h"
#include "tuple/decode.h"

/* The statement of one shard. */
typedef struct ShardRunTarget
{
	Oid			serverid;
	const char *label;			/* name of the shard, for messages */
	const char *sql;
	int			nparams;
	const char *const *params;
	int64		nchanged;		/* result of shard_run_commands(): number of rows */
	const char *check;			/* see ShardStreamSpec, as the next one */
	bool		may_be_gone;
} ShardRunTarget;

typedef struct ShardRun
{
	/* set by the caller */
	MemoryContext cxt;			/* owns the streams */
	ShardStreamSpec spec;		/* what all statements have in common */
	bool		inlines;		/* see ShardCommand */
	ShardDecoder *decoder;		/* for rows; NULL: none, or the caller reads raw rows */
	MemoryContext row_cxt;		/* for values of the current row */
	int			ntargets;
	ShardRunTarget *targets;

	/* set by the functions below */
	ShardStream **streams;		/* of the targets; NULL: ended */
	int			nopen;			/* number of streams that have not ended */
	int			current;		/* target of the last row */
	ShardWaitSet *wait_set;
	uint64		nrows;			/* of streams that have ended, for EXPLAIN ANALYZE */
	uint64		nbytes;
	List	   *conns;			/* their distinct connections */
} ShardRun;

/*
 * Sets decoder and row_cxt, for columns that nodes return and slots of desc, and the fields of spec that follow from
 * the columns.  Memory: current context.
 */
extern void shard_run_set_outputs(ShardRun *run, const ShardOutput *outputs, int noutputs, TupleDesc desc);

/* The command of target i. */
extern ShardCommand shard_run_command(const ShardRun *run, int i);

/* Runs the checks of all targets on the connections that write, and removes them from the targets. */
extern void shard_run_checks(ShardRun *run);

/* Runs the statements of all targets as writing commands, and before them the checks.  Returns the sum of their counts. */
extern int64 shard_run_commands(ShardRun *run);

/* Counts rows that a plan node has changed and does not return. set_processed: also for the command tag. */
extern void shard_run_count(PlanState *node, bool set_processed, int64 nchanged);

/* Starts the statements of all targets.  They are closed when cxt is reset. */
extern void shard_run_open(ShardRun *run, ShardSnapshot *snapshot);

/* Returns the next row of any target, and waits for it.  False: there are no more rows. */
extern bool shard_run_next(ShardRun *run, ShardRow *row);

/* The same, decoded into slot. */
extern bool shard_run_next_slot(ShardRun *run, TupleTableSlot *slot);

/*
 * Reads the remaining rows.  For statements that change rows: closing a running stream would cancel the statement,
 * and thus abort the transaction.
 */
extern void shard_run_finish(ShardRun *run);

/* Ends the statements that have not ended. */
extern void shard_run_close(ShardRun *run);

#endif
