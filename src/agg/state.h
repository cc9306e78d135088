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

#endif
