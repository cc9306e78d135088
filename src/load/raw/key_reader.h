/*
 * key_reader.h
 *	  Converts the key fields of a COPY line to the values by which rows are routed.
 */
#ifndef SHARDFDW_KEY_READER_H
#define SHARDFDW_KEY_READER_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"
#include "load/raw/line_scan.h"

typedef struct ShardKeyReader ShardKeyReader;

/*
 * Makes a reader for the partition key columns of cstate->rel.  They must be plain columns, and be in
 * cstate->attnumlist.  Fills format, except nfields, for the line scanner.  Memory: in cxt.
 */
extern ShardKeyReader *shard_key_reader_create(MemoryContext cxt, CopyFromState cstate,
											   ShardLineFormat *format);

/*
 * Values of the key, in key order, as core's COPY would convert them. line has the fields that the scanner found in
 * the line at bytes (and is not odd).  Integers, text, uuid, date and timestamp are converted by this file if their
 * text has a plain form.  The type's input function converts all other values.
 *
 * Returns false if the line is not plain: a value that cannot be converted, a special date/time word, an invalid
 * encoding.  Then only core's parser can interpret the line.
 *
 * Wrong values raise no error, because an earlier column may have an error that has to be raised first.  So input
 * functions are called only if they surely do not raise an error.  Otherwise the function returns false.
 *
 * *clock_word is set if a value depends on the clock (now, today...).  A node would read another value, so such a
 * line must not be forwarded.  Memory: values are valid until the next call.
 */
extern bool shard_key_reader_read(ShardKeyReader *reader, const char *bytes,
								  const ShardLine *line, bool *clock_word,
								  const Datum **values, const bool **isnull);

#endif
