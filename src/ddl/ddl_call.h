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

/* next: the hook of another library, to be called instead of core; NULL: there is none. */
extern void shard_ddl_call_init(ProcessUtility_hook_type next);

/* Has core (and other hooks) run the statement as it is. */
extern void shard_ddl_run_core(ShardDdlCall *call);

/*
 * The same with another statement instead, a copy that core may change.  extra: it is a
 * further part of the statement, for which event triggers do not fire again.
 */
extern void shard_ddl_run_core_with(ShardDdlCall *call, Node *stmt, bool extra);

/*
 * Has core run the statement, or stmt instead if it is not NULL, and then calls rest,
 * which does the nodes' part before event triggers of users run.  arg lives in the
 * current context, in which rest is called.
 */
extern void shard_ddl_run_core_then(ShardDdlCall *call, Node *stmt, ShardDdlRest rest, void *arg);

#endif
