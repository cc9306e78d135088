/*
 * utility_hook.c
 *	  The hook that gets all utility statements, and the order in which the library handles them.
 *
 *	  COPY		load/ runs COPY of a sharded table, or of a query over one.  The next steps do not see it
 *		|
 *	  DDL		lets core change the coordinator's side, in one or several parts, and then changes the nodes
 *		|
 *	  markers	of a table that gets a foreign partition are hidden while core adds the partition
 *		|
 *	  hooks of libraries that were loaded before, core
 *
 * ddl_statement.c handles DDL, and ddl_call.c calls core for it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/prepare.h"
#include "compat.h"
#include "ddl/statement/ddl_statement.h"
#include "flush_commit.h"
#include "hook/copied_table.h"
#include "load/copy_statement.h"
#include "miscadmin.h"
#include "move/subscription.h"
#include "remote/run/read_role.h"
#include "tcop/utility.h"
#include "hook/hook.h"
#include "version.h"

/* Does a prepared statement write, or lock rows? */
static bool
prepared_writes(const ExecuteStmt *execute)
{
	PreparedStatement *prepared = FetchPreparedStatement(execute->name, false);

	foreach_ptr(const Query, query, prepared ? prepared->plansource->query_list : NIL)
	{
		if (query->commandType != CMD_SELECT || query->hasModifyingCTE || query->rowMarks != NIL)
			return true;
	}
	return false;
}

/*
 * Does the statement store results of functions?  Hooks of the executor see queries that write.  This function covers
 * expressions outside of queries (parameters of EXECUTE, defaults of COPY FROM, expressions of DDL), and queries whose
 * rows are stored (CREATE TABLE AS).
 */
static bool
writes(Node *stmt)
{
	if (IsA(stmt, ExecuteStmt))
		return prepared_writes(castNode(ExecuteStmt, stmt));
	if (IsA(stmt, ExplainStmt))
	{
		const Query *query = castNode(Query, castNode(ExplainStmt, stmt)->query);

		return query->commandType == CMD_UTILITY && writes(query->utilityStmt);
	}
	/* core's log level is DDL or MOD for each statement that stores something */
	return GetCommandLogLevel(stmt) != LOGSTMT_ALL;
}

/*
 * Does the statement change definitions?  Other sessions see the new definitions when it has committed.  If they then
 * write to one node, that node commits alone.  No local commit would flush the WAL of the definitions, so this
 * statement's own commit must do so.
 */
static bool
defines(Node *stmt)
{
	/* in parallel mode core refuses the statement */
	return GetCommandLogLevel(stmt) == LOGSTMT_DDL && !IsInParallelMode();
}

/* Runs a statement. */
static void
run_call(void *arg)
{
	ShardDdlCall *call = arg;

	if (IsA(call->pstmt->utilityStmt, CopyStmt) &&
		shard_copy_statement_run(call->pstmt, call->query_string, call->read_only_tree, call->context, call->query_env, call->dest, call->qc))
		return;

	/*
	 * During pg_upgrade the nodes already have the objects, and may be down.  In a failed transaction, catalogs cannot
	 * be read.
	 */
	if (IsBinaryUpgrade || !IsTransactionState())
		shard_ddl_run_core(call);
	else
	{
		bool		is_definition = defines(call->pstmt->utilityStmt);
		Node	   *subscription = shard_subscription_concerns(call->pstmt->utilityStmt) ? call->pstmt->utilityStmt : NULL;

		shard_version_check_statement(call->pstmt->utilityStmt);
		if (is_definition)
			shard_flush_commit_force();
		if (subscription)
			shard_subscription_before(subscription);
		shard_ddl_run(call);
		/* pg_dump reads the catalogs as of its snapshot, and then locks tables */
		if (IsA(call->pstmt->utilityStmt, LockStmt))
			shard_copied_table_check_names(castNode(LockStmt, call->pstmt->utilityStmt)->relations);
		if (subscription)
			shard_subscription_after(subscription);
		/* a statement that commits by itself, such as CREATE INDEX CONCURRENTLY, has begun another transaction */
		if (is_definition)
			shard_flush_commit_force();
	}
}

static void
process_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *query_env,
				DestReceiver *dest, QueryCompletion *qc)
{
	ShardDdlCall call = {pstmt, query_string, read_only_tree, context, params, query_env, dest, qc};

	if (writes(pstmt->utilityStmt))
		shard_read_role_run_writing(run_call, &call);
	else
		run_call(&call);
}

void
shard_utility_hook_init(void)
{
	shard_ddl_call_init(ProcessUtility_hook);
	ProcessUtility_hook = process_utility;
}
