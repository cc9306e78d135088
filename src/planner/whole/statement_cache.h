/*
 * statement_cache.h
 *	  Plans of statements of one shard that came up before.
 */
#ifndef SHARDFDW_STATEMENT_CACHE_H
#define SHARDFDW_STATEMENT_CACHE_H

#include "postgres.h"

#include "nodes/params.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/*
 * As shard_router_plan(), by the plan of a statement that differed in nothing but
 * constants if there has been one.  Memory: current context, of which parts of
 * the plan are kept alive; they are not to be changed.
 */
extern PlannedStmt *shard_statement_cache_plan(Query *query, int cursor_options, ParamListInfo params);

/* Table relid has changed, or InvalidOid: anything that a statement may name. */
extern void shard_statement_cache_invalidate(Oid relid);

#endif
