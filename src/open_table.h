/*
 * open_table.h
 *	  Opens tables whose OIDs are arguments of an SQL function.
 */
#ifndef SHARDFDW_OPEN_TABLE_H
#define SHARDFDW_OPEN_TABLE_H

#include "postgres.h"

#include "access/table.h"

/*
 * As table_open().  Errors: undefined_table if there is no table with this OID; core would raise an
 * internal error.
 */
static inline Relation
shard_open_table(Oid relid, LOCKMODE lockmode)
{
	Relation	rel = try_table_open(relid, lockmode);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	return rel;
}

#endif
