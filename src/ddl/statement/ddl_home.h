/*
 * ddl_home.h
 *	  Definitions in schemas all of whose tables are on one node (catalog/home.h).
 */
#ifndef SHARDFDW_DDL_HOME_H
#define SHARDFDW_DDL_HOME_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/* The table that stmt will make in a schema at home; NULL: none. */
extern const char *shard_ddl_home_created(Node *stmt);

/* Raises feature_not_supported for a table that would leave a schema at home, or enter one. */
extern void shard_ddl_home_check_set_schema(AlterObjectSchemaStmt *stmt);

#endif
