/*
 * decorrelate.h
 *	  Turns correlated sub-selects into joins.
 */
#ifndef SHARDFDW_DECORRELATE_H
#define SHARDFDW_DECORRELATE_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * Turns correlated sub-selects that compute aggregates over sharded tables into outer joins with grouped sub-selects,
 * in all levels of the query.  Changes the query in place.
 */
extern void shard_decorrelate(Query *parse);

#endif
