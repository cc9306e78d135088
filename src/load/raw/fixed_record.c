/*
 * fixed_record.c
 *	  Records with columns at fixed positions.
 *
 *	 record --> value of a field --+--> a,b,c of COPY text: escaped, separated by tabs
 *				(trimmed, NULLIF)  +--> lengths and bytes of COPY binary
 *
 * Texts are processed 8 or 16 bytes at a time.  So up to SHARD_FIXED_SLACK bytes after a record are read, and after
 * the output written.  Their contents do not matter.
 */
#include "load/raw/fixed_record.h"

#include <string.h>

#include "common/shortest_dec.h"

#define ALL_BYTES(c) (UINT64_C(0x0101010101010101) * (c))
#define BLANKS ALL_BYTES(' ')

/* ---------- layouts ---------- */

static const struct
{
	const char *name;
	ShardFixedKind kind;
	bool		little;
}			kind_names[] = {
	{"text", SHARD_FIXED_TEXT, false},
	{"int_le", SHARD_FIXED_INT, true},
	{"int_be", SHARD_FIXED_INT, false},
	{"uint_le", SHARD_FIXED_UINT, true},
	{"uint_be", SHARD_FIXED_UINT, false},
	{"float_le", SHARD_FIXED_FLOAT, true},
	{"float_be", SHARD_FIXED_FLOAT, false},
};

static const struct
{
	const char *name;
	ShardFixedTrim trim;
}			trim_names[] = {
	{"none", SHARD_TRIM_NONE},
	{"leading", SHARD_TRIM_LEADING},
	{"trailing", SHARD_TRIM_TRAILING},
	{"both", SHARD_TRIM_BOTH},
};

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void
skip_space(char **text)
{
	while (is_space(**text))
		(*text)++;
}

/* A number from 1 to SHARD_FIXED_MAX_BYTES. */
static bool
take_number(char **text, size_t *number)
{
	char	   *p = *text;
	size_t		value = 0;

	while (*p >= '0' && *p <= '9' && value <= SHARD_FIXED_MAX_BYTES)
		value = value * 10 + (size_t) (*p++ - '0');
	if (value < 1 || value > SHARD_FIXED_MAX_BYTES)
		return false;
	*text = p;
	*number = value;
	skip_space(text);
	return true;
}

/* Skips the word name at *text, in upper or lower case.  False if there is another word. */
static bool
take_word(char **text, const char *name)
{
	char	   *p = *text;

	for (; *name; name++, p++)
	{
		char		c = *p >= 'A' && *p <= 'Z' ? (char) (*p | 0x20) : *p;

		if (c != *name)
			return false;
	}
	if (*p != '\0' && *p != ',' && *p != '"' && !is_space(*p))
		return false;
	*text = p;
	skip_space(text);
	return true;
}

/* "first-last", "first-" or "first" */
static const char *
take_position(char **text, ShardFixedField *field)
{
	size_t		first;
	size_t		last;

	if (!take_number(text, &first))
		return "a position is expected, such as 1-8";
	field->start = first - 1;
	field->nbytes = 1;
	if (**text != '-')
		return NULL;
	(*text)++;
	skip_space(text);
	field->nbytes = 0;
	if (**text < '0' || **text > '9')
		return NULL;
	if (!take_number(text, &last))
		return "the position is too large";
	if (last < first)
		return "the last byte of a position lies before the first one";
	field->nbytes = last - first + 1;
	return NULL;
}

/* A text in double quotes.  A doubled quote stands for one quote. */
static const char *
take_quoted(char **text, ShardFixedField *field)
{
	char	   *from = *text;
	char	   *to;

	if (*from != '"')
		return "NULLIF needs a value in double quotes";
	field->null_text = to = ++from;
	for (;;)
	{
		if (*from == '\0')
			return "a quoted value does not end";
		if (*from == '"' && *++from != '"')
			break;
		*to++ = *from++;
	}
	field->null_bytes = (size_t) (to - field->null_text);
	*text = from;
	skip_space(text);
	return NULL;
}

