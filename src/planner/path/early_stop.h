/*
 * early_stop.h
 *	  Whether a node should plan a query for the very values that it compares with.
 */
#ifndef SHARDFDW_EARLY_STOP_H
#define SHARDFDW_EARLY_STOP_H

#include "postgres.h"

#include "deparse/remote_query.h"
#include "nodes/parsenodes.h"

/* Does a remote query stop early, after a number of rows that depends on its values?  NULL: no. */
extern bool shard_early_stop_of_remote(const ShardRemoteQuery *query);

/* The same for any level of a statement. */
extern bool shard_early_stop_of_statement(Query *query);

#endif
