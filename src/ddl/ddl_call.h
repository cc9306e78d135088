/*
 * ddl_call.h
 *	  A utility statement that is being run, and how core is asked to run it.
 */
#ifndef SHARDFDW_DDL_CALL_H
#define SHARDFDW_DDL_CALL_H

#include "postgres.h"

#include "ddl/ddl_rest.h"
#include "tcop/utility.h"

struct ShardDdlTable;

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

/*
 * Statements by kind.  Each returns false when the statement is not for it: then
 * nothing was done, and core runs it.
 */
extern bool shard_ddl_alter_table(ShardDdlCall *call);
extern bool shard_ddl_attach(ShardDdlCall *call);
extern bool shard_ddl_create_index(ShardDdlCall *call);
extern bool shard_ddl_create_index_concurrently(ShardDdlCall *call, struct ShardDdlTable *table);
extern bool shard_ddl_drop_index_concurrently(ShardDdlCall *call);

/*
 * Drops the invalid indexes that REINDEX CONCURRENTLY has left on a table's
 * shards when it failed or was cancelled, as far as that is possible: else a warning.
 */
extern void shard_ddl_drop_copies(const struct ShardDdlTable *table);

extern bool shard_ddl_rename(ShardDdlCall *call);
extern bool shard_ddl_rename_schema(ShardDdlCall *call);
extern bool shard_ddl_set_schema(ShardDdlCall *call);
extern bool shard_ddl_comment(ShardDdlCall *call);
extern bool shard_ddl_grant(ShardDdlCall *call);
extern bool shard_ddl_lock(ShardDdlCall *call);
extern bool shard_ddl_set_constraints(ShardDdlCall *call);
extern bool shard_ddl_create_trigger(ShardDdlCall *call);
extern bool shard_ddl_create_statistics(ShardDdlCall *call);
extern bool shard_ddl_alter_statistics(ShardDdlCall *call);
extern bool shard_ddl_rename_statistics(ShardDdlCall *call);
extern bool shard_ddl_vacuum(ShardDdlCall *call);
extern bool shard_ddl_reindex(ShardDdlCall *call);
extern bool shard_ddl_cluster(ShardDdlCall *call);

/* The commands that make a schema on a node, with a mark by which it is known as made by us. */
extern char *shard_ddl_schema_command(const char *name);

/* Raises feature_not_supported for a statement that renames the extension's schema. */
extern void shard_ddl_check_own_schema(Node *stmt);

#endif
