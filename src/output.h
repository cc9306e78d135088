/*
 * output.h
 *	  The columns that a query on nodes returns, and the attributes of a slot that they become.
 *
 * deparse/ writes the columns into the query, the plan keeps them (plan/), decoders read them (tuple/).
 */
#ifndef SHARDFDW_OUTPUT_H
#define SHARDFDW_OUTPUT_H

#include "postgres.h"

/* How remote columns become one attribute.  In the order of their number of columns. */
typedef enum ShardOutputKind
{
	SHARD_OUTPUT_VALUE,			/* one column in the binary form of the attribute's type */
	SHARD_OUTPUT_TEXT,			/* one column cast to text on the node */
	SHARD_OUTPUT_SYSTEM,		/* one column, the row's system column with number target */
	SHARD_OUTPUT_STATE,			/* one: serialized state, bytea; typmod: ShardStateFormat, type: see shard_state_check() */
	SHARD_OUTPUT_INT8_SUM,		/* two: count bigint, sum numeric -> serialized state of sum/avg(int8) */
	SHARD_OUTPUT_NUMERIC_SUM,	/* two: count bigint, sum numeric -> serialized state of sum/avg(numeric) */
	SHARD_OUTPUT_INTERVAL_SUM,	/* two: count bigint, sum interval -> serialized state of sum/avg(interval), 17+ */
	SHARD_OUTPUT_POLY_VARIANCE, /* three: count bigint, sum, sum of squares numeric -> state of stddev(int4) */
	SHARD_OUTPUT_NUMERIC_VARIANCE	/* three: the same -> state of stddev(int8), stddev(numeric) */
} ShardOutputKind;

typedef struct ShardOutput
{
	ShardOutputKind kind;
	int			target;			/* 0-based attribute of the slot; SHARD_OUTPUT_SYSTEM: attribute number */
	Oid			type;			/* type of that attribute */
	int32		typmod;
} ShardOutput;

/* Number of remote columns of an output. */
static inline int
shard_output_ncolumns(ShardOutputKind kind)
{
	if (kind >= SHARD_OUTPUT_POLY_VARIANCE)
		return 3;
	return kind >= SHARD_OUTPUT_INT8_SUM ? 2 : 1;
}

#endif
