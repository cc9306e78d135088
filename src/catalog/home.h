/*
 * home.h
 *	  Schemas all of whose tables are on one node.
 *
 * Such a schema has a table SHARD_HOME_TABLE, made by shardfdw.shard_schema(), which is
 * sharded like the others: one shard that takes every key.  It says where the schema is while
 * there are no other tables, and moves with them.  So it is the catalogs that say where the
 * schema is, in dumps and after renames, too.
 *
 * The tables of a schema at home are colocated, whatever their keys are.
 */
#ifndef SHARDFDW_HOME_H
#define SHARDFDW_HOME_H

#include "postgres.h"

#include "catalog/pg_class.h"
#include "utils/lsyscache.h"

#define SHARD_HOME_TABLE "shardfdw_home"

/* The table SHARD_HOME_TABLE of a schema, or InvalidOid. */
static inline Oid
shard_home_table(Oid namespace)
{
	Oid			relid = get_relname_relid(SHARD_HOME_TABLE, namespace);

	return OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ? relid : InvalidOid;
}

/* The schema of a table, if it has a home; else InvalidOid.  Cost: two syscache look-ups. */
static inline Oid
shard_home_of(Oid relid)
{
	Oid			namespace = get_rel_namespace(relid);

	return OidIsValid(shard_home_table(namespace)) ? namespace : InvalidOid;
}

#endif
