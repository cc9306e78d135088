/*
 * copy_guard.c
 *	  Chunks of a guarded set: rows that a node refuses are removed, all others are stored.
 *
 *	 chunk	|......done......|....slice....|......rest......|
 *							pos			  end
 *
 * Each COPY sends a slice of the lane's chunk after a savepoint.  The message that starts the next
 * COPY replaces the savepoint:
 *
 *	 slice confirmed		RELEASE SAVEPOINT; SAVEPOINT; COPY of the next slice
 *	 refused, row known		row --> hook; ROLLBACK TO SAVEPOINT; COPY of the rows
 *							before it; later the rows after it
 *	 refused, row unknown	ROLLBACK TO SAVEPOINT; COPY of the first half (or of the rows
 *							before the one that seems to be bad), until the slice is a
 *							single row (foreign keys, AFTER triggers)
 *
 * A failed COPY has sent the rows before the bad one in vain, and each COPY costs as much as a
 * number of rows.  If bad rows are gap rows apart, slices of sqrt(2 * cost * gap) rows are the
 * cheapest.  The cost of a COPY depends on the slice's size: core allocates a slot for each of the
 * first 1,000 rows, in time that grows with their square (15: CopyMultiInsertInfoNextFreeSlot() and
 * the resource owner's hash of always the same descriptor).  So slices are either short or long.
 * While there are no bad rows, they are as large as chunks.
 *
 * copy_refused.c stores refused rows until the hook can be called.
 */
#include "postgres.h"

#include <ctype.h>
#include <math.h>

#include "remote/copy/copy_private.h"
#include "remote/wire/error.h"
#include "utils/memutils.h"

#define SHORT_COST_ROWS 100		/* a COPY of few rows costs as much as this many rows */
#define SHORT_SLICE_ROWS 280	/* longer slices only if they can be much longer */
#define LONG_COST_ROWS 1400		/* the same for a COPY of 1,000 or more rows */
#define LONG_GAP_ROWS 5000
#define MIN_SLICE_ROWS 8
#define REMEMBERED_BAD 64
#define MAX_GUESSES 2			/* maximum number of rows with the value in question */

/* ---------- slices ---------- */

/* The rows from pos to *to are done, so their memory is no longer counted. */
static void
move_pos(ShardCopyLane *lane, const ShardCopyPos *to)
{
	ShardCopyGuard *guard = &lane->guard;
	int64		nbytes = (to->data_pos - guard->pos.data_pos) + (to->sources_pos - guard->pos.sources_pos);

	guard->charged_bytes -= nbytes;
	lane->set->nbytes -= nbytes;
	guard->pos = *to;
}

/* No bad row is suspected at pos any more. */
static void
forget_suspects(ShardCopyGuard *guard)
{
	guard->suspect_end = guard->guess = 0;
	guard->guessed = false;
}

/* Moves past refused rows at pos. */
static void
skip_refused(ShardCopyLane *lane)
{
	ShardCopyGuard *guard = &lane->guard;

	while (guard->nrefused > 0 && guard->refused[guard->nrefused - 1] == guard->pos.rowno)
	{
		ShardCopyPos pos = guard->pos;
		ShardCopyRow row;

		(void) shard_copy_rows_next(&lane->chunk, &pos, &row);
		move_pos(lane, &pos);
		guard->nrefused--;
	}
	if (guard->pos.rowno >= guard->suspect_end)
		forget_suspects(guard);
}

void
shard_copy_guard_begin(ShardCopyLane *lane, int64 charged_bytes)
{
	ShardCopyGuard *guard = &lane->guard;

	shard_copy_rows_start(&lane->chunk, &guard->pos);
	guard->end = guard->pos;
	guard->nrefused = 0;
	guard->ncounted = 0;
	forget_suspects(guard);
	guard->charged_bytes = charged_bytes;
}

