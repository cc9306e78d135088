/*
 * leftover.h
 *	  Removes what ended jobs have left on nodes.
 */
#ifndef SHARDFDW_LEFTOVER_H
#define SHARDFDW_LEFTOVER_H

#include "postgres.h"

#include "move/job/move.h"
#include "nodes/pg_list.h"

/*
 * Removes what jobs have left on both nodes of a move.  own: only what this move has left, whose process calls the
 * function.  Otherwise: what dead jobs have left.
 */
extern void shard_leftover_remove(const ShardMove *move, bool own);

/*
 * Removes what dead jobs have left on all nodes for which the current user has mappings.  It is a ShardRecoverJobs, see
 * service/recover.h.
 */
extern List *shard_leftover_recover(List *outcomes);

#endif
