/*
 * row_arrays.c
 *	  Rows as text of arrays, one array per column, for use as parameters of a statement.
 *
 * A message to a node, and thus all parameters of a statement together, must be smaller than one
 * gigabyte.
 */
#include "postgres.h"

#include "executor/modify/row_arrays.h"
#include "lib/stringinfo.h"
#include "utils/memutils.h"

/* Maximum total size of a statement's arrays.  Leaves room for the rest of the message. */
#define MAX_ARRAYS_BYTES ((Size) MaxAllocSize - 1024 * 1024)

/* First size of an array's buffer.  It is small, since there may be many shards with few rows each. */
#define FIRST_BYTES 64

struct ShardRowArrays
{
	const char *label;
	int64		nrows;
	Size		nbytes;
	int			ncolumns;
	StringInfoData columns[FLEXIBLE_ARRAY_MEMBER];
};

ShardRowArrays *
shard_row_arrays_create(int ncolumns, const char *label)
{
	ShardRowArrays *arrays = palloc0(offsetof(ShardRowArrays, columns) +
									 sizeof(StringInfoData) * ncolumns);

	arrays->label = label;
	arrays->ncolumns = ncolumns;
	for (int i = 0; i < ncolumns; i++)
	{
		StringInfo	buf = &arrays->columns[i];

		buf->data = palloc(FIRST_BYTES);
		buf->maxlen = FIRST_BYTES;
		buf->data[0] = '{';
		buf->data[1] = '\0';
		buf->len = 1;
	}
	return arrays;
}

/* Can text be an array element without quotes and escapes? */
static bool
is_number(const char *text)
{
	return text[0] != '\0' && text[strspn(text, "0123456789+-.")] == '\0';
}

static void
append_quoted(StringInfo buf, const char *text)
{
	appendStringInfoCharMacro(buf, '"');
	for (; *text; text++)
	{
		/* server encodings have no ASCII byte inside a longer character */
		if (*text == '"' || *text == '\\')
			appendStringInfoCharMacro(buf, '\\');
		appendStringInfoCharMacro(buf, *text);
	}
	appendStringInfoCharMacro(buf, '"');
}

void
shard_row_arrays_add(ShardRowArrays *arrays, const char *const *values)
{
	for (int i = 0; i < arrays->ncolumns; i++)
	{
		StringInfo	buf = &arrays->columns[i];
		int			before = buf->len;

		/* maximum: each character escaped, quotes, comma and closing brace */
		if (arrays->nbytes + 2 * (values[i] ? strlen(values[i]) : 2) + 4 > MAX_ARRAYS_BYTES)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("rows for shard %s are too large for one statement", arrays->label),
					 errdetail("Their text must stay below %zu bytes.", MAX_ARRAYS_BYTES),
					 errhint("Use several statements with fewer rows.")));
		if (arrays->nrows > 0)
			appendStringInfoCharMacro(buf, ',');
		if (values[i] == NULL)
			appendStringInfoString(buf, "NULL");
		else if (is_number(values[i]))
			appendStringInfoString(buf, values[i]);
		else
			append_quoted(buf, values[i]);
		arrays->nbytes += buf->len - before;
	}
	arrays->nrows++;
}

void
shard_row_arrays_finish(ShardRowArrays *arrays, const char **values)
{
	for (int i = 0; i < arrays->ncolumns; i++)
	{
		appendStringInfoCharMacro(&arrays->columns[i], '}');
		values[i] = arrays->columns[i].data;
	}
}
