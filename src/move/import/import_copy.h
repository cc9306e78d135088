/*
 * import_copy.h
 *	  Rows that another server's COPY sends, on their way to a table here.
 */
#ifndef SHARDFDW_IMPORT_COPY_H
#define SHARDFDW_IMPORT_COPY_H

#include "postgres.h"

#include "commands/copy.h"
#include "move/import/import_table.h"
#include "remote/wire/connection.h"

/* A COPY that is read. */
typedef struct ShardImportCopy
{
	ShardConn  *source;
	char	   *message;		/* libpq's: a row */
	int			len;
	int			cursor;
	int64		nbytes;			/* that have come for this chunk */
	int64		max_bytes;
	bool		at_end;
} ShardImportCopy;

/* Has the source begin to send the rows of what (a table with its columns, or a query in parentheses). */
extern void shard_import_copy_begin(ShardImportCopy *copy, ShardConn *source, const char *what);

/* Waits for the next row; false: there is none any more. */
extern bool shard_import_copy_has_row(ShardImportCopy *copy);

/* Loads max_bytes of rows, or somewhat more, in the current transaction, which has loaded nothing else.  Returns their number. */
extern int64 shard_import_copy_load(ShardImportCopy *copy, const ShardImportTable *table, int64 max_bytes);

/*
 * Loads what feed gives, lines of COPY's text format, into a table, in the current transaction.  The table may be sharded or
 * not.  alone: that is all that the transaction does on nodes.  Returns the number of rows.
 */
extern int64 shard_import_copy_feed(const ShardImportTable *table, copy_data_source_cb feed, bool alone);

#endif
