/*
 * partial_kind.h
 *	  Decides how nodes compute partial states of an aggregate.
 */
#ifndef SHARDFDW_PARTIAL_KIND_H
#define SHARDFDW_PARTIAL_KIND_H

#include "postgres.h"

#include "agg/state.h"
#include "catalog/shard_map.h"
#include "nodes/primnodes.h"

/* How a stock node can compute the transition state of an aggregate. */
typedef enum ShardPartialKind
{
	SHARD_PARTIAL_NONE,			/* it cannot */
	SHARD_PARTIAL_SELF,			/* the result of the aggregate is its state */
	SHARD_PARTIAL_AGGREGATE,	/* by its partial aggregate */
	SHARD_PARTIAL_INT_AVG,		/* int8[]: count, sum */
	SHARD_PARTIAL_FLOAT,		/* float8[]: count, sum, sum of squared differences */
	SHARD_PARTIAL_INT8_SUM,		/* internal, built from count and sum(bigint) */
	SHARD_PARTIAL_NUMERIC_SUM,	/* internal, built from count and sum(numeric) */
	SHARD_PARTIAL_INTERVAL_ARRAY,	/* interval[]: sum, count; until 16 */
	SHARD_PARTIAL_INTERVAL_SUM, /* internal, built from count and sum(interval); from 17 */
	SHARD_PARTIAL_POLY_VARIANCE,	/* internal, built from count, sum and sum of squares */
	SHARD_PARTIAL_NUMERIC_VARIANCE
} ShardPartialKind;

/* The kind of an aggregate without ORDER BY and DISTINCT, for the nodes of map. */
extern ShardPartialKind shard_partial_agg_kind(const ShardMap *map, const Aggref *agg);

/* The format of agg's serialized state (of type internal).  False: it is not a core format, and cannot be checked. */
extern bool shard_partial_state_format(const Aggref *agg, ShardStateFormat *format);

#endif
