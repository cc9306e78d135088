/*
 * key_reader.c
 *	  From the bytes of key fields of a COPY line to the values of the shard key.
 *
 *	 field --NULL marker?--> text in the database's encoding --> value
 *		|	 (unquoted, unescaped, verified, converted)			 ^
 *		+----- integers, dates..., plain and in their usual form --+
 *
 * What is done here has exactly the result of core's parser and of the type's
 * input function; what is not in the form that is expected goes to the input
 * function, and what even that refuses to the caller, who asks core's parser.
 *
 * Assumptions:
 *	- Bytes of ASCII characters are never part of another character (raw_mode.c
 *	  takes no other encoding), so a field is a whole number of characters.
 *	- Delimiter, quotes and NULL marker are ASCII (raw_mode.c sees to it), so that
 *	  they may be compared before the input is converted.
 *	- Dates of the form YYYY-MM-DD mean the same under every DateStyle: core takes a
 *	  first number of three or more digits for the year, and the month comes next.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "fmgr.h"
#include "load/key_reader.h"
#include "load/line_probe.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

/* Digits that cannot overflow. */
#define INT4_SAFE_DIGITS 9
#define INT8_SAFE_DIGITS 18

#define UUID_TEXT_BYTES 36

typedef enum KeyKind
{
	KEY_INT2,
	KEY_INT4,
	KEY_INT8,
	KEY_TEXT,					/* text, varchar */
	KEY_BPCHAR,
	KEY_UUID,
	KEY_DATE,
	KEY_TIMESTAMP,				/* without time zone */
	KEY_OTHER
} KeyKind;

typedef struct KeyColumn
{
	KeyKind		kind;
	int			slot;			/* into ShardLine.fields */
	bool		force_null;
	bool		force_notnull;
	bool		knows_clock;	/* date/time type: "now" is a value */
	bool		never_raises;	/* input function reports errors softly */
	int32		typmod;
	FmgrInfo   *input;
	Oid			typioparam;

	/* values by reference that are made here */
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
	MemoryContext row_cxt;		/* what input functions leave behind */
	bool		row_cxt_used;
	StringInfoData unescaped;	/* text of the field at hand; also as C string */
	StringInfoData converted;	/* the same field before that, in the database's encoding */
	int			nkeys;
	Datum		values[PARTITION_MAX_KEYS];
	bool		isnull[PARTITION_MAX_KEYS];
	KeyColumn	columns[PARTITION_MAX_KEYS];
};

/* ---------- set-up ---------- */

static KeyKind
kind_of(Oid type)
{
	switch (type)
	{
		case INT2OID:
			return KEY_INT2;
		case INT4OID:
			return KEY_INT4;
		case INT8OID:
			return KEY_INT8;
		case TEXTOID:
		case VARCHAROID:
			return KEY_TEXT;
		case BPCHAROID:
			return KEY_BPCHAR;
		case UUIDOID:
			return KEY_UUID;
		case DATEOID:
			return KEY_DATE;
		case TIMESTAMPOID:
			return KEY_TIMESTAMP;
		default:
			return KEY_OTHER;
	}
}

/* True when type or something it is made of has values that depend on the clock. */
static bool
knows_clock(Oid type)
{
	Oid			element;

	type = getBaseType(type);
	switch (type)
	{
		case DATEOID:
		case TIMEOID:
		case TIMETZOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return true;
		default:
			break;
	}
	element = get_element_type(type);
	if (!OidIsValid(element))
		element = get_range_subtype(type);
	if (OidIsValid(element))
		return knows_clock(element);

	/* composites and multiranges: rare enough to look at their text */
	return type_is_rowtype(type) || type_is_multirange(type);
}

/*
 * Types whose input functions never raise when they are given a place for
 * errors.  Domains and composed types call what users wrote.
 */
static bool
never_raises(Oid type)
{
	if (!SHARD_SOFT_INPUT)
		return false;
	switch (type)
	{
		case BOOLOID:
		case CHAROID:
		case NAMEOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case BYTEAOID:
		case UUIDOID:
		case DATEOID:
		case TIMEOID:
		case TIMETZOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case INTERVALOID:
		case INETOID:
		case CIDROID:
		case MACADDROID:
		case MACADDR8OID:
		case BITOID:
		case VARBITOID:
			return true;
		default:
			return false;
	}
}

