/*
 * line_scan_oracle.h
 *	  What the line scanner has to find, worked out the slow way: one pass over a
 *	  line for its end, a second one for its fields, as core's COPY FROM does it.
 *
 * Included by the fuzz harness and by the test of a generated corpus.
 */
#ifndef LINE_SCAN_ORACLE_H
#define LINE_SCAN_ORACLE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/raw/line_scan.h"

/* Wrong styles of line end and so on, as they were met. */
typedef struct OracleNotes
{
	bool		wrong_eol;
	bool		marker;
	bool		open_quote;
} OracleNotes;

/* First pass.  Returns the position behind the line; *content_end: where its end of line begins. */
static size_t
oracle_find_end(const ShardLineFormat *format, ShardLineEol *eol, const char *data, size_t begin,
				size_t len, size_t *content_end, uint32_t *nbreaks, OracleNotes *notes)
{
	/* Core uses '\0' for "no escape"; input with NUL never gets as far as this, so it is no byte here. */
	int			escape = format->escape == format->quote ? -1 : (unsigned char) format->escape;
	bool		in_quote = false;
	bool		last_was_escape = false;
	size_t		at = begin;

	while (at < len)
	{
		int			c = (unsigned char) data[at];
		int			next = at + 1 < len ? (unsigned char) data[at + 1] : -1;

		if (format->csv)
		{
			if (in_quote && c == escape)
				last_was_escape = !last_was_escape;
			if (c == (unsigned char) format->quote && !last_was_escape)
				in_quote = !in_quote;
			if (c != escape)
				last_was_escape = false;
			if (in_quote && c == (*eol == SHARD_EOL_NL ? '\n' : '\r'))
				(*nbreaks)++;
			if (c == '\\' && next == '.' &&
				(at == begin || data[at - 1] == '\n' || data[at - 1] == '\r'))
				notes->marker = true;
		}
		else if (c == '\\')
		{
			if (next == '.')
				notes->marker = true;
			at += next == -1 ? 1 : 2;
			continue;
		}

		if (c == '\r' && !in_quote)
		{
			if (*eol == SHARD_EOL_UNKNOWN)
				*eol = next == '\n' ? SHARD_EOL_CRNL : SHARD_EOL_CR;
			if (*eol == SHARD_EOL_CR || (*eol == SHARD_EOL_CRNL && next == '\n'))
			{
				*content_end = at;
				return at + (*eol == SHARD_EOL_CR ? 1 : 2);
			}
			notes->wrong_eol = true;
		}
		if (c == '\n' && !in_quote)
		{
			if (*eol == SHARD_EOL_UNKNOWN || *eol == SHARD_EOL_NL)
			{
				*eol = SHARD_EOL_NL;
				*content_end = at;
				return at + 1;
			}
			notes->wrong_eol = true;
		}
		at++;
	}
	notes->open_quote = in_quote;
	*content_end = len;
	return len;
}

/* Second pass: field number wanted of the n bytes at content.  Returns the number of fields. */
static int
oracle_split(const ShardLineFormat *format, const char *content, size_t n, int wanted, ShardLineField *field)
{
	int			fieldno = 0;
	size_t		start = 0;
	size_t		at = 0;
	bool		quoted = false;
	bool		plain = true;

	for (;;)
	{
		bool		at_end = at >= n;

		if (at_end || (!quoted && content[at] == format->delim))
		{
			if (fieldno == wanted)
			{
				field->start = start;
				field->nbytes = at - start;
				field->plain = plain;
			}
			fieldno++;
			if (at_end)
				return fieldno;
			start = ++at;
			plain = true;
			continue;
		}
		if (!format->csv)
		{
			if (content[at] == '\\')
			{
				plain = false;
				at += at + 1 < n ? 2 : 1;
			}
			else
				at++;
			continue;
		}
		if (content[at] == format->quote)
			plain = false;
		if (quoted && content[at] == format->escape && at + 1 < n &&
			(content[at + 1] == format->escape || content[at + 1] == format->quote))
		{
			if (content[at + 1] == format->quote)
				plain = false;
			at += 2;
			continue;
		}
		if (content[at] == format->quote)
			quoted = !quoted;
		at++;
	}
}

