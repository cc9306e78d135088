/*
 * async_subplan.h
 *	  Scans that core must not run asynchronously.
 */
#ifndef SHARDFDW_ASYNC_SUBPLAN_H
#define SHARDFDW_ASYNC_SUBPLAN_H

#include "postgres.h"

#include "nodes/plannodes.h"

/* In a finished plan, makes those scans of ours synchronous that would return wrong rows if they ran asynchronously. */
extern void shard_async_subplan_adjust(PlannedStmt *stmt);

#endif
