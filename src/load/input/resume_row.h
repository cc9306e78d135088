/*
 * resume_row.h
 *	  The table shardfdw_internal.resumable_load: the position of loads with COPY's option RESUME.
 *
 * The transaction that commits the rows up to the position also writes the row of the load.
 */
#ifndef SHARDFDW_RESUME_ROW_H
#define SHARDFDW_RESUME_ROW_H

#include "postgres.h"

#include "load/input/reject.h"
#include "port/pg_crc32c.h"
#include "utils/timestamp.h"

typedef struct ShardResumeRow
{
	bool		exists;			/* a part of the load is committed */
	Oid			userid;			/* owner of the load; key together with name */
	const char *name;
	Oid			relid;
	const char *definition;		/* how lines become rows: columns, options */
	uint64		nbytes;			/* position: size of the input up to the end of a line */
	uint64		nlines;			/* number of lines before the position */
	pg_crc32c	checksum;		/* of the bytes before the position */
	int			eol;			/* ShardLineEol of the input */
	int64		nleft;			/* remaining lines of MAX_ROWS; -1: no limit */
	uint64		nrows;
	ShardRejectCounts rejects;
	TimestampTz started;
	TimestampTz finished;		/* 0: not finished */
	bool		whole;			/* finished at the end of the input, not before */
} ShardResumeRow;

/*
 * Locks the load of that role and name. of_session: until unlock or an error, even if transactions commit before;
 * otherwise until the end of the transaction.  False: another session holds the lock.
 */
extern bool shard_resume_row_lock(Oid userid, const char *name, bool of_session);
extern void shard_resume_row_unlock(Oid userid, const char *name);

/*
 * Reads the latest committed row of userid and name, independent of the transaction's snapshot.  Sets exists to
 * whether there is a row.  The caller must hold the lock.  Memory: definition in the current context.  Errors: the
 * extension's objects are older than the library.
 */
extern void shard_resume_row_read(Oid userid, const char *name, ShardResumeRow *row);

/* Writes the row in the current transaction, and clears its error.  Does not check the rights of the user. */
extern void shard_resume_row_write(const ShardResumeRow *row);

/* Stores the error that has ended the load in its row, if there is one.  The caller must hold the lock. */
extern void shard_resume_row_note_error(Oid userid, const char *name, const char *message);

#endif
