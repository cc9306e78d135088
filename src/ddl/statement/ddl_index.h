/*
 * ddl_index.h
 *	  CREATE INDEX on a table that has tables on nodes.
 */
#ifndef SHARDFDW_DDL_INDEX_H
#define SHARDFDW_DDL_INDEX_H

#include "postgres.h"

#include "ddl/ddl_table.h"

/*
 * Makes indexes of a table, or their keys, on its shards, in this transaction. indexes: list of OIDs. before: the
 * indexes of all levels before the statement (shard_marker_level_indexes()).  Shards whose parent had an equal index
 * are left out.  Shards whose node has an equal index are left out too.
 */
extern void shard_ddl_index_send(const ShardDdlTable *table, const List *indexes, const List *before);

#endif
