/*
 * fixed_record_oracle.h
 *	  What the reader of fixed-width records has to find, worked out byte by byte.
 *
 * Included by the fuzz harness and by the test of a generated corpus.
 */
#ifndef FIXED_RECORD_ORACLE_H
#define FIXED_RECORD_ORACLE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/shortest_dec.h"
#include "load/raw/fixed_record.h"

#define MAX_FIELDS 24
#define MAX_VALUE_BYTES 4096

/* Core's functions, which are not linked: any digits do, as long as both sides have the same. */
int
double_to_shortest_decimal_buf(double value, char *out)
{
	return sprintf(out, "%.16g", value);
}

int
float_to_shortest_decimal_buf(float value, char *out)
{
	return sprintf(out, "%.8g", (double) value);
}

typedef struct OracleLayout
{
	char	   *text;			/* that the fields point into */
	ShardFixedLayout layout;
	ShardFixedField fields[MAX_FIELDS];
} OracleLayout;

/* As the server does it.  False: the layout is wrong. */
static bool
oracle_layout(OracleLayout *l, const char *text, size_t record_bytes, unsigned variant)
{
	char	   *at = l->text = strdup(text);

	memset(&l->layout, 0, sizeof(l->layout));
	l->layout.fields = l->fields;
	l->layout.record_bytes = record_bytes;
	while (at != NULL)
	{
		ShardFixedField *field = &l->fields[l->layout.nfields];

		if (l->layout.nfields++ == MAX_FIELDS)
			return false;
		if (shard_fixed_parse_field(&at, field) != NULL)
			return false;
		if (record_bytes == 0 ? field->kind != SHARD_FIXED_TEXT :
			field->start + (field->nbytes > 0 ? field->nbytes : 1) > record_bytes)
			return false;
		field->widen = field->kind == SHARD_FIXED_FLOAT && (variant & 1);
		if (field->kind == SHARD_FIXED_FLOAT)
			field->wire_bytes = field->widen ? 8 : (int) field->nbytes;
		else if (field->kind == SHARD_FIXED_UINT)
			field->wire_bytes = field->nbytes == 1 ? 2 : field->nbytes == 2 ? 4 : 8;
		else
			field->wire_bytes = field->nbytes <= 2 && !(variant & 2) ? 2 : field->nbytes <= 4 && !(variant & 4) ? 4 : 8;
	}
	shard_fixed_layout_finish(&l->layout);
	return true;
}

/* The bytes of a number, the highest first, sign or float extended to wire_bytes. */
static void
oracle_bytes(const ShardFixedField *field, const unsigned char *p, unsigned char *out)
{
	int			n = (int) field->nbytes;
	int			wire = field->wire_bytes;
	unsigned char ordered[8];
	unsigned char fill;

	for (int i = 0; i < n; i++)
		ordered[i] = p[field->little ? n - 1 - i : i];
	if (field->kind == SHARD_FIXED_FLOAT && n < wire)
	{
		uint32_t	bits = (uint32_t) ordered[0] << 24 | (uint32_t) ordered[1] << 16 | (uint32_t) ordered[2] << 8 | ordered[3];
		uint64_t	wide;
		float		narrow;
		double		value;

		memcpy(&narrow, &bits, 4);
		value = narrow;
		memcpy(&wide, &value, 8);
		for (int i = 0; i < 8; i++)
			out[i] = (unsigned char) (wide >> (56 - 8 * i));
		return;
	}
	fill = field->kind == SHARD_FIXED_INT && (ordered[0] & 0x80) ? 0xff : 0;
	for (int i = 0; i < wire; i++)
		out[i] = i < wire - n ? fill : ordered[i - (wire - n)];
}

