/*
 * own_sql.h
 *	  SQL on the extension's own tables.
 */
#ifndef SHARDFDW_OWN_SQL_H
#define SHARDFDW_OWN_SQL_H

#include "postgres.h"

/*
 * Runs a command that returns no rows, with a snapshot of its own, whatever the current
 * user's rights on the extension's tables.  Names in sql have to be qualified.  To be called
 * in a transaction.  Returns the number of rows that were changed.
 */
extern int64 shard_own_sql_run(const char *sql);

#endif
