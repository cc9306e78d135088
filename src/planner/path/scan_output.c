/*
 * scan_output.c
 *	  Which columns a scan's query returns.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "compat.h"
#include "nodes/makefuncs.h"
#include "planner/path/scan_output.h"
#include "utils/rel.h"

ShardOutput *
shard_scan_convert_outputs(List *outputs, int *noutputs)
{
	ShardOutput *result = palloc(sizeof(ShardOutput) * Max(list_length(outputs), 1));

	*noutputs = 0;
	foreach_ptr(ShardSelectOutput, from, outputs)
	{
		ShardOutput *to = &result[(*noutputs)++];

		switch (from->kind)
		{
			case SHARD_SELECT_VALUE:
				to->kind = SHARD_OUTPUT_VALUE;
				break;
			case SHARD_SELECT_TEXT:
				to->kind = SHARD_OUTPUT_TEXT;
				break;
			case SHARD_SELECT_SYSTEM:
				to->kind = SHARD_OUTPUT_SYSTEM;
				break;
			case SHARD_SELECT_INT8_SUM:
				to->kind = SHARD_OUTPUT_INT8_SUM;
				break;
			case SHARD_SELECT_NUMERIC_SUM:
				to->kind = SHARD_OUTPUT_NUMERIC_SUM;
				break;
			case SHARD_SELECT_INTERVAL_SUM:
				to->kind = SHARD_OUTPUT_INTERVAL_SUM;
				break;
			case SHARD_SELECT_POLY_VARIANCE:
				to->kind = SHARD_OUTPUT_POLY_VARIANCE;
				break;
			case SHARD_SELECT_NUMERIC_VARIANCE:
				to->kind = SHARD_OUTPUT_NUMERIC_VARIANCE;
				break;
			case SHARD_SELECT_STATE:
				to->kind = SHARD_OUTPUT_STATE;
				break;
		}
		to->target = from->target;
		to->type = from->type;
		to->typmod = from->typmod;
	}
	return result;
}

void
shard_scan_fetch_columns(ShardSelect *select, PlannerInfo *root, Oid relid,
						 Bitmapset *columns, bool for_modify)
{
	Relation	rel = table_open(relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);
	bool		whole_row = bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, columns);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped || att->attgenerated == 'v' ||
			(!whole_row &&
			 !bms_is_member(att->attnum - FirstLowInvalidHeapAttributeNumber, columns)))
			continue;
		shard_select_output(select,
							(Expr *) makeVar(select->rtindex, att->attnum, att->atttypid,
											 att->atttypmod, att->attcollation, 0),
							i);
	}
	table_close(rel, NoLock);

	for (AttrNumber attno = SelfItemPointerAttributeNumber; attno > TableOidAttributeNumber; attno--)
	{
		if (bms_is_member(attno - FirstLowInvalidHeapAttributeNumber, columns))
			shard_select_output_system(select, attno, for_modify);
	}
}
