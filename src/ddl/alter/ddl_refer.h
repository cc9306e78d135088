/*
 * ddl_refer.h
 *	  Foreign keys from tables of the coordinator to sharded tables, which nobody could check.
 */
#ifndef SHARDFDW_DDL_REFER_H
#define SHARDFDW_DDL_REFER_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/* Raise feature_not_supported where a table that is not sharded would refer to one that is. */
extern void shard_ddl_check_new_table(const CreateStmt *stmt);
extern void shard_ddl_check_new_keys(const AlterTableStmt *stmt);

#endif
