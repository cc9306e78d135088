/*
 * series.c
 *	  A job that runs other jobs one after the other: rebalance(), drain_node(), set_shard_count().
 *
 *	 starting --> step 0 --> commit --> step 1 --> commit --> ... --> no step is left --> done
 *
 * The SQL function series_step() runs one step, which starts another job and waits for it.  The function finds the step by
 * the plan of the series and by the catalogs.  If the series ends early, the steps before stay, and another series goes on.
 */
#include "postgres.h"

#include "catalog/qualified.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "move/job/table.h"
#include "move/series.h"
#include "own_right.h"
#include "own_schema.h"
#include "pgstat.h"
#include "utils/builtins.h"
#include "version.h"

PG_FUNCTION_INFO_V1(shardfdw_start_series);

struct ShardSeries
{
	MemoryContext cxt;
	int64		id;
	Oid			userid;
	Oid			relid;			/* table whose shards change; or InvalidOid */
	Oid			serverid;		/* node that is drained; or InvalidOid */
	const char *kind;			/* as in the journal */
	const char *plan;			/* jsonb for series_step() */
};

ShardSeries *
shard_series_make(const ShardJobArgs *args)
{
	ShardSeries *series = palloc0(sizeof(ShardSeries));

	series->cxt = CurrentMemoryContext;
	series->userid = args->userid;
	series->relid = args->converted;
	series->serverid = args->target;
	return series;
}

/* Writes the row of the job. */
static void
begin_job(ShardSeries *series, const ShardJobArgs *args)
{
	ShardJobRow row = {.mode = args->online ? "online" : "block", .userid = series->userid};
	const char *name;
	char	   *plan;
	MemoryContext oldcxt;

	shard_move_begin(series->userid);
	shard_version_check();
	oldcxt = MemoryContextSwitchTo(series->cxt);
	series->id = shard_job_link(args, &plan);
	MemoryContextSwitchTo(oldcxt);
	/* "kind\nplan" */
	series->kind = plan;
	series->plan = strchr(plan, '\n') + 1;
	plan[series->plan - 1 - plan] = '\0';
	row.id = series->id;
	row.kind = series->kind;
	if (OidIsValid(series->relid))
	{
		name = shard_qualified_relation(series->relid);
		row.ntables = 1;
		row.relids = &series->relid;
		row.names = &name;
	}
	if (OidIsValid(series->serverid))
		row.source_name = GetForeignServer(series->serverid)->servername;
	shard_job_insert(&row);
	shard_move_commit();
	pgstat_report_activity(STATE_RUNNING, psprintf("job " INT64_FORMAT ": %s", series->id, series->kind));
}

void
shard_series_run(ShardSeries *series, const ShardJobArgs *args)
{
	bool		has_step = true;

	begin_job(series, args);
	for (int n = 0; has_step; n++)
	{
		shard_job_set_stage(series->id, psprintf("step %d", n + 1));
		shard_move_begin(series->userid);
		has_step = strcmp(shard_move_value(psprintf("SELECT " SHARD_INTERNAL_SCHEMA ".series_step(%s, %d)::pg_catalog.text",
													quote_literal_cstr(series->plan), n)), "true") == 0;
		shard_move_commit();
	}
	shard_job_end(series->id, NULL);
}

void
shard_series_end_failed(const ShardSeries *series, ErrorData *error)
{
	QueryCancelPending = false;
	shard_job_end(series->id, error);
}

/* start_series(function_name text, relation oid, node oid, plan text, online boolean) -> bigint; 0: no table, or no node */
Datum
shardfdw_start_series(PG_FUNCTION_ARGS)
{
	ShardJobArgs args = {.series = true, .converted = PG_GETARG_OID(1), .target = PG_GETARG_OID(2), .online = PG_GETARG_BOOL(4)};
	const char *function = text_to_cstring(PG_GETARG_TEXT_PP(0));

	if (strcmp(function, "rebalance") != 0 && strcmp(function, "drain_node") != 0 && strcmp(function, "set_shard_count") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is no function that runs several jobs", function)));
	shard_own_right_check(function);
	PG_RETURN_INT64(shard_job_start(&args, psprintf("%s\n%s", function, text_to_cstring(PG_GETARG_TEXT_PP(3)))));
}
