/*
 * ddl_key_default.h
 *	  Column defaults on shards, for foreign keys whose actions set defaults.
 */
#ifndef SHARDFDW_DDL_KEY_DEFAULT_H
#define SHARDFDW_DDL_KEY_DEFAULT_H

#include "postgres.h"

#include "ddl/ddl_table.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

/*
 * Gives the shards of table the coordinator's defaults of these columns, if foreign keys of the shards have ON DELETE
 * or ON UPDATE SET DEFAULT.  Removes other defaults. attnos: integer list of the columns, NIL for all.  Sends nothing
 * to shards that neither need a default nor have one.  Errors: feature_not_supported for a default that nodes cannot
 * have; errors of the node.
 */
extern void shard_key_default_set(const ShardDdlTable *table, const List *attnos);

/* Can nodes have the default of a column? rel must be open. */
extern bool shard_key_default_is_possible(Relation rel, AttrNumber attno);

#endif
