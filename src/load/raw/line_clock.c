/*
 * line_clock.c
 *	  Decides whether a line means the same on servers whose clocks differ.
 *
 * Several servers read the lines for a shard with replicas.  The words for which input functions of date/time types
 * read the clock (now, today, tomorrow, yesterday) contain a "w" or a "y".  So a field of such a type without these
 * letters means the same on all servers.  Unknown types may do anything.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "compat.h"
#include "load/raw/line_clock.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

typedef enum ClockKind
{
	CLOCK_NEVER,
	CLOCK_BY_WORD,
	CLOCK_MAYBE
} ClockKind;

struct ShardLineClock
{
	char		delim;
	char		quote;			/* CSV; '\0': text format, which uses backslashes */
	char		escape;
	int			ncolumns;
	int			ntold;			/* number of columns up to the last one that is not CLOCK_NEVER */
	ClockKind  *columns;
};

static ClockKind
kind_of(Oid type)
{
	Oid			element;

	type = getBaseType(type);
	element = get_element_type(type);
	if (OidIsValid(element))
		type = getBaseType(element);
	if (get_typtype(type) == TYPTYPE_ENUM)
		return CLOCK_NEVER;
	switch (type)
	{
		case BOOLOID:
		case BYTEAOID:
		case CHAROID:
		case NAMEOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case TEXTOID:
		case OIDOID:
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
		case BPCHAROID:
		case VARCHAROID:
		case UUIDOID:
		case JSONOID:
		case JSONBOID:
		case INETOID:
		case CIDROID:
		case MACADDROID:
		case MACADDR8OID:
		case BITOID:
		case VARBITOID:
		case INTERVALOID:
		case POINTOID:
		case TSVECTOROID:
			return CLOCK_NEVER;
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return CLOCK_BY_WORD;
		default:
			return CLOCK_MAYBE;
	}
}

ShardLineClock *
shard_line_clock_create(MemoryContext cxt, CopyFromState cstate)
{
	ShardLineClock *clock = MemoryContextAllocZero(cxt, sizeof(ShardLineClock));
	ListCell   *lc;

	clock->delim = cstate->opts.delim[0];
	if (shard_copy_is_csv(&cstate->opts))
	{
		clock->quote = cstate->opts.quote[0];
		clock->escape = cstate->opts.escape[0];
	}
	clock->columns = MemoryContextAllocZero(cxt, (list_length(cstate->attnumlist) + 1) * sizeof(ClockKind));
	foreach(lc, cstate->attnumlist)
	{
		ClockKind	kind = kind_of(TupleDescAttr(RelationGetDescr(cstate->rel), lfirst_int(lc) - 1)->atttypid);

		clock->columns[clock->ncolumns++] = kind;
		if (kind != CLOCK_NEVER)
			clock->ntold = clock->ncolumns;
	}
	return clock;
}

bool
shard_line_clock_is_idle(const ShardLineClock *clock)
{
	return clock->ntold == 0;
}

static inline bool
is_of_clock_word(char c)
{
	c |= 0x20;
	return c == 'w' || c == 'y';
}

/* Does each delimiter in the line end a field? */
static inline bool
is_plain(const ShardLineClock *clock, const char *bytes, size_t nbytes)
{
	if (clock->quote == '\0')
		return memchr(bytes, '\\', nbytes) == NULL;
	return memchr(bytes, clock->quote, nbytes) == NULL &&
		(clock->escape == clock->quote || memchr(bytes, clock->escape, nbytes) == NULL);
}

/* Like shard_line_clock_passes() for such a line: checks only fields that may depend on the clock. */
static bool
plain_line_passes(const ShardLineClock *clock, const char *bytes, size_t nbytes)
{
	const char *end = bytes + nbytes;

	for (int column = 0; column < clock->ntold; column++)
	{
		const char *field = bytes;

		bytes = memchr(field, clock->delim, end - field);
		if (bytes == NULL)
			bytes = end;
		if (clock->columns[column] == CLOCK_MAYBE)
			return false;
		if (clock->columns[column] == CLOCK_BY_WORD)
			for (const char *c = field; c < bytes; c++)
				if (is_of_clock_word(*c))
					return false;
		if (bytes == end)
			break;
		bytes++;
	}
	return true;
}

bool
shard_line_clock_passes(const ShardLineClock *clock, const char *bytes, size_t nbytes)
{
	ClockKind	kind = clock->ncolumns > 0 ? clock->columns[0] : CLOCK_NEVER;
	bool		quoted = false;
	int			column = 0;

	if (clock->ntold == 0)
		return true;
	if (is_plain(clock, bytes, nbytes))
		return plain_line_passes(clock, bytes, nbytes);
	for (size_t i = 0; i < nbytes; i++)
	{
		char		c = bytes[i];

		if (kind == CLOCK_MAYBE)
			return false;
		if (c == clock->delim && !quoted)
		{
			column++;
			if (column >= clock->ntold)
				return true;
			kind = clock->columns[column];
		}
		else if (clock->quote != '\0')
		{
			/* a doubled quote toggles twice; other escapes are not interpreted */
			if (c == clock->escape && clock->escape != clock->quote)
				return false;
			if (c == clock->quote)
				quoted = !quoted;
			else if (kind == CLOCK_BY_WORD && is_of_clock_word(c))
				return false;
		}
		else if (c == '\\')
		{
			/* the next byte stands for itself, except for \N and for characters by number: n\157w is now */
			i++;
			if (kind == CLOCK_BY_WORD && !(i < nbytes && bytes[i] == 'N'))
				return false;
		}
		else if (kind == CLOCK_BY_WORD && is_of_clock_word(c))
			return false;
	}
	return kind != CLOCK_MAYBE;
}
