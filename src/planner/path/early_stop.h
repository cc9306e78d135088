/*
 * early_stop.h
 *	  Decides whether a node should plan a query for its actual values (custom plan).
 */
#ifndef SHARDFDW_EARLY_STOP_H
#define SHARDFDW_EARLY_STOP_H

#include "postgres.h"

#include "deparse/remote_query.h"
#include "nodes/parsenodes.h"

/*
 * Does a remote query stop early, after a number of rows that depends on its values? query may be NULL (result:
 * false).
 */
extern bool shard_early_stop_of_remote(const ShardRemoteQuery *query);

/* The same for a statement: true if one of its query levels stops early. */
extern bool shard_early_stop_of_statement(Query *query);

#endif
