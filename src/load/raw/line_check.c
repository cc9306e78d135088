/*
 * line_check.c
 *	  Quick check of a line's fields: might a shard reject the line?
 *
 * If a shard rejects a row, the shard's COPY fails, and the rows before it have to be sent again.  Checking the row
 * on the coordinator costs one call of core's parser.  So with ON_ERROR 'ignore', fields of common types are compared
 * with the plain form in which COPY TO writes them.  If a line looks odd, core's parser decides whether it is wrong.
 * So this check need not be exact, but should rarely be wrong.  Lines with quotes or escapes pass.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "compat.h"
#include "load/raw/key_value.h"
#include "load/raw/line_check.h"
#include "utils/rel.h"

#define MIN_ODD 64				/* minimum number of odd fields before a column is no longer checked */

typedef enum CheckKind
{
	CHECK_NOTHING,
	CHECK_INTEGER,				/* of type integer */
	CHECK_NUMBER,
	CHECK_DATE,
	CHECK_TIMESTAMP,
	CHECK_BOOL,
	CHECK_UUID,
	CHECK_LENGTH
} CheckKind;

typedef struct CheckedColumn
{
	CheckKind	kind;
	ShardKeyKind integer;
	int			ndigits;		/* before the decimal point; for a text: bytes */
	int			nfraction;		/* after the decimal point */
	int			nodd;
	int			ngood;			/* odd fields that core's parser has accepted */
} CheckedColumn;

struct ShardLineCheck
{
	char		delim;
	char		special;		/* byte that makes a line complicated: quote or backslash */
	bool		csv;
	const char *null_print;
	int			null_bytes;
	int			ncolumns;
	int			oddno;			/* column that was odd in the last line; ncolumns: the number of fields was wrong */
	CheckedColumn *columns;		/* array of ncolumns + 1 */
};

static void
init_column(CheckedColumn *column, Oid typid, int32 typmod)
{
	column->ndigits = 30;
	column->nfraction = 30;
	switch (typid)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
			column->kind = CHECK_INTEGER;
			column->integer = shard_key_value_kind(typid);
			break;
		case NUMERICOID:
			column->kind = CHECK_NUMBER;
			if (typmod >= (int32) VARHDRSZ)
			{
				int			precision = ((typmod - VARHDRSZ) >> 16) & 0xffff;
				int			scale = (typmod - VARHDRSZ) & 0x7ff;

				if (scale > precision)
					column->kind = CHECK_NOTHING;
				column->ndigits = precision - scale;
				column->nfraction = scale;
			}
			break;
		case FLOAT4OID:
		case FLOAT8OID:
			column->kind = CHECK_NUMBER;
			break;
		case DATEOID:
			column->kind = CHECK_DATE;
			break;
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			column->kind = CHECK_TIMESTAMP;
			break;
		case BOOLOID:
			column->kind = CHECK_BOOL;
			break;
		case UUIDOID:
			column->kind = CHECK_UUID;
			break;
		case BPCHAROID:
		case VARCHAROID:
			column->kind = typmod >= (int32) VARHDRSZ ? CHECK_LENGTH : CHECK_NOTHING;
			column->ndigits = typmod - VARHDRSZ;
			break;
		default:
			column->kind = CHECK_NOTHING;
	}
}

ShardLineCheck *
shard_line_check_create(MemoryContext cxt, CopyFromState cstate)
{
	ShardLineCheck *check = MemoryContextAllocZero(cxt, sizeof(ShardLineCheck));
	int			ncolumns = list_length(cstate->attnumlist);

	check->delim = cstate->opts.delim[0];
	check->csv = shard_copy_is_csv(&cstate->opts);
	check->special = check->csv ? cstate->opts.quote[0] : '\\';
	check->null_print = cstate->opts.null_print;
	check->null_bytes = cstate->opts.null_print_len;
	check->columns = MemoryContextAllocZero(cxt, (ncolumns + 1) * sizeof(CheckedColumn));
	foreach_int(attno, cstate->attnumlist)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(cstate->rel), attno - 1);

		init_column(&check->columns[check->ncolumns++], att->atttypid, att->atttypmod);
	}
	return check;
}

