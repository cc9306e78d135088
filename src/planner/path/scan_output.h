/*
 * scan_output.h
 *	  Columns that a scan's query returns.  Modifications and whole statements use it, too.
 */
#ifndef SHARDFDW_SCAN_OUTPUT_H
#define SHARDFDW_SCAN_OUTPUT_H

#include "postgres.h"

#include "deparse/select.h"
#include "nodes/pathnodes.h"
#include "plan/plan_private.h"

/*
 * Adds columns of relid to select. columns is numbered as by pull_varattnos(), and the whole row stands for all
 * columns.  Each output goes to the attribute with the same number.  System columns except tableoid are added, too.
 * Virtual generated columns are left out: they are NULL, as in a heap, and core computes them. for_modify: see
 * shard_select_output_system().
 */
extern void shard_scan_fetch_columns(ShardSelect *select, Oid relid,
									 Bitmapset *columns, bool for_modify);

/* Converts a list of ShardOutput to the plan's array. */
extern ShardOutput *shard_scan_convert_outputs(List *outputs, int *noutputs);

#endif