void
shard_copy_guard_drop(ShardCopyLane *lane)
{
	lane->set->nbytes -= lane->guard.charged_bytes;
	lane->guard.charged_bytes = 0;
	lane->guard.staged = false;
}

/* Counts the rows of the chunk up to rowno, for the distance of bad rows. */
static void
count_rows(ShardCopyLane *lane, uint64 rowno)
{
	ShardCopyGuard *guard = &lane->guard;

	if (rowno <= guard->ncounted)
		return;
	lane->set->rows_counted += rowno - guard->ncounted;
	lane->set->rows_since_bad += rowno - guard->ncounted;
	guard->ncounted = rowno;
}

static void
count_bad(ShardCopyLane *lane, uint64 rowno)
{
	ShardCopySet *set = lane->set;

	count_rows(lane, rowno);
	set->rows_since_bad = 0;
	if (++set->bad_counted >= REMEMBERED_BAD)
	{
		set->bad_counted /= 2;
		set->rows_counted /= 2;
	}
}

static uint64
max_slice_rows(const ShardCopySet *set)
{
	double		gap;

	if (set->bad_counted == 0)
		return PG_UINT64_MAX;
	gap = Max((double) set->rows_counted / set->bad_counted, (double) set->rows_since_bad);
	if (gap >= LONG_GAP_ROWS)
		return (uint64) sqrt(2.0 * LONG_COST_ROWS * gap);
	return Max(MIN_SLICE_ROWS, Min(SHORT_SLICE_ROWS, (uint64) sqrt(2.0 * SHORT_COST_ROWS * gap)));
}

/* Returns the number of the row after the slice that begins at pos, as far as rows determine it. */
static uint64
slice_stop(const ShardCopyLane *lane)
{
	const ShardCopyGuard *guard = &lane->guard;
	uint64		from = guard->pos.rowno;
	uint64		stop = lane->chunk.nrows;

	if (guard->nrefused > 0)
		stop = guard->refused[guard->nrefused - 1]; /* the rows before it are good */
	else
		stop = from + Min(max_slice_rows(lane->set), stop - from);
	if (guard->guess > from + 1)
		stop = Min(stop, guard->guess - 1);
	else if (guard->guess == from + 1)
		stop = from + 1;
	else if (guard->suspect_end > 0)
		stop = Min(stop, from + Max(1, (guard->suspect_end - from) / 2));
	return stop;
}

/* Chooses the slice that begins at pos. */
static void
choose_slice(ShardCopyLane *lane)
{
	ShardCopyGuard *guard = &lane->guard;
	uint64		stop = slice_stop(lane);
	ShardCopyRow row;

	guard->end = guard->pos;
	while (guard->end.rowno < stop &&
		   guard->end.data_pos - guard->pos.data_pos < SHARD_COPY_MAX_CHUNK_BYTES)
		(void) shard_copy_rows_next(&lane->chunk, &guard->end, &row);
}

void
shard_copy_guard_append(ShardCopyLane *lane, StringInfo sql, bool rolled_back, bool changed)
{
	ShardCopyGuard *guard = &lane->guard;
	ShardCopyDetour *detour = lane->target->detour;

	choose_slice(lane);
	guard->staged = detour && detour->taken;
	if (guard->staged && !detour->created)
	{
		appendStringInfo(sql, "%s; ", detour->sql.create_sql);
		detour->created = changed = true;
	}

	/* commands whose effect must survive a failure of the slice precede its savepoint */
	if (guard->standing && (changed || !rolled_back))
		appendStringInfoString(sql, "RELEASE SAVEPOINT " SHARD_COPY_SAVEPOINT "; "
							   "SAVEPOINT " SHARD_COPY_SAVEPOINT "; ");
	else if (!guard->standing)
		appendStringInfoString(sql, "SAVEPOINT " SHARD_COPY_SAVEPOINT "; ");
	guard->standing = true;

	if (guard->staged)
		shard_copy_staging_append(detour, sql);
	else
		appendStringInfoString(sql, lane->target->copy_sql);
}

