/*
 * home.h
 *	  Schemas whose tables are all on one node, their home.
 *
 * Such a schema has a table SHARD_HOME_TABLE, created by shardfdw.shard_schema().  It is sharded
 * like the others, with one shard that accepts every key.  It determines the node of the schema
 * while there are no other tables, and moves together with them.  So the catalogs contain the node
 * of the schema, also in dumps and after renames.
 *
 * The tables of such a schema are colocated, whatever their keys are.
 */
#ifndef SHARDFDW_HOME_H
#define SHARDFDW_HOME_H

#include "postgres.h"

#include "catalog/pg_class.h"
#include "utils/lsyscache.h"

#define SHARD_HOME_TABLE "shardfdw_home"

/* Returns the table SHARD_HOME_TABLE of a schema, or InvalidOid. */
static inline Oid
shard_home_table(Oid namespace)
{
	Oid			relid = get_relname_relid(SHARD_HOME_TABLE, namespace);

	return OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ? relid : InvalidOid;
}

/* Returns the schema of a table, if the schema has a home; else InvalidOid.  Cost: two syscache look-ups. */
static inline Oid
shard_home_of(Oid relid)
{
	Oid			namespace = get_rel_namespace(relid);

	return OidIsValid(shard_home_table(namespace)) ? namespace : InvalidOid;
}

#endif