/* 0-based position of attno among the columns of the input. */
static int
field_number(CopyFromState cstate, AttrNumber attno)
{
	int			fieldno = 0;
	ListCell   *lc;

	foreach(lc, cstate->attnumlist)
	{
		if (lfirst_int(lc) == attno)
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

	column->kind = kind_of(att->atttypid);
	column->typmod = att->atttypmod;
	column->input = &cstate->in_functions[m];
	column->typioparam = cstate->typioparams[m];
	column->force_null = cstate->opts.force_null_flags[m];
	column->force_notnull = cstate->opts.force_notnull_flags[m];
	column->knows_clock = knows_clock(att->atttypid);
	column->never_raises = never_raises(att->atttypid);

	/* fractions of seconds get rounded */
	if (column->kind == KEY_TIMESTAMP && column->typmod >= 0 && column->typmod < MAX_TIMESTAMP_PRECISION)
		column->kind = KEY_OTHER;
}

/* Tells the scanner which fields are wanted, and each key which of them it is. */
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

/* ---------- plain forms ---------- */

/*
 * [-]digits, at most max_digits of them.  Everything else that is an integer,
 * and what is none, is the input function's.
 */
static inline bool
read_digits(const char *p, size_t nbytes, size_t max_digits, int64 *result)
{
	const char *end = p + nbytes;
	bool		negative = nbytes > 0 && *p == '-';
	int64		value = 0;

	p += negative;
	if (p == end || end - p > max_digits)
		return false;
	for (; p < end; p++)
	{
		unsigned	digit = (unsigned char) *p - '0';

		if (digit > 9)
			return false;
		value = value * 10 + digit;
	}
	*result = negative ? -value : value;
	return true;
}

static inline bool
read_integer(const char *p, size_t nbytes, KeyKind kind, Datum *value)
{
	int64		number;

	if (!read_digits(p, nbytes, kind == KEY_INT8 ? INT8_SAFE_DIGITS : INT4_SAFE_DIGITS, &number))
		return false;
	switch (kind)
	{
		case KEY_INT2:
			*value = Int16GetDatum((int16) number);
			return number >= PG_INT16_MIN && number <= PG_INT16_MAX;
		case KEY_INT4:
			*value = Int32GetDatum((int32) number);
			return true;
		default:
			*value = Int64GetDatum(number);
			return true;
	}
}

/* A number of exactly ndigits digits; -1 when it is none. */
static int
fixed_number(const char *p, int ndigits)
{
	int			value = 0;

	for (int i = 0; i < ndigits; i++)
	{
		unsigned	digit = (unsigned char) p[i] - '0';

		if (digit > 9)
			return -1;
		value = value * 10 + digit;
	}
	return value;
}

/* YYYY-MM-DD, ten bytes at p. */
static bool
read_date(const char *p, DateADT *date)
{
	int			year = fixed_number(p, 4);
	int			month = fixed_number(p + 5, 2);
	int			day = fixed_number(p + 8, 2);

	if (p[4] != '-' || p[7] != '-' || year < 1 || month < 1 || month > 12 ||
		day < 1 || day > day_tab[isleap(year)][month - 1])
		return false;
	*date = date2j(year, month, day) - POSTGRES_EPOCH_JDATE;
	return true;
}

/* HH:MM:SS[.ffffff], microseconds since midnight. */
static bool
read_time(const char *p, size_t nbytes, int64 *usecs)
{
	int			hour;
	int			minute;
	int			second;
	int			fraction = 0;

	if (nbytes < 8 || p[2] != ':' || p[5] != ':')
		return false;
	hour = fixed_number(p, 2);
	minute = fixed_number(p + 3, 2);
	second = fixed_number(p + 6, 2);
	if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59)
		return false;
	if (nbytes > 8)
	{
		int			ndigits = (int) Min(nbytes - 9, 7);

		if (p[8] != '.' || ndigits < 1 || ndigits > 6)
			return false;
		fraction = fixed_number(p + 9, ndigits);
		if (fraction < 0)
			return false;
		for (; ndigits < 6; ndigits++)
			fraction *= 10;
	}
	*usecs = ((hour * INT64CONST(60) + minute) * 60 + second) * USECS_PER_SEC + fraction;
	return true;
}

/* YYYY-MM-DD or YYYY-MM-DD HH:MM:SS[.ffffff] */
static bool
read_timestamp(const char *p, size_t nbytes, Timestamp *timestamp)
{
	DateADT		date;
	int64		usecs = 0;

	if (nbytes < 10 || !read_date(p, &date))
		return false;
	if (nbytes > 10 && (p[10] != ' ' || !read_time(p + 11, nbytes - 11, &usecs)))
		return false;
	*timestamp = date * USECS_PER_DAY + usecs;
	return true;
}

static int
hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 8-4-4-4-12 digits. */
static bool
read_uuid(const char *p, size_t nbytes, pg_uuid_t *uuid)
{
	if (nbytes != UUID_TEXT_BYTES)
		return false;
	for (int i = 0; i < UUID_LEN; i++)
	{
		int			high;
		int			low;

		if ((i == 4 || i == 6 || i == 8 || i == 10) && *p++ != '-')
			return false;
		high = hex_digit(p[0]);
		low = hex_digit(p[1]);
		if (high < 0 || low < 0)
			return false;
		uuid->data[i] = (unsigned char) (high << 4 | low);
		p += 2;
	}
	return true;
}

/* ---------- text ---------- */

/* True when all bytes are ASCII characters, but not NUL. */
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
 * text, varchar, bpchar: the bytes themselves, blanks added to bpchar(n).  False
 * when they may be too many, which depends on the number of characters.
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
		if (column->kind == KEY_BPCHAR)
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