bool
shard_copy_guard_confirm(ShardCopyLane *lane)
{
	ShardCopyGuard *guard = &lane->guard;

	if (guard->staged)
		shard_copy_staging_confirm(lane);
	count_rows(lane, guard->end.rowno);
	if (guard->end.rowno == guard->guess)
	{
		/* the guess was wrong: this row is not the bad one */
		guard->guess = 0;
		guard->guessed = true;
	}
	move_pos(lane, &guard->end);
	skip_refused(lane);
	return guard->pos.rowno >= lane->chunk.nrows;
}

/* ---------- refused rows ---------- */

static void
push_refused(ShardCopyLane *lane, uint64 rowno)
{
	ShardCopyGuard *guard = &lane->guard;

	if (guard->nrefused == guard->maxrefused)
	{
		int			max = Max(8, guard->maxrefused * 2);

		if (guard->refused)
			guard->refused = repalloc(guard->refused, max * sizeof(uint64));
		else
			guard->refused = MemoryContextAlloc(lane->set->cxt, max * sizeof(uint64));
		guard->maxrefused = max;
	}
	guard->refused[guard->nrefused++] = rowno;
}

/*
 * Returns the name of the column in the place of an error: ", column a: \"x\"".  The word for
 * column may be in any language.  It precedes the name, except in Korean.
 */
static char *
column_in_place(const char *place)
{
	static const char korean[] = " \354\227\264";
	const char *end;
	size_t		nbytes;

	if (!place || (place[0] != ',' && !IS_HIGHBIT_SET(place[0])))
		return NULL;
	place += strspn(place, ", ");
	end = strstr(place, ": ");
	nbytes = end ? end - place : strlen(place);
	if (nbytes > 0 && place[nbytes - 1] == ' ')
		nbytes--;
	if (nbytes >= sizeof(korean) && memcmp(place + nbytes - strlen(korean), korean, strlen(korean)) == 0)
		return pnstrdup(place, nbytes - strlen(korean));
	end = memchr(place, ' ', nbytes);
	if (!end)
		return NULL;
	return pnstrdup(end + 1, place + nbytes - end - 1);
}

/* Passes the row that the lane's error is about to the hook. */
static void
refuse_row(ShardCopyLane *lane, uint64 rowno, const ShardCopyErrorPlace *place)
{
	const char *sqlstate = PQresultErrorField(lane->error, PG_DIAG_SQLSTATE);
	char	   *column = shard_error_clean_text(PQresultErrorField(lane->error, PG_DIAG_COLUMN_NAME));
	ShardCopyPos pos = lane->guard.pos;

	shard_copy_refused_add(lane, &pos, rowno,
						   MAKE_SQLSTATE(sqlstate[0], sqlstate[1], sqlstate[2], sqlstate[3], sqlstate[4]),
						   shard_error_message(lane->error, lane->conn),
						   column ? column : column_in_place(place->place), false);
	lane->target->stat.nrefused++;
	count_bad(lane, rowno);
	push_refused(lane, rowno);
	if (rowno == lane->guard.pos.rowno)
		forget_suspects(&lane->guard);
	skip_refused(lane);
}

/* Does the row contain text, and not as a part of a longer word or number? */
static bool
has_value(const ShardCopyRow *row, const char *text, size_t nbytes)
{
	const char *end = row->data + row->nbytes;

	for (const char *p = row->data; end - p >= (ptrdiff_t) nbytes; p++)
	{
		p = memchr(p, text[0], end - p - nbytes + 1);
		if (!p)
			return false;
		if (memcmp(p, text, nbytes) == 0 &&
			(p == row->data || !isalnum((unsigned char) p[-1])) &&
			(p + nbytes == end || !isalnum((unsigned char) p[nbytes])))
			return true;
	}
	return false;
}

