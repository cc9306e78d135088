/*
 * ddl_need.h
 *	  Finds the objects that a table needs on its nodes: types, functions and others.
 */
#ifndef SHARDFDW_DDL_NEED_H
#define SHARDFDW_DDL_NEED_H

#include "postgres.h"

#include "ddl/ddl_table.h"
#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"

/*
 * The schemas that the shards of a table need: its schema, and those of the objects that it needs.  Returns a list of
 * OIDs without duplicates.
 */
extern List *shard_ddl_needed_schemas(Oid relid);

/* The sharded and reference tables, as OIDs, whose nodes need a type. */
extern List *shard_ddl_tables_of_type(Oid type);

/* May the statement add something that needs objects which the nodes lack? */
extern bool shard_ddl_may_need_objects(const AlterTableStmt *stmt);

/*
 * Creates on the nodes the types, functions and other objects that the table needs there in its current definition.
 * Does nothing for a table that needs only built-in objects. autocommit: not as part of the transaction.
 */
extern void shard_ddl_make_objects(const ShardDdlTable *table, bool autocommit);

/*
 * Makes a schema on the nodes of the table that lack it, before tables are made there.  Errors:
 * insufficient_privilege if it belongs to a role that could replace the tables.
 */
extern void shard_ddl_make_schema(const ShardDdlTable *table, const char *schema);

#endif
