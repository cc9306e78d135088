/*
 * key_reader.c
 *	  Converts the key fields of a COPY line to values of the shard key.
 *
 *	 field --NULL marker?--> text in the database's encoding --> value
 *		|	 (unquoted, unescaped, verified, converted)			 ^
 *		+----- integers, dates..., plain and in their usual form --+
 *
 * The results are exactly those of core's parser and the type's input function.  Text that is not in the usual form
 * is passed to the input function.  If that function rejects it, the caller uses core's parser.
 *
 * Assumptions:
 *
 * - Bytes of ASCII characters are never part of another character (raw_mode.c checks the encoding), so a field
 *   consists of complete characters.
 * - Delimiter, quotes and NULL marker are ASCII (raw_mode.c checks that), so they can be compared before the input is
 *   converted.
 */
#include "postgres.h"

#include "compat.h"
#include "fmgr.h"
#include "load/raw/key_reader.h"
#include "load/raw/key_value.h"
#include "load/raw/line_probe.h"
#include "mb/pg_wchar.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"

typedef struct KeyColumn
{
	ShardKeyKind kind;
	int			slot;			/* index in ShardLine.fields */
	bool		force_null;
	bool		force_notnull;
	bool		knows_clock;	/* date/time type: "now" is a value */
	bool		never_raises;	/* the input function reports errors softly, or has none */
	ShardKeyTextCheck is_safe;	/* 15: checks for text that the input function surely accepts; NULL: no check */
	int32		typmod;
	FmgrInfo   *input;
	Oid			typioparam;

	/* values by reference that this file makes */
	pg_uuid_t	uuid;
	char	   *varlena;		/* varlena_size bytes */
	size_t		varlena_size;
} KeyColumn;

struct ShardKeyReader
{
	CopyFromState cstate;
	bool		csv;
	char		quote;
	char		escape;
	const char *null_print;
	size_t		null_bytes;
	MemoryContext cxt;
	MemoryContext row_cxt;		/* memory of input functions */
	bool		row_cxt_used;
	StringInfoData unescaped;	/* unescaped text of the current field; also as a C string */
	StringInfoData converted;	/* the same field before unescaping, in the database encoding */
	int			nkeys;
	Datum		values[PARTITION_MAX_KEYS];
	bool		isnull[PARTITION_MAX_KEYS];
	KeyColumn	columns[PARTITION_MAX_KEYS];
};

/* ---------- set-up ---------- */

/* 0-based position of attno among the columns of the input. */
static int
field_number(CopyFromState cstate, AttrNumber attno)
{
	int			fieldno = 0;

	foreach_int(other, cstate->attnumlist)
	{
		if (other == attno)
			return fieldno;
		fieldno++;
	}
	elog(ERROR, "key column %d is not in the input", attno);
}

static void
init_column(KeyColumn *column, CopyFromState cstate, AttrNumber attno)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(cstate->rel), attno - 1);
	int			m = attno - 1;

	column->kind = shard_key_value_kind(att->atttypid);
	column->typmod = att->atttypmod;
	column->input = &cstate->in_functions[m];
	column->typioparam = cstate->typioparams[m];
	column->force_null = cstate->opts.force_null_flags[m];
	column->force_notnull = cstate->opts.force_notnull_flags[m];
	column->knows_clock = shard_key_value_knows_clock(att->atttypid);
	column->never_raises = shard_key_value_never_raises(att->atttypid);
	column->is_safe = shard_key_value_safe_text(att->atttypid, att->atttypmod);

	/* fractions of seconds are rounded */
	if (column->kind == SHARD_KEY_TIMESTAMP && column->typmod >= 0 && column->typmod < MAX_TIMESTAMP_PRECISION)
		column->kind = SHARD_KEY_OTHER;
}

/* Tells the scanner which fields are needed, and assigns them to the key columns. */
static void
assign_slots(ShardKeyReader *reader, PartitionKey key, ShardLineFormat *format)
{
	bool		wanted[MaxHeapAttributeNumber] = {0};

	for (int i = 0; i < reader->nkeys; i++)
		wanted[field_number(reader->cstate, key->partattrs[i])] = true;
	format->nkeys = 0;
	for (int fieldno = 0; fieldno < list_length(reader->cstate->attnumlist); fieldno++)
	{
		if (wanted[fieldno])
			format->key_fieldnos[format->nkeys++] = fieldno;
	}
	for (int i = 0; i < reader->nkeys; i++)
	{
		int			slot = 0;

		while (format->key_fieldnos[slot] != field_number(reader->cstate, key->partattrs[i]))
			slot++;
		reader->columns[i].slot = slot;
	}
}

