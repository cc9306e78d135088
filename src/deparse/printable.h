/*
 * printable.h
 *	  Decides whether the text that pg_get_querydef() prints has everything that a Query has.
 */
#ifndef SHARDFDW_PRINTABLE_H
#define SHARDFDW_PRINTABLE_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * Returns NULL if the text of query, without its sub-selects, means the same as query.  Otherwise returns the reason,
 * a message for DEBUG1, not translated.
 */
extern const char *shard_printable_obstacle(const Query *query);

/*
 * Are the multi-column assignments in targets, a target list of UPDATE, in an order in which core prints them
 * correctly?  The rewriter sorts a target list by columns.
 */
extern bool shard_printable_assignments(List *targets);

#endif
