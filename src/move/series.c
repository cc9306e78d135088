/*
 * series.c
 *	  A job that runs other jobs one after the other: rebalance(), drain_node(), set_shard_count().
 *
 *	 starting --> step 0 --> commit --> step 1 --> commit --> ... --> no step is left --> done
 *
 * The SQL function series_step() runs one step, which starts another job and waits for it.  The function finds the step by
 * the plan of the series and by the catalogs.  If the series ends early, the steps before stay, and another series goes on.
 *
 * Shards that a step could not move do not end the series.  The journal then says how many stay, and why the first does.
 */
#include "postgres.h"

#include "fmgr.h"
#include "foreign/foreign.h"
#include "move/job/table.h"
#include "own_right.h"
#include "own_schema.h"
#include "own_sql.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(shardfdw_start_series);

typedef struct ShardSeries
{
	ShardJob	job;			/* relid: table whose shards change; or InvalidOid */
	const char *plan;			/* jsonb for series_step() */
} ShardSeries;

static void
describe(ShardJob *job, const ShardJobArgs *args, ShardJobRow *row)
{
	char	   *newline = strchr(job->plan, '\n');

	/* "kind\nplan" */
	((ShardSeries *) job)->plan = newline + 1;
	*newline = '\0';
	row->kind = job->plan;
	/* the node that is drained */
	if (OidIsValid(args->target))
		row->source_name = GetForeignServer(args->target)->servername;
}

static void
run(ShardJob *job)
{
	const char *plan = quote_literal_cstr(((ShardSeries *) job)->plan);
	const char *reason = NULL;	/* why the first shard that stays was not moved */
	bool		has_step = true;

	for (int n = 0; has_step; n++)
	{
		ShardSqlField *row;

		shard_job_enter_stage(job, psprintf("step %d", n + 1));
		shard_move_begin(job->userid);
		row = linitial(shard_own_sql_rows(psprintf("SELECT has_step, reason FROM " SHARD_INTERNAL_SCHEMA ".series_step(%s, %d)", plan, n), InvalidSnapshot));
		has_step = strcmp(row[0], "t") == 0;
		if (row[1] && reason == NULL)
			reason = MemoryContextStrdup(job->cxt, row[1]);
		shard_move_commit();
	}
	shard_move_begin(job->userid);
	shard_job_set_remark(job, shard_own_sql_value(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".unmoved_message(%s, %s)", plan,
														   reason ? quote_literal_cstr(reason) : "NULL"), InvalidSnapshot));
	shard_move_commit();
}

/* Steps that have been committed stay. */
const ShardJobKind shard_series_kind = {sizeof(ShardSeries), describe, run, NULL};

/* start_series(function_name text, relation oid, node oid, plan text, online boolean) -> bigint; 0: no table, or no node */
Datum
shardfdw_start_series(PG_FUNCTION_ARGS)
{
	ShardJobArgs args = {.type = SHARD_JOB_SERIES, .relid = PG_GETARG_OID(1), .target = PG_GETARG_OID(2), .online = PG_GETARG_BOOL(4)};
	const char *function = text_to_cstring(PG_GETARG_TEXT_PP(0));

	if (strcmp(function, "rebalance") != 0 && strcmp(function, "drain_node") != 0 && strcmp(function, "set_shard_count") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is no function that runs several jobs", function)));
	shard_own_right_check(function);
	PG_RETURN_INT64(shard_job_start(&args, psprintf("%s\n%s", function, text_to_cstring(PG_GETARG_TEXT_PP(3)))));
}
