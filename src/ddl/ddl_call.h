/*
 * ddl_call.h
 *	  A utility statement in progress, and functions that let core run it.
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
	bool		is_late;		/* core already runs the statement, see shard_ddl_refuse_late() */
} ShardDdlCall;

/* next: the hook of another library, which is called instead of core; NULL: there is none. */
extern void shard_ddl_call_init(ProcessUtility_hook_type next);

/*
 * Raises object_not_in_prerequisite_state for a statement that began before the session had loaded the library
 * (ddl_late.h).  The functions below call it.  Call it before anything that a rollback does not undo on nodes.
 */
extern void shard_ddl_refuse_late(const ShardDdlCall *call);

/* Lets core (and other hooks) run the statement unchanged. */
extern void shard_ddl_run_core(ShardDdlCall *call);

/*
 * The same with another statement instead, a copy that core may modify. extra: it is a further part of the statement,
 * for which event triggers do not fire again.
 */
extern void shard_ddl_run_core_with(ShardDdlCall *call, Node *stmt, bool extra);

/*
 * Makes core run the statement, or stmt if it is not NULL.  Then calls rest, which changes the nodes before event
 * triggers of users run. arg is in the current context, in which rest is called.
 */
extern void shard_ddl_run_core_then(ShardDdlCall *call, Node *stmt, ShardDdlRest rest, void *arg);

#endif
