/*
 * template.h
 *	  Prints the text of a remote query, and cuts it into a template.
 */
#ifndef SHARDFDW_TEMPLATE_H
#define SHARDFDW_TEMPLATE_H

#include "postgres.h"

#include "deparse/select.h"

/*
 * Makes a template of query.  places: of ShardSelectPlace; each of them stands in the
 * text exactly once.  select has the raw texts.  It is NULL for a statement of a user,
 * which has none; then the result is NIL when a place is not found, because the user
 * has given something else the same name.
 */
extern List *shard_template_print(ShardSelect *select, Query *query, List *places);

#endif
