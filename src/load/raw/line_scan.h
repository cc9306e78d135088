/*
 * line_scan.h
 *	  Finds the ends of lines, and the few fields of the shard key, in a text or CSV file, by the rules of core's
 *	  COPY FROM.
 *
 * Plain C over a buffer of the caller: no allocation, no errors, no backend functions.  Bytes are not converted: any
 * encoding is allowed in which bytes of ASCII characters are never part of another character.
 */
#ifndef SHARDFDW_LINE_SCAN_H
#define SHARDFDW_LINE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_LINE_MAX_KEYS 32	/* core's PARTITION_MAX_KEYS */

typedef enum ShardLineEol
{
	SHARD_EOL_UNKNOWN,			/* no line has been read */
	SHARD_EOL_NL,
	SHARD_EOL_CR,
	SHARD_EOL_CRNL
} ShardLineEol;

typedef struct ShardLineFormat
{
	bool		csv;
	char		delim;
	char		quote;			/* CSV only */
	char		escape;			/* CSV only; may be the same as quote */
	int			nkeys;			/* number of wanted fields */
	int			key_fieldnos[SHARD_LINE_MAX_KEYS];	/* 0-based, ascending, distinct */
	int			nfields;		/* > 0: a line with another number of fields is odd; 0: not checked */
} ShardLineFormat;

typedef struct ShardLineField
{
	size_t		start;			/* offset from the line's first byte */
	size_t		nbytes;			/* as in the file: with quotes and escapes */
	bool		plain;			/* has no backslash (text) or quote (CSV): the bytes are the value */
} ShardLineField;

/* Why only core's parser can interpret the line: the first reason that applies. */
typedef enum ShardLineOddity
{
	SHARD_LINE_NOT_ODD,
	SHARD_LINE_ODD_EOL,			/* a CR or NL that is not a line end of the file */
	SHARD_LINE_ODD_MARKER,		/* \. (text: anywhere, not escaped; CSV: first in a physical line) */
	SHARD_LINE_ODD_QUOTE,		/* the input ends inside quotes; CR or NL are used as quotes */
	SHARD_LINE_ODD_FIELDS		/* a wanted field is missing, or the number of fields is not nfields */
} ShardLineOddity;

typedef struct ShardLine
{
	size_t		nbytes;			/* with its line end */
	size_t		content_bytes;	/* without its line end; equal to nbytes if the input ended without one */
	uint32_t	nbreaks;		/* line ends inside quotes, as counted by core: the line is nbreaks + 1 lines of
								 * the file (in the first line CRs count, NLs do not) */
	bool		high_tail;		/* one of the last 3 bytes of its content is not ASCII: it may end within a character */
	ShardLineOddity oddity;		/* fields are valid only if it is SHARD_LINE_NOT_ODD */
	ShardLineField fields[SHARD_LINE_MAX_KEYS]; /* of format.key_fieldnos, in that order */
} ShardLine;

typedef enum ShardLineStatus
{
	SHARD_LINE_FOUND,
	SHARD_LINE_MORE,			/* the line does not end in the buffer, and more input follows */
	SHARD_LINE_END				/* no bytes are left */
} ShardLineStatus;

/* Progress in a line that does not end in the buffer; private to the scanner. */
typedef struct ShardLineProgress
{
	size_t		pos;			/* number of bytes of the line that were scanned */
	bool		in_quote;
	bool		after_escape;	/* the byte before pos escapes the one at pos */
	bool		field_special;	/* the current field is not plain */
	unsigned	oddities;		/* bit n: ShardLineOddity n */
	uint32_t	nbreaks;
	int			fieldno;		/* current field; not maintained if only the line end is searched */
	int			keyno;			/* number of wanted fields that have ended */
	size_t		field_start;
} ShardLineProgress;

/* State between calls.  The caller may copy it, and may set eol before the first line. */
typedef struct ShardLineScan
{
	ShardLineFormat format;
	ShardLineEol eol;			/* set by the first line */
	bool		use_simd;		/* set by init if the CPU supports it; tests clear it to use the scalar code */
	bool		break_quotes;	/* quote or escape is CR or NL: every line is odd */
	ShardLineProgress progress; /* after MORE */
	ShardLineField found[SHARD_LINE_MAX_KEYS];	/* after MORE: the first progress.keyno */
	uint8_t		classes[256];	/* possible meanings of a byte */
	uint8_t		delims[16];		/* repeated bytes of format: */
	uint8_t		specials[16];	/* quote, or backslash in text format */
	uint8_t		escapes[16];	/* escape, or the same as specials */
} ShardLineScan;

extern void shard_line_scan_init(ShardLineScan *scan, const ShardLineFormat *format);

/*
 * Scans the line that begins at buf[0]. len bytes are in the buffer. at_end: no input follows them.  After FOUND, the
 * next call starts nbytes further.  After MORE, the next call gets the same bytes followed by more bytes (maybe at
 * another address).  Cost: linear in the number of bytes, even for any number of MOREs.
 */
extern ShardLineStatus shard_line_scan_next(ShardLineScan *scan, const char *buf, size_t len,
											bool at_end, ShardLine *line);

#endif
