/*
 * returned.c
 *	  Decoder for the rows that a node's statement returns: RETURNING, or a whole statement.
 */
#include "postgres.h"

#include "executor/returned.h"

/*
 * Decoders and plans have separate enums for the kinds, since tuple/ is a layer below plan/ and
 * must not include it.
 */
static ShardDecodeKind
decode_kind(ShardOutputKind kind)
{
	switch (kind)
	{
		case SHARD_OUTPUT_VALUE:
			return SHARD_DECODE_BINARY;
		case SHARD_OUTPUT_TEXT:
			return SHARD_DECODE_TEXT;
		case SHARD_OUTPUT_SYSTEM:
			return SHARD_DECODE_SYSTEM;
		default:
			elog(ERROR, "unexpected output kind %d of a statement", (int) kind);
	}
}

ShardDecoder *
shard_returned_decoder(const ShardOutput *outputs, int noutputs, TupleDesc desc)
{
	ShardDecodeColumn *columns = palloc0(sizeof(ShardDecodeColumn) * Max(noutputs, 1));

	for (int i = 0; i < noutputs; i++)
	{
		columns[i].kind = decode_kind(outputs[i].kind);
		columns[i].target = outputs[i].target;
		columns[i].type = outputs[i].type;
		columns[i].typmod = outputs[i].typmod;
	}
	return shard_decode_create(desc, columns, noutputs);
}
