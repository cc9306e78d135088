/*
 * statement_cache.h
 *	  Cache of plans of statements that run on one shard.
 */
#ifndef SHARDFDW_STATEMENT_CACHE_H
#define SHARDFDW_STATEMENT_CACHE_H

#include "postgres.h"

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/*
 * Like shard_router_plan(), but uses the cached plan of a statement that differs only in constants, if there is one.
 * Memory: current context, which also keeps parts of the cached plan alive.  The caller must not change these parts.
 */
extern PlannedStmt *shard_statement_cache_plan(Query *query);

/* Table relid has changed.  InvalidOid: any object that a statement may name has changed. */
extern void shard_statement_cache_invalidate(Oid relid);

#endif