/* The line at data[begin]; all of the input is there. */
static void
oracle_line(const ShardLineFormat *format, ShardLineEol *eol, const char *data, size_t begin, size_t len,
			ShardLine *line)
{
	OracleNotes notes = {0};
	size_t		content_end;
	size_t		end;
	int			nfields = 0;
	bool		quotes_break = format->csv && (strchr("\r\n", format->quote) || strchr("\r\n", format->escape));

	memset(line, 0, sizeof(*line));
	end = oracle_find_end(format, eol, data, begin, len, &content_end, &line->nbreaks, &notes);
	line->nbytes = end - begin;
	line->content_bytes = content_end - begin;
	for (size_t back = 1; back <= 3 && back <= line->content_bytes; back++)
		line->high_tail |= (unsigned char) data[content_end - back] >= 0x80;

	nfields = oracle_split(format, data + begin, line->content_bytes, -1, NULL);
	for (int i = 0; i < format->nkeys; i++)
		oracle_split(format, data + begin, line->content_bytes, format->key_fieldnos[i], &line->fields[i]);

	if (notes.wrong_eol)
		line->oddity = SHARD_LINE_ODD_EOL;
	else if (notes.marker)
		line->oddity = SHARD_LINE_ODD_MARKER;
	else if (notes.open_quote || quotes_break)
		line->oddity = SHARD_LINE_ODD_QUOTE;
	else if ((format->nkeys > 0 && format->key_fieldnos[format->nkeys - 1] >= nfields) ||
			 (format->nfields > 0 && format->nfields != nfields))
		line->oddity = SHARD_LINE_ODD_FIELDS;
}

/* How the input is handed to the scanner. */
typedef struct OracleDelivery
{
	bool		use_simd;
	bool		alternate;		/* between the scanner's two readers, at each call, and copy its state */
	size_t		max_chunk;		/* bytes that come at a time: 1 to this; 0 = all at once */
	uint32_t	seed;
} OracleDelivery;

static void
oracle_complain(const char *what, const ShardLineFormat *format, const char *data, size_t len,
				size_t begin, const ShardLine *want, const ShardLine *got)
{
	fprintf(stderr, "%s in the line at byte %zu of %zu\n", what, begin, len);
	fprintf(stderr, "format: %s delim %02x quote %02x escape %02x nfields %d keys", format->csv ? "csv" : "text",
			(unsigned char) format->delim, (unsigned char) format->quote, (unsigned char) format->escape, format->nfields);
	for (int i = 0; i < format->nkeys; i++)
		fprintf(stderr, " %d", format->key_fieldnos[i]);
	fprintf(stderr, "\nwanted: %zu bytes, %zu content, %u breaks, high %d, oddity %d\n", want->nbytes,
			want->content_bytes, want->nbreaks, want->high_tail, want->oddity);
	fprintf(stderr, "   got: %zu bytes, %zu content, %u breaks, high %d, oddity %d\n", got->nbytes,
			got->content_bytes, got->nbreaks, got->high_tail, got->oddity);
	for (int i = 0; i < format->nkeys; i++)
		fprintf(stderr, "field %d wanted: %zu+%zu plain %d, got: %zu+%zu plain %d\n", format->key_fieldnos[i],
				want->fields[i].start, want->fields[i].nbytes, want->fields[i].plain,
				got->fields[i].start, got->fields[i].nbytes, got->fields[i].plain);
	for (size_t i = begin; i < len && i < begin + 400; i++)
	{
		unsigned char c = (unsigned char) data[i];

		if (c >= 0x20 && c < 0x7f)
			fputc(c, stderr);
		else
			fprintf(stderr, "<%02x>", c);
	}
	fputc('\n', stderr);
}

static bool
oracle_same_line(const ShardLineFormat *format, const ShardLine *a, const ShardLine *b)
{
	if (a->nbytes != b->nbytes || a->content_bytes != b->content_bytes || a->nbreaks != b->nbreaks ||
		a->high_tail != b->high_tail || a->oddity != b->oddity)
		return false;
	for (int i = 0; i < format->nkeys && a->oddity == SHARD_LINE_NOT_ODD; i++)
	{
		if (a->fields[i].start != b->fields[i].start || a->fields[i].nbytes != b->fields[i].nbytes ||
			a->fields[i].plain != b->fields[i].plain)
			return false;
	}
	return true;
}

