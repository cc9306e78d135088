/*
 * two_level.h
 *	  Aggregates with DISTINCT beside others as a grouping of groups.
 */
#ifndef SHARDFDW_TWO_LEVEL_H
#define SHARDFDW_TWO_LEVEL_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * Turns groupings of all levels of the query that have aggregates with DISTINCT
 * beside others over sharded tables into groupings of a grouped sub-select.
 * Changes the query in place.
 */
extern void shard_two_level_group(Query *parse);

#endif
