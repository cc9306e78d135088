/*
 * whole_target.h
 *	  Decides whether nodes may change the rows of a statement's target without the coordinator.
 */
#ifndef SHARDFDW_WHOLE_TARGET_H
#define SHARDFDW_WHOLE_TARGET_H

#include "postgres.h"

#include "deparse/whole_expr.h"
#include "nodes/parsenodes.h"

/* Sets cxt->reason if they may not. query must have a target. */
extern void shard_whole_target_check(const Query *query, ShardWholeContext *cxt);

#endif
