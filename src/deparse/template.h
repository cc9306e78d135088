/*
 * template.h
 *	  Prints the text of a remote query, and splits it into a template.
 */
#ifndef SHARDFDW_TEMPLATE_H
#define SHARDFDW_TEMPLATE_H

#include "postgres.h"

#include "deparse/select.h"

/*
 * Makes a template of query. places: list of ShardSelectPlace.  Each of them is in the text exactly once. params: list
 * of Expr, the parameters. select has the raw texts.  For a user's statement, select is NULL because there are none.
 * Then the result is NIL if a place is not found, because the user has given another object the same name.
 */
extern List *shard_template_print(ShardSelect *select, Query *query, List *places, List *params);

#endif
