/*
 * remote_estimate.c
 *	  Sizes and costs as estimated by a node's planner: the option use_remote_estimate of servers and foreign
 *	  tables.
 *
 *	  info's rows as a remote query -> EXPLAIN on the node -> its first line
 *
 * The node estimates scans, and joins of tables that all have the option.  The coordinator estimates the upper stages
 * from these rows.  Values that are known only at execution start are sent as sub-selects that return NULL, so that
 * the node's planner treats them as parameters.
 *
 * Sharded tables are estimated from the statistics of the coordinator (ANALYZE).
 */
#include "postgres.h"

#include "catalog/option.h"
#include "compat.h"
#include "deparse/remote_query.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "planner/path/remote_estimate.h"
#include "remote/run/command.h"

void
shard_estimate_choose(ShardRelInfo *info)
{
	info->remote_estimate = !info->sharded && !info->reference && info->kind == SHARD_REL_SCAN &&
		shard_option_table_bool(info->relid, "use_remote_estimate", false);
}

/* The remote query that returns the columns of info's rows that rel needs. */
static ShardSelect *
build_query(RelOptInfo *rel, const ShardRelInfo *info)
{
	ShardRemoteQuery query = {0};
	List	   *columns = NIL;

	foreach_node(Var, var, pull_var_clause((Node *) rel->reltarget->exprs, PVC_RECURSE_PLACEHOLDERS))
	{
		/* system columns are left out: their width does not matter */
		if (var->varattno > 0 && bms_is_member(var->varno, info->from->relids))
			columns = lappend(columns, var);
	}
	query.from = info->from;
	query.driver = info->relid;
	query.tlist = add_to_flat_tlist(NIL, columns);
	return shard_remote_query_select(&query);
}

/* EXPLAIN of a query over single foreign tables, without values for its parameters. */
static char *
make_explain(ShardSelect *select)
{
	List	   *template = shard_select_finish(select);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "EXPLAIN ");
	foreach_ptr(Node, piece, template)
	{
		if (IsA(piece, String))
			appendStringInfoString(&sql, strVal(piece));
		else if (intVal(piece) > 0)
			appendStringInfoString(&sql, "(SELECT null)");
		else
		{
			Oid			relid = list_nth_oid(select->relids, -intVal(piece));

			appendStringInfoString(&sql, shard_map_get(relid)->shards[0].from_item);
		}
	}
	return sql.data;
}

void
shard_estimate_ask(PlannerInfo *root, RelOptInfo *rel, ShardRelInfo *info)
{
	ShardCommand command;
	double		startup;
	double		total;
	double		rows;
	int			width;
	bool		understood;

	if (!info->remote_estimate)
		return;
	command = (ShardCommand) {.serverid = info->map->shards[0].serverid,
		.userid = OidIsValid(rel->userid) ? rel->userid : GetUserId(), .sql = make_explain(build_query(rel, info)),
		.label = info->map->shards[0].name};
	shard_command_run(&command, 1, SHARD_COMMAND_READ, false);
	understood = PQntuples(command.result) > 0 && PQnfields(command.result) == 1;
	if (understood)
	{
		const char *line = PQgetvalue(command.result, 0, 0);

		line = strrchr(line, '(');
		understood = line != NULL &&
			sscanf(line, "(cost=%lf..%lf rows=%lf width=%d)", &startup, &total, &rows, &width) == 4;
	}
	shard_command_free(&command, 1);
	if (!understood)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_REPLY),
				 errmsg("could not interpret the EXPLAIN output of node \"%s\"",
						info->map->nodes[0].name)));

	info->rows = clamp_row_est(rows);
	info->width = width;
	info->remote_cost = total;
	rel->rows = clamp_row_est(rows * clauselist_selectivity(root, info->local_conds, 0,
															JOIN_INNER, NULL));
	rel->reltarget->width = width;
}
