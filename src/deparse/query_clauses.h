/*
 * query_clauses.h
 *	  The clauses of a remote query above FROM.
 */
#ifndef SHARDFDW_QUERY_CLAUSES_H
#define SHARDFDW_QUERY_CLAUSES_H

#include "postgres.h"

#include "deparse/level.h"
#include "deparse/remote_query.h"
#include "nodes/parsenodes.h"

/* A clause for the target list entry with this reference. */
extern SortGroupClause *shard_query_clause_make(Index ref);

/* Adds ORDER BY to level. sorts: list of ShardSort. */
extern void shard_query_clauses_sort(ShardSelect *select, ShardLevel *level, List *sorts);

/* Adds all clauses of query to level of select.  Call it after FROM has been built. */
extern void shard_query_clauses_add(ShardSelect *select, ShardLevel *level,
									const ShardRemoteQuery *query);

#endif
