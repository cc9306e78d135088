/*
 * jit.h
 *	  Decides whether JIT compilation pays for a plan whose cost is mostly on the nodes.
 */
#ifndef SHARDFDW_JIT_H
#define SHARDFDW_JIT_H

#include "postgres.h"

#include "nodes/plannodes.h"

/* Clears JIT flags that stmt would not have without the cost of the nodes' work. */
extern void shard_jit_adjust(PlannedStmt *stmt);

#endif
