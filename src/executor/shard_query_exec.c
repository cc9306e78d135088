/*
 * shard_query_exec.c
 *	  Recognizes queries that consist of a single shard scan, and returns the query for each shard.
 *
 *	   Foreign Scan		of this extension, the top of the plan, no conditions left to check here
 *		  |`-> columns of the result = remote columns, in any order, none computed
 *		  '--> no order to merge in, no rows to lock, a query per shard
 *
 *	 SELECT q.c3 AS a, q.c1 AS b FROM (query of the scan) AS q(c1, c2, c3)
 */
#include "postgres.h"

#include "executor/scan/fdw_executor.h"
#include "executor/scan/scan.h"
#include "executor/shard_query_exec.h"
#include "utils/builtins.h"

typedef struct ScanQuery
{
	ShardQuery	query;			/* argument of render() */
	ForeignScanState *node;
	TupleDesc	desc;			/* of the result */
	int		   *columns;		/* of the remote query (1-based), one per column of the result */
} ScanQuery;

static bool
is_plain_scan(PlanState *ps)
{
	ForeignScanState *node = (ForeignScanState *) ps;
	const ShardScanPlan *plan;

	if (!IsA(ps, ForeignScanState) || node->fdwroutine->BeginForeignScan != shardBeginForeignScan ||
		ps->qual != NULL)
		return false;
	plan = ((ShardScanState *) node->fdw_state)->plan;
	return plan->shard_template == NIL && plan->sort_columns == NIL && !plan->locks_rows &&
		!plan->at_once;
}

/* False if the result contains something that is not a column of the scan. */
static bool
map_columns(const ShardScanPlan *plan, List *targetlist, int *columns)
{
	foreach_node(TargetEntry, entry, targetlist)
	{
		if (entry->resjunk || !IsA(entry->expr, Var) ||
			shard_scan_find_output(plan, ((Var *) entry->expr)->varattno, &columns[foreach_current_index(entry)]) == NULL)
			return false;
	}
	return true;
}

static void
bind_parameters(ShardQuery *query)
{
	ForeignScanState *node = ((ScanQuery *) query)->node;

	shard_scan_bind(node);
	query->shards = ((ShardScanState *) node->fdw_state)->live;
}

static void
render(const ShardQuery *query, const int *shardnos, int nshards, StringInfo buf)
{
	const ScanQuery *scan_query = (const ScanQuery *) query;
	const ShardScanState *scan = scan_query->node->fdw_state;

	for (int i = 0; i < scan_query->desc->natts; i++)
		appendStringInfo(buf, "%sq.c%d AS %s", i == 0 ? "SELECT " : ", ", scan_query->columns[i],
						 quote_identifier(NameStr(TupleDescAttr(scan_query->desc, i)->attname)));
	appendStringInfoString(buf, " FROM (");
	shard_scan_sql(scan, shardnos, nshards, true, buf);
	appendStringInfoChar(buf, ')');
	shard_scan_append_alias(scan->plan, "q", buf);
}

ShardQuery *
shard_query_of(QueryDesc *desc)
{
	PlanState  *ps = desc->planstate;
	const ShardScanState *scan;
	ScanQuery  *result;

	if (!is_plain_scan(ps))
		return NULL;
	result = palloc0(sizeof(ScanQuery));
	result->node = (ForeignScanState *) ps;
	result->desc = desc->tupDesc;
	result->columns = palloc(sizeof(int) * Max(list_length(ps->plan->targetlist), 1));
	scan = result->node->fdw_state;
	if (!map_columns(scan->plan, ps->plan->targetlist, result->columns))
		return NULL;

	result->query.map = scan->maps[0];
	result->query.userid = scan->userid;
	result->query.snapshot = scan->snapshot;
	result->query.bind = bind_parameters;
	result->query.render = render;
	return &result->query;
}
