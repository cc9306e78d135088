/*
 * scan_output.h
 *	  What comes back of a scan's query; modifications and whole statements need it, too.
 */
#ifndef SHARDFDW_SCAN_OUTPUT_H
#define SHARDFDW_SCAN_OUTPUT_H

#include "postgres.h"

#include "deparse/select.h"
#include "nodes/pathnodes.h"
#include "plan/plan_private.h"

/*
 * Adds columns of relid (numbered as pull_varattnos() does; the whole row means
 * all) to select, each to the attribute of its own number; ctid too when it is
 * among them.  Virtual generated columns, whose readers have core compute them, are
 * none of these: as in a heap they are NULL.  for_modify: see
 * shard_select_output_ctid().
 */
extern void shard_scan_fetch_columns(ShardSelect *select, PlannerInfo *root, Oid relid,
									 Bitmapset *columns, bool for_modify);

/* List of ShardSelectOutput as the plan's array. */
extern ShardOutput *shard_scan_convert_outputs(List *outputs, int *noutputs);

#endif
