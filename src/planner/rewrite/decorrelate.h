/*
 * decorrelate.h
 *	  Correlated sub-selects that become joins.
 */
#ifndef SHARDFDW_DECORRELATE_H
#define SHARDFDW_DECORRELATE_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * Turns correlated sub-selects of all levels of the query that compute
 * aggregates over sharded tables into outer joins with grouped ones.  Changes
 * the query in place.
 */
extern void shard_decorrelate(Query *parse);

#endif
