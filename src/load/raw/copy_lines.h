/*
 * copy_lines.h
 *	  The lines of COPY FROM's input that are rows: after the header, and within SKIP and MAX_ROWS.
 */
#ifndef SHARDFDW_COPY_LINES_H
#define SHARDFDW_COPY_LINES_H

#include "postgres.h"

#include "load/input/copy_input.h"
#include "load/input/copy_option.h"
#include "load/raw/fixed_record.h"
#include "load/raw/line_probe.h"
#include "load/raw/line_scan.h"
#include "port/pg_crc32c.h"

typedef struct ShardCopyLines
{
	/* the current line; valid until the next call */
	const char *bytes;
	ShardLine	line;			/* its extent and fields */
	uint64		lineno_before;	/* number of lines in the file before it */
	uint64		lineno;			/* number of its last line, as in error contexts */

	ShardLineScan scan;			/* scan.eol: how lines end */
	const ShardFixedLayout *layout; /* layout of fixed-width records, which are the lines then; or NULL */
	size_t		searched;		/* bytes of the record at pos that have been searched */
	ShardCopyInput *input;
	ShardLineProbe *probe;		/* for the header; NULL: do not check it */
	MemoryContext cxt;
	char	   *buf;
	size_t		buf_bytes;		/* allocated */
	size_t		pos;			/* position of the first byte that has not been returned */
	size_t		end;			/* end of the data in buf */
	ShardLine	ahead;			/* the line at pos, if has_ahead */
	bool		has_ahead;
	bool		at_end;			/* no more input */
	int			nheader;		/* remaining header lines */
	char	   *header;			/* the header's first line, for REJECT_FILE */
	size_t		header_bytes;
	int64		nskip;			/* remaining lines of SKIP */
	int64		nleft;			/* remaining lines of MAX_ROWS; -1: no limit */
	uint64		nrows;			/* number of lines returned as rows */
	uint64		base;			/* size of the input before buf */

	/* for a load that is committed in parts (load/resume.c) */
	bool		in_parts;
	bool		paused;			/* the part ends here, but not the input */
	bool		stopped;		/* the load ends before the input */
	uint64		pause_bytes;	/* the part ends after the row that reaches this position ... */
	uint64		pause_nrows;	/* ... or after this number of rows, ... */
	uint64		least_lineno;	/* ... but not before this line number */
	pg_crc32c	sum;			/* CRC-32C of the input up to nsummed */
	uint64		nsummed;
} ShardCopyLines;

/* layout: of fixed-width records; NULL: lines of format.  Memory: lines and its buffers are in cxt. */
extern ShardCopyLines *shard_copy_lines_create(MemoryContext cxt, ShardCopyInput *input,
											   const ShardLineFormat *format,
											   const ShardFixedLayout *layout, int nheader,
											   ShardLineProbe *probe,
											   const ShardCopyOptions *options);

/* Reads and checks the header.  Errors: core's. */
extern void shard_copy_lines_header(ShardCopyLines *lines);

/*
 * Reads ahead until nbytes are in the buffer, and returns true.  Returns false if the input ends before, or if it
 * takes longer than timeout_ms (a read in progress is completed).
 */
extern bool shard_copy_lines_fill(ShardCopyLines *lines, size_t nbytes, long timeout_ms);

/* Moves to the next line; false at the end. */
extern bool shard_copy_lines_next(ShardCopyLines *lines);

/*
 * shard_copy_lines_peek() returns the line after the current one.  NULL if that line is not complete in the buffer, or
 * while SKIP or MAX_ROWS count lines.  The current line stays valid.  shard_copy_lines_take() moves past the peeked
 * line.
 */
extern const ShardLine *shard_copy_lines_peek(ShardCopyLines *lines);
extern void shard_copy_lines_take(ShardCopyLines *lines);

/*
 * Number of bytes in the buffer after the current line, at most SHARD_LINE_PROBE_TAIL.  If the line ends within a
 * character, core's error shows some of them.
 */
extern size_t shard_copy_lines_following(const ShardCopyLines *lines);

/*
 * push_back: from now on, the current line and the rest of the input are read as bytes, not as lines. read: reads up
 * to nbytes, and returns the number of bytes; 0 at the end.
 */
extern void shard_copy_lines_push_back(ShardCopyLines *lines);
extern size_t shard_copy_lines_read(ShardCopyLines *lines, char *buf, size_t nbytes);

/*
 * Begins the next part of a load: lines continue at the current position, with format and probe.  The caller sets
 * pause_bytes, pause_nrows and least_lineno.
 */
extern void shard_copy_lines_begin_part(ShardCopyLines *lines, const ShardLineFormat *format,
										const ShardFixedLayout *layout, ShardLineProbe *probe);

/* Size of the input up to the end of the current line.  *checksum: of these bytes. */
extern uint64 shard_copy_lines_position(ShardCopyLines *lines, pg_crc32c *checksum);

/* Ends the input here: the rest is discarded. */
extern void shard_copy_lines_stop(ShardCopyLines *lines);

#endif