ShardKeyReader *
shard_key_reader_create(MemoryContext cxt, CopyFromState cstate, ShardLineFormat *format)
{
	PartitionKey key = RelationGetPartitionKey(cstate->rel);
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	ShardKeyReader *reader = palloc0(sizeof(ShardKeyReader));

	shard_line_probe_format(cstate, format);
	reader->cstate = cstate;
	reader->csv = format->csv;
	reader->quote = format->quote;
	reader->escape = format->escape;
	reader->null_print = cstate->opts.null_print;
	reader->null_bytes = cstate->opts.null_print_len;
	reader->cxt = cxt;
	reader->row_cxt = AllocSetContextCreate(cxt, "shardfdw key", ALLOCSET_DEFAULT_SIZES);
	initStringInfo(&reader->unescaped);
	initStringInfo(&reader->converted);
	reader->nkeys = key->partnatts;
	for (int i = 0; i < reader->nkeys; i++)
		init_column(&reader->columns[i], cstate, key->partattrs[i]);
	assign_slots(reader, key, format);
	MemoryContextSwitchTo(oldcxt);
	return reader;
}

/* ---------- text ---------- */

/* Are all bytes ASCII characters other than NUL? */
static bool
is_ascii(const char *p, size_t nbytes)
{
	const char *end = p + nbytes;

	for (; p < end; p++)
	{
		if (*p == '\0' || IS_HIGHBIT_SET(*p))
			return false;
	}
	return true;
}

/* The column's buffer for a varlena with nbytes of data. */
static char *
varlena_data(ShardKeyReader *reader, KeyColumn *column, size_t nbytes)
{
	size_t		size = nbytes + VARHDRSZ;

	if (size > column->varlena_size)
	{
		if (column->varlena)
			pfree(column->varlena);
		column->varlena = NULL;
		column->varlena_size = Min(size * 2, MaxAllocSize);
		column->varlena = MemoryContextAlloc(reader->cxt, column->varlena_size);
	}
	SET_VARSIZE(column->varlena, size);
	return VARDATA(column->varlena);
}

/*
 * text, varchar, bpchar: the bytes themselves, padded with blanks for bpchar(n).  False if the value may be too long,
 * which depends on the number of characters.
 */
static bool
make_text(ShardKeyReader *reader, KeyColumn *column, const char *p, size_t nbytes, Datum *value)
{
	size_t		full = nbytes;
	char	   *data;

	if (nbytes > MaxAllocSize / 2)
		return false;
	if (column->typmod >= (int32) VARHDRSZ)
	{
		size_t		limit = column->typmod - VARHDRSZ;

		if (nbytes > limit)
			return false;
		if (column->kind == SHARD_KEY_BPCHAR)
		{
			if (nbytes < limit && !is_ascii(p, nbytes))
				return false;
			full = limit;
		}
	}
	data = varlena_data(reader, column, full);
	memcpy(data, p, nbytes);
	memset(data + nbytes, ' ', full - nbytes);
	*value = PointerGetDatum(column->varlena);
	return true;
}

/*
 * The input function's value of text (NULL for a NULL).  Never raises an error: the error of the first wrong column
 * has to be raised, which may not be a key column.
 */
static bool
call_input(ShardKeyReader *reader, KeyColumn *column, char *text, Datum *value)
{
	MemoryContext oldcxt;
	bool		ok = true;

	if (!column->never_raises && (column->is_safe == NULL || text == NULL || !column->is_safe(text)))
		return false;
	reader->row_cxt_used = true;
	oldcxt = MemoryContextSwitchTo(reader->row_cxt);
	if (column->never_raises)
		ok = shard_input_call_safe(column->input, text, column->typioparam, column->typmod, value);
	else
		*value = InputFunctionCall(column->input, text, column->typioparam, column->typmod);
	MemoryContextSwitchTo(oldcxt);
	return ok;
}

