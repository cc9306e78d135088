/*
 * template_cache.h
 *	  Texts of statements that came up before.
 */
#ifndef SHARDFDW_TEMPLATE_CACHE_H
#define SHARDFDW_TEMPLATE_CACHE_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"

/*
 * As shard_template_print(NULL, query, places), from the cache when an equal query
 * has been printed before.  Memory: current context.
 */
extern List *shard_template_cache_print(Query *query, List *places);

extern void shard_template_cache_init(void);	/* invalidation callbacks */

#endif
