/*
 * copy_lines.h
 *	  The lines of COPY FROM's input that make rows: after the header, within SKIP
 *	  and MAX_ROWS.
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
	uint64		lineno_before;	/* lines of the file before it */
	uint64		lineno;			/* of its last line, as in error contexts */

	ShardLineScan scan;			/* scan.eol: how lines end */
	const ShardFixedLayout *layout; /* of fixed-width records, which are the lines then; NULL: none */
	size_t		searched;		/* bytes of the record at pos that were looked at */
	ShardCopyInput *input;
	ShardLineProbe *probe;		/* for the header; NULL: it is not checked */
	MemoryContext cxt;
	char	   *buf;
	size_t		buf_bytes;		/* allocated */
	size_t		pos;			/* of the first byte that was not returned yet */
	size_t		end;			/* of what is there */
	ShardLine	ahead;			/* the line at pos, when has_ahead */
	bool		has_ahead;
	bool		at_end;			/* nothing follows */
	int			nheader;		/* header lines left */
	char	   *header;			/* the header's first line, for REJECT_FILE */
	size_t		header_bytes;
	int64		nskip;			/* lines left of SKIP */
	int64		nleft;			/* lines left of MAX_ROWS; -1: no limit */
	uint64		nrows;			/* lines that were returned as rows */
	uint64		base;			/* bytes of the input before buf */

	/* of a load that is committed in parts (load/resume.c) */
	bool		in_parts;
	bool		paused;			/* the part ends here, not the input */
	bool		stopped;		/* the load has ended before the input */
	uint64		pause_bytes;	/* the part ends after the row that comes to this position ... */
	uint64		pause_nrows;	/* ... or the one that makes so many rows, ... */
	uint64		least_lineno;	/* ... but not before the line of this number */
	pg_crc32c	sum;			/* CRC-32C of the input up to nsummed */
	uint64		nsummed;
} ShardCopyLines;

/* layout: of fixed-width records; NULL: lines of format.  Memory: lines and its buffers in cxt. */
extern ShardCopyLines *shard_copy_lines_create(MemoryContext cxt, ShardCopyInput *input,
											   const ShardLineFormat *format,
											   const ShardFixedLayout *layout, int nheader,
											   ShardLineProbe *probe,
											   const ShardCopyOptions *options);

/* Reads and checks the header.  Errors: core's. */
extern void shard_copy_lines_header(ShardCopyLines *lines);

/*
 * Reads ahead until nbytes are there, and returns true.  False when the input has
 * ended before, or has not given them within timeout_ms (a read that is under way then
 * is waited for).
 */
extern bool shard_copy_lines_fill(ShardCopyLines *lines, size_t nbytes, long timeout_ms);

/* Moves on to the next line; false at the end. */
extern bool shard_copy_lines_next(ShardCopyLines *lines);

/*
 * peek: the line behind the current one; NULL when it is not whole in the buffer, or
 * while SKIP or MAX_ROWS count lines.  The current line stays valid.  take: moves past
 * the line that was peeked at.
 */
extern const ShardLine *shard_copy_lines_peek(ShardCopyLines *lines);
extern void shard_copy_lines_take(ShardCopyLines *lines);

/*
 * How many bytes behind the current line are in the buffer, at most
 * SHARD_LINE_PROBE_TAIL: core's error shows some of them when the line ends within a
 * character.
 */
extern size_t shard_copy_lines_following(const ShardCopyLines *lines);

/*
 * push_back: from now on the current line and all that follows are read as bytes, not
 * as lines.  read: returns how many bytes it has read, up to nbytes; 0 at the end.
 */
extern void shard_copy_lines_push_back(ShardCopyLines *lines);
extern size_t shard_copy_lines_read(ShardCopyLines *lines, char *buf, size_t nbytes);

/*
 * The next part of a load begins: lines go on where they are, read by format and
 * with probe.  The caller sets pause_bytes, pause_nrows and least_lineno.
 */
extern void shard_copy_lines_begin_part(ShardCopyLines *lines, const ShardLineFormat *format,
										const ShardFixedLayout *layout, ShardLineProbe *probe);

/* Bytes of the input up to the end of the current line.  *checksum: theirs. */
extern uint64 shard_copy_lines_position(ShardCopyLines *lines, pg_crc32c *checksum);

/* The input ends here: what follows is dropped. */
extern void shard_copy_lines_stop(ShardCopyLines *lines);

#endif
