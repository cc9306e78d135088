/*
 * ddl_need.h
 *	  What a table needs on its nodes: types, functions and other objects.
 */
#ifndef SHARDFDW_DDL_NEED_H
#define SHARDFDW_DDL_NEED_H

#include "postgres.h"

#include "ddl/ddl_table.h"
#include "nodes/parsenodes.h"

/* May there be something in what a statement adds that the nodes lack? */
extern bool shard_ddl_may_need_objects(const AlterTableStmt *stmt);

/*
 * Makes on the nodes the types, functions and other objects that the table as it
 * is here needs there; nothing to do for one that needs built-in ones alone.
 */
extern void shard_ddl_make_objects(const ShardDdlTable *table);

#endif
