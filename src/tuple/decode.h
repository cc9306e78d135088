/*
 * decode.h
 *	  Decodes a row of bytes into a tuple slot.
 */
#ifndef SHARDFDW_DECODE_H
#define SHARDFDW_DECODE_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "row.h"
#include "utils/memutils.h"

typedef struct ShardDecoder ShardDecoder;

/*
 * One entry per output; meanings as ShardOutput of plan/plan_private.h, repeated here
 * because tuple/ lies below planner/.
 */
typedef enum ShardDecodeKind
{
	SHARD_DECODE_BINARY,		/* one column by the type's binary form */
	SHARD_DECODE_TEXT,			/* one column by the type's input function */
	SHARD_DECODE_SYSTEM,		/* one column, in binary: system column number target */
	SHARD_DECODE_INT8_SUM,		/* count, sum -> bytea */
	SHARD_DECODE_NUMERIC_SUM,
	SHARD_DECODE_INTERVAL_SUM,
	SHARD_DECODE_POLY_VARIANCE, /* count, sum, sum of squares -> bytea */
	SHARD_DECODE_NUMERIC_VARIANCE,
	SHARD_DECODE_STATE			/* bytea that is a state of format typmod, over type */
} ShardDecodeKind;

typedef struct ShardDecodeColumn
{
	ShardDecodeKind kind;
	int			target;			/* 0-based attribute of the slot; SHARD_DECODE_SYSTEM: attribute number */
	Oid			type;
	int32		typmod;
} ShardDecodeColumn;

/* Memory: decoder in the current context. */
extern ShardDecoder *shard_decode_create(TupleDesc desc, const ShardDecodeColumn *columns, int ncolumns);

/* Columns that the remote query must return. */
extern int	shard_decode_nremote(const ShardDecoder *decoder);

/*
 * Does a column come as text that depends on how dates, intervals or floating-point
 * numbers are written?  The node has to write these exactly, whatever the user's
 * settings (ShardStreamSpec).
 */
extern bool shard_decode_has_styled_text(const ShardDecoder *decoder);

/* Sets the source of the next rows, for errors: the node's and the shard's name, which stay valid meanwhile. */
extern void shard_decode_set_source(ShardDecoder *decoder, const char *node, const char *label);

/*
 * Stores row as a virtual tuple in slot (cleared first), its ctid in slot->tts_tid; attributes
 * without a column are NULL.  Memory: by-reference values in cxt, a per-tuple context
 * that the caller resets before the next row.
 * Errors: ERRCODE_PROTOCOL_VIOLATION for a malformed row; those of input and
 * receive functions, with CONTEXT naming the attribute and the source.
 */
extern void shard_decode_row(ShardDecoder *decoder, const ShardRow *row,
							 TupleTableSlot *slot, MemoryContext cxt);

/* Are there system columns other than ctid?  Only a slot of heap tuples can have them, after shard_decode_add_header(). */
extern bool shard_decode_has_header(const ShardDecoder *decoder);

/*
 * Turns the virtual tuple of the last row, in slot, into one that has system columns: those that the node has sent, the
 * others are zero.  Memory: cxt.
 */
extern void shard_decode_add_header(const ShardDecoder *decoder, TupleTableSlot *slot, MemoryContext cxt);

#endif
