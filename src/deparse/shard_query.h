/*
 * shard_query.h
 *	  A query whose result is the results of its shards, one after the other: which
 *	  query each shard gets.  For callers that let shards do more with their part than
 *	  send rows (COPY TO).
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
	const ShardMap *map;		/* of the table whose shards drive */
	Oid			userid;			/* whose user mappings are used */
	ShardSnapshot *snapshot;	/* for reading them; it knows how many streams to expect */
	Bitmapset  *shards;			/* numbers of those that have a part; set by bind() */

	/* Evaluates the query's parameters and sub-selects, once, before anything is rendered. */
	void		(*bind) (struct ShardQuery *query);

	/*
	 * Must one statement read nshards shards of node nodeno?  Then the snapshot expects
	 * only one stream there.
	 */
	bool		(*is_together) (const struct ShardQuery *query, int nodeno, int nshards);

	/*
	 * Appends the SELECT over nshards shards of one node, values in it as literals.
	 * Its columns are the query's, in order and with their names.
	 */
	void		(*render) (const struct ShardQuery *query, const int *shardnos, int nshards,
						   StringInfo buf);
} ShardQuery;

/*
 * What a query that has been started (ExecutorStart) asks of its shards; nothing has
 * been sent or evaluated yet.  NULL: its result is more than the results of its shards.
 * Valid until ExecutorEnd.
 */
typedef ShardQuery *(*ShardQueryOf) (QueryDesc *desc);

#endif
