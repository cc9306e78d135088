/*
 * stat_load.c
 *	  SQL function load_stats(): statistics of loads, per shard.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "compat.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "remote/copy/copy_stat.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

/* Columns of the result. */
typedef enum ResultColumn
{
	RESULT_PID,					/* int */
	RESULT_RELATION,			/* oid */
	RESULT_MODE,				/* text */
	RESULT_REASON,				/* text: reason for parsed mode */
	RESULT_STARTED,				/* timestamptz */
	RESULT_FINISHED,			/* timestamptz; NULL: in progress */
	RESULT_SHARD,				/* oid; NULL: not for a shard */
	RESULT_SERVER,				/* oid */
	RESULT_ROWS_SENT,			/* bigint, like all following columns except RESULT_STALLED */
	RESULT_BYTES_SENT,
	RESULT_BYTES_BUFFERED,
	RESULT_STALLED,				/* interval */
	RESULT_REJECTED,
	RESULT_DUPLICATES,
	RESULT_REPLACED,
	RESULT_NCOLUMNS
} ResultColumn;

PG_FUNCTION_INFO_V1(shardfdw_load_stats);

/* The rule of pg_stat_progress_copy. */
static bool
may_see(const ShardCopyStatLoad *load)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		has_privs_of_role(GetUserId(), load->userid);
}

static void
set_value(Datum *values, bool *nulls, ResultColumn column, Datum value)
{
	values[column] = value;
	nulls[column] = false;
}

static void
put_load(const ReturnSetInfo *rsinfo, const ShardCopyStatLoad *load)
{
	Datum		values[RESULT_NCOLUMNS];
	bool		nulls[RESULT_NCOLUMNS];

	memset(nulls, true, sizeof(nulls));
	set_value(values, nulls, RESULT_PID, Int32GetDatum(load->pid));
	if (!may_see(load))
	{
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		return;
	}
	set_value(values, nulls, RESULT_RELATION, ObjectIdGetDatum(load->relid));
	set_value(values, nulls, RESULT_MODE, CStringGetTextDatum(load->mode));
	if (load->reason[0] != '\0')
		set_value(values, nulls, RESULT_REASON, CStringGetTextDatum(load->reason));
	set_value(values, nulls, RESULT_STARTED, TimestampTzGetDatum(load->started));
	if (load->finished != 0)
		set_value(values, nulls, RESULT_FINISHED, TimestampTzGetDatum(load->finished));

	/* rows that belong to no shard, and loads without a shard so far */
	if (load->nrejected > 0 || load->ntargets == 0)
	{
		set_value(values, nulls, RESULT_REJECTED, Int64GetDatum((int64) load->nrejected));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	for (int i = 0; i < load->ntargets; i++)
	{
		const ShardCopyStatTarget *target = &load->targets[i];
		const ShardCopyTargetStat *figures = &target->figures;
		Interval	stalled = {0};

		stalled.time = figures->stalled_us;
		set_value(values, nulls, RESULT_SHARD, ObjectIdGetDatum(target->relid));
		set_value(values, nulls, RESULT_SERVER, ObjectIdGetDatum(target->serverid));
		set_value(values, nulls, RESULT_ROWS_SENT, Int64GetDatum((int64) figures->nrows_sent));
		set_value(values, nulls, RESULT_BYTES_SENT, Int64GetDatum((int64) figures->nbytes_sent));
		set_value(values, nulls, RESULT_BYTES_BUFFERED, Int64GetDatum((int64) figures->nbytes_buffered));
		set_value(values, nulls, RESULT_STALLED, IntervalPGetDatum(&stalled));
		set_value(values, nulls, RESULT_REJECTED, Int64GetDatum((int64) figures->nrefused));
		set_value(values, nulls, RESULT_DUPLICATES, Int64GetDatum((int64) figures->nduplicates));
		set_value(values, nulls, RESULT_REPLACED, Int64GetDatum((int64) figures->nreplaced));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

Datum
shardfdw_load_stats(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	foreach_ptr(ShardCopyStatLoad, stat, shard_copy_stat_read())
		put_load((ReturnSetInfo *) fcinfo->resultinfo, stat);
	return (Datum) 0;
}
