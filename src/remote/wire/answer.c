/*
 * answer.c
 *	  Collects rows that are read one at a time into one result, up to a maximum size.
 *
 * libpq itself would keep everything that a node sends, without a limit.  So rows are read one at a
 * time and collected here, where their size is checked:
 *
 *	 row --> rows --+
 *	 row --> rows --+--> end: one result with the end's command tag
 */
#include "postgres.h"

#include "remote/wire/answer.h"
#include "remote/wire/error.h"

/* Appends the rows of from to those of to, which has the same columns.  False: out of memory. */
static bool
append_rows(PGresult *to, const PGresult *from)
{
	for (int row = 0; row < PQntuples(from); row++)
	{
		int			place = PQntuples(to);

		for (int i = 0; i < PQnfields(from); i++)
		{
			bool		is_null = PQgetisnull(from, row, i);

			if (!PQsetvalue(to, place, i, is_null ? NULL : PQgetvalue(from, row, i),
							is_null ? -1 : PQgetlength(from, row, i)))
				return false;
		}
	}
	return true;
}

/*
 * Combines rows and end, the result that followed the last row and has the columns and the command
 * tag.  Frees both.  NULL: out of memory.
 */
static PGresult *
join_end(PGresult *rows, PGresult *end)
{
	PGresult   *whole = PQcopyResult(end, PG_COPYRES_ATTRS);

	PQclear(end);
	if (whole && !append_rows(whole, rows))
	{
		PQclear(whole);
		whole = NULL;
	}
	PQclear(rows);
	return whole;
}

bool
shard_answer_add_noerror(PGresult **rows, PGresult **res, size_t max_bytes)
{
	ExecStatusType status = PQresultStatus(*res);
	bool		kept = true;

	if (status == PGRES_SINGLE_TUPLE)
	{
		if (!*rows)
			*rows = PQcopyResult(*res, PG_COPYRES_ATTRS);
		kept = *rows && append_rows(*rows, *res) && PQresultMemorySize(*rows) <= max_bytes;
		PQclear(*res);
		*res = NULL;
	}
	else if (*rows)
	{
		PGresult   *before = *rows;

		*rows = NULL;
		if (status == PGRES_TUPLES_OK)
			kept = (*res = join_end(before, *res)) != NULL;
		else
			PQclear(before);
	}
	return kept;
}

PGresult *
shard_answer_add(PGresult **rows, PGresult *res, size_t max_bytes, ShardConn *conn, const char *label)
{
	if (shard_answer_add_noerror(rows, &res, max_bytes))
		return res;
	if (*rows && PQresultMemorySize(*rows) > max_bytes)
		shard_error_protocol(conn, label, "more rows than such an answer can have");
	conn->state = SHARD_CONN_BROKEN;
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of memory"),
			 errdetail("Failed on rows from node \"%s\".", conn->node)));
}
