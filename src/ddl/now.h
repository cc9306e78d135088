/*
 * now.h
 *	  Runs our own queries with the latest snapshot, whatever the transaction's snapshot is.
 */
#ifndef SHARDFDW_NOW_H
#define SHARDFDW_NOW_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * Each runs a query that returns one column and sees the transaction's own changes up to
 * the last CommandCounterIncrement().  run drops the result; the others return it: the
 * OIDs of all rows; the value of the only row as text, NULL for null.  Functions that the
 * query calls use the same snapshot only if they, and all that they call, are STABLE or
 * IMMUTABLE.
 * Memory: current context.
 */
extern void shard_now_run(const char *sql);
extern List *shard_now_oids(const char *sql);
extern char *shard_now_value(const char *sql);

#endif
