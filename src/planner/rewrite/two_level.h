/*
 * two_level.h
 *	  Groupings that mix aggregates with and without DISTINCT, as a grouping of groups.
 */
#ifndef SHARDFDW_TWO_LEVEL_H
#define SHARDFDW_TWO_LEVEL_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * Rewrites groupings over sharded tables that have aggregates with and without DISTINCT into groupings of a grouped
 * sub-select, in all levels of the query.  Changes the query in place.
 */
extern void shard_two_level_group(Query *parse);

#endif
