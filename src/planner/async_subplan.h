/*
 * async_subplan.h
 *	  Scans that core must not run asynchronously.
 */
#ifndef SHARDFDW_ASYNC_SUBPLAN_H
#define SHARDFDW_ASYNC_SUBPLAN_H

#include "postgres.h"

#include "nodes/plannodes.h"

/* Makes scans of ours in a finished plan synchronous where core would give wrong rows otherwise. */
extern void shard_async_subplan_adjust(PlannedStmt *stmt);

#endif
