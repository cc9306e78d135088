/*
 * ddl_home.h
 *	  Definitions in schemas whose tables are all on one node (catalog/home.h).
 */
#ifndef SHARDFDW_DDL_HOME_H
#define SHARDFDW_DDL_HOME_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * Raises feature_not_supported for statements by which a table would leave or enter a schema at home.  Raises
 * dependent_objects_still_exist if the schema would lose its home.
 */
extern void shard_ddl_home_check(Node *stmt);

/* Raises insufficient_privilege if a user other than the owner of a schema would choose the node of its tables. */
extern void shard_ddl_home_check_maker(Node *stmt);

#endif