/*
 * Guesses the row that an error without a line is about.  A foreign key's error contains the value,
 * 'Key (a)=(77) is not present in table "b".', in any language.  A right guess saves most of the
 * halving.
 */
static uint64
guess_row(const ShardCopyLane *lane)
{
	const char *detail = PQresultErrorField(lane->error, PG_DIAG_MESSAGE_DETAIL);
	const char *value = detail ? strstr(detail, ")=(") : NULL;
	ShardCopyPos pos = lane->guard.pos;
	ShardCopyRow row;
	uint64		found = 0;
	int			nfound = 0;
	size_t		nbytes;

	if (!value || lane->guard.guessed)
		return 0;
	value += 3;
	nbytes = strcspn(value, ",)");	/* with several columns, the first one */
	if (nbytes == 0)
		return 0;
	while (pos.rowno < lane->guard.end.rowno && shard_copy_rows_next(&lane->chunk, &pos, &row))
		if (has_value(&row, value, nbytes) && nfound++ == 0)
			found = pos.rowno;
	return nfound <= MAX_GUESSES ? found : 0;
}

/* Is it the error of a unique index or an exclusion constraint? */
static bool
is_duplicate(const PGresult *error)
{
	const char *sqlstate = PQresultErrorField(error, PG_DIAG_SQLSTATE);

	return strcmp(sqlstate, "23505") == 0 || strcmp(sqlstate, "23P01") == 0;
}

/* COPY has found a duplicate.  Sends the same rows once more, through the staging table. */
static void
take_detour(ShardCopyLane *lane)
{
	ShardCopyDetour *detour = lane->target->detour;
	MemoryContext oldcxt = MemoryContextSwitchTo(lane->set->cxt);
	char	   *message = shard_error_message(lane->error, lane->conn);

	if (detour->message)
		pfree(detour->message);
	detour->message = message;
	detour->taken = true;
	detour->nclean = 0;
	MemoryContextSwitchTo(oldcxt);
}

/* Handles the lane's error.  False: the caller must raise it. */
static bool
handle_error(ShardCopyLane *lane)
{
	ShardCopyGuard *guard = &lane->guard;
	uint64		nrows = guard->end.rowno - guard->pos.rowno;
	ShardCopyErrorPlace place;
	uint64		rowno;
	uint64		lineno;
	bool		known;

	shard_copy_error_find_place(lane, lane->error, &place);
	if (!shard_copy_error_is_about_row(lane->error, &place))
		return false;
	if (lane->target->detour && !guard->staged && is_duplicate(lane->error))
	{
		take_detour(lane);
		return true;
	}
	known = shard_copy_rows_find(&lane->chunk, &guard->pos, place.text_lineno, &rowno, &lineno) &&
		rowno < guard->end.rowno;
	if (!known && nrows == 1)
	{
		known = true;
		rowno = guard->pos.rowno;
	}
	if (known && !lane->set->on_error)
		return false;
	if (known)
		refuse_row(lane, rowno, &place);
	else if (lane->set->on_error || guard->staged)
	{
		guard->suspect_end = guard->end.rowno;
		guard->guess = guess_row(lane);
	}
	else
		return false;			/* a row that need not be found */
	return true;
}

bool
shard_copy_guard_fail(ShardCopyLane *lane, bool *chunk_done)
{
	MemoryContext oldcxt;
	MemoryContext cxt;
	bool		handled = false;

	if (lane->state != COPY_STARTING)
	{
		cxt = AllocSetContextCreate(lane->set->cxt, "shardfdw copy error", ALLOCSET_SMALL_SIZES);
		oldcxt = MemoryContextSwitchTo(cxt);
		handled = handle_error(lane);
		MemoryContextSwitchTo(oldcxt);
		MemoryContextDelete(cxt);
	}
	if (handled)
	{
		PQclear(lane->error);
		lane->error = NULL;
		lane->aborted = true;
		*chunk_done = lane->guard.pos.rowno >= lane->chunk.nrows;
	}
	return handled;
}