/* Converts nbytes of text in the database encoding to a value.  The text must be valid and have no NUL. */
static bool
convert_text(ShardKeyReader *reader, KeyColumn *column, const char *p, size_t nbytes,
			 bool *clock_word, Datum *value)
{
	StringInfo	text = &reader->unescaped;
	Timestamp	timestamp;
	DateADT		date;

	switch (column->kind)
	{
		case SHARD_KEY_INT2:
		case SHARD_KEY_INT4:
		case SHARD_KEY_INT8:
			if (shard_key_value_integer(p, nbytes, column->kind, value))
				return true;
			break;
		case SHARD_KEY_TEXT:
		case SHARD_KEY_BPCHAR:
			if (make_text(reader, column, p, nbytes, value))
				return true;
			break;
		case SHARD_KEY_UUID:
			*value = UUIDPGetDatum(&column->uuid);
			if (shard_key_value_uuid(p, nbytes, &column->uuid))
				return true;
			break;
		case SHARD_KEY_DATE:
			if (nbytes == 10 && shard_key_value_date(p, &date))
			{
				*value = DateADTGetDatum(date);
				return true;
			}
			break;
		case SHARD_KEY_TIMESTAMP:
			if (shard_key_value_timestamp(p, nbytes, &timestamp))
			{
				*value = TimestampGetDatum(timestamp);
				return true;
			}
			break;
		case SHARD_KEY_OTHER:
			break;
	}

	if (p != text->data)
	{
		resetStringInfo(text);
		appendBinaryStringInfo(text, p, (int) nbytes);
	}
	if (column->knows_clock && shard_key_value_has_clock_word(text->data))
	{
		*clock_word = true;
		return false;
	}
	return call_input(reader, column, text->data, value);
}

/* ---------- fields ---------- */

/* *p, *nbytes: a field's bytes.  Converts them to the database encoding.  False if they are not valid. */
static bool
convert_encoding(ShardKeyReader *reader, const char **p, size_t *nbytes)
{
	CopyFromState cstate = reader->cstate;
	StringInfo	out = &reader->converted;
	size_t		room;
	int			nread;

	if (is_ascii(*p, *nbytes))
		return true;
	if (*nbytes > MaxAllocSize / (2 * MAX_CONVERSION_GROWTH))
		return false;
	if (!cstate->need_transcoding)
		return pg_encoding_verifymbstr(cstate->file_encoding, *p, (int) *nbytes) == (int) *nbytes;

	room = *nbytes * MAX_CONVERSION_GROWTH + 1;
	resetStringInfo(out);
	enlargeStringInfo(out, (int) room);
	nread = pg_do_encoding_conversion_buf(cstate->conversion_proc, cstate->file_encoding,
										  GetDatabaseEncoding(), (unsigned char *) unconstify(char *, *p),
										  (int) *nbytes, (unsigned char *) out->data, (int) room, true);
	if (nread != (int) *nbytes)
		return false;
	*p = out->data;
	*nbytes = strlen(out->data);
	return true;
}

/* CSV: removes quotes and escapes.  False if a quote is not closed. */
static bool
unquote(ShardKeyReader *reader, const char *p, const char *end)
{
	StringInfo	out = &reader->unescaped;
	char	   *to;
	bool		in_quote = false;

	resetStringInfo(out);
	enlargeStringInfo(out, (int) (end - p));
	to = out->data;
	while (p < end)
	{
		char		c = *p++;

		if (in_quote && c == reader->escape && p < end &&
			(*p == reader->escape || *p == reader->quote))
			*to++ = *p++;
		else if (c == reader->quote)
			in_quote = !in_quote;
		else
			*to++ = c;
	}
	*to = '\0';
	out->len = (int) (to - out->data);
	return !in_quote;
}

/* The byte for up to max_digits digits of base 8 or 16 at *p. */
static char
read_code(const char **p, const char *end, int base, int max_digits)
{
	int			code = 0;

	for (int i = 0; i < max_digits && *p < end; i++)
	{
		int			digit = shard_key_value_hex_digit(**p);

		if (digit < 0 || digit >= base)
			break;
		code = code * base + digit;
		(*p)++;
	}
	return (char) (code & 0xFF);
}

