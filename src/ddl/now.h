/*
 * now.h
 *	  Runs queries of the extension with the latest snapshot instead of the transaction's snapshot.
 */
#ifndef SHARDFDW_NOW_H
#define SHARDFDW_NOW_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * Each function runs a query that returns one column.  The query sees the transaction's own changes up to the last
 * CommandCounterIncrement().
 *
 * - shard_now_run() drops the result.
 * - shard_now_oids() returns the list of the OIDs of all rows.
 * - shard_now_value() returns the value of the first row as text, NULL for null or no row.
 *
 * Functions that the query calls use the same snapshot only if they, and all functions that they call, are STABLE or
 * IMMUTABLE.  Memory: current context.
 */
extern void shard_now_run(const char *sql);
extern List *shard_now_oids(const char *sql);
extern char *shard_now_value(const char *sql);

#endif
