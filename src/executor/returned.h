/*
 * returned.h
 *	  Decoder for the rows that a node's statement returns: RETURNING, or a whole statement.
 */
#ifndef SHARDFDW_RETURNED_H
#define SHARDFDW_RETURNED_H

#include "postgres.h"

#include "plan/plan_private.h"
#include "tuple/decode.h"

/* For slots of desc. Memory: current context. */
extern ShardDecoder *shard_returned_decoder(const ShardOutput *outputs, int noutputs, TupleDesc desc);

#endif
