/*
 * copy_lines.c
 *	  The lines of COPY FROM's input that are rows: after the header, and within SKIP and MAX_ROWS.
 *
 *	 input --block--> buffer --scanner--> header | skipped | line
 *
 * The buffer has a block of the input, and grows for a longer line.  Lines are returned in place.  Only the rest of a
 * block is copied, to the front of the next block.
 */
#include "postgres.h"

#include "load/raw/copy_lines.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define BLOCK_BYTES (256 * 1024)

ShardCopyLines *
shard_copy_lines_create(MemoryContext cxt, ShardCopyInput *input, const ShardLineFormat *format,
						const ShardFixedLayout *layout, int nheader, ShardLineProbe *probe,
						const ShardCopyOptions *options)
{
	ShardCopyLines *lines = MemoryContextAllocZero(cxt, sizeof(ShardCopyLines));

	shard_line_scan_init(&lines->scan, format);
	lines->layout = layout;
	lines->input = input;
	lines->probe = probe;
	lines->cxt = cxt;
	lines->buf_bytes = 2 * BLOCK_BYTES;
	lines->buf = MemoryContextAlloc(cxt, lines->buf_bytes + SHARD_FIXED_SLACK);
	lines->nheader = nheader;
	lines->nskip = options->skip;
	lines->nleft = options->max_rows;
	return lines;
}

/* Adds the bytes before pos to the checksum. */
static void
sum_up(ShardCopyLines *lines)
{
	size_t		from = lines->nsummed - lines->base;

	COMP_CRC32C(lines->sum, lines->buf + from, lines->pos - from);
	lines->nsummed = lines->base + lines->pos;
}

/* Moves the rest of the buffer to its front, and reads the next block behind it. */
static void
read_block(ShardCopyLines *lines)
{
	size_t		nrest = lines->end - lines->pos;

	CHECK_FOR_INTERRUPTS();
	if (nrest >= MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("out of memory"),
				 errdetail("A line of the input is longer than %zu bytes.", (size_t) MaxAllocSize)));
	if (lines->in_parts)
		sum_up(lines);
	if (nrest + BLOCK_BYTES > lines->buf_bytes)
	{
		size_t		new_bytes = Max(2 * lines->buf_bytes, nrest + BLOCK_BYTES);
		char	   *buf = MemoryContextAllocHuge(lines->cxt, new_bytes + SHARD_FIXED_SLACK);

		memcpy(buf, lines->buf + lines->pos, nrest);
		pfree(lines->buf);
		lines->buf = buf;
		lines->buf_bytes = new_bytes;
	}
	else
		memmove(lines->buf, lines->buf + lines->pos, nrest);
	lines->base += lines->pos;
	lines->pos = 0;
	lines->end = nrest;

	{
		size_t		nread = shard_copy_input_read(lines->input, lines->buf + lines->end,
												  Min(lines->buf_bytes - lines->end, 2 * BLOCK_BYTES));

		lines->end += nread;
		if (nread == 0)
			lines->at_end = true;
	}
}

bool
shard_copy_lines_fill(ShardCopyLines *lines, size_t nbytes, long timeout_ms)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);

	while (!lines->at_end && lines->end - lines->pos < nbytes)
	{
		read_block(lines);
		if (GetCurrentTimestamp() >= deadline)
			break;
	}
	return lines->end - lines->pos >= nbytes;
}

/* Makes lines->line, which begins at pos, the current line. */
static inline void
make_current(ShardCopyLines *lines)
{
	lines->bytes = lines->buf + lines->pos;
	lines->pos += lines->line.nbytes;
	lines->lineno_before = lines->lineno;
	lines->lineno += 1 + lines->line.nbreaks;
}

static inline ShardLineStatus
scan_line(ShardCopyLines *lines)
{
	const char *buf = lines->buf + lines->pos;
	size_t		nbytes = lines->end - lines->pos;

	if (lines->layout)
		return shard_fixed_next(lines->layout, &lines->searched, buf, nbytes, lines->at_end, &lines->line);
	return shard_line_scan_next(&lines->scan, buf, nbytes, lines->at_end, &lines->line);
}

/* Moves to the next line of the input, of any type; false at the end. */
static inline bool
next_line(ShardCopyLines *lines)
{
	if (lines->has_ahead)
	{
		memcpy(&lines->line, &lines->ahead,
			   offsetof(ShardLine, fields) + lines->scan.format.nkeys * sizeof(ShardLineField));
		lines->has_ahead = false;
		make_current(lines);
		return true;
	}
	for (;;)
	{
		switch (scan_line(lines))
		{
			case SHARD_LINE_FOUND:
				make_current(lines);
				return true;
			case SHARD_LINE_END:
				if (lines->at_end)
					return false;
				break;
			case SHARD_LINE_MORE:
				break;
		}
		read_block(lines);
	}
}

