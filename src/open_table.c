/*
 * open_table.c
 *	  Opens tables that a caller of an SQL function has named by their OIDs.
 */
#include "postgres.h"

#include "access/table.h"
#include "open_table.h"

Relation
shard_open_table(Oid relid, LOCKMODE lockmode)
{
	Relation	rel = try_table_open(relid, lockmode);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	return rel;
}
