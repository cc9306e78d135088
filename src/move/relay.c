/*
 * relay.c
 *	  Copies the rows of a table from one node to the other, and compares them.
 *
 *	 source: COPY table TO STDOUT --> messages, as they are --> target: COPY staging FROM STDIN
 *
 * Rows travel in binary where all columns' types mean the same on every server, else as
 * text in settings that every session reads alike (link.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "fault.h"
#include "miscadmin.h"
#include "move/job/job.h"
#include "move/job/link.h"
#include "move/job/rate.h"
#include "move/relay.h"
#include "remote/wire/error.h"
#include "utils/timestamp.h"

#define FLUSH_BYTES (256 * 1024)	/* of what the target has not taken yet, before the source is read on */
#define PROGRESS_MS 1000

/* "table (columns)" for COPY; without columns, COPY takes all that are not generated. */
static char *
copy_name(const char *name, const ShardMoveTable *table)
{
	return table->columns[0] ? psprintf("%s (%s)", name, table->columns) : pstrdup(name);
}

/* Starts COPY on link. */
static void
begin_copy(ShardConn *link, const char *sql, const char *label, ExecStatusType expected)
{
	PGresult   *res;
	bool		as_expected;

	shard_link_send(link, sql);
	res = shard_link_result(link, label);
	as_expected = PQresultStatus(res) == expected;
	PQclear(res);
	if (!as_expected)
		shard_error_protocol(link, label, "a COPY was expected");
}

/* Hands a message on.  Waits while the target does not take what was sent before. */
static void
put_message(const ShardMoveTable *table, ShardConn *into, const char *message, int len, int *unsent)
{
	int			rc;

	while ((rc = PQputCopyData(into->pg, message, len)) == 0)
		shard_link_wait(&into, 1);
	*unsent += len;
	if (rc > 0 && *unsent >= FLUSH_BYTES)
	{
		while (!shard_connection_flush(into))
			shard_link_wait(&into, 1);
		/* an error of the target, which libpq notices when it looks at its input */
		(void) PQisBusy(into->pg);
		*unsent = 0;
	}
	if (rc < 0)
	{
		/* the target has ended the COPY: it says why */
		PQclear(shard_link_result(into, table->name));
		shard_error_protocol(into, table->name, "COPY has ended early");
	}
}

/* Writes the progress down now and then, where a transaction of its own can do that. */
static void
note_progress(void *arg)
{
	ShardMove  *move = arg;

	if (!IsTransactionState() &&
		TimestampDifferenceExceeds(move->progress.noted_at, GetCurrentTimestamp(), PROGRESS_MS))
		shard_job_set_progress(move->id, &move->progress);
}

void
shard_relay_copy(ShardMove *move, const ShardMoveTable *table, ShardConn *from, ShardConn *into)
{
	const char *format = table->binary ? "binary" : "text";
	ShardConn  *links[2] = {from, into};
	PGresult   *res;
	char	   *message;
	int			unsent = 0;
	int			len;
	ShardRate	rate = {0};

	begin_copy(from, psprintf("COPY %s TO STDOUT (FORMAT %s)", copy_name(table->remote_name, table), format), table->name, PGRES_COPY_OUT);
	begin_copy(into, psprintf("COPY %s FROM STDIN (FORMAT %s)", copy_name(table->staging, table), format), table->name, PGRES_COPY_IN);
	while ((len = shard_link_copy_data(from, &message)) >= 0)
	{
		if (len == 0)
		{
			note_progress(move);
			shard_link_wait(links, 2);
			continue;
		}
		put_message(table, into, message, len, &unsent);
		PQfreemem(message);
		move->progress.nbytes += len;
		CHECK_FOR_INTERRUPTS();
		shard_rate_keep(&rate, len, note_progress, move);
	}
	/* of the source: when it has failed, the target must not take what has come for all */
	res = shard_link_result(from, table->name);
	PQclear(res);
	SHARD_FAULT_POINT("move_copy_end");
	while ((len = PQputCopyEnd(into->pg, NULL)) == 0)
		shard_link_wait(&into, 1);
	if (len > 0)
		shard_connection_flush(into);
	res = shard_link_result(into, table->name);
	move->progress.nrows += strtoll(PQcmdTuples(res), NULL, 10);
	PQclear(res);
	note_progress(move);
}

/* ---------- comparing ---------- */

/*
 * Adds the query for the hashes of a table's rows to others.  The parser refuses TABLESAMPLE for a view, which the owner may have
 * put in the table's place: the user may be a superuser, and the owner's functions are not to run.
 */
static void
append_hashes(StringInfo sql, const char *name, const ShardMoveTable *table)
{
	appendStringInfo(sql, "%sSELECT pg_catalog.hashtextextended((ROW(%s)::text) COLLATE \"C\", 0) AS h FROM %s TABLESAMPLE pg_catalog.system (100)",
					 sql->len > 0 ? " UNION ALL " : "", table->columns, name);
}

/* Asks for the number of rows and the sums of both halves of their hashes. */
static void
ask_sums(ShardConn *link, const char *hashes)
{
	shard_link_send(link, psprintf("SELECT pg_catalog.concat_ws(' ', count(*), sum(x.h >> 32), sum(x.h & 4294967295)) FROM (%s) x", hashes));
}

static char *
take_sums(ShardConn *link, const char *label)
{
	PGresult   *res = shard_link_result(link, label);
	char	   *sums = pstrdup(PQgetvalue(res, 0, 0));

	PQclear(res);
	return sums;
}

/* Is it the first one of those with the same staging table? */
static bool
is_first(const ShardMove *move, int tableno)
{
	for (int i = 0; i < tableno; i++)
	{
		if (strcmp(move->tables[i].staging, move->tables[tableno].staging) == 0)
			return false;
	}
	return true;
}

/* Compares a staging table with all whose rows it has. */
static void
verify_table(const ShardMove *move, const ShardMoveTable *table, ShardConn *from, ShardConn *into)
{
	StringInfoData here;
	StringInfoData there;
	char	   *left;
	char	   *right;

	initStringInfo(&here);
	initStringInfo(&there);
	for (int i = 0; i < move->ntables; i++)
	{
		if (strcmp(move->tables[i].staging, table->staging) == 0)
			append_hashes(&here, move->tables[i].remote_name, table);
	}
	append_hashes(&there, table->staging, table);
	ask_sums(from, here.data);
	ask_sums(into, there.data);
	left = take_sums(from, table->name);
	right = take_sums(into, table->name);
	if (strcmp(left, right) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the rows of shard %s differ on nodes \"%s\" and \"%s\"", table->name, move->source_name, move->target_name),
				 errdetail("Number of rows, and sums of their hashes: %s and %s.", left, right),
				 errhint("The shard stays where it is.")));
}

void
shard_relay_verify(const ShardMove *move, ShardConn *from, ShardConn *into)
{
	for (int i = 0; i < move->ntables; i++)
	{
		if (is_first(move, i))
			verify_table(move, &move->tables[i], from, into);
	}
}
