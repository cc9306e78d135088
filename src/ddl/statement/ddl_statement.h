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

/* Runs any utility statement.  If it changes a table that is on nodes, it is changed there, too. */
extern void shard_ddl_run(ShardDdlCall *call);

/*
 * What comes ahead of every utility statement: makes names those of now, and locks the schemas in which
 * something will be made on nodes.  Errors: feature_not_supported for what nobody may do.
 */
extern void shard_ddl_prepare(Node *stmt);

/*
 * Statements by kind.  Each returns false when it does not handle the statement: then
 * nothing was done, and core runs it.
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
 * Drops the invalid indexes that REINDEX CONCURRENTLY has left on a table's
 * shards when it failed or was cancelled.  A WARNING for those that cannot be dropped.
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
extern bool shard_ddl_create_trigger(ShardDdlCall *call);
extern bool shard_ddl_create_statistics(ShardDdlCall *call);
extern bool shard_ddl_alter_statistics(ShardDdlCall *call);
extern bool shard_ddl_rename_statistics(ShardDdlCall *call);
extern bool shard_ddl_vacuum(ShardDdlCall *call);
extern bool shard_ddl_reindex(ShardDdlCall *call);
extern bool shard_ddl_cluster(ShardDdlCall *call);

/* Raises dependent_objects_still_exist where foreign tables name a server as one that has replicas of their shards; action: a verb. */
extern void shard_ddl_replica_check_server(Oid serverid, const char *action);

/* A server, which core is about to rename: raises the same, and renames it in the extension's own tables. */
extern void shard_ddl_replica_rename_server(Oid serverid, const char *newname);

/* What it is that a statement does which is not done to tables whose shards have replicas; NULL: it is done to them, too. */
extern const char *shard_ddl_replica_refusal(Node *stmt);

/* The commands that make a schema on a node, with a mark by which it is known as made by us. */
extern char *shard_ddl_schema_command(const char *name);

/*
 * Of statements by kind, for those that have not come to the hook.
 */

/* Is it one that core does alone: of another kind of relation, or one that removes a partition? */
extern bool shard_ddl_alter_table_is_cores(const AlterTableStmt *stmt);

/* The partition that DETACH PARTITION CONCURRENTLY or FINALIZE detaches; NULL for other statements. */
extern RangeVar *shard_ddl_detached_concurrently(const AlterTableStmt *stmt);

/* A table whose nodes have the type that the statement changes; InvalidOid when there is none. */
extern Oid	shard_ddl_type_table(Node *stmt);

/* GRANT of rights on tables, and which tables (OIDs) it names; InvalidOid for one that does not exist. */
extern bool shard_ddl_grant_is_of_tables(const GrantStmt *stmt);
extern List *shard_ddl_grant_tables(const GrantStmt *stmt);

/* The table of extended statistics; InvalidOid when there are none of that name. */
extern Oid	shard_ddl_statistics_table(List *names);

/* Would ALTER SCHEMA ... RENAME change something on nodes, or foreign tables?  Locks the schema until the transaction ends. */
extern bool shard_ddl_rename_schema_concerns_nodes(const RenameStmt *stmt);

/* Raises feature_not_supported for a statement that renames the extension's schema. */
extern void shard_ddl_check_own_schema(Node *stmt);

#endif
