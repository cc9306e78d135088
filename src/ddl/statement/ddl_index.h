/*
 * ddl_index.h
 *	  CREATE INDEX on a table that has tables on nodes.
 */
#ifndef SHARDFDW_DDL_INDEX_H
#define SHARDFDW_DDL_INDEX_H

#include "postgres.h"

#include "ddl/ddl_table.h"

/*
 * Makes indexes (OIDs) of a table on its shards, in this transaction, and keys
 * where the indexes belong to some.  before: those that all levels of the table
 * had (shard_marker_level_indexes()): shards under a partition that
 * has had an equal one are left out; with take_over, so are those that have one
 * on their node.
 */
extern void shard_ddl_index_send(const ShardDdlTable *table, const List *indexes, const List *before,
								 bool take_over);

#endif
