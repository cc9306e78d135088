/*
 * ddl_call.c
 *	  Has core run a utility statement, as it is or changed.
 *
 * What libraries loaded before this one have hooked into utility statements is called in
 * core's place, as they call core then.
 */
#include "postgres.h"

#include "ddl/ddl_call.h"

/* The hook that was there before ours, or core's function. */
static ProcessUtility_hook_type next_process_utility = NULL;

void
shard_ddl_call_init(ProcessUtility_hook_type next)
{
	next_process_utility = next != NULL ? next : standard_ProcessUtility;
}

void
shard_ddl_run_core(ShardDdlCall *call)
{
	next_process_utility(call->pstmt, call->query_string, call->read_only_tree, call->context,
						 call->params, call->query_env, call->dest, call->qc);
}

/* The call with another statement in its place. */
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
shard_ddl_run_core_then(ShardDdlCall *call, Node *stmt, ShardDdlRest run, void *arg)
{
	ShardDdlRestEntry entry;

	shard_ddl_rest_begin(&entry, run, arg);
	PG_TRY();
	{
		if (stmt != NULL)
			shard_ddl_run_core_with(call, stmt, false);
		else
			shard_ddl_run_core(call);
	}
	PG_FINALLY();
	{
		shard_ddl_rest_end(&entry);
	}
	PG_END_TRY();
	shard_ddl_rest_finish(&entry);
}
