/*
 * copy_error.c
 *	  Errors of nodes about rows of a COPY stream: finds the row, and chooses the error to raise.
 *
 * Nodes work in parallel, so the first error to arrive need not be about the first bad row of the
 * input.  So an error about a row is stored (take), rows that other targets have buffered are still
 * sent, and the error with the lowest input line is raised (raise_first).  Errors that are not
 * about rows are raised immediately.
 *
 * The place in a node's context, "COPY t_07, line 42, column a: "x"", may be in the node's
 * language.  All of core's translations begin with the table's name, or with COPY and the name.
 * Then the number follows, then the rest.
 */
#include "postgres.h"

#include "compat.h"
#include "remote/copy/copy_private.h"
#include "remote/wire/error.h"

#define MAX_WORD_BYTES 60		/* maximum length of the text between the table's name and the number */

char *
shard_copy_error_relname(const char *copy_sql)
{
	const char *p = copy_sql + strcspn(copy_sql, " ");
	char	   *name = palloc(strlen(copy_sql) + 1);
	char	   *to = name;

	p += strspn(p, " ");
	for (;;)
	{
		if (*p == '"')
		{
			for (p++; *p && (*p != '"' || p[1] == '"'); p++)
			{
				if (*p == '"')
					p++;
				*to++ = *p;
			}
			if (*p)
				p++;
		}
		else
			while (*p && !strchr(" .(\"", *p))
				*to++ = *p++;
		if (*p != '.')
			break;
		p++;
		to = name;				/* that was the schema */
	}
	*to = '\0';
	return name;
}

/* If a context line is the place of a COPY FROM into relname, returns the number in it; otherwise NULL. */
static const char *
number_in_line(const char *line, const char *relname)
{
	size_t		nbytes;

	if (strncmp(line, "COPY ", 5) == 0)
		line += 5;
	if (strncmp(line, relname, strlen(relname)) != 0)
		return NULL;
	line += strlen(relname);
	if (*line != ',' && *line != ' ' && !IS_HIGHBIT_SET(*line))
		return NULL;
	nbytes = strcspn(line, "0123456789\n");
	if (nbytes > MAX_WORD_BYTES || line[nbytes] == '\n' || line[nbytes] == '\0')
		return NULL;
	return line + nbytes;
}

/* The node's name of the table of the running COPY. */
static const char *
current_relname(const ShardCopyLane *lane)
{
	return lane->guard.staged ? lane->target->detour->relname : lane->target->relname;
}

void
shard_copy_error_find_place(const ShardCopyLane *lane, const PGresult *res, ShardCopyErrorPlace *place)
{
	const char *relname = current_relname(lane);
	char	   *context = shard_error_clean_text(PQresultErrorField(res, PG_DIAG_CONTEXT));

	memset(place, 0, sizeof(ShardCopyErrorPlace));
	place->context = context;
	for (char *line = context; line && relname[0]; line = strchr(line, '\n'))
	{
		const char *number;
		char	   *rest;

		if (*line == '\n')
			line++;
		number = number_in_line(line, relname);
		if (!number)
			continue;
		place->text_lineno = strtoull(number, &rest, 10);

		/* if lines end in CR, some errors are reported for the previous line */
		if (lane->target->header && place->text_lineno > 1)
			place->text_lineno--;

		/* text that belongs to the number in some languages; another one has its own comma */
		if (*rest != ',' && *rest != ':' && strncmp(rest, " :", 2) != 0 &&
			strncmp(rest, "\343\200\201", 3) != 0)
			rest += strcspn(rest, ",:\n");
		place->place = pstrdup(rest);

		/* the value at the end may contain line breaks, and nothing follows it */
		*line = '\0';
		if (line > context)
			line[-1] = '\0';
		if (context[0] == '\0')
			place->context = NULL;
		break;
	}
}

/*
 * Classes of SQLSTATEs that are about the server, the transaction, or the statement as a whole.
 * All others are about data, or raised by triggers.
 */
static const char *const other_classes[] = {
	"08", "0A", "0L", "0P", "25", "26", "28", "2B", "2D", "34", "3B", "3D", "3F", "40", "53",
	"55", "57", "58", "72", "F0", "HV", "XX"
};

