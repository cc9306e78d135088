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
#include "move/job.h"
#include "move/link.h"
#include "move/relay.h"
#include "remote/wire/error.h"

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
note_progress(ShardMove *move)
{
	if (!IsTransactionState() &&
		TimestampDifferenceExceeds(move->progress.noted_at, GetCurrentTimestamp(), PROGRESS_MS))
		shard_job_set_progress(move);
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

	begin_copy(from, psprintf("COPY %s TO STDOUT (FORMAT %s)", copy_name(table->remote_name, table), format), table->name, PGRES_COPY_OUT);
	begin_copy(into, psprintf("COPY %s FROM STDIN (FORMAT %s)", copy_name(table->staging, table), format), table->name, PGRES_COPY_IN);
	while ((len = PQgetCopyData(from->pg, &message, 1)) >= 0)
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

/* The query for the number of rows and the sums of both halves of their hashes. */
static char *
sum_query(const char *name, const ShardMoveTable *table)
{
	return psprintf("SELECT pg_catalog.concat_ws(' ', count(*), sum(x.h >> 32), sum(x.h & 4294967295)) FROM"
					" (SELECT pg_catalog.hashtextextended((ROW(%s)::text) COLLATE \"C\", 0) AS h FROM %s) x",
					table->columns, name);
}

void
shard_relay_verify(const ShardMove *move, ShardConn *from, ShardConn *into)
{
	for (int i = 0; i < move->ntables; i++)
	{
		const ShardMoveTable *table = &move->tables[i];
		PGresult   *here;
		PGresult   *there;
		char	   *left;
		char	   *right;

		shard_link_send(from, sum_query(table->remote_name, table));
		shard_link_send(into, sum_query(table->staging, table));
		here = shard_link_result(from, table->name);
		left = pstrdup(PQgetvalue(here, 0, 0));
		PQclear(here);
		there = shard_link_result(into, table->name);
		right = pstrdup(PQgetvalue(there, 0, 0));
		PQclear(there);
		if (strcmp(left, right) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("the rows of shard %s differ on nodes \"%s\" and \"%s\"", table->name, move->source_name, move->target_name),
					 errdetail("Number of rows, and sums of their hashes: %s and %s.", left, right),
					 errhint("The shard stays where it is.")));
	}
}
