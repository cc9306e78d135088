/*
 * key_reader.h
 *	  Converts the bytes of key fields of a COPY line to the values by which rows are routed.
 */
#ifndef SHARDFDW_KEY_READER_H
#define SHARDFDW_KEY_READER_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"
#include "load/raw/line_scan.h"

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
 * the fields that the scanner found in the line at bytes (and is not odd).
 * Integers, text, uuid, date, timestamp are converted here when their text has a
 * plain form; all else by the type's input function.
 * Returns false when the line is not plain: a value that cannot be converted, a
 * special date/time word, invalid encoding; only core's parser can tell what it is.
 * Wrong values raise no error here, since a column before them may have an error that
 * has to be raised first.  So input functions are called only if they surely do not
 * raise; otherwise the function returns false, and core's parser has to look.
 * *clock_word is set when a value is one that depends on the clock (now, today...),
 * so that a node would read another one: such a line must not be forwarded.
 * Memory: values live until the next call.
 */
extern bool shard_key_reader_read(ShardKeyReader *reader, const char *bytes,
								  const ShardLine *line, bool *clock_word,
								  const Datum **values, const bool **isnull);

#endif
