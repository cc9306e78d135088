/*
 * resume_row.h
 *	  The table shardfdw_internal.resumable_load: how far loads with COPY's option
 *	  RESUME have come.
 *
 * A row is written by the transaction that commits the rows of the table up to its position.
 */
#ifndef SHARDFDW_RESUME_ROW_H
#define SHARDFDW_RESUME_ROW_H

#include "postgres.h"

#include "load/input/reject.h"
#include "port/pg_crc32c.h"
#include "utils/timestamp.h"

typedef struct ShardResumeRow
{
	bool		exists;			/* something of the load is committed */
	Oid			userid;			/* whose load it is; with name it is the key */
	const char *name;
	Oid			relid;
	const char *definition;		/* how lines become rows: columns, options */
	uint64		nbytes;			/* of the input, up to the end of a line: the position */
	uint64		nlines;			/* lines of the input before the position */
	pg_crc32c	checksum;		/* of the bytes before the position */
	int			eol;			/* ShardLineEol of the input */
	int64		nleft;			/* lines left of MAX_ROWS; -1: no limit */
	uint64		nrows;
	ShardRejectCounts rejects;
	TimestampTz started;
	TimestampTz finished;		/* 0: it is not */
	bool		whole;			/* finished at the end of the input, not before */
} ShardResumeRow;

/*
 * Locks the load of that role and name.  of_session: until unlock or an error, however many
 * transactions commit before; else until the transaction ends.  False: another session has
 * it locked.
 */
extern bool shard_resume_row_lock(Oid userid, const char *name, bool of_session);
extern void shard_resume_row_unlock(Oid userid, const char *name);

/*
 * Reads the row of userid and name as it is committed now, whatever the transaction's
 * snapshot; exists says whether there is one.  To be called with the lock.
 * Memory: definition in the current context.  Errors: the extension's objects are older
 * than the library.
 */
extern void shard_resume_row_read(Oid userid, const char *name, ShardResumeRow *row);

/* Writes the row in the current transaction, and clears its error.  The caller's rights do not matter. */
extern void shard_resume_row_write(const ShardResumeRow *row);

/* Notes, in the row if there is one, why the load has not gone on.  To be called with the lock. */
extern void shard_resume_row_note_error(Oid userid, const char *name, const char *message);

#endif
