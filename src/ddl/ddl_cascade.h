/*
 * ddl_cascade.h
 *	  Finds the additional tables that TRUNCATE ... CASCADE truncates.
 */
#ifndef SHARDFDW_DDL_CASCADE_H
#define SHARDFDW_DDL_CASCADE_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * The tables that reference relations (list of RangeVar), on the coordinator or on nodes, or that reference each
 * other: a list of RangeVar, NIL for none.  All are locked, after a check of the user's permissions, and a NOTICE
 * reports each additional table.  Errors: insufficient_privilege, and those of shard_ddl_find_referrers().
 */
extern List *shard_ddl_cascade(List *relations);

#endif
