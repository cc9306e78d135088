/*
 * open_table.h
 *	  Opens tables that a caller of an SQL function has named by their OIDs.
 */
#ifndef SHARDFDW_OPEN_TABLE_H
#define SHARDFDW_OPEN_TABLE_H

#include "postgres.h"

#include "storage/lockdefs.h"
#include "utils/relcache.h"

/* As table_open().  Errors: undefined_table for an OID that no table has; core takes that for an error of its own. */
extern Relation shard_open_table(Oid relid, LOCKMODE lockmode);

#endif
