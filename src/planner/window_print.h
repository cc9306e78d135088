/*
 * window_print.h
 *	  Makes plans with remote window functions ones that EXPLAIN can print.
 */
#ifndef SHARDFDW_WINDOW_PRINT_H
#define SHARDFDW_WINDOW_PRINT_H

#include "postgres.h"

#include "nodes/plannodes.h"

/* To be called with the finished plan of any statement. */
extern void shard_window_print_replace(PlannedStmt *stmt);

#endif
