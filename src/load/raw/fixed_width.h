/*
 * fixed_width.h
 *	  FIXED_WIDTH: the layout of the input's records, and the conversion of records to rows.
 */
#ifndef SHARDFDW_FIXED_WIDTH_H
#define SHARDFDW_FIXED_WIDTH_H

#include "postgres.h"

#include "commands/copyfrom_internal.h"
#include "lib/stringinfo.h"
#include "load/input/copy_option.h"
#include "load/raw/fixed_record.h"
#include "load/raw/key_reader.h"

typedef struct ShardFixedWidth ShardFixedWidth;

/*
 * Parses the layout in options. attnos: the columns of rel that its fields fill, in order.  NIL: FILTER takes the
 * fields.  Memory: in cxt.  Errors: the layout is wrong, or its number of fields differs from attnos; the encoding of
 * the input (core's option, or the client's) is not supported.
 */
extern ShardFixedWidth *shard_fixed_width_open(MemoryContext cxt, const ShardCopyOptions *options,
											   Relation rel, List *attnos);

extern const ShardFixedLayout *shard_fixed_width_layout(const ShardFixedWidth *fixed);

/*
 * True if rows are sent in COPY binary: numbers are binary in the record, and all other columns are texts whose bytes
 * are the same in COPY binary. cstate: of the input.
 */
extern bool shard_fixed_width_is_binary(const ShardFixedWidth *fixed, CopyFromState cstate);

/* For raw mode. keys, format: of the lines made from records. */
extern void shard_fixed_width_set_keys(ShardFixedWidth *fixed, ShardKeyReader *keys,
									   const ShardLineFormat *format);

/*
 * Key values of the record at bytes, as from shard_key_reader_read(), but read directly from the record.  False: the
 * record has to be made a line.
 */
extern bool shard_fixed_width_key(ShardFixedWidth *fixed, const char *bytes, const ShardLine *record,
								  const Datum **values, const bool **isnull);

/*
 * Appends the row of the record: a line of COPY text without its line end, or in COPY binary.  Result: the line has
 * only ASCII bytes.  Errors: the record is too short for a column.
 */
extern bool shard_fixed_width_append_line(const ShardFixedWidth *fixed, const char *bytes,
										  const ShardLine *record, StringInfo out);
extern void shard_fixed_width_append_binary(const ShardFixedWidth *fixed, const char *bytes,
											const ShardLine *record, StringInfo out);

#endif
