/*
 * query_clauses.h
 *	  The clauses of a remote query over what stands in FROM.
 */
#ifndef SHARDFDW_QUERY_CLAUSES_H
#define SHARDFDW_QUERY_CLAUSES_H

#include "postgres.h"

#include "deparse/level.h"
#include "deparse/remote_query.h"
#include "nodes/parsenodes.h"

/* A clause that refers to the target list's entry with this reference. */
extern SortGroupClause *shard_query_clause_make(Index ref);

/* Adds ORDER BY to level; sorts: of ShardSort. */
extern void shard_query_clauses_sort(ShardSelect *select, ShardLevel *level, List *sorts);

/* Adds all of query's clauses to level, of select, which has its FROM already. */
extern void shard_query_clauses_add(ShardSelect *select, ShardLevel *level,
									const ShardRemoteQuery *query);

#endif
