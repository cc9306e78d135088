/*
 * key_value.c
 *	  Converts the usual, plain text forms of shard key values.
 *
 * Dates of the form YYYY-MM-DD mean the same under every DateStyle: core takes a first number of three or more digits
 * for the year, followed by the month.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "compat.h"
#include "load/raw/key_value.h"
#include "utils/datetime.h"
#include "utils/lsyscache.h"

#define MAX_DECIMAL_DIGITS 30	/* of each part: such numbers never overflow a numeric or a float */

#define UUID_TEXT_BYTES 36

/* ---------- forms ---------- */

/* A number with exactly ndigits digits; -1 if there is another character. */
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

bool
shard_key_value_date(const char *p, DateADT *date)
{
	int			year = fixed_number(p, 4);
	int			month = fixed_number(p + 5, 2);
	int			day = fixed_number(p + 8, 2);

	if (p[4] != '-' || p[7] != '-' || year < 1 || month < 1 || month > 12 ||
		day < 1 || day > day_tab[isleap(year)][month - 1])
		return false;
	if (date != NULL)
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

bool
shard_key_value_timestamp(const char *p, size_t nbytes, Timestamp *timestamp)
{
	DateADT		date;
	int64		usecs = 0;

	if (nbytes < 10 || !shard_key_value_date(p, timestamp ? &date : NULL))
		return false;
	if (nbytes > 10 && ((p[10] != ' ' && p[10] != 'T') || !read_time(p + 11, nbytes - 11, &usecs)))
		return false;
	if (timestamp != NULL)
		*timestamp = date * USECS_PER_DAY + usecs;
	return true;
}

bool
shard_key_value_is_timestamptz(const char *p, size_t nbytes)
{
	size_t		nzone = 0;

	if (nbytes > 22 && p[nbytes - 3] == ':' && (p[nbytes - 6] == '+' || p[nbytes - 6] == '-'))
	{
		int			minutes = fixed_number(p + nbytes - 2, 2);

		if (minutes < 0 || minutes > 59)
			return false;
		nzone = 3;
	}
	if (nbytes > nzone + 19 && (p[nbytes - nzone - 3] == '+' || p[nbytes - nzone - 3] == '-'))
	{
		int			hours = fixed_number(p + nbytes - nzone - 2, 2);

		if (hours < 0 || hours > 14)
			return false;
		nzone += 3;
	}
	return shard_key_value_timestamp(p, nbytes - nzone, NULL);
}

int
shard_key_value_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool
shard_key_value_uuid(const char *p, size_t nbytes, pg_uuid_t *uuid)
{
	if (nbytes != UUID_TEXT_BYTES)
		return false;
	for (int i = 0; i < UUID_LEN; i++)
	{
		int			high;
		int			low;

		if ((i == 4 || i == 6 || i == 8 || i == 10) && *p++ != '-')
			return false;
		high = shard_key_value_hex_digit(p[0]);
		low = shard_key_value_hex_digit(p[1]);
		if (high < 0 || low < 0)
			return false;
		uuid->data[i] = (unsigned char) (high << 4 | low);
		p += 2;
	}
	return true;
}

bool
shard_key_value_has_clock_word(const char *text)
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

/* ---------- types ---------- */

ShardKeyKind
shard_key_value_kind(Oid type)
{
	switch (type)
	{
		case INT2OID:
			return SHARD_KEY_INT2;
		case INT4OID:
			return SHARD_KEY_INT4;
		case INT8OID:
			return SHARD_KEY_INT8;
		case TEXTOID:
		case VARCHAROID:
			return SHARD_KEY_TEXT;
		case BPCHAROID:
			return SHARD_KEY_BPCHAR;
		case UUIDOID:
			return SHARD_KEY_UUID;
		case DATEOID:
			return SHARD_KEY_DATE;
		case TIMESTAMPOID:
			return SHARD_KEY_TIMESTAMP;
		default:
			return SHARD_KEY_OTHER;
	}
}

bool
shard_key_value_knows_clock(Oid type)
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
		return shard_key_value_knows_clock(element);

	/* composites and multiranges: rare enough to search their text */
	return type_is_rowtype(type) || type_is_multirange(type);
}

bool
shard_key_value_never_raises(Oid type)
{
	if (type == NAMEOID || type == CHAROID)
		return true;
	if (!SHARD_SOFT_INPUT)
		return false;
	switch (type)
	{
		case BOOLOID:
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

static bool
is_bool(const char *text)
{
	return (*text == 't' || *text == 'f' || *text == '0' || *text == '1') && text[1] == '\0';
}

/* Up to nine digits: valid for an OID, too. */
static bool
is_small_number(const char *text)
{
	size_t		nbytes = strlen(text);

	return nbytes > 0 && nbytes <= SHARD_INT4_SAFE_DIGITS && strspn(text, "0123456789") == nbytes;
}

/* [-]digits[.digits], short enough for any type. */
static bool
is_decimal(const char *text)
{
	size_t		nleft;
	size_t		nright = 0;

	text += *text == '-';
	nleft = strspn(text, "0123456789");
	text += nleft;
	if (*text == '.')
	{
		nright = strspn(text + 1, "0123456789");
		text += nright + 1;
	}
	return *text == '\0' && nleft > 0 && nleft <= MAX_DECIMAL_DIGITS && nright <= MAX_DECIMAL_DIGITS;
}

static bool
is_timestamptz(const char *text)
{
	return shard_key_value_is_timestamptz(text, strlen(text));
}

ShardKeyTextCheck
shard_key_value_safe_text(Oid type, int32 typmod)
{
	switch (type)
	{
		case BOOLOID:
			return is_bool;
		case OIDOID:
			return is_small_number;
		case FLOAT4OID:
		case FLOAT8OID:
			return is_decimal;
		case NUMERICOID:
			/* with a precision, the number may be too long */
			return typmod == -1 ? is_decimal : NULL;
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return is_timestamptz;
		default:
			return NULL;
	}
}
