/*
 * relay.c
 *	  Copies the rows of a table from one node to another, and compares them.
 *
 *	 source: COPY table TO STDOUT --> messages, unchanged --> target: COPY staging FROM STDIN
 *
 * Rows are sent in binary format if the types of all columns mean the same on every server.  Otherwise they are sent
 * as text, with settings that every session reads alike (link.c).
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "fault.h"
#include "miscadmin.h"
#include "move/job/job.h"
#include "move/job/link.h"
#include "move/job/rate.h"
#include "move/job/table.h"
#include "move/relay.h"
#include "remote/wire/error.h"

#define FLUSH_BYTES (256 * 1024)	/* maximum of unsent data for the target before the source is read again */

/* "table (columns)" for COPY.  Without columns, COPY uses all columns that are not generated. */
static char *
copy_name(const char *name, const ShardMoveTable *table)
{
	return table->columns[0] ? psprintf("%s (%s)", name, table->columns) : pstrdup(name);
}

/* Sends a message to the target.  Waits until the target accepts it. */
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
		/* lets libpq notice an error of the target in its input */
		(void) PQisBusy(into->pg);
		*unsent = 0;
	}
	if (rc < 0)
	{
		/* the target has ended the COPY; report its error */
		(void) shard_link_end_copy(into, table->name);
		shard_error_protocol(into, table->name, "COPY has ended early");
	}
}

void
shard_relay_copy(ShardMove *move, const ShardMoveTable *table, ShardConn *from, ShardConn *into)
{
	const char *format = table->binary ? "binary" : "text";
	ShardConn  *links[2] = {from, into};
	char	   *message;
	int			unsent = 0;
	int			len;
	ShardRate	rate = {0};

	shard_link_copy(from, table->name, psprintf("COPY %s TO STDOUT (FORMAT %s)", copy_name(table->remote_name, table), format));
	shard_link_copy(into, table->name, psprintf("COPY %s FROM STDIN (FORMAT %s)", copy_name(table->staging, table), format));
	while ((len = shard_link_copy_data(from, &message)) >= 0)
	{
		if (len == 0)
		{
			shard_job_note_progress(&move->job);
			shard_link_wait(links, 2);
			continue;
		}
		put_message(table, into, message, len, &unsent);
		PQfreemem(message);
		move->job.progress.nbytes += len;
		CHECK_FOR_INTERRUPTS();
		shard_rate_keep(&rate, len, &move->job);
	}
	/* check the source: after an error, the target must not commit incomplete rows */
	(void) shard_link_end_copy(from, table->name);
	SHARD_FAULT_POINT("move_copy_end");
	while ((len = PQputCopyEnd(into->pg, NULL)) == 0)
		shard_link_wait(&into, 1);
	if (len > 0)
		shard_connection_flush(into);
	move->job.progress.nrows += shard_link_end_copy(into, table->name);
	shard_job_note_progress(&move->job);
}

/* ---------- comparing ---------- */

/*
 * The number of rows that a COPY TO has sent, and the sum of their hashes.
 *
 * COPY of a table is not a query.  The planner of a query folds constants in expressions of the table's indexes and
 * statistics.  So it may run functions of the table's owner with the rights of the user, who may be a superuser.
 */
typedef struct RowSums
{
	ShardConn  *link;
	int64		nrows;
	uint64		hashes;			/* modulo 2^64 */
} RowSums;

/* Adds the rows that have arrived.  Returns their bytes, or -1 if the COPY has ended. */
static int64
add_rows(RowSums *sums, const char *label)
{
	int64		nbytes = 0;
	char	   *message;
	int			len;

	while ((len = shard_link_copy_data(sums->link, &message)) > 0)
	{
		sums->nrows++;
		sums->hashes += hash_bytes_extended((unsigned char *) message, len, 0);
		PQfreemem(message);
		nbytes += len;
	}
	if (len == 0)
		return nbytes;
	(void) shard_link_end_copy(sums->link, label);
	return -1;
}

/* Adds the rows of two COPYs until both have ended.  Either may be NULL. */
static void
add_all_rows(ShardMove *move, RowSums *left, RowSums *right, const char *label)
{
	RowSums    *sums[2] = {left, right};
	ShardRate	rate = {0};

	while (sums[0] || sums[1])
	{
		ShardConn  *links[2] = {NULL, NULL};

		for (int i = 0; i < 2; i++)
		{
			int64		nbytes = sums[i] ? add_rows(sums[i], label) : -1;

			if (nbytes < 0)
				sums[i] = NULL;
			else
				links[i] = sums[i]->link;
			if (i == 0 && nbytes > 0)
				shard_rate_keep(&rate, nbytes, &move->job);
		}
		if (links[0] || links[1])
			shard_link_wait(links, 2);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Is it the first of the tables with the same staging table? */
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

static bool
is_rewritten(const ShardMove *move, ShardConn *from)
{
	StringInfoData oids;

	initStringInfo(&oids);
	for (int i = 0; i < move->ntables; i++)
		appendStringInfo(&oids, "%s%s", i > 0 ? ", " : "", shard_move_fact(&move->tables[i], "oid"));
	return shard_link_is_rewritten(from, oids.data);
}

/* Compares a staging table with all tables whose rows it has.  Returns as shard_relay_verify() does. */
static bool
verify_table(ShardMove *move, const ShardMoveTable *table, ShardConn *from, ShardConn *into)
{
	RowSums		here = {from};
	RowSums		there = {into};
	RowSums    *waiting = &there;

	/* the query is safe for a table of the job; the table of a split is partitioned, and COPY cannot read that */
	shard_link_copy(into, table->name, psprintf("COPY (SELECT %s FROM %s) TO STDOUT", table->columns, table->staging));
	for (int i = 0; i < move->ntables; i++)
	{
		if (strcmp(move->tables[i].staging, table->staging) != 0)
			continue;
		shard_link_copy(from, table->name, psprintf("COPY %s TO STDOUT", copy_name(move->tables[i].remote_name, table)));
		add_all_rows(move, &here, waiting, table->name);
		waiting = NULL;
	}
	if (here.nrows == there.nrows && here.hashes == there.hashes)
		return true;
	if (!is_rewritten(move, from))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the rows of shard %s differ on nodes \"%s\" and \"%s\"", table->name, move->source_name, move->target_name),
				 errdetail("Number of rows, and sums of their hashes: " INT64_FORMAT " " UINT64_FORMAT " and " INT64_FORMAT " " UINT64_FORMAT ".",
						   here.nrows, here.hashes, there.nrows, there.hashes),
				 errhint("The shard stays where it is.")));
	return false;
}

bool
shard_relay_verify(ShardMove *move, ShardConn *from, ShardConn *into)
{
	for (int i = 0; i < move->ntables; i++)
	{
		if (is_first(move, i) && !verify_table(move, &move->tables[i], from, into))
			return false;
	}
	return true;
}