bool
shard_copy_error_is_about_row(const PGresult *res, const ShardCopyErrorPlace *place)
{
	const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);

	if (!sqlstate || (severity && strcmp(severity, "ERROR") != 0))
		return false;
	for (int i = 0; i < lengthof(other_classes); i++)
		if (strncmp(sqlstate, other_classes[i], 2) == 0)
			return false;

	/*
	 * undefined tables and similar errors are about data only if a value contains a name, as in a
	 * column of type regclass
	 */
	if (strncmp(sqlstate, "42", 2) == 0 && strcmp(sqlstate, "42804") != 0)
		return place->place && place->place[0] != '\0' && place->place[0] != ':' &&
			strcmp(sqlstate, "42501") != 0;
	return true;
}

/* Raises error, whose texts are in the set's memory. */
static void __attribute__((noreturn))
raise_error(ShardCopySet *set, const ShardCopyError *error)
{
	PGresult   *res;

	/* if an inner block catches this error, the load must not continue without these rows */
	set->lost = true;
	if (set->first.res != error->res)
		PQclear(set->first.res);
	set->first = *error;		/* freed with the set if the hook raises */
	if (set->hook)
		set->hook(set->hook_arg, set->first.lineno, set->first.place);
	res = set->first.res;
	set->first.res = NULL;
	shard_error_report_context(res, set->first.conn, set->first.label, set->first.context);
	pg_unreachable();
}

/* Fills *error with what is known about res, an error of the COPY that lane runs. */
static void
describe_error(ShardCopyLane *lane, PGresult *res, const ShardCopyErrorPlace *place, ShardCopyError *error)
{
	ShardCopyPos start;
	uint64		rowno;

	memset(error, 0, sizeof(ShardCopyError));
	error->res = res;
	error->lane = lane;
	error->conn = lane->conn;
	error->label = lane->target ? lane->target->label : NULL;
	error->place = place->place;
	error->context = place->context;
	if (lane->set->guarded)
		start = lane->guard.pos;
	else
		shard_copy_rows_start(&lane->chunk, &start);
	if (!shard_copy_rows_find(&lane->chunk, &start, place->text_lineno, &rowno, &error->lineno))
		error->lineno = 0;

	/* a slice with one row */
	if (error->lineno == 0 && lane->set->guarded && lane->guard.end.rowno == start.rowno + 1)
		error->lineno = lane->guard.end.lineno;
}

static void
find_place(ShardCopyLane *lane, const PGresult *res, ShardCopyErrorPlace *place)
{
	memset(place, 0, sizeof(ShardCopyErrorPlace));
	if (res && lane->target)
	{
		MemoryContext oldcxt = MemoryContextSwitchTo(lane->set->cxt);

		shard_copy_error_find_place(lane, res, place);
		MemoryContextSwitchTo(oldcxt);
	}
	else if (res && PQresultErrorField(res, PG_DIAG_CONTEXT))
		place->context = MemoryContextStrdup(lane->set->cxt, PQresultErrorField(res, PG_DIAG_CONTEXT));
}

void
shard_copy_error_raise(ShardCopyLane *lane)
{
	ShardCopyErrorPlace place;
	ShardCopyError error;

	find_place(lane, lane->error, &place);
	describe_error(lane, lane->error, &place, &error);
	lane->error = NULL;
	raise_error(lane->set, &error);
}

void
shard_copy_error_raise_first(ShardCopySet *set)
{
	raise_error(set, &set->first);
}

/* Drops rows after the line of the first error. */
static void
drop_later_rows(ShardCopySet *set)
{
	uint64		lineno = set->first.lineno;

	if (lineno == 0)
		return;
	foreach_ptr(ShardCopyLane, lane, set->lanes)
	{
		foreach_ptr(ShardCopyTarget, target, lane->targets)
		{
			ShardCopyPos pos;
			ShardCopyRow row;

			shard_copy_rows_start(&target->rows, &pos);
			if (shard_copy_rows_next(&target->rows, &pos, &row) && row.lineno >= lineno)
				shard_copy_rows_drop(target);
		}
	}
}

void
shard_copy_error_take(ShardCopyLane *lane)
{
	ShardCopySet *set = lane->set;
	ShardCopyErrorPlace place;
	ShardCopyError error;

	find_place(lane, lane->error, &place);
	describe_error(lane, lane->error, &place, &error);
	lane->error = NULL;
	if (lane->state == COPY_STARTING || !lane->target ||
		!shard_copy_error_is_about_row(error.res, &place))
		raise_error(set, &error);

	set->lost = set->judging = true;
	lane->aborted = true;
	if (set->first.res == NULL ||
		(error.lineno > 0 && (set->first.lineno == 0 || error.lineno < set->first.lineno)))
	{
		PQclear(set->first.res);
		set->first = error;
	}
	else
		PQclear(error.res);
	shard_copy_rows_drop(lane->target);
	drop_later_rows(set);
}
