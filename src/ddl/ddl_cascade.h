/*
 * ddl_cascade.h
 *	  What TRUNCATE ... CASCADE truncates besides the tables that it names.
 */
#ifndef SHARDFDW_DDL_CASCADE_H
#define SHARDFDW_DDL_CASCADE_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * The tables that refer to relations (of RangeVar), here or on nodes, or to each other: a List of RangeVar,
 * NIL for none.  All are locked, after a look at the user's rights, and a NOTICE tells of each that is added.
 * Errors: insufficient_privilege, and those of shard_ddl_find_referrers().
 */
extern List *shard_ddl_cascade(List *relations);

#endif
