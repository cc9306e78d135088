/*
 * whole_target.h
 *	  Whether nodes may change the rows of a whole statement's target without the coordinator.
 */
#ifndef SHARDFDW_WHOLE_TARGET_H
#define SHARDFDW_WHOLE_TARGET_H

#include "postgres.h"

#include "deparse/whole_expr.h"
#include "nodes/parsenodes.h"

/* Sets cxt->reason when they may not.  query has a target. */
extern void shard_whole_target_check(const Query *query, ShardWholeContext *cxt);

#endif