static bool
take_trim(char **text, ShardFixedField *field)
{
	for (size_t i = 0; i < sizeof(trim_names) / sizeof(trim_names[0]); i++)
	{
		if (!take_word(text, trim_names[i].name))
			continue;
		field->trim = trim_names[i].trim;
		return true;
	}
	return false;
}

static bool
take_kind(char **text, ShardFixedField *field)
{
	for (size_t i = 0; i < sizeof(kind_names) / sizeof(kind_names[0]); i++)
	{
		if (!take_word(text, kind_names[i].name))
			continue;
		field->kind = kind_names[i].kind;
		field->little = kind_names[i].little;
		return true;
	}
	return false;
}

static const char *
check_field(const ShardFixedField *field)
{
	size_t		n = field->nbytes;

	if (field->kind == SHARD_FIXED_TEXT)
		return NULL;
	if (field->trim != SHARD_TRIM_DEFAULT)
		return "only a text can be trimmed";
	if (field->kind == SHARD_FIXED_FLOAT)
		return n == 4 || n == 8 ? NULL : "a binary floating-point number has 4 or 8 bytes";
	return n == 1 || n == 2 || n == 4 || n == 8 ? NULL : "a binary integer has 1, 2, 4 or 8 bytes";
}

const char *
shard_fixed_parse_field(char **text, ShardFixedField *field)
{
	const char *wrong;

	memset(field, 0, sizeof(*field));
	skip_space(text);
	wrong = take_position(text, field);
	if (wrong)
		return wrong;
	(void) take_kind(text, field);
	while (**text != ',' && **text != '\0')
	{
		if (take_word(text, "nullif"))
			wrong = take_quoted(text, field);
		else if (!take_word(text, "trim"))
			wrong = "a type, NULLIF or TRIM is expected";
		else if (!take_trim(text, field))
			wrong = "TRIM is none, leading, trailing or both";
		if (wrong)
			return wrong;
	}
	wrong = check_field(field);
	if (wrong)
		return wrong;
	*text = **text == ',' ? *text + 1 : NULL;
	return NULL;
}

/* ---------- records ---------- */

static bool
is_marker(const char *buf, size_t nbytes)
{
	return nbytes == 2 && buf[0] == '\\' && buf[1] == '.';
}

ShardLineStatus
shard_fixed_next(const ShardFixedLayout *layout, size_t *searched, const char *buf,
				 size_t len, bool at_end, ShardLine *line)
{
	bool		by_line = layout->record_bytes == 0;
	const char *end;

	if (by_line)
	{
		end = len > *searched ? memchr(buf + *searched, '\n', len - *searched) : NULL;
		*searched = len;
		line->nbytes = end ? (size_t) (end - buf) + 1 : len;
	}
	else
	{
		end = len >= layout->record_bytes ? buf : NULL;
		line->nbytes = end ? layout->record_bytes : len;
	}
	if (end == NULL && !at_end)
		return SHARD_LINE_MORE;
	if (line->nbytes == 0)
		return SHARD_LINE_END;

	*searched = 0;
	line->content_bytes = line->nbytes;
	line->nbreaks = 0;
	line->high_tail = false;
	line->oddity = SHARD_LINE_NOT_ODD;

	/* psql ends its input by \. in a line, even if records are not lines */
	if (by_line || line->nbytes < layout->min_bytes)
	{
		size_t		nbytes = line->nbytes;

		if (buf[nbytes - 1] == '\n')
			nbytes -= nbytes > 1 && buf[nbytes - 2] == '\r' ? 2 : 1;
		if (is_marker(buf, nbytes))
			line->oddity = SHARD_LINE_ODD_MARKER;
		if (by_line)
			line->content_bytes = nbytes;
	}
	if (line->oddity == SHARD_LINE_NOT_ODD && line->content_bytes < layout->min_bytes)
		line->oddity = SHARD_LINE_ODD_FIELDS;
	return SHARD_LINE_FOUND;
}