/* now, today, tomorrow or yesterday somewhere in the text. */
static bool
has_clock_word(const char *text)
{
	static const char *const words[] = {"now", "today", "tomorrow", "yesterday"};

	for (; *text; text++)
	{
		for (int i = 0; i < lengthof(words); i++)
		{
			if (pg_strncasecmp(text, words[i], strlen(words[i])) == 0)
				return true;
		}
	}
	return false;
}

/* text: NULL for a NULL. */
static bool
call_input(ShardKeyReader *reader, KeyColumn *column, char *text, bool may_raise, Datum *value)
{
	MemoryContext oldcxt;
	bool		ok = true;

	if (!may_raise && !column->never_raises)
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

/*
 * Value of nbytes of text in the database's encoding, which hold no NUL and are
 * valid.
 */
static bool
convert_text(ShardKeyReader *reader, KeyColumn *column, const char *p, size_t nbytes,
			 bool may_raise, bool *clock_word, Datum *value)
{
	StringInfo	text = &reader->unescaped;
	Timestamp	timestamp;
	DateADT		date;

	switch (column->kind)
	{
		case KEY_INT2:
		case KEY_INT4:
		case KEY_INT8:
			if (read_integer(p, nbytes, column->kind, value))
				return true;
			break;
		case KEY_TEXT:
		case KEY_BPCHAR:
			if (make_text(reader, column, p, nbytes, value))
				return true;
			break;
		case KEY_UUID:
			*value = UUIDPGetDatum(&column->uuid);
			if (read_uuid(p, nbytes, &column->uuid))
				return true;
			break;
		case KEY_DATE:
			if (nbytes == 10 && read_date(p, &date))
			{
				*value = DateADTGetDatum(date);
				return true;
			}
			break;
		case KEY_TIMESTAMP:
			if (read_timestamp(p, nbytes, &timestamp))
			{
				*value = TimestampGetDatum(timestamp);
				return true;
			}
			break;
		case KEY_OTHER:
			break;
	}

	if (p != text->data)
	{
		resetStringInfo(text);
		appendBinaryStringInfo(text, p, (int) nbytes);
	}
	if (column->knows_clock && has_clock_word(text->data))
	{
		*clock_word = true;
		return false;
	}
	return call_input(reader, column, text->data, may_raise, value);
}

/* ---------- fields ---------- */

/*
 * *p, *nbytes: a field's bytes, which become those in the database's encoding.
 * False when they are not valid.
 */
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

/* CSV: takes quotes and escapes away.  False: the quotes do not end. */
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

/* The byte that up to max_digits digits of base 8 or 16 at *p stand for. */
static char
read_code(const char **p, const char *end, int base, int max_digits)
{
	int			code = 0;

	for (int i = 0; i < max_digits && *p < end; i++)
	{
		int			digit = hex_digit(**p);

		if (digit < 0 || digit >= base)
			break;
		code = code * base + digit;
		(*p)++;
	}
	return (char) (code & 0xFF);
}

/*
 * Text format: resolves backslash sequences.  False when the result is not valid
 * in the database's encoding, or the last backslash has nothing to escape.
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
					if (p < end && hex_digit(*p) >= 0)
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
set_null(ShardKeyReader *reader, int keyno, bool may_raise)
{
	KeyColumn  *column = &reader->columns[keyno];

	reader->isnull[keyno] = true;
	reader->values[keyno] = (Datum) 0;

	/* a domain may refuse it */
	if (column->input->fn_strict)
		return true;
	return call_input(reader, column, NULL, may_raise, &reader->values[keyno]);
}

/* Key keyno of a field that is not simply a plain number. */
static bool
read_field(ShardKeyReader *reader, int keyno, const char *p, size_t nbytes, bool plain,
		   bool may_raise, bool *clock_word)
{
	KeyColumn  *column = &reader->columns[keyno];
	Datum	   *value = &reader->values[keyno];

	reader->isnull[keyno] = false;
	if ((plain || !reader->csv) && is_null_marker(reader, p, nbytes))
	{
		if (!column->force_notnull)
			return set_null(reader, keyno, may_raise);
		return convert_text(reader, column, reader->null_print, reader->null_bytes,
							may_raise, clock_word, value);
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
			return set_null(reader, keyno, may_raise);
	}
	return convert_text(reader, column, p, nbytes, may_raise, clock_word, value);
}

bool
shard_key_reader_read(ShardKeyReader *reader, const char *bytes, const ShardLine *line,
					  bool may_raise, bool *clock_word, const Datum **values, const bool **isnull)
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

		if (likely(column->kind <= KEY_INT8 && field->plain &&
				   !is_null_marker(reader, p, field->nbytes) &&
				   read_integer(p, field->nbytes, column->kind, &reader->values[i])))
		{
			reader->isnull[i] = false;
			continue;
		}
		if (!read_field(reader, i, p, field->nbytes, field->plain, may_raise, clock_word))
			return false;
	}
	return true;
}
