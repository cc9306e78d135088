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
	foreach_ptr(ShardOutput, output, outputs)
		result[(*noutputs)++] = *output;
	return result;
}

void
shard_scan_fetch_columns(ShardSelect *select, Oid relid,
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
