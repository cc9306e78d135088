/*
 * window_print.h
 *	  Changes plans with remote window functions so that EXPLAIN can print them.
 */
#ifndef SHARDFDW_WINDOW_PRINT_H
#define SHARDFDW_WINDOW_PRINT_H

#include "postgres.h"

#include "nodes/plannodes.h"

/* Call it with the finished plan of each statement. */
extern void shard_window_print_replace(PlannedStmt *stmt);

#endif
