/*
 * key_reader.h
 *	  From the bytes of key fields of a COPY line to the values that rows are routed by.
 */
#ifndef SHARDFDW_KEY_READER_H
#define SHARDFDW_KEY_READER_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"
#include "load/line_scan.h"

typedef struct ShardKeyReader ShardKeyReader;

/*
 * Reader for the partition key columns of cstate->rel, which are plain columns
 * and among cstate->attnumlist.  Fills format (all of it but nfields) for the
 * line scanner.  Memory: in cxt.
 */
extern ShardKeyReader *shard_key_reader_create(MemoryContext cxt, CopyFromState cstate,
											   ShardLineFormat *format);

/*
 * Values of the key, in key order, as core's COPY would convert them; line holds
 * the fields that the scanner found in the line at bytes.  Integers, text, uuid,
 * date, timestamp are converted here when their text has a plain form; all else
 * by the type's input function.
 * Returns false when only core's parser can tell what the line is: a value that
 * cannot be converted, special date/time words (now, today...), invalid encoding.
 * (Input functions that raise are called so that the error can be dropped:
 * softly where the major can, otherwise inside a subtransaction, or, with
 * may_raise, not guarded at all: then the error passes through.)
 * Memory: values live until the next call.
 */
extern bool shard_key_reader_read(ShardKeyReader *reader, const char *bytes,
								  const ShardLine *line, bool may_raise,
								  const Datum **values, const bool **isnull);

#endif
