/*
 * leftover.h
 *	  Removes the objects that ended jobs have left on nodes.
 */
#ifndef SHARDFDW_LEFTOVER_H
#define SHARDFDW_LEFTOVER_H

#include "postgres.h"

#include "move/job/move.h"
#include "nodes/pg_list.h"

/*
 * Removes the leftovers of jobs on both nodes of a move. own: only those of this move, whose process calls the
 * function; otherwise those of jobs whose processes have died.
 */
extern void shard_leftover_remove(const ShardMove *move, bool own);

/*
 * Removes the leftovers of dead jobs on all nodes for which the current user has mappings.  It is a ShardRecoverJobs,
 * see service/recover.h.
 */
extern List *shard_leftover_recover(List *outcomes);

#endif
