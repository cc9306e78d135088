/*
 * partial_agg.h
 *	  Partial states of aggregates as plain SQL expressions.
 */
#ifndef SHARDFDW_PARTIAL_AGG_H
#define SHARDFDW_PARTIAL_AGG_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * The aggregates of a remote query that are not built in, and their partial aggregates (OidList).  A plan with this
 * query depends on them.
 */
extern List *shard_partial_agg_functions(Query *query);

#endif
