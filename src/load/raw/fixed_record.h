/*
 * fixed_record.h
 *	  Records of columns at fixed positions: what a layout says, where records end, and
 *	  their fields as a line of COPY text or a row of COPY binary.
 *
 * Plain C over buffers of the caller: no allocation, no errors, no backend.
 */
#ifndef SHARDFDW_FIXED_RECORD_H
#define SHARDFDW_FIXED_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "load/raw/line_scan.h"

#define SHARD_FIXED_MAX_BYTES (256 * 1024 * 1024)	/* of a record, and the last position */
#define SHARD_FIXED_SLACK 16	/* bytes behind a record that may be read, and behind output that may be written */
#define SHARD_FIXED_NUMBER_BYTES 32	/* room for the text of a binary number */

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

/* The forms of fields in COPY binary, the frequent ones apart. */
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
	size_t		start;			/* first byte in the record, from 0 */
	size_t		nbytes;			/* 0: up to the end of the line */
	ShardFixedKind kind;		/* a binary number has 1, 2, 4 or 8 bytes, a float 4 or 8 */
	bool		little;			/* order of a binary number's bytes */
	ShardFixedTrim trim;		/* of a text; DEFAULT as TRAILING */
	const char *null_text;		/* a value of this text is NULL; NULL: none is */
	size_t		null_bytes;
	bool		widen;			/* a float of four bytes becomes one of eight, which has other digits */
	int			wire_bytes;		/* of a binary number in a row of COPY binary: 2, 4 or 8 */

	/* set by finish */
	bool		as_it_is;		/* a text whose bytes are the value */
	ShardFixedWire wire;
} ShardFixedField;

typedef struct ShardFixedLayout
{
	int			nfields;
	ShardFixedField *fields;
	size_t		record_bytes;	/* of each record; 0: records are lines */
	size_t		min_bytes;		/* that the fields need */
	bool		to_end;			/* one of them goes up to the end of the line */
	size_t		max_row_bytes;	/* of a row, without those */
} ShardFixedLayout;

/*
 * Reads one field of a layout, such as '1-8', '9-12 int_be' or '13- trim both nullif "x"'.
 * *text: where it begins, which becomes the place behind the comma, or NULL behind the
 * last field.  The text is changed, and null_text points into it.  Returns NULL, or what
 * is wrong at *text.
 */
extern const char *shard_fixed_parse_field(char **text, ShardFixedField *field);

/* Fills what depends on the fields, when they and record_bytes are known. */
extern void shard_fixed_layout_finish(ShardFixedLayout *layout);

/*
 * The record that begins at buf[0], as shard_line_scan_next() finds a line; *searched is
 * 0 before the first call and is kept between calls.  Oddities: MARKER, it is \. and the
 * end of the data; FIELDS, it is too short.
 */
extern ShardLineStatus shard_fixed_next(const ShardFixedLayout *layout, size_t *searched, const char *buf,
										size_t len, bool at_end, ShardLine *line);

/*
 * The value of a field in a record of nbytes, which has the field: a text in the record
 * without the blanks, or a number's text in scratch (SHARD_FIXED_NUMBER_BYTES).
 * *value_bytes: its length.  NULL for a NULL.
 */
extern const char *shard_fixed_value(const ShardFixedField *field, const char *record, size_t nbytes,
									 char *scratch, size_t *value_bytes);

/* The value of a binary integer, which has at most seven bytes if it is unsigned. */
extern int64_t shard_fixed_integer(const ShardFixedField *field, const char *record);

/* True when COPY text has a value as it is, without escapes; value has SHARD_FIXED_SLACK bytes behind it. */
extern bool shard_fixed_is_plain(const char *value, size_t nbytes);

/* How many bytes the two functions below write at most, SHARD_FIXED_SLACK included. */
extern size_t shard_fixed_row_bytes(const ShardFixedLayout *layout, size_t nbytes);

/*
 * Writes the record's row to out, and returns its bytes: the fields in the default form
 * of COPY's text format without the end of line (*ascii: it has ASCII bytes only); or a
 * row of COPY binary.
 */
extern size_t shard_fixed_write_text(const ShardFixedLayout *layout, const char *record, size_t nbytes, char *out,
									 bool *ascii);
extern size_t shard_fixed_write_binary(const ShardFixedLayout *layout, const char *record, size_t nbytes, char *out);

#endif
