/*
 * ddl_refer.h
 *	  Refuses foreign keys from tables of the coordinator to sharded tables, which could not be checked.
 */
#ifndef SHARDFDW_DDL_REFER_H
#define SHARDFDW_DDL_REFER_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/* Raise feature_not_supported if a table that is not sharded would reference a sharded table. */
extern void shard_ddl_check_new_table(const CreateStmt *stmt);
extern void shard_ddl_check_new_keys(const AlterTableStmt *stmt);

#endif
