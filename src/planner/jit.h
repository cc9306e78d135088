/*
 * jit.h
 *	  Whether compiling expressions pays for a plan whose cost lies mostly on nodes.
 */
#ifndef SHARDFDW_JIT_H
#define SHARDFDW_JIT_H

#include "postgres.h"

#include "nodes/plannodes.h"

/* Takes back JIT flags of stmt that it has for what nodes do. */
extern void shard_jit_adjust(PlannedStmt *stmt);

#endif
