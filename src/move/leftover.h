/*
 * leftover.h
 *	  Removes what jobs that have ended have left on nodes.
 */
#ifndef SHARDFDW_LEFTOVER_H
#define SHARDFDW_LEFTOVER_H

#include "postgres.h"

#include "move/job/move.h"
#include "nodes/pg_list.h"

/* Of dead jobs, from both servers.  Errors: the nodes'. */
extern void shard_leftover_remove_from(Oid source, Oid target);

/* Of move itself, whose process this is, from both of its nodes. */
extern void shard_leftover_remove_own(const ShardMove *move);

/* Of dead jobs, from all nodes that the current user has mappings for: a ShardRecoverJobs, see service/recover.h. */
extern List *shard_leftover_recover(List *outcomes);

#endif
