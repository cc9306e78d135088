/*
 * leftover.h
 *	  Removes what ended jobs have left on nodes.
 */
#ifndef SHARDFDW_LEFTOVER_H
#define SHARDFDW_LEFTOVER_H

#include "postgres.h"

#include "move/job/move.h"
#include "nodes/pg_list.h"

/* Removes it from both nodes of a move: for the move itself, whose process calls it, or for dead jobs. */
extern void shard_leftover_remove(const ShardMove *move, bool own);

/*
 * Removes it for dead jobs, from all nodes for which the current user has mappings: a ShardRecoverJobs, see
 * service/recover.h.
 */
extern List *shard_leftover_recover(List *outcomes);

#endif
