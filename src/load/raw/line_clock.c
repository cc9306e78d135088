/*
 * line_clock.c
 *	  Decides whether a line means the same on servers whose clocks differ.
 *
 * Several servers read the lines for a shard with replicas.  The words for which input functions of date/time types
 * read the clock (now, today, tomorrow, yesterday) contain a "w" or a "y".  So a field of such a type without these
 * letters means the same on all servers.  Input functions of other types that raw mode forwards are immutable
 * (raw_mode.c).
 */
#include "postgres.h"

#include "compat.h"
#include "load/raw/key_value.h"
#include "load/raw/line_clock.h"
#include "utils/rel.h"

/* One of these is in each word that reads the clock. */
#define WORD_LETTERS "wWyY"

typedef enum ByteClass
{
	BYTE_DATA,
	BYTE_DELIM,
	BYTE_OF_WORD,
	BYTE_QUOTE,					/* CSV: begins or ends quoting; a doubled quote does both */
	BYTE_ESCAPE,				/* CSV: an escape that is not the quote */
	BYTE_BACKSLASH				/* text format */
} ByteClass;

struct ShardLineClock
{
	uint8		classes[256];	/* ByteClass of each byte */
	int			ntold;			/* number of columns up to the last one with knows_clock */
	bool	   *knows_clock;	/* by column of the input */
};

ShardLineClock *
shard_line_clock_create(MemoryContext cxt, CopyFromState cstate)
{
	ShardLineClock *clock = MemoryContextAllocZero(cxt, sizeof(ShardLineClock));
	int			ncolumns = 0;

	for (const char *c = WORD_LETTERS; *c; c++)
		clock->classes[(uint8) *c] = BYTE_OF_WORD;
	clock->classes[(uint8) cstate->opts.delim[0]] = BYTE_DELIM;
	if (shard_copy_is_csv(&cstate->opts))
	{
		clock->classes[(uint8) cstate->opts.escape[0]] = BYTE_ESCAPE;
		clock->classes[(uint8) cstate->opts.quote[0]] = BYTE_QUOTE;
	}
	else
		clock->classes['\\'] = BYTE_BACKSLASH;
	clock->knows_clock = MemoryContextAllocZero(cxt, list_length(cstate->attnumlist) + 1);
	foreach_int(attno, cstate->attnumlist)
	{
		clock->knows_clock[ncolumns++] = shard_key_value_knows_clock(TupleDescAttr(RelationGetDescr(cstate->rel), attno - 1)->atttypid);
		if (clock->knows_clock[ncolumns - 1])
			clock->ntold = ncolumns;
	}
	return clock;
}

bool
shard_line_clock_is_idle(const ShardLineClock *clock)
{
	return clock->ntold == 0;
}

bool
shard_line_clock_passes(const ShardLineClock *clock, const char *bytes, size_t nbytes)
{
	const char *end = bytes + nbytes;
	bool		knows_clock = clock->knows_clock[0];
	bool		quoted = false;
	int			column = 0;

	if (clock->ntold == 0)
		return true;
	for (;; bytes++)
	{
		while (bytes < end && clock->classes[(uint8) *bytes] == BYTE_DATA)
			bytes++;
		if (bytes >= end)
			return true;
		switch ((ByteClass) clock->classes[(uint8) *bytes])
		{
			case BYTE_DATA:
				break;
			case BYTE_DELIM:
				if (quoted)
				{
					/* CSV allows letters as delimiters */
					if (knows_clock && strchr(WORD_LETTERS, *bytes) != NULL)
						return false;
					break;
				}
				if (++column >= clock->ntold)
					return true;
				knows_clock = clock->knows_clock[column];
				break;
			case BYTE_OF_WORD:
				if (knows_clock)
					return false;
				break;
			case BYTE_QUOTE:
				/* CSV allows letters as quotes; a doubled quote is a letter of the word */
				if (knows_clock && strchr(WORD_LETTERS, *bytes) != NULL)
					return false;
				quoted = !quoted;
				break;
			case BYTE_ESCAPE:
				return false;
			case BYTE_BACKSLASH:
				/* the next byte stands for itself, except for \N and for characters by number: n\157w is now */
				bytes++;
				if (knows_clock && !(bytes < end && *bytes == 'N'))
					return false;
				break;
		}
	}
}