/*
 * Text format: resolves backslash sequences.  False if the result is not valid in the database encoding, or if
 * nothing follows the last backslash.
 */
static bool
unescape(ShardKeyReader *reader, const char *p, const char *end)
{
	StringInfo	out = &reader->unescaped;
	char	   *to;
	bool		verify = false;

	resetStringInfo(out);
	enlargeStringInfo(out, (int) (end - p));
	to = out->data;
	while (p < end)
	{
		char		c = *p++;

		if (c == '\\')
		{
			if (p == end)
				return false;
			c = *p++;
			switch (c)
			{
				case 'b':
					c = '\b';
					break;
				case 'f':
					c = '\f';
					break;
				case 'n':
					c = '\n';
					break;
				case 'r':
					c = '\r';
					break;
				case 't':
					c = '\t';
					break;
				case 'v':
					c = '\v';
					break;
				case 'x':
					if (p < end && shard_key_value_hex_digit(*p) >= 0)
					{
						c = read_code(&p, end, 16, 2);
						verify |= c == '\0' || IS_HIGHBIT_SET(c);
					}
					break;
				default:
					if (c >= '0' && c <= '7')
					{
						p--;
						c = read_code(&p, end, 8, 3);
						verify |= c == '\0' || IS_HIGHBIT_SET(c);
					}
					break;
			}
		}
		*to++ = c;
	}
	*to = '\0';
	out->len = (int) (to - out->data);
	return !verify || pg_verify_mbstr(GetDatabaseEncoding(), out->data, out->len, true);
}

static bool
is_null_marker(const ShardKeyReader *reader, const char *p, size_t nbytes)
{
	return nbytes == reader->null_bytes && memcmp(p, reader->null_print, nbytes) == 0;
}

static bool
set_null(ShardKeyReader *reader, int keyno)
{
	KeyColumn  *column = &reader->columns[keyno];

	reader->isnull[keyno] = true;
	reader->values[keyno] = (Datum) 0;

	/* a domain may reject NULL */
	if (column->input->fn_strict)
		return true;
	return call_input(reader, column, NULL, &reader->values[keyno]);
}

/* Reads key column keyno from a field that is not a plain number. */
static bool
read_field(ShardKeyReader *reader, int keyno, const char *p, size_t nbytes, bool plain,
		   bool *clock_word)
{
	KeyColumn  *column = &reader->columns[keyno];
	Datum	   *value = &reader->values[keyno];

	reader->isnull[keyno] = false;
	if ((plain || !reader->csv) && is_null_marker(reader, p, nbytes))
	{
		if (!column->force_notnull)
			return set_null(reader, keyno);
		return convert_text(reader, column, reader->null_print, reader->null_bytes,
							clock_word, value);
	}
	if (!convert_encoding(reader, &p, &nbytes))
		return false;
	if (!plain)
	{
		if (nbytes > MaxAllocSize / 2)
			return false;
		if (!(reader->csv ? unquote(reader, p, p + nbytes) : unescape(reader, p, p + nbytes)))
			return false;
		p = reader->unescaped.data;
		nbytes = reader->unescaped.len;
		if (column->force_null && is_null_marker(reader, p, nbytes))
			return set_null(reader, keyno);
	}
	return convert_text(reader, column, p, nbytes, clock_word, value);
}

bool
shard_key_reader_read(ShardKeyReader *reader, const char *bytes, const ShardLine *line,
					  bool *clock_word, const Datum **values, const bool **isnull)
{
	*values = reader->values;
	*isnull = reader->isnull;
	if (reader->row_cxt_used)
	{
		MemoryContextReset(reader->row_cxt);
		reader->row_cxt_used = false;
	}
	for (int i = 0; i < reader->nkeys; i++)
	{
		KeyColumn  *column = &reader->columns[i];
		const ShardLineField *field = &line->fields[column->slot];
		const char *p = bytes + field->start;

		if (likely(column->kind <= SHARD_KEY_INT8 && field->plain &&
				   !is_null_marker(reader, p, field->nbytes) &&
				   shard_key_value_integer(p, field->nbytes, column->kind, &reader->values[i])))
		{
			reader->isnull[i] = false;
			continue;
		}
		if (!read_field(reader, i, p, field->nbytes, field->plain, clock_word))
			return false;
	}
	return true;
}