void
shard_copy_lines_header(ShardCopyLines *lines)
{
	StringInfoData header;
	size_t		nbytes;
	size_t		ntail;

	if (lines->nheader == 0)
		return;
	initStringInfo(&header);
	while (lines->nheader > 0 && next_line(lines))
	{
		appendBinaryStringInfo(&header, lines->bytes, lines->line.nbytes);
		if (lines->header == NULL)
			lines->header_bytes = header.len;
		lines->nheader--;
		lines->header = header.data;
	}
	nbytes = header.len;
	if (lines->probe == NULL)
		return;

	/* the check of the header reads bytes behind it, which must not be an incomplete character */
	while (!lines->at_end && lines->end - lines->pos < SHARD_LINE_PROBE_TAIL)
		read_block(lines);
	ntail = shard_copy_lines_following(lines);
	if (lines->header != NULL)
	{
		appendBinaryStringInfo(&header, lines->buf + lines->pos, (int) ntail);
		lines->header = header.data;
	}
	if (shard_line_probe_header(lines->probe, header.data, nbytes, ntail) == SHARD_PROBE_END)
		shard_copy_lines_stop(lines);
}

/* Does the part of a load end after the current line? */
static inline bool
is_at_pause(const ShardCopyLines *lines)
{
	return (lines->base + lines->pos >= lines->pause_bytes || lines->nrows >= lines->pause_nrows) &&
		lines->lineno >= lines->least_lineno;
}

bool
shard_copy_lines_next(ShardCopyLines *lines)
{
	if (lines->nleft == 0)
	{
		shard_copy_lines_stop(lines);
		return false;
	}
	if (unlikely(lines->in_parts && is_at_pause(lines)))
	{
		lines->paused = true;
		return false;
	}
	do
	{
		if (!next_line(lines))
			return false;
	} while (unlikely(lines->nskip > 0 && lines->nskip-- > 0));
	if (unlikely(lines->nleft > 0))
		lines->nleft--;
	lines->nrows++;
	return true;
}

const ShardLine *
shard_copy_lines_peek(ShardCopyLines *lines)
{
	if (lines->nskip > 0 || lines->nleft >= 0 || unlikely(lines->in_parts && is_at_pause(lines)))
		return NULL;
	if (!lines->has_ahead)
		lines->has_ahead = shard_line_scan_next(&lines->scan, lines->buf + lines->pos,
												lines->end - lines->pos, lines->at_end,
												&lines->ahead) == SHARD_LINE_FOUND;
	return lines->has_ahead ? &lines->ahead : NULL;
}

void
shard_copy_lines_take(ShardCopyLines *lines)
{
	Assert(lines->has_ahead);
	lines->has_ahead = false;
	lines->pos += lines->ahead.nbytes;
	lines->lineno_before = lines->lineno;
	lines->lineno += 1 + lines->ahead.nbreaks;
	lines->nrows++;
}

size_t
shard_copy_lines_following(const ShardCopyLines *lines)
{
	return Min(lines->end - lines->pos, SHARD_LINE_PROBE_TAIL);
}

void
shard_copy_lines_push_back(ShardCopyLines *lines)
{
	lines->pos -= lines->line.nbytes;
}

size_t
shard_copy_lines_read(ShardCopyLines *lines, char *buf, size_t nbytes)
{
	while (lines->pos == lines->end && !lines->at_end)
		read_block(lines);
	nbytes = Min(nbytes, lines->end - lines->pos);
	memcpy(buf, lines->buf + lines->pos, nbytes);
	lines->pos += nbytes;
	return nbytes;
}

void
shard_copy_lines_begin_part(ShardCopyLines *lines, const ShardLineFormat *format,
							const ShardFixedLayout *layout, ShardLineProbe *probe)
{
	ShardLineEol eol = lines->scan.eol;

	shard_line_scan_init(&lines->scan, format);
	lines->scan.eol = eol;
	lines->layout = layout;
	lines->searched = 0;
	lines->probe = probe;
	lines->has_ahead = false;
	lines->paused = false;
}

uint64
shard_copy_lines_position(ShardCopyLines *lines, pg_crc32c *checksum)
{
	if (!lines->stopped)
		sum_up(lines);
	*checksum = lines->sum;
	FIN_CRC32C(*checksum);
	return lines->nsummed;
}

void
shard_copy_lines_stop(ShardCopyLines *lines)
{
	if (lines->in_parts && !lines->stopped)
		sum_up(lines);
	lines->stopped = true;
	lines->has_ahead = false;
	lines->pos = lines->end;
	lines->at_end = true;
	shard_copy_input_drain(lines->input);
}
