/*
 * scan_output.h
 *	  Which columns a scan's query returns; modifications and whole statements use it, too.
 */
#ifndef SHARDFDW_SCAN_OUTPUT_H
#define SHARDFDW_SCAN_OUTPUT_H

#include "postgres.h"

#include "deparse/select.h"
#include "nodes/pathnodes.h"
#include "plan/plan_private.h"

/*
 * Adds columns of relid (numbered as pull_varattnos() does; the whole row means
 * all) to select, each to the attribute of its own number; system columns other than
 * tableoid, which is the shard's, too.  Virtual generated columns are left out and are NULL, as in a heap:
 * core computes them where they are read.  for_modify: see
 * shard_select_output_system().
 */
extern void shard_scan_fetch_columns(ShardSelect *select, PlannerInfo *root, Oid relid,
									 Bitmapset *columns, bool for_modify);

/* List of ShardSelectOutput as the plan's array. */
extern ShardOutput *shard_scan_convert_outputs(List *outputs, int *noutputs);

#endif
