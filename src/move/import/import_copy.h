/*
 * import_copy.h
 *	  Loads rows from COPY on another server into a table.
 */
#ifndef SHARDFDW_IMPORT_COPY_H
#define SHARDFDW_IMPORT_COPY_H

#include "postgres.h"

#include "commands/copy.h"
#include "move/import/import_table.h"
#include "remote/wire/connection.h"

/* A running COPY. */
typedef struct ShardImportCopy
{
	ShardConn  *source;
	char	   *message;		/* a row, allocated by libpq */
	int			len;
	int			cursor;
	int64		nbytes;			/* received for this chunk */
	int64		max_bytes;
	bool		at_end;
} ShardImportCopy;

/* Starts COPY on the source. what: a table with its columns, or a query in parentheses. */
extern void shard_import_copy_begin(ShardImportCopy *copy, ShardConn *source, const char *what);

/* Waits for the next row.  Returns false at the end. */
extern bool shard_import_copy_has_row(ShardImportCopy *copy);

/*
 * Loads max_bytes of rows, or somewhat more, in the current transaction, which has loaded no other rows.  Returns the
 * number of rows.
 */
extern int64 shard_import_copy_load(ShardImportCopy *copy, const ShardImportTable *table, int64 max_bytes);

/*
 * Loads lines in COPY's text format, returned by feed, into a table, sharded or not.  Uses the current transaction.
 * alone: the transaction does nothing else on nodes.  Returns the number of rows.
 */
extern int64 shard_import_copy_feed(const ShardImportTable *table, copy_data_source_cb feed, bool alone);

#endif
