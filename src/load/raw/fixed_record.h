/*
 * fixed_record.h
 *	  Records with columns at fixed positions: parses a layout, finds the ends of records, and converts their
 *	  fields to a line of COPY text or a row of COPY binary.
 *
 * Plain C over buffers of the caller: no allocation, no errors, no backend functions.
 */
#ifndef SHARDFDW_FIXED_RECORD_H
#define SHARDFDW_FIXED_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "load/raw/line_scan.h"

#define SHARD_FIXED_MAX_BYTES (256 * 1024 * 1024)	/* maximum size of a record, and maximum position */
#define SHARD_FIXED_SLACK 16	/* bytes after a record that may be read, and after the output that may be written */
#define SHARD_FIXED_NUMBER_BYTES 32	/* buffer size for the text of a binary number */

typedef enum ShardFixedKind
{
	SHARD_FIXED_TEXT,
	SHARD_FIXED_INT,
	SHARD_FIXED_UINT,
	SHARD_FIXED_FLOAT
} ShardFixedKind;

typedef enum ShardFixedTrim
{
	SHARD_TRIM_DEFAULT,			/* not given */
	SHARD_TRIM_NONE,
	SHARD_TRIM_LEADING,
	SHARD_TRIM_TRAILING,
	SHARD_TRIM_BOTH
} ShardFixedTrim;

/* The forms of fields in COPY binary.  Frequent forms have separate values. */
typedef enum ShardFixedWire
{
	SHARD_WIRE_LITTLE4,
	SHARD_WIRE_BIG4,
	SHARD_WIRE_LITTLE8,
	SHARD_WIRE_BIG8,
	SHARD_WIRE_TEXT,
	SHARD_WIRE_OTHER
} ShardFixedWire;

typedef struct ShardFixedField
{
	size_t		start;			/* first byte in the record, 0-based */
	size_t		nbytes;			/* 0: up to the end of the line */
	ShardFixedKind kind;		/* a binary integer has 1, 2, 4 or 8 bytes, a float 4 or 8 */
	bool		little;			/* byte order of a binary number */
	ShardFixedTrim trim;		/* for a text; DEFAULT is the same as TRAILING */
	const char *null_text;		/* a value with this text is NULL; NULL: there is no such text */
	size_t		null_bytes;
	bool		widen;			/* convert a four-byte float to eight bytes, which has other digits */
	int			wire_bytes;		/* size of a binary number in a row of COPY binary: 2, 4 or 8 */

	/* set by finish */
	bool		as_it_is;		/* a text whose bytes are the value */
	ShardFixedWire wire;
} ShardFixedField;

typedef struct ShardFixedLayout
{
	int			nfields;
	ShardFixedField *fields;
	size_t		record_bytes;	/* size of each record; 0: records are lines */
	size_t		min_bytes;		/* minimum size that the fields need */
	bool		to_end;			/* one field extends to the end of the line */
	size_t		max_row_bytes;	/* maximum size of a row, without such a field */
} ShardFixedLayout;

/*
 * Parses one field of a layout, such as '1-8', '9-12 int_be' or '13- trim both nullif "x"'.  *text: the start of the
 * field; becomes the position after the comma, or NULL after the last field.  The text is modified, and null_text
 * points into it.  Returns NULL, or the error at *text.
 */
extern const char *shard_fixed_parse_field(char **text, ShardFixedField *field);

/* Sets everything that depends on the fields.  Call it when the fields and record_bytes are known. */
extern void shard_fixed_layout_finish(ShardFixedLayout *layout);

/*
 * Finds the record that begins at buf[0], like shard_line_scan_next() for lines.  *searched is 0 before the first
 * call and is kept between calls.  Oddities: MARKER: it is \. and the end of the data.  FIELDS: it is too short.
 */
extern ShardLineStatus shard_fixed_next(const ShardFixedLayout *layout, size_t *searched, const char *buf,
										size_t len, bool at_end, ShardLine *line);

/*
 * The value of a field in a record of nbytes, which must have the field.  For a text: a pointer into the record,
 * without the blanks.  For a number: its text in scratch (SHARD_FIXED_NUMBER_BYTES).  *value_bytes: its length.  NULL
 * for a NULL.
 */
extern const char *shard_fixed_value(const ShardFixedField *field, const char *record, size_t nbytes,
									 char *scratch, size_t *value_bytes);

/* The value of a binary integer.  If it is unsigned, it must have at most seven bytes. */
extern int64_t shard_fixed_integer(const ShardFixedField *field, const char *record);

/* True if the value needs no escapes in COPY text.  SHARD_FIXED_SLACK bytes after value must be readable. */
extern bool shard_fixed_is_plain(const char *value, size_t nbytes);

/* Maximum number of bytes that the two functions below write, including SHARD_FIXED_SLACK. */
extern size_t shard_fixed_row_bytes(const ShardFixedLayout *layout, size_t nbytes);

/*
 * Writes the record's row to out, and returns its size. text: the fields in the default form of COPY's text format,
 * without a line end (*ascii: it has only ASCII bytes). binary: a row of COPY binary.
 */
extern size_t shard_fixed_write_text(const ShardFixedLayout *layout, const char *record, size_t nbytes, char *out,
									 bool *ascii);
extern size_t shard_fixed_write_binary(const ShardFixedLayout *layout, const char *record, size_t nbytes, char *out);

#endif
