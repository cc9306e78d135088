/*
 * now.h
 *	  Runs queries of ours by what is committed now, whatever the transaction's snapshot.
 */
#ifndef SHARDFDW_NOW_H
#define SHARDFDW_NOW_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * Run a query that returns one column, see the transaction's own changes up to the last
 * CommandCounterIncrement(), and let go of the result, or return it: the OIDs of all rows;
 * the value of the only row as text, NULL for null.  Functions that the query calls see the same only if they
 * are STABLE or IMMUTABLE, all the way down.
 * Memory: current context.
 */
extern void shard_now_run(const char *sql);
extern List *shard_now_oids(const char *sql);
extern char *shard_now_value(const char *sql);

#endif