/* ---------- values ---------- */

static inline uint64_t
load_word(const char *p)
{
	uint64_t	word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/* The first n bytes (0 to 8) of word in memory order, followed by blanks. */
static inline uint64_t
first_bytes(uint64_t word, size_t n)
{
	uint64_t	mask;

	if (n >= 8)
		return word;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	mask = ~(UINT64_MAX >> (8 * n));
#else
	mask = (UINT64_C(1) << (8 * n)) - 1;
#endif
	return (word & mask) | (BLANKS & ~mask);
}

/* Sixteen bytes.  GCC and clang use vector instructions for this type. */
typedef uint8_t Bytes16 __attribute__((vector_size(16)));

static inline Bytes16
load_bytes(const char *p)
{
	Bytes16		bytes;

	memcpy(&bytes, p, sizeof(bytes));
	return bytes;
}

static inline uint64_t
any_bits(Bytes16 bytes)
{
	uint64_t	words[2];

	memcpy(words, &bytes, sizeof(words));
	return words[0] | words[1];
}

/* 255 for each control character and backslash. */
static inline Bytes16
special_bytes(Bytes16 bytes)
{
	return (Bytes16) ((bytes < 0x20) | (bytes == '\\'));
}

/* Copies nbytes, and up to 15 more, to out. */
static inline void
copy_bytes(char *out, const char *value, size_t nbytes)
{
	size_t		i = 0;

	do
	{
		memcpy(out + i, value + i, 16);
		i += 16;
	} while (i < nbytes);
}

bool
shard_fixed_is_plain(const char *value, size_t nbytes)
{
	size_t		i = 0;

	for (; i + 16 <= nbytes; i += 16)
	{
		if (any_bits(special_bytes(load_bytes(value + i))) != 0)
			return false;
	}
	for (; i < nbytes; i++)
	{
		if ((unsigned char) value[i] < 0x20 || value[i] == '\\')
			return false;
	}
	return true;
}

/* Does COPY text escape any of the bytes?  *ascii: all of them are ASCII. */
static inline bool
needs_escapes(const char *bytes, size_t nbytes, bool *ascii)
{
	Bytes16		special = {0};
	Bytes16		all = {0};

	if (nbytes < 16)
	{
		*ascii = (first_bytes(load_word(bytes), nbytes) & ALL_BYTES(0x80)) == 0 &&
			(nbytes <= 8 || (first_bytes(load_word(bytes + 8), nbytes - 8) & ALL_BYTES(0x80)) == 0);
		return !shard_fixed_is_plain(bytes, nbytes);
	}
	for (size_t i = 0;; i += 16)
	{
		Bytes16		block = load_bytes(bytes + (i + 16 <= nbytes ? i : nbytes - 16));

		special |= special_bytes(block);
		all |= block;
		if (i + 16 >= nbytes)
			break;
	}
	*ascii = (any_bits(all) & ALL_BYTES(0x80)) == 0;
	return any_bits(special) != 0;
}

/* Converts eight bytes to little-endian order, and back. */
static inline uint64_t
as_little(uint64_t word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return __builtin_bswap64(word);
#else
	return word;
#endif
}

/* The bits of a binary number. */
static inline uint64_t
read_number(const ShardFixedField *field, const char *p)
{
	uint64_t	word = as_little(load_word(p));
	int			nfree = 64 - 8 * (int) field->nbytes;

	return field->little ? word << nfree >> nfree : __builtin_bswap64(word) >> nfree;
}

/* The same for an integer, with its sign extended to 64 bits. */
static inline uint64_t
read_integer(const ShardFixedField *field, const char *p)
{
	uint64_t	number = read_number(field, p);
	int			nfree = 64 - 8 * (int) field->nbytes;

	if (field->kind == SHARD_FIXED_INT)
		number = (uint64_t) ((int64_t) (number << nfree) >> nfree);
	return number;
}

static double
read_float4(uint64_t number)
{
	uint32_t	bits = (uint32_t) number;
	float		value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static size_t
print_float(const ShardFixedField *field, const char *p, char *out)
{
	uint64_t	bits = read_number(field, p);
	double		value;

	if (field->nbytes == 4 && !field->widen)
		return (size_t) float_to_shortest_decimal_buf((float) read_float4(bits), out);
	if (field->nbytes == 4)
		value = read_float4(bits);
	else
		memcpy(&value, &bits, sizeof(value));
	return (size_t) double_to_shortest_decimal_buf(value, out);
}

static size_t
print_integer(const ShardFixedField *field, const char *p, char *out)
{
	uint64_t	number = read_integer(field, p);
	bool		negative = field->kind == SHARD_FIXED_INT && (int64_t) number < 0;
	char		digits[20];
	size_t		ndigits = 0;

	if (negative)
		number = 0 - number;
	do
	{
		digits[ndigits++] = (char) ('0' + number % 10);
		number /= 10;
	} while (number > 0);
	if (negative)
		*out++ = '-';
	for (size_t i = 0; i < ndigits; i++)
		out[i] = digits[ndigits - 1 - i];
	return ndigits + negative;
}

static inline size_t
print_number(const ShardFixedField *field, const char *p, char *out)
{
	return field->kind == SHARD_FIXED_FLOAT ? print_float(field, p, out) : print_integer(field, p, out);
}

/*
 * Number of blanks among the eight bytes of word, at the end (or the beginning) in memory order. blanks: word ^
 * BLANKS, not 0.
 */
static inline size_t
blanks_behind(uint64_t blanks)
{
	return (size_t) __builtin_clzll(as_little(blanks)) / 8;
}

static inline size_t
blanks_in_front(uint64_t blanks)
{
	return (size_t) __builtin_ctzll(as_little(blanks)) / 8;
}

static inline size_t
trim_trailing(const char *p, size_t nbytes)
{
	uint64_t	blanks;

	while (nbytes > 8)
	{
		blanks = load_word(p + nbytes - 8) ^ BLANKS;
		if (blanks != 0)
			return nbytes - blanks_behind(blanks);
		nbytes -= 8;
	}
	blanks = first_bytes(load_word(p), nbytes) ^ BLANKS;
	return blanks != 0 ? 8 - blanks_behind(blanks) : 0;
}

/* Trims blanks. */
static inline const char *
trim_text(const ShardFixedField *field, const char *p, size_t *nbytes)
{
	const uint64_t last_byte = as_little(UINT64_C(1) << 63);
	size_t		n = *nbytes;

	if (field->trim == SHARD_TRIM_NONE)
		return p;
	if (field->trim != SHARD_TRIM_LEADING)
		n = trim_trailing(p, n);
	if (field->trim == SHARD_TRIM_LEADING || field->trim == SHARD_TRIM_BOTH)
	{
		while (n >= 8 && load_word(p) == BLANKS)
		{
			p += 8;
			n -= 8;
		}
		if (n > 0)
		{
			size_t		nfront = blanks_in_front((load_word(p) ^ BLANKS) | last_byte);

			nfront = nfront < n ? nfront : n;
			p += nfront;
			n -= nfront;
		}
	}
	*nbytes = n;
	return p;
}

static inline size_t
field_bytes(const ShardFixedField *field, size_t record_bytes)
{
	return field->nbytes > 0 ? field->nbytes : record_bytes - field->start;
}

static inline bool
is_null(const ShardFixedField *field, const char *value, size_t nbytes)
{
	return field->null_text && nbytes == field->null_bytes && memcmp(value, field->null_text, nbytes) == 0;
}

const char *
shard_fixed_value(const ShardFixedField *field, const char *record, size_t nbytes,
				  char *scratch, size_t *value_bytes)
{
	const char *value = record + field->start;

	if (field->kind == SHARD_FIXED_TEXT)
	{
		*value_bytes = field_bytes(field, nbytes);
		value = trim_text(field, value, value_bytes);
	}
	else
	{
		*value_bytes = print_number(field, value, scratch);
		value = scratch;
	}
	return is_null(field, value, *value_bytes) ? NULL : value;
}

int64_t
shard_fixed_integer(const ShardFixedField *field, const char *record)
{
	return (int64_t) read_integer(field, record + field->start);
}

/* ---------- rows ---------- */

size_t
shard_fixed_row_bytes(const ShardFixedLayout *layout, size_t nbytes)
{
	size_t		sum = layout->max_row_bytes;

	for (int i = 0; layout->to_end && i < layout->nfields; i++)
	{
		if (layout->fields[i].nbytes == 0)
			sum += 2 * (nbytes - layout->fields[i].start);
	}
	return sum;
}

static char *
escape_text(char *out, const char *value, size_t nbytes)
{
	for (size_t i = 0; i < nbytes; i++)
	{
		char		c = value[i];

		if (c == '\\' || c == '\t' || c == '\n' || c == '\r')
		{
			*out++ = '\\';
			if (c != '\\')
				c = c == '\t' ? 't' : c == '\n' ? 'n' : 'r';
		}
		*out++ = c;
	}
	return out;
}

/*
 * Copies a field's value, with the blanks after it: the number of iterations then does not depend on the value, and
 * the CPU can predict the loop.
 */
static inline void
copy_field(char *to, const ShardFixedField *field, const char *value, size_t value_bytes)
{
	copy_bytes(to, value, field->nbytes > 0 && field->trim != SHARD_TRIM_LEADING && field->trim != SHARD_TRIM_BOTH ?
			   field->nbytes : value_bytes);
}

/* Writes a field that cannot be copied unchanged. */
static char *
write_field(const ShardFixedField *field, const char *record, size_t nbytes, bool escapes, char *to)
{
	size_t		value_bytes;
	const char *value = shard_fixed_value(field, record, nbytes, to, &value_bytes);

	if (value == NULL)
	{
		memcpy(to, "\\N", 2);
		return to + 2;
	}
	if (field->kind != SHARD_FIXED_TEXT)
		return to + value_bytes;
	if (escapes && !shard_fixed_is_plain(value, value_bytes))
		return escape_text(to, value, value_bytes);
	copy_field(to, field, value, value_bytes);
	return to + value_bytes;
}

size_t
shard_fixed_write_text(const ShardFixedLayout *layout, const char *record, size_t nbytes, char *out, bool *ascii)
{
	bool		escapes = needs_escapes(record, layout->to_end ? nbytes : layout->min_bytes, ascii);
	const ShardFixedField *field = layout->fields;
	const ShardFixedField *end = field + layout->nfields;
	char	   *to = out;

	for (; field < end; field++)
	{
		if (field->as_it_is && !escapes)
		{
			copy_bytes(to, record + field->start, field->nbytes);
			to += field->nbytes;
		}
		else
			to = write_field(field, record, nbytes, escapes, to);
		*to++ = '\t';
	}
	return (size_t) (to - out) - 1;
}

/* Writes the lower n bytes of a number in big-endian order.  May write more bytes, which are overwritten later. */
static inline char *
put_number(char *to, uint64_t number, int n)
{
	uint64_t	word = as_little(__builtin_bswap64(number << (64 - 8 * n)));

	memcpy(to, &word, sizeof(word));
	return to + n;
}

/* Writes the length and the bytes of a number, or the length of a NULL. */
static char *
put_any_number(char *to, const ShardFixedField *field, const char *p)
{
	uint64_t	number;

	if (field->null_text && is_null(field, to, print_number(field, p, to)))
		return put_number(to, UINT32_MAX, 4);
	to = put_number(to, (uint64_t) field->wire_bytes, 4);
	if (field->kind != SHARD_FIXED_FLOAT)
		number = read_integer(field, p);
	else
	{
		number = read_number(field, p);
		if (field->nbytes == 4 && field->wire_bytes == 8)
		{
			double		value = read_float4(number);

			memcpy(&number, &value, sizeof(number));
		}
	}
	return put_number(to, number, field->wire_bytes);
}

static inline char *
put_text(char *to, const ShardFixedField *field, const char *value, size_t nbytes)
{
	value = trim_text(field, value, &nbytes);
	if (is_null(field, value, nbytes))
		return put_number(to, UINT32_MAX, 4);
	to = put_number(to, nbytes, 4);
	copy_field(to, field, value, nbytes);
	return to + nbytes;
}

/* Chooses how the field is written in COPY binary. */
static ShardFixedWire
choose_wire(const ShardFixedField *field)
{
	if (field->kind == SHARD_FIXED_TEXT)
		return SHARD_WIRE_TEXT;
	if (field->null_text || field->nbytes != (size_t) field->wire_bytes || field->kind == SHARD_FIXED_UINT)
		return SHARD_WIRE_OTHER;
	switch (field->wire_bytes)
	{
		case 4:
			return field->little ? SHARD_WIRE_LITTLE4 : SHARD_WIRE_BIG4;
		case 8:
			return field->little ? SHARD_WIRE_LITTLE8 : SHARD_WIRE_BIG8;
		default:
			return SHARD_WIRE_OTHER;
	}
}

void
shard_fixed_layout_finish(ShardFixedLayout *layout)
{
	layout->min_bytes = 0;
	layout->max_row_bytes = 2 + SHARD_FIXED_SLACK;
	layout->to_end = false;
	for (int i = 0; i < layout->nfields; i++)
	{
		ShardFixedField *field = &layout->fields[i];
		size_t		end = field->start + field->nbytes;

		if (end > layout->min_bytes)
			layout->min_bytes = end;
		layout->to_end |= field->nbytes == 0;
		field->as_it_is = field->kind == SHARD_FIXED_TEXT && field->trim == SHARD_TRIM_NONE &&
			field->null_text == NULL && field->nbytes > 0;
		field->wire = choose_wire(field);

		/* each byte may be escaped; a length or a tab; \N */
		layout->max_row_bytes += 6 + (field->kind == SHARD_FIXED_TEXT ? 2 * field->nbytes : SHARD_FIXED_NUMBER_BYTES);
	}
}

/* Writes the length of a number and the number, which has 4 or 8 bytes and is little-endian. */
static inline char *
put4(char *to, uint64_t little)
{
	return put_number(to, UINT64_C(4) << 32 | (little & UINT32_MAX), 8);
}

static inline char *
put8(char *to, uint64_t little)
{
	return put_number(put_number(to, 8, 4), little, 8);
}

size_t
shard_fixed_write_binary(const ShardFixedLayout *layout, const char *record, size_t nbytes, char *out)
{
	const ShardFixedField *field = layout->fields;
	const ShardFixedField *end = field + layout->nfields;
	char	   *to = put_number(out, (uint64_t) layout->nfields, 2);

	for (; field < end; field++)
	{
		const char *value = record + field->start;

		switch (field->wire)
		{
			case SHARD_WIRE_LITTLE4:
				to = put4(to, as_little(load_word(value)));
				break;
			case SHARD_WIRE_BIG4:
				to = put4(to, __builtin_bswap64(as_little(load_word(value))) >> 32);
				break;
			case SHARD_WIRE_LITTLE8:
				to = put8(to, as_little(load_word(value)));
				break;
			case SHARD_WIRE_BIG8:
				to = put8(to, __builtin_bswap64(as_little(load_word(value))));
				break;
			case SHARD_WIRE_TEXT:
				to = put_text(to, field, value, field_bytes(field, nbytes));
				break;
			case SHARD_WIRE_OTHER:
				to = put_any_number(to, field, value);
				break;
		}
	}
	return (size_t) (to - out);
}
