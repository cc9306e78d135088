/*
 * open_table.h
 *	  Opens tables that a caller of an SQL function has named by their OIDs.
 */
#ifndef SHARDFDW_OPEN_TABLE_H
#define SHARDFDW_OPEN_TABLE_H

#include "postgres.h"

#include "access/table.h"

/* As table_open().  Errors: undefined_table for an OID that no table has; core takes that for an error of its own. */
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
