/*
 * partial_agg.h
 *	  Partial states of aggregates as plain SQL expressions.
 */
#ifndef SHARDFDW_PARTIAL_AGG_H
#define SHARDFDW_PARTIAL_AGG_H

#include "postgres.h"

#include "catalog/shard_map.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"

/* How a stock node can compute the transition state of an aggregate. */
typedef enum ShardPartialKind
{
	SHARD_PARTIAL_NONE,			/* it cannot */
	SHARD_PARTIAL_SELF,			/* the aggregate's result is its state */
	SHARD_PARTIAL_TWIN,			/* by its partial twin */
	SHARD_PARTIAL_INT_AVG,		/* int8[]: count, sum */
	SHARD_PARTIAL_FLOAT,		/* float8[]: count, sum, sum of squared differences */
	SHARD_PARTIAL_INT8_SUM,		/* internal, built from count and sum(bigint) */
	SHARD_PARTIAL_NUMERIC_SUM,	/* internal, built from count and sum(numeric) */
	SHARD_PARTIAL_INTERVAL_ARRAY,	/* interval[]: sum, count; until 16 */
	SHARD_PARTIAL_INTERVAL_SUM, /* internal, built from count and sum(interval); from 17 */
	SHARD_PARTIAL_POLY_VARIANCE,	/* internal, built from count, sum and sum of squares */
	SHARD_PARTIAL_NUMERIC_VARIANCE
} ShardPartialKind;

/* Of an aggregate without ORDER BY and DISTINCT, for the nodes of map. */
extern ShardPartialKind shard_partial_agg_kind(const ShardMap *map, const Aggref *agg);

/*
 * The aggregates of a remote query that are not built in, and their twins
 * (OidList): what a plan with this query depends on.
 */
extern List *shard_partial_agg_functions(Query *query);

#endif
