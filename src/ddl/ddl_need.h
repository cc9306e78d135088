/*
 * ddl_need.h
 *	  What a table needs on its nodes: types, functions and other objects.
 */
#ifndef SHARDFDW_DDL_NEED_H
#define SHARDFDW_DDL_NEED_H

#include "postgres.h"

#include "ddl/ddl_table.h"
#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"

/* Finds the schemas that the shards of a table need: its own, and those of what it needs.  Returns a list of OIDs, each once. */
extern List *shard_ddl_needed_schemas(Oid relid);

/* The sharded and reference tables, as OIDs, whose nodes need a type. */
extern List *shard_ddl_tables_of_type(Oid type);

/* May the statement add something for which the nodes lack objects? */
extern bool shard_ddl_may_need_objects(const AlterTableStmt *stmt);

/*
 * Makes on the nodes the types, functions and other objects that the table, in its
 * present definition, needs there.  Does nothing for a table that needs only built-in
 * ones.  autocommit: not as part of the transaction.
 */
extern void shard_ddl_make_objects(const ShardDdlTable *table, bool autocommit);

/*
 * Makes a schema on the nodes of the table, where it is missing, before tables go there.  Errors:
 * insufficient_privilege, if a role owns it there that could exchange them.
 */
extern void shard_ddl_make_schema(const ShardDdlTable *table, const char *schema);

#endif
