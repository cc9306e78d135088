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

/*
 * Raises for statements that would have a table leave a schema at home, or enter one (feature_not_supported), or
 * take its home away (dependent_objects_still_exist).
 */
extern void shard_ddl_home_check(Node *stmt);

/* Raises (insufficient_privilege) where somebody else than the owner of a schema would say where its tables are. */
extern void shard_ddl_home_check_maker(Node *stmt);

#endif
