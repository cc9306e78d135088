/*
 * ddl_call.c
 *	  Lets core run a utility statement, unchanged or changed.
 *
 * If a library loaded before this one has a hook, that hook is called instead of core, and calls core in turn.
 * During the call, the markers of a table that gets a partition are hidden (marker.c).  After CREATE FOREIGN TABLE,
 * the catalog records who has chosen the table on the node (catalog/shard_server.h).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/option.h"
#include "catalog/pg_class.h"
#include "catalog/shard_server.h"
#include "ddl/ddl_call.h"
#include "ddl/ddl_late.h"
#include "ddl/marker.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* The hook that was installed before ours, or core's function. */
static ProcessUtility_hook_type next_process_utility = NULL;

void
shard_ddl_call_init(ProcessUtility_hook_type next)
{
	next_process_utility = next != NULL ? next : standard_ProcessUtility;
}

/*
 * Records the foreign table that CREATE FOREIGN TABLE has made: the table with its name, if this transaction has
 * written the row.
 */
static void
note_new_table(const RangeVar *name)
{
	Oid			relid;
	HeapTuple	tuple;

	CommandCounterIncrement();
	relid = get_relname_relid(name->relname, RangeVarGetCreationNamespace(name));
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		return;
	if (((Form_pg_class) GETSTRUCT(tuple))->relkind == RELKIND_FOREIGN_TABLE &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)) && shard_option_is_ours(relid))
		shard_server_note_chooser(relid);
	ReleaseSysCache(tuple);
}

static void
run_next(ShardDdlCall *call)
{
	Node	   *stmt = call->pstmt->utilityStmt;

	next_process_utility(call->pstmt, call->query_string, call->read_only_tree, call->context,
						 call->params, call->query_env, call->dest, call->qc);
	if (IsA(stmt, CreateForeignTableStmt) && !superuser())
		note_new_table(castNode(CreateForeignTableStmt, stmt)->base.relation);
}

/* Runs the call by run, and then rest; see shard_ddl_run_core_then(). */
static void
run_then(ShardDdlCall *call, void (*run) (ShardDdlCall *call), ShardDdlRest rest, void *arg)
{
	ShardDdlRestEntry entry;

	shard_ddl_rest_begin(&entry, rest, arg);
	PG_TRY();
	{
		run(call);
	}
	PG_FINALLY();
	{
		shard_ddl_rest_end(&entry);
	}
	PG_END_TRY();
	shard_ddl_rest_finish(&entry);
}

void
shard_ddl_refuse_late(const ShardDdlCall *call)
{
	if (call->is_late)
		shard_ddl_late_refuse("It would have changed definitions on the coordinator, and not on the nodes.");
}

void
shard_ddl_run_core(ShardDdlCall *call)
{
	ShardNewPartition added;

	shard_ddl_refuse_late(call);
	if (shard_marker_begin(call->pstmt->utilityStmt, &added))
		run_then(call, run_next, shard_marker_end, &added);
	else
		run_next(call);
}

/* A copy of the call with another statement. */
static ShardDdlCall
with_statement(const ShardDdlCall *call, Node *stmt)
{
	ShardDdlCall changed = *call;

	changed.pstmt = copyObject(call->pstmt);
	changed.pstmt->utilityStmt = stmt;
	changed.read_only_tree = false;
	return changed;
}

void
shard_ddl_run_core_with(ShardDdlCall *call, Node *stmt, bool extra)
{
	ShardDdlCall changed = with_statement(call, stmt);

	if (extra)
		changed.context = PROCESS_UTILITY_SUBCOMMAND;
	shard_ddl_run_core(&changed);
}

void
shard_ddl_run_core_then(ShardDdlCall *call, Node *stmt, ShardDdlRest rest, void *arg)
{
	ShardDdlCall changed = stmt != NULL ? with_statement(call, stmt) : *call;

	run_then(&changed, shard_ddl_run_core, rest, arg);
}