static size_t
oracle_next_chunk(OracleDelivery *delivery, size_t left)
{
	size_t		chunk;

	if (delivery->max_chunk == 0)
		return left;
	delivery->seed = delivery->seed * 1664525 + 1013904223;
	chunk = 1 + (delivery->seed >> 8) % delivery->max_chunk;
	return chunk < left ? chunk : left;
}

/* Runs the scanner over data; false: it found something else than the oracle, which was told. */
static bool
oracle_check(const ShardLineFormat *format, ShardLineEol eol, const char *data, size_t len, OracleDelivery delivery)
{
	ShardLineScan scan;
	ShardLineEol eol_wanted = eol;
	size_t		begin = 0;
	size_t		given = 0;
	bool		have_line = false;
	bool		end_told = false;
	bool		can_simd;
	ShardLine	want;
	ShardLine	got;

	shard_line_scan_init(&scan, format);
	scan.eol = eol;
	can_simd = scan.use_simd;
	if (!delivery.use_simd)
		scan.use_simd = false;
	for (;;)
	{
		ShardLineStatus status;
		size_t		n = given - begin;
		char	   *bytes = malloc(n);

		if (!have_line && begin < len)
			oracle_line(format, &eol_wanted, data, begin, len, &want);
		have_line = true;

		/* A copy of exactly these bytes: reading past them is found out. */
		if (bytes == NULL && n > 0)
			abort();
		if (n > 0)
			memcpy(bytes, data + begin, n);
		memset(&got, 0x55, sizeof(got));
		if (delivery.alternate)
		{
			ShardLineScan copy = scan;

			memset(&scan, 0x55, sizeof(scan));
			scan = copy;
			delivery.seed = delivery.seed * 1664525 + 1013904223;
			scan.use_simd = can_simd && (delivery.seed >> 16) % 2 == 0;
		}
		status = shard_line_scan_next(&scan, bytes, n, end_told, &got);
		free(bytes);

		if (status == SHARD_LINE_MORE)
		{
			/* A line that is there must not be waited for; one byte behind it may be needed. */
			if (end_told || (begin < len && n > want.nbytes && want.content_bytes < want.nbytes))
			{
				oracle_complain("MORE", format, data, len, begin, &want, &got);
				return false;
			}
			if (given == len)
				end_told = true;
			else
			{
				given += oracle_next_chunk(&delivery, len - given);
				/* The end may come along with the last bytes, or after them. */
				end_told = given == len && delivery.seed % 2 == 0;
			}
			continue;
		}
		if (status == SHARD_LINE_END)
		{
			if (begin < len || !end_told)
			{
				oracle_complain("END", format, data, len, begin, &want, &got);
				return false;
			}
			return true;
		}
		if (begin >= len || !oracle_same_line(format, &want, &got) || scan.eol != eol_wanted)
		{
			oracle_complain(scan.eol != eol_wanted ? "another style of line end" : "difference",
							format, data, len, begin, &want, &got);
			return false;
		}
		begin += got.nbytes;
		have_line = false;
	}
}

/* With all readers: all of it at once, and two ways in chunks, which seed chooses. */
static bool
oracle_check_all(const ShardLineFormat *format, ShardLineEol eol, const char *data, size_t len, uint32_t seed)
{
	static const size_t chunks[] = {66, 1, 200, 3, 67, 5000, 20};

	for (int i = 0; i < 3; i++)
	{
		OracleDelivery delivery = {.seed = seed + i};

		if (i > 0)
			delivery.max_chunk = chunks[(seed + i * 3) % 7];
		/* Byte by byte costs the square of the length. */
		if (delivery.max_chunk > 0 && delivery.max_chunk < 60 && len > 600)
			delivery.max_chunk += 128;
		for (int readers = 0; readers < 3; readers++)
		{
			delivery.use_simd = readers > 0;
			delivery.alternate = readers == 2;
			if (!oracle_check(format, eol, data, len, delivery))
				return false;
		}
	}
	return true;
}

#endif
