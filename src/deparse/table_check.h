/*
 * table_check.h
 *	  Commands that make a node check that tables are not too new for a map or a snapshot.
 */
#ifndef SHARDFDW_TABLE_CHECK_H
#define SHARDFDW_TABLE_CHECK_H

#include "postgres.h"

#include "catalog/shard_map.h"

/*
 * Returns commands for a node that is about to read its shards shardnos of colocated maps, in a transaction there.
 * They raise ERRCODE_T_R_SERIALIZATION_FAILURE if the snapshot of the node is older than one of the tables under its
 * name, since it would show no rows of that table.  NULL: the tables are as old as the maps. rtable: the range table
 * of the statement (NIL: none), whose reference tables the node may read as user userid. *may_be_gone: one of the
 * shards may have been dropped after a move.  Memory: current context.
 */
extern char *shard_table_check(const ShardMap *const *maps, int nmaps, const int *shardnos, int nshards,
							   const List *rtable, Oid userid, bool *may_be_gone);

#endif
