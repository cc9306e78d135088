/*
 * copy_rows.c
 *	  Rows to be sent to a node: their bytes, and their lines in the input.
 *
 *	 put --> data     row row row ...            (what the node gets)
 *	         lines    +1  +16 +3 ...             about a byte per row
 *	         sizes    57,0 61,0 ...              guarded sets: where rows end
 *
 * A node identifies a refused row by its line in the stream ("COPY t_07, line 42").  To find it,
 * the lines of the rows are added up.
 */
#include "postgres.h"

#include "remote/copy/copy_private.h"
#include "utils/memutils.h"

void
shard_copy_rows_init(ShardCopyRows *rows)
{
	memset(rows, 0, sizeof(ShardCopyRows));
	initStringInfo(&rows->data);
	initStringInfo(&rows->lines);
	initStringInfo(&rows->sizes);
	initStringInfo(&rows->sources);
}

static void
reset_buffer(StringInfo buf, int kept_bytes)
{
	if (buf->maxlen > kept_bytes)
	{
		MemoryContext oldcxt = MemoryContextSwitchTo(GetMemoryChunkContext(buf->data));
		StringInfoData fresh;

		initStringInfo(&fresh);
		pfree(buf->data);
		*buf = fresh;
		MemoryContextSwitchTo(oldcxt);
	}
	resetStringInfo(buf);
}

void
shard_copy_rows_reset(ShardCopyRows *rows, uint64 base_line, int kept_bytes)
{
	reset_buffer(&rows->data, kept_bytes);
	reset_buffer(&rows->lines, kept_bytes);
	reset_buffer(&rows->sizes, kept_bytes);
	reset_buffer(&rows->sources, kept_bytes);
	rows->nrows = 0;
	rows->base_line = base_line;
}

static void
append_varint(StringInfo buf, uint64 value)
{
	while (value >= 0x80)
	{
		appendStringInfoCharMacro(buf, (char) (value | 0x80));
		value >>= 7;
	}
	appendStringInfoCharMacro(buf, (char) value);
}

static inline uint64
read_varint(const StringInfoData *buf, int *pos)
{
	const unsigned char *p = (const unsigned char *) buf->data + *pos;
	const unsigned char *end = (const unsigned char *) buf->data + buf->len;
	uint64		value = 0;
	int			shift = 0;

	while (p < end && (*p & 0x80))
	{
		value |= (uint64) (*p++ & 0x7f) << shift;
		shift += 7;
	}
	if (p < end)
		value |= (uint64) *p++ << shift;
	*pos = p - (const unsigned char *) buf->data;
	return value;
}

void
shard_copy_rows_note_line(ShardCopyRows *rows, uint64 delta, uint64 nlines)
{
	if (nlines != 1)
	{
		/* no varint looks like this */
		appendBinaryStringInfo(&rows->lines, "\200\0", 2);
		append_varint(&rows->lines, nlines);
	}
	append_varint(&rows->lines, delta);
}

void
shard_copy_rows_note_size(ShardCopyRows *rows, size_t nbytes, const char *source, size_t source_bytes)
{
	append_varint(&rows->sizes, nbytes);
	append_varint(&rows->sizes, source ? source_bytes + 1 : 0);
	if (source)
		appendBinaryStringInfo(&rows->sources, source, source_bytes);
}

void
shard_copy_rows_start(const ShardCopyRows *rows, ShardCopyPos *pos)
{
	memset(pos, 0, sizeof(ShardCopyPos));
	pos->lineno = rows->base_line;
}

bool
shard_copy_rows_next(const ShardCopyRows *rows, ShardCopyPos *pos, ShardCopyRow *row)
{
	const unsigned char *p = (const unsigned char *) rows->lines.data + pos->lines_pos;

	if (pos->lines_pos >= rows->lines.len)
		return false;
	row->nlines = 1;
	if (p[0] == 0x80 && p[1] == 0)
	{
		pos->lines_pos += 2;
		row->nlines = read_varint(&rows->lines, &pos->lines_pos);
	}
	pos->lineno += read_varint(&rows->lines, &pos->lines_pos);
	pos->rowno++;
	row->lineno = pos->lineno;

	row->data = row->source = NULL;
	row->nbytes = row->source_bytes = 0;
	if (pos->sizes_pos < rows->sizes.len)
	{
		uint64		source_bytes;

		row->data = rows->data.data + pos->data_pos;
		row->nbytes = read_varint(&rows->sizes, &pos->sizes_pos);
		source_bytes = read_varint(&rows->sizes, &pos->sizes_pos);
		pos->data_pos += row->nbytes;
		if (source_bytes > 0)
		{
			row->source = rows->sources.data + pos->sources_pos;
			row->source_bytes = source_bytes - 1;
			pos->sources_pos += row->source_bytes;
		}
	}
	return true;
}

bool
shard_copy_rows_find(const ShardCopyRows *rows, const ShardCopyPos *from,
					 uint64 text_lineno, uint64 *rowno, uint64 *lineno)
{
	ShardCopyPos pos = *from;
	ShardCopyRow row;
	uint64		nlines = 0;

	if (text_lineno == 0)
		return false;
	while (shard_copy_rows_next(rows, &pos, &row))
	{
		nlines += row.nlines;
		if (nlines < text_lineno)
			continue;
		*rowno = pos.rowno - 1;
		*lineno = row.lineno - Min(row.lineno, nlines - text_lineno);
		return true;
	}
	return false;
}

/* ---------- rows of a target ---------- */

void
shard_copy_rows_reset_target(ShardCopyTarget *target)
{
	shard_copy_rows_reset(&target->rows, target->last_line, 2 * target->set->chunk_bytes);
	target->put_pos = 0;
	target->charged_bytes = 0;
}

void
shard_copy_rows_drop(ShardCopyTarget *target)
{
	target->set->nbytes -= target->charged_bytes;
	shard_copy_rows_reset_target(target);
}
