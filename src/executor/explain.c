/*
 * explain.c
 *	  EXPLAIN output of our plan nodes, without contacting nodes.
 *
 * Property names are an interface.  All of them are listed here, and in explain_remote.c those that
 * need nodes.
 *
 *	   Relations		tables of a scan without a relation of its own
 *	   Shards			"n of m" to be read; n and "Shards Total" in other formats than text
 *	   Nodes			names of the nodes read, or their number if there are many
 *	   Node				name of the node of a single shard
 *	   Merge Key		order in which sorted streams are merged
 *	   Query Per Node	one query reads all shards of a node
 *	   Not Pushed Down	why the plan node above it is computed here
 *	   Remote SQL		query for the first of these shards
 *	   Remote Lock SQL	for rows that are taken as jobs: the query that locks them on shards; with VERBOSE
 *	   Rows Received, Bytes Received, Connections		with ANALYZE
 */
#include "postgres.h"

#include "catalog/shard_map.h"
#include "deparse/dml.h"
#include "executor/explain.h"
#include "executor/explain_remote.h"
#include "executor/scan/fdw_executor.h"
#include "executor/scan/scan.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "plan/plan_private.h"
#include "tuple/type_io.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/typcache.h"

#define PROP_RELATIONS		"Relations"
#define PROP_SHARDS			"Shards"
#define PROP_SHARDS_TOTAL	"Shards Total"
#define PROP_NODE			"Node"
#define PROP_NODES			"Nodes"
#define PROP_MERGE_KEY		"Merge Key"
#define PROP_PER_NODE		"Query Per Node"
#define PROP_FIRST_PARTS	"First Partitions"
#define PROP_REFUSED		"Not Pushed Down"
#define PROP_ROWS			"Rows Received"
#define PROP_BYTES			"Bytes Received"
#define PROP_CONNECTIONS	"Connections"

/* Up to this number, nodes are listed by name. */
#define MAX_LISTED_NODES	8

static void
explain_nodes(const ShardMap *map, const Bitmapset *live, ExplainState *es)
{
	Bitmapset  *nodenos = NULL;
	List	   *names = NIL;
	int			i = -1;

	while ((i = bms_next_member(live, i)) >= 0)
		nodenos = bms_add_member(nodenos, map->shards[i].nodeno);
	if (bms_num_members(nodenos) > MAX_LISTED_NODES)
	{
		ExplainPropertyInteger(PROP_NODES, NULL, bms_num_members(nodenos), es);
		return;
	}
	i = -1;
	while ((i = bms_next_member(nodenos, i)) >= 0)
		names = lappend(names, unconstify(char *, map->nodes[i].name));
	if (names != NIL)
		ExplainPropertyList(PROP_NODES, names, es);
}

void
shard_explain_shards(const ShardMap *map, const Bitmapset *live, int nlive, ExplainState *es)
{
	if (es->format == EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText(PROP_SHARDS, psprintf("%d of %d", nlive, map->nshards), es);
	else
	{
		ExplainPropertyInteger(PROP_SHARDS, NULL, nlive, es);
		ExplainPropertyInteger(PROP_SHARDS_TOTAL, NULL, map->nshards, es);
	}
	explain_nodes(map, live, es);
}

/* Appends the sort direction of one key, unless it is ascending with NULLs last. */
static void
append_direction(StringInfo buf, Oid type, Oid operator, bool nulls_first)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);
	bool		reverse = operator == entry->gt_opr;

	if (reverse)
		appendStringInfoString(buf, " DESC");
	else if (operator != entry->lt_opr)
	{
		char	   *name = get_opname(operator);

		if (name == NULL)
			elog(ERROR, "cache lookup failed for operator %u", operator);
		appendStringInfo(buf, " USING %s", name);
		(void) get_equality_op_for_ordering_op(operator, &reverse);
	}
	if (nulls_first && !reverse)
		appendStringInfoString(buf, " NULLS FIRST");
	else if (!nulls_first && reverse)
		appendStringInfoString(buf, " NULLS LAST");
}

/* Shows the merge key in the form of core's sort keys. */
static void
explain_merge_key(ForeignScanState *node, ExplainState *es)
{
	ShardScanState *state = node->fdw_state;
	const ShardScanPlan *plan = state->plan;
	ForeignScan *fsplan = (ForeignScan *) node->ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, NIL);
	bool		use_prefix = list_length(es->rtable) > 1 || es->verbose;
	List	   *keys = NIL;

	for (int i = 0; i < list_length(plan->sort_columns); i++)
	{
		int			attno = list_nth_int(plan->sort_columns, i);
		TargetEntry *entry = list_nth_node(TargetEntry, fsplan->fdw_scan_tlist, attno - 1);
		Oid			type = exprType((Node *) entry->expr);
		Oid			collation = list_nth_oid(plan->sort_collations, i);
		StringInfoData key;

		initStringInfo(&key);
		appendStringInfoString(&key, deparse_expression((Node *) entry->expr, context,
														use_prefix, true));
		if (OidIsValid(collation) && collation != get_typcollation(type))
			appendStringInfo(&key, " COLLATE %s", quote_identifier(get_collation_name(collation)));
		append_direction(&key, type, list_nth_oid(plan->sort_operators, i),
						 list_nth_int(plan->sort_nulls_first, i) != 0);
		keys = lappend(keys, key.data);
	}
	ExplainPropertyList(PROP_MERGE_KEY, keys, es);
}

