/*
 * ddl_statement.h
 *	  Statements that change the definitions of sharded and reference tables.
 */
#ifndef SHARDFDW_DDL_STATEMENT_H
#define SHARDFDW_DDL_STATEMENT_H

#include "postgres.h"

#include "ddl/ddl_call.h"
#include "ddl/ddl_table.h"
#include "nodes/parsenodes.h"

/* Runs any utility statement.  If it changes a table that has tables on nodes, these are changed too. */
extern void shard_ddl_run(ShardDdlCall *call);

/*
 * Call it before every utility statement.  Updates the caches that names are looked up in, and locks the schemas in
 * which objects will be made on nodes.  Errors: feature_not_supported for statements that are refused for all users.
 */
extern void shard_ddl_prepare(Node *stmt);

/*
 * Statements by kind.  Each function returns false if it does not handle the statement.  Then it has changed nothing,
 * and core runs the statement.
 */
extern bool shard_ddl_alter_table(ShardDdlCall *call);
extern bool shard_ddl_create_table(ShardDdlCall *call);
extern bool shard_ddl_create_table_as(ShardDdlCall *call);
extern bool shard_ddl_explain(ShardDdlCall *call);
extern bool shard_ddl_attach(ShardDdlCall *call);
extern bool shard_ddl_add_partition(ShardDdlCall *call);
extern bool shard_ddl_detach(ShardDdlCall *call);
extern bool shard_ddl_create_index(ShardDdlCall *call);
extern bool shard_ddl_create_index_concurrently(ShardDdlCall *call, ShardDdlTable *table);
extern bool shard_ddl_drop_index_concurrently(ShardDdlCall *call);

/*
 * Drops the invalid indexes that REINDEX CONCURRENTLY left on a table's shards when it failed or was cancelled.
 * Raises a WARNING for indexes that cannot be dropped.
 */
extern void shard_ddl_drop_replicas(const ShardDdlTable *table);

extern bool shard_ddl_alter_type(ShardDdlCall *call);
extern bool shard_ddl_rename(ShardDdlCall *call);
extern bool shard_ddl_rename_schema(ShardDdlCall *call);
extern bool shard_ddl_set_schema(ShardDdlCall *call);
extern bool shard_ddl_comment(ShardDdlCall *call);
extern bool shard_ddl_grant(ShardDdlCall *call);
extern bool shard_ddl_lock(ShardDdlCall *call);
extern bool shard_ddl_truncate(ShardDdlCall *call);
extern bool shard_ddl_set_constraints(ShardDdlCall *call);
extern bool shard_ddl_publication(ShardDdlCall *call);
extern bool shard_ddl_create_trigger(ShardDdlCall *call);
extern bool shard_ddl_create_statistics(ShardDdlCall *call);
extern bool shard_ddl_alter_statistics(ShardDdlCall *call);
extern bool shard_ddl_rename_statistics(ShardDdlCall *call);
extern bool shard_ddl_vacuum(ShardDdlCall *call);
extern bool shard_ddl_reindex(ShardDdlCall *call);
extern bool shard_ddl_cluster(ShardDdlCall *call);

/* Raises dependent_objects_still_exist if foreign tables name the server in option replica_nodes. action: a verb. */
extern void shard_ddl_replica_check_server(Oid serverid, const char *action);

/*
 * Call it before core renames a server.  Raises the same error, and renames the server in the tables of the
 * extension.
 */
extern void shard_ddl_replica_rename_server(Oid serverid, const char *newname);

/*
 * The operation of a statement that is refused for tables whose shards have replicas.  NULL if the statement is
 * allowed.
 */
extern const char *shard_ddl_replica_refusal(Node *stmt);

/* The commands that make a schema on a node, with a mark that the extension made it. */
extern char *shard_ddl_schema_command(const char *name);

/* Raises feature_not_supported for a statement that renames the extension's schema. */
extern void shard_ddl_check_own_schema(Node *stmt);

#endif
