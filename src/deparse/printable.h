/*
 * printable.h
 *	  Whether the text that pg_get_querydef() prints says all that a Query says.
 */
#ifndef SHARDFDW_PRINTABLE_H
#define SHARDFDW_PRINTABLE_H

#include "postgres.h"

#include "nodes/parsenodes.h"

/*
 * Why the text of query, without its sub-selects, would not mean what query means; NULL when it does.
 * The reason is a message for DEBUG1, not translated.
 */
extern const char *shard_printable_obstacle(const Query *query);

/*
 * Do the multi-column assignments in targets, a target list of UPDATE, stand in an order in which core
 * prints them right?  The rewriter sorts a target list by columns.
 */
extern bool shard_printable_assignments(List *targets);

#endif
