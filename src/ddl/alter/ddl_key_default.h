/*
 * ddl_key_default.h
 *	  Defaults that shards have, since actions of their foreign keys set them.
 */
#ifndef SHARDFDW_DDL_KEY_DEFAULT_H
#define SHARDFDW_DDL_KEY_DEFAULT_H

#include "postgres.h"

#include "ddl/ddl_table.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

/*
 * Gives the shards of table the defaults that its columns have on the coordinator, where foreign keys of the shards
 * have ON DELETE or ON UPDATE SET DEFAULT, and takes away others.  attnos: integer list of the columns, NIL for all.
 * Sends nothing to shards that neither need a default nor have one.
 * Errors: feature_not_supported for a default that nodes cannot have; the node's error.
 */
extern void shard_key_default_set(const ShardDdlTable *table, const List *attnos);

/* Can nodes have the default of a column?  rel is open. */
extern bool shard_key_default_is_possible(Relation rel, AttrNumber attno);

#endif