/* A field's text; false: NULL. */
static bool
oracle_value(const ShardFixedField *field, const char *record, size_t nbytes, char *out, size_t *out_bytes)
{
	size_t		from = field->start;
	size_t		to = field->nbytes > 0 ? from + field->nbytes : nbytes;

	if (field->kind == SHARD_FIXED_TEXT)
	{
		bool		front = field->trim == SHARD_TRIM_LEADING || field->trim == SHARD_TRIM_BOTH;
		bool		behind = field->trim != SHARD_TRIM_LEADING && field->trim != SHARD_TRIM_NONE;

		while (behind && to > from && record[to - 1] == ' ')
			to--;
		while (front && to > from && record[from] == ' ')
			from++;
		*out_bytes = to - from;
		memcpy(out, record + from, to - from);
	}
	else
	{
		ShardFixedField wide = *field;
		unsigned char bytes[8];
		uint64_t	bits = 0;
		double		value;

		if (field->kind != SHARD_FIXED_FLOAT || field->widen)
			wide.wire_bytes = 8;
		oracle_bytes(&wide, (const unsigned char *) record + from, bytes);
		for (int i = 0; i < wide.wire_bytes; i++)
			bits = bits << 8 | bytes[i];
		if (field->kind == SHARD_FIXED_FLOAT && wide.wire_bytes == 4)
		{
			uint32_t	low = (uint32_t) bits;
			float		narrow;

			memcpy(&narrow, &low, 4);
			*out_bytes = (size_t) float_to_shortest_decimal_buf(narrow, out);
		}
		else if (field->kind == SHARD_FIXED_FLOAT)
		{
			memcpy(&value, &bits, 8);
			*out_bytes = (size_t) double_to_shortest_decimal_buf(value, out);
		}
		else
			*out_bytes = (size_t) (field->kind == SHARD_FIXED_INT ? sprintf(out, "%lld", (long long) bits) :
								   sprintf(out, "%llu", (unsigned long long) bits));
	}
	return !(field->null_text && *out_bytes == field->null_bytes && memcmp(out, field->null_text, *out_bytes) == 0);
}

static bool
oracle_fail(const char *what, const char *text, size_t fieldno)
{
	fprintf(stderr, "%s, field %zu of layout %s\n", what, fieldno + 1, text);
	return false;
}

/* Is the line out of COPY text what the values make? */
static bool
oracle_check_text(const OracleLayout *l, const char *text, const char *record, size_t nbytes, const char *out, size_t out_bytes)
{
	static char value[MAX_VALUE_BYTES];
	const char *p = out;
	const char *end = out + out_bytes;

	for (int i = 0; i < l->layout.nfields; i++)
	{
		size_t		value_bytes;
		bool		there = oracle_value(&l->fields[i], record, nbytes, value, &value_bytes);

		if (i > 0 && (p == end || *p++ != '\t'))
			return oracle_fail("no tab", text, i);
		if (!there)
		{
			if (end - p < 2 || memcmp(p, "\\N", 2) != 0)
				return oracle_fail("no NULL", text, i);
			p += 2;
			continue;
		}
		for (size_t n = 0; n < value_bytes; n++)
		{
			const char *found = strchr("\\\\\tt\nn\rr", value[n]);
			bool		escaped = value[n] != '\0' && found && (found - "\\\\\tt\nn\rr") % 2 == 0 && strchr("\\\t\n\r", value[n]);

			if (escaped && (p == end || *p++ != '\\'))
				return oracle_fail("no escape", text, i);
			if (p == end || *p++ != (!escaped ? value[n] : value[n] == '\t' ? 't' : value[n] == '\n' ? 'n' : value[n] == '\r' ? 'r' : '\\'))
				return oracle_fail("wrong text", text, i);
		}
	}
	return p == end || oracle_fail("a longer line", text, 0);
}