void
shard_explain_received(uint64 rows, uint64 bytes, int nconns, ExplainState *es)
{
	ExplainPropertyInteger(PROP_ROWS, NULL, rows, es);
	ExplainPropertyInteger(PROP_BYTES, NULL, bytes, es);
	ExplainPropertyInteger(PROP_CONNECTIONS, NULL, nconns, es);
}

void
shardExplainForeignScan(ForeignScanState *node, ExplainState *es)
{
	ShardScanState *state = node->fdw_state;
	/* a key join that reads the shards in parts has read all of them at the end */
	const Bitmapset *shards = state->running && state->part != SHARD_SCAN_ALL ?
		state->unsplit : state->live;
	int			first;

	if (state->plan->relations != NULL)
		ExplainPropertyText(PROP_RELATIONS, state->plan->relations, es);

	if (OidIsValid(state->maps[0]->relid) &&
		((Scan *) node->ss.ps.plan)->scanrelid > 0)
		ExplainPropertyText(PROP_NODE, state->maps[0]->nodes[0].name, es);
	else
		shard_explain_shards(state->maps[0], shards, bms_num_members(shards), es);

	/* a scan of one relation has no such list, and at most one shard */
	if (state->plan->sort_columns != NIL && ((ForeignScan *) node->ss.ps.plan)->fdw_scan_tlist != NIL)
		explain_merge_key(node, es);
	if (state->plan->shard_template != NIL)
		ExplainPropertyBool(PROP_PER_NODE, true, es);
	if (state->plan->first_parts > 0)
		ExplainPropertyInteger(PROP_FIRST_PARTS, NULL, state->plan->first_parts, es);
	if (state->plan->refused != NULL)
		ExplainPropertyText(PROP_REFUSED, state->plan->refused, es);

	first = bms_next_member(shards, -1);
	if (first >= 0)
	{
		StringInfoData sql;

		initStringInfo(&sql);
		shard_scan_sql(state, &first, 1, false, &sql);
		ExplainPropertyText(SHARD_PROP_REMOTE_SQL, sql.data, es);
		pfree(sql.data);
	}

	if (es->analyze)
	{
		uint64		rows;
		uint64		bytes;
		int			nconns;

		shard_scan_totals(state, &rows, &bytes, &nconns);
		shard_explain_received(rows, bytes, nconns, es);
	}
	shard_explain_remote(node, shards, es);
}

/* Shows Node and Remote SQL of a statement on one shard. */
static void
explain_statement(Oid relid, const char *sql, ExplainState *es)
{
	const ShardMap *map = shard_map_get(relid);

	if (map != NULL)
		ExplainPropertyText(PROP_NODE, map->nodes[0].name, es);
	ExplainPropertyText(SHARD_PROP_REMOTE_SQL, sql, es);
}

/* Would a COPY of these columns be binary?  (The node's types may turn out to be different, which is not checked.) */
static bool
all_binary(Relation rel, List *attnos)
{
	foreach_int(attno, attnos)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attno - 1);

		if (!shard_type_io_binary_input(att->atttypid))
			return false;
	}
	return true;
}

void
shardExplainForeignModify(ModifyTableState *mtstate, ResultRelInfo *rinfo,
						  List *fdw_private, int subplan_index, ExplainState *es)
{
	Oid			relid = RelationGetRelid(rinfo->ri_RelationDesc);
	ShardModifyPlan *plan;
	const char *sql;

	if (fdw_private == NIL)
		return;
	plan = shard_plan_private_unpack(SHARD_PLAN_MODIFY, fdw_private);
	switch (plan->operation)
	{
		case CMD_INSERT:
			if (shard_modify_by_copy(plan, rinfo))
				sql = shard_dml_copy(relid, plan->target_attnos,
									 all_binary(rinfo->ri_RelationDesc, plan->target_attnos));
			else
				sql = shard_dml_insert(relid, plan->target_attnos, plan->do_nothing,
									   plan->conflict_attnos, plan->returning_attnos);
			break;
		case CMD_UPDATE:
			sql = shard_dml_update(relid, plan->target_attnos, plan->returning_attnos);
			break;
		case CMD_DELETE:
			sql = shard_dml_delete(relid, plan->returning_attnos);
			break;
		default:
			elog(ERROR, "unexpected operation of a foreign modification: %d",
				 (int) plan->operation);
	}
	explain_statement(relid, sql, es);
}

void
shardExplainDirectModify(ForeignScanState *node, ExplainState *es)
{
	ForeignScan *fsplan = (ForeignScan *) node->ss.ps.plan;
	ShardDirectPlan *plan = shard_plan_private_unpack(SHARD_PLAN_DIRECT, fsplan->fdw_private);
	const ShardMap *map = shard_map_get(plan->relid);
	StringInfoData sql;

	if (map == NULL)
		elog(ERROR, "relation %u is not a shard", plan->relid);
	initStringInfo(&sql);
	shard_param_render(&sql, plan->template, &map->shards[0].relation, NULL, false, NULL);
	explain_statement(plan->relid, sql.data, es);
	pfree(sql.data);
}
