/*
 * key_value.h
 *	  Converts the usual, plain text forms of shard key values.
 *
 * The values are exactly those of the type's input function.  False only means that the text does not have the usual
 * form.
 */
#ifndef SHARDFDW_KEY_VALUE_H
#define SHARDFDW_KEY_VALUE_H

#include "postgres.h"

#include "utils/date.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

/* Number of digits that cannot overflow. */
#define SHARD_INT4_SAFE_DIGITS 9
#define SHARD_INT8_SAFE_DIGITS 18

typedef enum ShardKeyKind
{
	SHARD_KEY_INT2,
	SHARD_KEY_INT4,
	SHARD_KEY_INT8,
	SHARD_KEY_TEXT,					/* text, varchar */
	SHARD_KEY_BPCHAR,
	SHARD_KEY_UUID,
	SHARD_KEY_DATE,
	SHARD_KEY_TIMESTAMP,				/* without time zone */
	SHARD_KEY_OTHER
} ShardKeyKind;

/* True for a text that an input function surely accepts. */
typedef bool (*ShardKeyTextCheck) (const char *text);

extern ShardKeyKind shard_key_value_kind(Oid type);

/* Does the type, or a type that it contains, have values that depend on the clock? */
extern bool shard_key_value_knows_clock(Oid type);

/* Does the text contain now, today, tomorrow or yesterday? */
extern bool shard_key_value_has_clock_word(const char *text);

/*
 * Does the type's input function never raise an error, or none if it gets an ErrorSaveContext?  False for domains and
 * composite types, because they call functions of users.
 */
extern bool shard_key_value_never_raises(Oid type);

/* For other types that are likely keys: a check for texts that raise no error; NULL: there is none. */
extern ShardKeyTextCheck shard_key_value_safe_text(Oid type, int32 typmod);

/* YYYY-MM-DD, ten bytes at p. date: NULL if only the form is checked. */
extern bool shard_key_value_date(const char *p, DateADT *date);

/* YYYY-MM-DD or YYYY-MM-DD HH:MM:SS[.ffffff], or with T between them. timestamp: NULL if only the form is checked. */
extern bool shard_key_value_timestamp(const char *p, size_t nbytes, Timestamp *timestamp);

/* The same, optionally followed by a time zone: +HH, -HH, +HH:MM or -HH:MM. */
extern bool shard_key_value_is_timestamptz(const char *p, size_t nbytes);

/* 8-4-4-4-12 hexadecimal digits. */
extern bool shard_key_value_uuid(const char *p, size_t nbytes, pg_uuid_t *uuid);

/* Value of a hexadecimal digit, or -1. */
extern int	shard_key_value_hex_digit(char c);

/* [-]digits, which fit into a type of this kind.  The input function handles all other text. */
static inline bool
shard_key_value_integer(const char *p, size_t nbytes, ShardKeyKind kind, Datum *value)
{
	const char *end = p + nbytes;
	bool		negative = nbytes > 0 && *p == '-';
	int64		number = 0;

	p += negative;
	if (p == end || end - p > (kind == SHARD_KEY_INT8 ? SHARD_INT8_SAFE_DIGITS : SHARD_INT4_SAFE_DIGITS))
		return false;
	for (; p < end; p++)
	{
		unsigned	digit = (unsigned char) *p - '0';

		if (digit > 9)
			return false;
		number = number * 10 + digit;
	}
	if (negative)
		number = -number;
	switch (kind)
	{
		case SHARD_KEY_INT2:
			*value = Int16GetDatum((int16) number);
			return number >= PG_INT16_MIN && number <= PG_INT16_MAX;
		case SHARD_KEY_INT4:
			*value = Int32GetDatum((int32) number);
			return true;
		default:
			*value = Int64GetDatum(number);
			return true;
	}
}

#endif
