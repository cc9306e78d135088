/*
 * shard_query.h
 *	  The queries of the shards, for a query whose result is the concatenation of the shards' results.  For
 *	  callers that let shards do more with their part than send rows (COPY TO).
 */
#ifndef SHARDFDW_SHARD_QUERY_H
#define SHARDFDW_SHARD_QUERY_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "executor/execdesc.h"
#include "lib/stringinfo.h"
#include "nodes/bitmapset.h"
#include "remote/xact/txn.h"

typedef struct ShardQuery
{
	const ShardMap *map;		/* of the driving table */
	Oid			userid;			/* user of the user mappings */
	ShardSnapshot *snapshot;	/* snapshot for reading the shards; it already has the number of streams */
	Bitmapset  *shards;			/* numbers of the shards that have a part; set by bind() */

	/* Evaluates the query's parameters and sub-selects, once, before the first render(). */
	void		(*bind) (struct ShardQuery *query);

	/*
	 * Appends the SELECT over nshards shards of one node, with values as literals.  Its columns are those of the
	 * query, with their names, in order.
	 */
	void		(*render) (const struct ShardQuery *query, const int *shardnos, int nshards,
						   StringInfo buf);
} ShardQuery;

/*
 * Returns the shards' queries for a query after ExecutorStart.  Nothing has been sent or evaluated yet.  NULL: the
 * result of the query is not the concatenation of the shards' results.  Valid until ExecutorEnd.
 */
typedef ShardQuery *(*ShardQueryOf) (QueryDesc *desc);

#endif
