/*
 * state.h
 *	  Builds the serialized transition states that core's Finalize Aggregate reads, from counts and sums that any
 *	  stock node can compute.
 */
#ifndef SHARDFDW_AGG_STATE_H
#define SHARDFDW_AGG_STATE_H

#include "postgres.h"

/*
 * State of sum/avg(bigint), as written by int8_avg_serialize. sum: numeric in binary form. sumlen -1 is NULL: there
 * are no values, and count is ignored.  Result: bytea in the current context.
 */
extern bytea *shard_state_int8_sum(int64 count, const char *sum, int sumlen);

/* The same for sum/avg(numeric) (numeric_avg_serialize), including NaN and infinities. */
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
 * State of stddev, variance and similar aggregates over smallint and integer, as written by numeric_poly_serialize,
 * from count, sum and sum of squares.
 */
extern bytea *shard_state_poly_variance(int64 count, ShardWireValue sum, ShardWireValue squares);

/* The same over bigint and numeric (numeric_serialize), including NaN and infinities. */
extern bytea *shard_state_numeric_variance(int64 count, ShardWireValue sum, ShardWireValue squares);

/* Serialization format of a state. */
typedef enum ShardStateFormat
{
	SHARD_STATE_UNKNOWN,		/* not written by a core function */
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
 * Sets the format of a state over argtype, by the deserialization function that will read it.  False: the state
 * cannot be checked well enough to be read.
 */
extern bool shard_state_format(Oid deserialfn, Oid argtype, ShardStateFormat *format);

/*
 * Raises ERRCODE_PROTOCOL_VIOLATION, or an encoding error, unless core's deserialization, combine and final functions
 * can process the bytes.  For the format UNKNOWN these functions have to check the bytes.  In state_check.c.
 */
extern void shard_state_check(ShardStateFormat format, Oid argtype, const char *data, int len);

#endif