static bool
oracle_check_binary(const OracleLayout *l, const char *text, const char *record, size_t nbytes, const char *out, size_t out_bytes)
{
	static char value[MAX_VALUE_BYTES];
	const unsigned char *p = (const unsigned char *) out + 2;
	const unsigned char *end = (const unsigned char *) out + out_bytes;

	if (out_bytes < 2 || ((unsigned char) out[0] << 8 | (unsigned char) out[1]) != l->layout.nfields)
		return oracle_fail("wrong number of fields", text, 0);
	for (int i = 0; i < l->layout.nfields; i++)
	{
		const ShardFixedField *field = &l->fields[i];
		size_t		value_bytes;
		uint32_t	length = UINT32_MAX;
		uint32_t	found;

		if (oracle_value(field, record, nbytes, value, &value_bytes))
		{
			length = (uint32_t) value_bytes;
			if (field->kind != SHARD_FIXED_TEXT)
			{
				length = (uint32_t) field->wire_bytes;
				oracle_bytes(field, (const unsigned char *) record + field->start, (unsigned char *) value);
			}
		}
		if (end - p < 4)
			return oracle_fail("no length", text, i);
		found = (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
		p += 4;
		if (found != length)
			return oracle_fail("wrong length", text, i);
		if (length == UINT32_MAX)
			continue;
		if ((size_t) (end - p) < length || memcmp(p, value, length) != 0)
			return oracle_fail("wrong value", text, i);
		p += length;
	}
	return p == end || oracle_fail("a longer row", text, 0);
}

/* Both rows of a record, which lies in memory of its own. */
static bool
oracle_check_record(const OracleLayout *l, const char *text, const char *bytes, size_t nbytes)
{
	char	   *record = malloc(nbytes + SHARD_FIXED_SLACK);
	size_t		room = shard_fixed_row_bytes(&l->layout, nbytes);
	char	   *out = malloc(room);
	bool		high = false;
	bool		ascii;
	bool		good;
	size_t		n;

	memcpy(record, bytes, nbytes);
	memset(record + nbytes, ' ', SHARD_FIXED_SLACK);
	n = shard_fixed_write_text(&l->layout, record, nbytes, out, &ascii);
	good = n + SHARD_FIXED_SLACK <= room && oracle_check_text(l, text, record, nbytes, out, n);
	for (size_t i = 0; i < n; i++)
		high |= (out[i] & 0x80) != 0;
	if (high && ascii)
		good = oracle_fail("not all ASCII", text, 0);
	n = shard_fixed_write_binary(&l->layout, record, nbytes, out);
	good = good && n + SHARD_FIXED_SLACK <= room && oracle_check_binary(l, text, record, nbytes, out, n);
	for (int i = 0; i < l->layout.nfields && good; i++)
	{
		const ShardFixedField *field = &l->fields[i];
		char		scratch[SHARD_FIXED_NUMBER_BYTES];
		static char value[MAX_VALUE_BYTES];
		size_t		value_bytes;
		size_t		found_bytes;
		bool		plain = true;
		bool		there = oracle_value(field, record, nbytes, value, &value_bytes);
		const char *found = shard_fixed_value(field, record, nbytes, scratch, &found_bytes);

		if ((found != NULL) != there || (there && (found_bytes != value_bytes || memcmp(found, value, found_bytes) != 0)))
			good = oracle_fail("another value", text, i);
		if (field->kind == SHARD_FIXED_INT && there && shard_fixed_integer(field, record) != strtoll(value, NULL, 10))
			good = oracle_fail("another integer", text, i);
		for (size_t b = 0; there && b < value_bytes; b++)
			plain &= (unsigned char) value[b] >= 0x20 && value[b] != '\\';
		if (there && field->kind == SHARD_FIXED_TEXT && shard_fixed_is_plain(found, found_bytes) != plain)
			good = oracle_fail("not plain, or plain", text, i);
	}
	free(out);
	free(record);
	return good;
}

/* Where the record that begins at data ends, and what it is. */
static void
oracle_frame(const ShardFixedLayout *layout, const char *data, size_t len, ShardLine *line)
{
	size_t		end = 0;
	size_t		content;

	if (layout->record_bytes > 0)
		end = len < layout->record_bytes ? len : layout->record_bytes;
	else
	{
		while (end < len && data[end] != '\n')
			end++;
		end += end < len;
	}
	content = end;
	if (content > 0 && data[content - 1] == '\n')
	{
		content--;
		if (content > 0 && data[content - 1] == '\r')
			content--;
	}
	line->nbytes = end;
	line->content_bytes = layout->record_bytes > 0 ? end : content;
	line->oddity = SHARD_LINE_NOT_ODD;
	if (line->content_bytes < layout->min_bytes)
		line->oddity = SHARD_LINE_ODD_FIELDS;
	if (content == 2 && memcmp(data, "\\.", 2) == 0 && (layout->record_bytes == 0 || line->oddity == SHARD_LINE_ODD_FIELDS))
		line->oddity = SHARD_LINE_ODD_MARKER;
}

/* All records of data; pieces: how the input comes in. */
static bool
oracle_check_data(const OracleLayout *l, const char *text, const char *data, size_t len, unsigned pieces)
{
	size_t		at = 0;

	while (at < len)
	{
		ShardLine	want;
		ShardLine	found;
		size_t		searched = 0;
		size_t		there = 0;
		ShardLineStatus status;

		oracle_frame(&l->layout, data + at, len - at, &want);
		do
		{
			there += 1 + pieces;
			if (there > len - at)
				there = len - at;
			status = shard_fixed_next(&l->layout, &searched, data + at, there, there == len - at, &found);
		} while (status == SHARD_LINE_MORE && there < len - at);
		if (status != SHARD_LINE_FOUND || found.nbytes != want.nbytes || found.content_bytes != want.content_bytes ||
			found.oddity != want.oddity || searched != 0)
			return oracle_fail("another record", text, 0);
		if (found.oddity == SHARD_LINE_NOT_ODD && found.content_bytes < MAX_VALUE_BYTES &&
			!oracle_check_record(l, text, data + at, found.content_bytes))
			return false;
		at += found.nbytes;
	}
	return true;
}

/* A layout and an input; wrong layouts need only be found out. */
static bool
oracle_check_all(const char *text, size_t record_bytes, unsigned variant, const char *data, size_t len)
{
	OracleLayout l;
	bool		good = true;

	if (oracle_layout(&l, text, record_bytes, variant))
		good = oracle_check_data(&l, text, data, len, variant >> 3);
	free(l.text);
	return good;
}

#endif