static inline bool
is_digit(char c)
{
	return (unsigned char) (c - '0') <= 9;
}

static int
skip_digits(const char *p, int nbytes)
{
	int			n = 0;

	while (n < nbytes && is_digit(p[n]))
		n++;
	return n;
}

/* [-]digits, optionally with a fraction. */
static bool
is_number(const char *p, int nbytes, const CheckedColumn *column)
{
	int			ndigits;

	if (nbytes > 0 && *p == '-')
	{
		p++;
		nbytes--;
	}
	ndigits = skip_digits(p, nbytes);
	/* a single digit before the decimal point may be a zero that does not count */
	if (ndigits == 0 || ndigits > Max(column->ndigits, 1))
		return false;
	if (ndigits == 1 && column->ndigits == 0 && *p != '0')
		return false;
	if (ndigits == nbytes)
		return true;
	if (p[ndigits] != '.')
		return false;
	nbytes -= ndigits + 1;
	return nbytes > 0 && nbytes <= column->nfraction && skip_digits(p + ndigits + 1, nbytes) == nbytes;
}

static bool
is_plain_value(const char *p, int nbytes, const CheckedColumn *column)
{
	Datum		number;
	pg_uuid_t	uuid;

	switch (column->kind)
	{
		case CHECK_NOTHING:
			return true;
		case CHECK_INTEGER:
			return shard_key_value_integer(p, nbytes, column->integer, &number);
		case CHECK_NUMBER:
			return is_number(p, nbytes, column);
		case CHECK_DATE:
			return nbytes == 10 && shard_key_value_date(p, NULL);
		case CHECK_TIMESTAMP:
			return shard_key_value_is_timestamptz(p, nbytes);
		case CHECK_BOOL:
			return (nbytes == 1 && memchr("tf10", *p, 4) != NULL) ||
				(nbytes == 4 && memcmp(p, "true", 4) == 0) ||
				(nbytes == 5 && memcmp(p, "false", 5) == 0);
		case CHECK_UUID:
			return shard_key_value_uuid(p, nbytes, &uuid);
		case CHECK_LENGTH:
			return nbytes <= column->ndigits;
	}
	return true;
}

/* Counts an odd field of column columnno.  True if the column is no longer checked. */
static bool
is_given_up(ShardLineCheck *check, int columnno)
{
	CheckedColumn *column = &check->columns[columnno];

	if (column->nodd >= MIN_ODD && column->ngood >= column->nodd / 2)
	{
		column->kind = CHECK_NOTHING;
		return true;
	}
	column->nodd++;
	check->oddno = columnno;
	return false;
}

bool
shard_line_check_passes(ShardLineCheck *check, const char *bytes, size_t nbytes)
{
	const char *end = bytes + nbytes;
	const char *p = bytes;
	int			oddno = -1;

	for (int columnno = 0;; columnno++)
	{
		const char *field = p;
		bool		is_null;

		while (p < end && *p != check->delim && *p != check->special)
			p++;
		if (unlikely(p < end && *p == check->special))
		{
			/* the NULL marker of text format contains one; other escapes are not checked */
			if (check->csv || p != field || end - p < check->null_bytes ||
				memcmp(p, check->null_print, check->null_bytes) != 0)
				return true;
			p += check->null_bytes;
			if (p < end && *p != check->delim)
				return true;
		}
		is_null = p - field == check->null_bytes &&
			memcmp(field, check->null_print, check->null_bytes) == 0;
		if (columnno < check->ncolumns && oddno < 0 && !is_null &&
			!is_plain_value(field, p - field, &check->columns[columnno]))
			oddno = columnno;
		if (p == end)
		{
			if (columnno + 1 != check->ncolumns && oddno < 0)
				oddno = check->ncolumns;
			break;
		}
		p++;
	}
	return likely(oddno < 0) || is_given_up(check, oddno);
}

void
shard_line_check_was_good(ShardLineCheck *check)
{
	check->columns[check->oddno].ngood++;
}
