/*
 * decode.h
 *	  Decodes a row of bytes into a tuple slot.
 */
#ifndef SHARDFDW_DECODE_H
#define SHARDFDW_DECODE_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "output.h"
#include "row.h"
#include "utils/memutils.h"

typedef struct ShardDecoder ShardDecoder;

/* A decoder for rows with these columns, and slots of desc.  Memory: current context. */
extern ShardDecoder *shard_decode_create(TupleDesc desc, const ShardOutput *outputs, int noutputs);

/* Number of columns that the remote query must return. */
extern int	shard_decode_nremote(const ShardDecoder *decoder);

/*
 * Is a column sent as text that depends on the styles of dates, intervals or floating-point
 * numbers?  Then the node must write these exactly, whatever the user's settings are
 * (ShardStreamSpec).
 */
extern bool shard_decode_has_styled_text(const ShardDecoder *decoder);

/* Sets the source of the next rows, for errors: names of the node and the shard, which must stay valid. */
extern void shard_decode_set_source(ShardDecoder *decoder, const char *node, const char *label);

/*
 * Stores row as a virtual tuple in slot (cleared first), with its ctid in slot->tts_tid.
 * Attributes without a column are NULL.  Memory: by-reference values in cxt, a per-tuple context
 * that the caller resets before the next row.  Errors: ERRCODE_PROTOCOL_VIOLATION for a malformed
 * row; those of input and receive functions, with the attribute and the source in CONTEXT.
 */
extern void shard_decode_row(ShardDecoder *decoder, const ShardRow *row,
							 TupleTableSlot *slot, MemoryContext cxt);

/*
 * Are there system columns other than ctid?  Only a slot of heap tuples can hold them, after
 * shard_decode_add_header().
 */
extern bool shard_decode_has_header(const ShardDecoder *decoder);

/*
 * Turns the virtual tuple of the last row, in slot, into a tuple with system columns: those that
 * the node has sent; the others are zero.  Memory: cxt.
 */
extern void shard_decode_add_header(const ShardDecoder *decoder, TupleTableSlot *slot, MemoryContext cxt);

#endif
