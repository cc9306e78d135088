/*
 * state.h
 *	  Builds the serialized transition states that core's Finalize Aggregate
 *	  reads, from counts and sums that any stock node can compute.
 */
#ifndef SHARDFDW_AGG_STATE_H
#define SHARDFDW_AGG_STATE_H

#include "postgres.h"

/*
 * State of sum/avg(bigint) (as int8_avg_serialize writes it) from count and
 * sum (numeric in binary form; sumlen -1 is NULL, a sum of no values, for which
 * count does not matter).  Result: bytea in the current context.
 */
extern bytea *shard_state_int8_sum(int64 count, const char *sum, int sumlen);

/* The same for sum/avg(numeric) (numeric_avg_serialize), NaN and infinities included. */
extern bytea *shard_state_numeric_sum(int64 count, const char *sum, int sumlen);

/* The same for sum/avg(interval) of 17 and later (interval_avg_serialize). */
extern bytea *shard_state_interval_sum(int64 count, const char *sum, int sumlen);

/* A numeric in binary form; len -1 is NULL. */
typedef struct ShardWireValue
{
	const char *data;
	int			len;
} ShardWireValue;

/*
 * State of stddev, variance and their kind over smallint and integer (as
 * numeric_poly_serialize writes it) from count, sum and sum of squares.
 */
extern bytea *shard_state_poly_variance(int64 count, ShardWireValue sum, ShardWireValue squares);

/* The same over bigint and numeric (numeric_serialize), NaN and infinities included. */
extern bytea *shard_state_numeric_variance(int64 count, ShardWireValue sum, ShardWireValue squares);

/* How a state is serialized. */
typedef enum ShardStateFormat
{
	SHARD_STATE_UNKNOWN,		/* not by a function of core's */
	SHARD_STATE_INT8_AVG,		/* int8_avg_deserialize */
	SHARD_STATE_NUMERIC_AVG,	/* numeric_avg_deserialize */
	SHARD_STATE_POLY,			/* numeric_poly_deserialize */
	SHARD_STATE_NUMERIC,		/* numeric_deserialize */
	SHARD_STATE_INTERVAL_AVG,	/* interval_avg_deserialize */
	SHARD_STATE_STRING_AGG,		/* string_agg_deserialize; of text */
	SHARD_STATE_BYTES_AGG,		/* ... of bytea */
	SHARD_STATE_ARRAY_AGG,		/* array_agg_deserialize */
	SHARD_STATE_ARRAYS_AGG		/* array_agg_array_deserialize */
} ShardStateFormat;

/*
 * Format of a state over argtype, by the deserialization function that will
 * read it here; false for one that cannot be checked well enough to be read.
 */
extern bool shard_state_format(Oid deserialfn, Oid argtype, ShardStateFormat *format);

/*
 * Raises ERRCODE_PROTOCOL_VIOLATION, or the encoding's error, unless the bytes
 * are a state that core's deserialization, combine and final functions can work
 * on; of an UNKNOWN format they are left to these.  state_check.c
 */
extern void shard_state_check(ShardStateFormat format, Oid argtype, const char *data, int len);

#endif
