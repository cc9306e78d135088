/*
 * template.h
 *	  The text of a remote query, cut into a template.
 */
#ifndef SHARDFDW_TEMPLATE_H
#define SHARDFDW_TEMPLATE_H

#include "postgres.h"

#include "deparse/select.h"

/*
 * query as a template.  places: of ShardSelectPlace; each of them stands in the
 * text exactly once.  select: has the raw texts.  NULL, for a statement of a
 * user: there are none, and the result is NIL when a place is not found, because
 * the user has named something alike.
 */
extern List *shard_template_print(ShardSelect *select, Query *query, List *places);

#endif
