/*
 * ddl_statement.h
 *	  Statements that change the definitions of sharded and reference tables.
 */
#ifndef SHARDFDW_DDL_STATEMENT_H
#define SHARDFDW_DDL_STATEMENT_H

#include "postgres.h"

#include "ddl/ddl_call.h"
#include "ddl/ddl_table.h"

/* Runs any utility statement.  If it changes a table that is on nodes, it is changed there, too. */
extern void shard_ddl_run(ShardDdlCall *call);

/*
 * Statements by kind.  Each returns false when it does not handle the statement: then
 * nothing was done, and core runs it.
 */
extern bool shard_ddl_alter_table(ShardDdlCall *call);
extern bool shard_ddl_attach(ShardDdlCall *call);
extern bool shard_ddl_create_index(ShardDdlCall *call);
extern bool shard_ddl_create_index_concurrently(ShardDdlCall *call, ShardDdlTable *table);
extern bool shard_ddl_drop_index_concurrently(ShardDdlCall *call);

/*
 * Drops the invalid indexes that REINDEX CONCURRENTLY has left on a table's
 * shards when it failed or was cancelled.  A WARNING for those that cannot be dropped.
 */
extern void shard_ddl_drop_copies(const ShardDdlTable *table);

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
