/*
 * jit.h
 *	  Whether compiling expressions pays for a plan whose cost lies mostly on nodes.
 */
#ifndef SHARDFDW_JIT_H
#define SHARDFDW_JIT_H

#include "postgres.h"

#include "nodes/plannodes.h"

/* Clears JIT flags that stmt has only because of the cost of the nodes' work. */
extern void shard_jit_adjust(PlannedStmt *stmt);

#endif
