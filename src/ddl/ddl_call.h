/*
 * ddl_call.h
 *	  A utility statement that is being run, and how core is asked to run it.
 */
#ifndef SHARDFDW_DDL_CALL_H
#define SHARDFDW_DDL_CALL_H

#include "postgres.h"

#include "ddl/ddl_rest.h"
#include "tcop/utility.h"

/* The arguments of ProcessUtility_hook. */
typedef struct ShardDdlCall
{
	PlannedStmt *pstmt;
	const char *query_string;
	bool		read_only_tree;
	ProcessUtilityContext context;
	ParamListInfo params;
	QueryEnvironment *query_env;
	DestReceiver *dest;
	QueryCompletion *qc;
} ShardDdlCall;

/* next: the hook that is called for core, NULL for core itself. */
extern void shard_ddl_call_init(ProcessUtility_hook_type next);

/* Has core (and other hooks) run the statement as it is. */
extern void shard_ddl_run_core(ShardDdlCall *call);

/*
 * The same with another statement in its place, a copy that core may write to.
 * extra: it is a further part of the statement, for which no event triggers
 * fire once more.
 */
extern void shard_ddl_run_core_with(ShardDdlCall *call, Node *stmt, bool extra);

/*
 * Has core run the statement, or stmt in its place (NULL: as it is), and then rest: the
 * nodes' part, before event triggers of users run.  arg lives in
 * the current context, in which rest runs.
 */
extern void shard_ddl_run_core_then(ShardDdlCall *call, Node *stmt, ShardDdlRest rest, void *arg);

#endif
