/*
 * home.c
 *	  Schemas all of whose tables are on one node.
 */
#include "postgres.h"

#include "catalog/home.h"
#include "catalog/pg_class.h"
#include "utils/lsyscache.h"

Oid
shard_home_table(Oid namespace)
{
	Oid			relid = get_relname_relid(SHARD_HOME_TABLE, namespace);

	return OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ? relid : InvalidOid;
}

Oid
shard_home_of(Oid relid)
{
	Oid			namespace = get_rel_namespace(relid);

	return OidIsValid(shard_home_table(namespace)) ? namespace : InvalidOid;
}
