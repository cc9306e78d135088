/*
 * leftover.h
 *	  Removes what ended jobs have left on nodes.
 */
#ifndef SHARDFDW_LEFTOVER_H
#define SHARDFDW_LEFTOVER_H

#include "postgres.h"

#include "move/job/move.h"
#include "nodes/pg_list.h"

/* Removes it for dead jobs, from both servers.  Errors: errors of the nodes. */
extern void shard_leftover_remove_from(Oid source, Oid target);

/* Removes it for the job move of this process, from both of its nodes. */
extern void shard_leftover_remove_own(const ShardMove *move);

/*
 * Removes it for dead jobs, from all nodes for which the current user has mappings: a ShardRecoverJobs, see
 * service/recover.h.
 */
extern List *shard_leftover_recover(List *outcomes);

#endif
